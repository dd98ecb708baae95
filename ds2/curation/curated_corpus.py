"""The result of `make_corpus`, which the report shows: the recordings, their segments, and the filter's report."""

from dataclasses import dataclass

from ds2.curation.filter import FilterReport
from ds2.curation.finished_recordings import RecordingResult
from ds2.data.utterance import Utterance


@dataclass(frozen=True)
class CuratedCorpus:
    """The result of curation.

    Attributes:
        records: one for each recording.
        segments: all segments; the extra of each holds `odds` (log odds that its text is wrong) and `kept`.
        report: what the filter learnt; None where there was too little to learn from.
        unfiltered: why there is no report.
    """

    records: list[RecordingResult]
    segments: list[Utterance]
    report: FilterReport | None
    unfiltered: str = ""

    @property
    def kept(self) -> list[Utterance]:
        """The utterances that are in kept.jsonl."""
        return [utterance for utterance in self.segments if utterance.extra["kept"]]

    @property
    def summary(self) -> str:
        """One line or two."""
        seconds = sum(record.duration for record in self.records)
        kept = sum(utterance.duration for utterance in self.kept)
        used = sum(not record.error for record in self.records)
        lines = f"{used} of {len(self.records)} recordings, {seconds / 3600:.2f} h: {len(self.segments)} segments, "
        lines += f"{len(self.kept)} kept, {kept / 3600:.2f} h\n"
        return lines + (self.report.summary if self.report is not None else self.unfiltered)

    @property
    def failed(self) -> list[str]:
        """A line for each recording that could not be used."""
        return [record.error for record in self.records if record.error]
