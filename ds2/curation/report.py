"""The report in HTML: an overview, a page for each recording, and a page on which a person corrects segments.

The pages use no file outside the folder and no server: they open from the disk, in any browser.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ds2.curation.corrections import as_given
from ds2.curation.curated_corpus import CuratedCorpus
from ds2.curation.finished_recordings import RecordingResult
from ds2.curation.plots import draw_segments, draw_spectrogram
from ds2.curation.recording import OVERVIEW_SECONDS
from ds2.curation.score import FEATURES, features
from ds2.data.utterance import Utterance
from ds2.metrics import MARKS, align_texts
from ds2.text import split_words
from ds2.utils.files import make_folder, write_text
from ds2.utils.progress import Progress

PAGES = 100  # recordings that get a page: those with the most rejected seconds
CARDS = 60  # segments shown on a page, spread over their scores
EXAMPLES = 12  # segments of each kind on the first page
ROW_SECONDS = 300.0  # of a recording in one row of its overview
FLOOR, CEILING = -60.0, 0.0  # dB that a row of the overview spans


def write_curation_report(output: Path, corpus: CuratedCorpus, to_check: Sequence[Utterance]) -> None:
    """Writes OUTPUT/report.

    Raises:
        InputError: the folder cannot be written.
    """
    folder = output / "report"
    make_folder(folder)
    pages = Pages(folder, output)
    if corpus.segments:
        draw_segments(folder / "segments.svg", corpus.segments)
    by_name: dict[str, list[Utterance]] = {record.name: [] for record in corpus.records}
    for utterance in corpus.segments:
        by_name[name_of(utterance)].append(utterance)
    shown = sorted(corpus.records, key=lambda record: -rejected_seconds(by_name[record.name]))
    numbers = {record.name: number for number, record in enumerate(shown[:PAGES], 1) if by_name[record.name]}
    for record in corpus.records:
        if record.name in numbers:
            pages.recording(record, by_name[record.name], numbers[record.name])
    pages.check(to_check)
    pages.index(corpus, by_name, numbers)
    pages.draw()


def name_of(utterance: Utterance) -> str:
    """The recording that a segment was cut from."""
    return str(utterance.extra["id"]).rpartition("/")[0]


def rejected_seconds(utterances: Iterable[Utterance]) -> float:
    """Seconds of sound in the utterances that are not kept."""
    return sum(utterance.duration for utterance in utterances if not utterance.extra["kept"])


class Pages:
    """Writes pages, and collects the spectrograms that they show."""

    def __init__(self, folder: Path, output: Path):
        from jinja2 import Environment, PackageLoader, StrictUndefined

        self.folder, self.output = folder, output
        loader = PackageLoader("ds2.curation", "page")
        self.environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        self.environment.filters["clock"] = clock
        self.spectrograms: dict[Path, Path] = {}
        for name in ("style.css", "report.js"):
            write_text(folder / name, loader.get_source(self.environment, name)[0])

    def index(self, corpus: CuratedCorpus, by_name: dict[str, list[Utterance]], numbers: dict[str, int]) -> None:
        """Writes index.html: what was kept, the filter, all recordings, the best and the worst utterances."""
        ranked = sorted(corpus.segments, key=lambda utterance: utterance.extra["odds"])
        threshold = corpus.report.threshold if corpus.report is not None else 0.0
        near = sorted(ranked, key=lambda utterance: abs(utterance.extra["odds"] - threshold))[:EXAMPLES]
        groups = {"Nearest to the threshold": near, "Worst": ranked[::-1][:EXAMPLES], "Best": ranked[:EXAMPLES]}
        self._render(
            "index.html",
            "index.html",
            corpus=corpus,
            report=corpus.report,
            rows=[row(record, by_name[record.name], numbers.get(record.name)) for record in corpus.records],
            groups={title: [self._card(each) for each in group] for title, group in groups.items()},
            seconds=sum(record.duration for record in corpus.records),
            kept_seconds=sum(utterance.duration for utterance in corpus.kept),
        )

    def recording(self, record: RecordingResult, segments: list[Utterance], number: int) -> None:
        """Writes recording-NUMBER.html: the whole recording, and some of its utterances."""
        ranked = sorted(segments, key=lambda utterance: utterance.extra["odds"])
        step = max(1.0, len(ranked) / CARDS)
        chosen = {id(ranked[int(index * step)]) for index in range(min(CARDS, len(ranked)))}
        self._render(
            "recording.html",
            f"recording-{number}.html",
            record=record,
            rows=overview_rows(record, segments, chosen),
            cards=[self._card(each) for each in segments if id(each) in chosen],
            segments=len(segments),
            kept=sum(each.extra["kept"] for each in segments),
        )

    def check(self, to_check: Sequence[Utterance]) -> None:
        """Writes check.html, on which a person listens to utterances and corrects their texts."""
        self._render("check.html", "check.html", cards=[self._card(each) for each in to_check])

    def draw(self) -> None:
        """Draws the spectrograms that the pages show; those of an earlier run stay."""
        with Progress("spectrograms", len(self.spectrograms), "segments") as progress, ThreadPoolExecutor() as pool:
            for _ in pool.map(draw_spectrogram, self.spectrograms.keys(), self.spectrograms.values()):
                progress.step()

    def _card(self, utterance: Utterance) -> dict[str, Any]:
        """The values that a template shows of a segment."""
        relative = utterance.audio_path.relative_to(self.output.absolute())
        image = Path("spectrograms") / relative.relative_to("audio").with_suffix(".webp")
        self.spectrograms[utterance.audio_path] = self.folder / image
        return {
            "utterance": utterance,
            "id": utterance.extra["id"],
            "kept": utterance.extra["kept"],
            "odds": utterance.extra["odds"],
            "start": utterance.extra["start"],
            "words": [
                {
                    "text": text,
                    "left": 100 * start / utterance.duration,
                    "width": 100 * (end - start) / utterance.duration,
                    "confidence": confidence,
                }
                for text, start, end, confidence in utterance.extra["words"]
            ],
            "diff": [
                (MARKS[edit.kind], edit.reference or "", edit.hypothesis or "")
                for edit in align_texts(split_words(utterance.text), split_words(utterance.extra["hypothesis"]))
            ],
            "features": list(zip(FEATURES, features(as_given(utterance)), strict=True)),
            "given": utterance.extra.get("given"),
            "audio": quote(f"../{relative.as_posix()}"),
            "image": quote(image.as_posix()),
        }

    def _render(self, template: str, name: str, **values: Any) -> None:
        write_text(self.folder / name, self.environment.get_template(template).render(**values))


def row(record: RecordingResult, segments: list[Utterance], number: int | None) -> dict[str, Any]:
    """A line of the table of recordings."""
    return {
        "record": record,
        "page": f"recording-{number}.html" if number is not None else None,
        "segments": len(segments),
        "kept": sum(each.duration for each in segments if each.extra["kept"]),
        "rejected": rejected_seconds(segments),
    }


def overview_rows(record: RecordingResult, segments: list[Utterance], chosen: set[int]) -> list[dict[str, Any]]:
    """Rows of ROW_SECONDS: the outline of the audio as an SVG path, and the segments as boxes, in 1000 x 40 units."""
    rows = []
    bins = round(ROW_SECONDS / OVERVIEW_SECONDS)
    seconds = min(ROW_SECONDS, record.duration)
    for number in range(max(1, -(-len(record.level) // bins))):
        start = number * ROW_SECONDS
        part = record.level[number * bins : (number + 1) * bins]
        boxes = [
            {
                "left": 1000 * (each.extra["start"] - start) / seconds,
                "width": 1000 * each.duration / seconds,
                "kept": each.extra["kept"],
                "text": each.text,
                "anchor": quote(each.extra["id"]) if id(each) in chosen else None,
            }
            for each in segments
            if start <= each.extra["start"] < start + seconds
        ]
        rows.append({"start": start, "path": outline(part, 1000 * OVERVIEW_SECONDS / seconds), "boxes": boxes})
    return rows


def outline(level: list[float], step: float) -> str:
    """A mirrored outline around y = 20, `step` units wide for each level."""
    heights = [20 * min(1.0, max(0.02, (value - FLOOR) / (CEILING - FLOOR))) for value in level]
    upper = [f"{index * step:.1f},{20 - height:.1f}" for index, height in enumerate(heights)]
    lower = [f"{index * step:.1f},{20 + height:.1f}" for index, height in reversed(list(enumerate(heights)))]
    return "M" + " L".join([*upper, *lower]) + "Z" if heights else ""


def clock(seconds: float) -> str:
    """1:02:03.4, or 2:03.4 below an hour."""
    hours, rest = divmod(max(0.0, seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{int(hours)}:{int(minutes):02}:{rest:04.1f}" if hours else f"{int(minutes)}:{rest:04.1f}"
