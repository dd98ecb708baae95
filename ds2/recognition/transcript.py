"""Transcripts: text, and words with times and confidence; from a decoder's hypothesis."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds2.recognition.confidence import geometric_mean
from ds2.recognition.crosstalk import crosstalk_warning
from ds2.recognition.cues import Cue, make_cues
from ds2.recognition.foreign_language import foreign_warning
from ds2.recognition.formats import FORMATS, of_channel
from ds2.recognition.notebook import transcript_html
from ds2.recognition.segments import TranscriptSegment, divide_words, ends_segment, group_words, with_spaces
from ds2.recognition.words import PlacedText, Word, shorten, word_spans
from ds2.text import Tokenizer, join_words

if TYPE_CHECKING:  # only for annotations: the server reads transcripts without torch
    from ds2.decoder.hypothesis import Hypothesis


class Alternative(NamedTuple):
    """A text that a recording, or a segment of it, may hold; `score` in nats, as the search weighs it."""

    transcript: "Transcript"
    score: float


class SegmentAlternatives(NamedTuple):
    """The best texts of a segment between pauses, best first; seconds from the start of the recording."""

    start: float
    end: float
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, repr=False)
class Transcript:
    """The words of a recording of `duration` seconds, recognised by `model`: the name or path of its bundle.

    Where it is `calibrated`, the confidence of a word is the probability that it is right; where it is `punctuated`,
    its words have display forms.

    `channels` holds a transcript for each channel, where they were transcribed separately; text and words are theirs,
    ordered by time. Of an alignment, `characters` are those of its words, with their times, `line_starts` the
    numbers of the words that begin a line or a cue of the user's text, the first one left out, `cues` those of the
    user's subtitles, and `untranscribed` the seconds in which the text lacks speech.

    Where they were asked for, `alternatives` are the best texts of the whole, best first and this one among them;
    `segment_alternatives` are those of the segments that were searched one by one. So many words were `dropped`,
    because they are hardly speech. `path` is the file that was transcribed, for the player in a notebook.
    """

    text: str
    words: tuple[Word, ...]
    duration: float
    model: str = ""
    channels: "tuple[Transcript, ...]" = ()
    characters: tuple[Word, ...] = ()
    line_starts: tuple[int, ...] = ()
    cues: tuple[Cue, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    segment_alternatives: tuple[SegmentAlternatives, ...] = ()
    calibrated: bool = False
    punctuated: bool = False
    untranscribed: tuple[tuple[float, float], ...] = ()
    dropped: int = dataclasses.field(default=0, compare=False)
    path: Path | None = dataclasses.field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Transcript({shorten(self.text)!r}, {len(self.words)} words, {self.duration:.2f} s)"

    def _repr_html_(self) -> str:
        return transcript_html(self.channel_segments, self.path)

    @functools.cached_property
    def segments(self) -> tuple[TranscriptSegment, ...]:
        """The transcript divided at pauses; a long segment without a long pause also at shorter ones.

        An aligned text of several lines is divided into these, and aligned subtitles into their cues.
        """
        if self.channels:
            return tuple(segment for _, segment in self.channel_segments)
        if self.line_starts:
            return tuple(divide_words(self.text, self.words, self.line_starts))
        return tuple(group_words(self.text, self.words, ends_segment))

    @functools.cached_property
    def channel_segments(self) -> tuple[tuple[int, TranscriptSegment], ...]:
        """The segments of all channels in order of time, each with the number of its channel, from 1 on.

        Of a recording whose channels were not separated these are its segments, with the number 0.
        """
        if not self.channels:
            return tuple((0, segment) for segment in self.segments)
        pairs = [(number, segment) for number, channel in enumerate(self.channels, 1) for segment in channel.segments]
        return tuple(sorted(pairs, key=lambda pair: (pair[1].start, pair[0])))

    @functools.cached_property
    def channel_cues(self) -> tuple[tuple[int, Cue], ...]:
        """The cues of all channels in order of time, each with the number of its channel, 0 where they are one."""
        if self.cues:
            return tuple((0, cue) for cue in self.cues)
        cues = [
            (channel, cue)
            for channel, part in list(enumerate(self.channels, 1)) or [(0, self)]
            for cue in make_cues(part.text, part.words, part.duration, part.line_starts, len(of_channel(channel, "")))
        ]
        return tuple(sorted(cues, key=lambda pair: (pair[1].start, pair[0])))

    @property
    def display(self) -> str:
        """The text as people read it: with capitals, punctuation and figures, where the bundle has punctuation."""
        return "".join(space + word.shown for word, space in with_spaces(self.text, self.words) if word.shown).strip()

    @property
    def warning(self) -> str:
        """A line on a recording that does not sound like the model's language, if words are calibrated, and on channels
        of which one hears the other; empty for others."""
        foreign = foreign_warning(self.words, self.dropped, self.model) if self.calibrated else ""
        return "; ".join(filter(None, (foreign, crosstalk_warning([each.words for each in self.channels]))))

    def to_txt(self) -> str:
        """The text as people read it, a line for each segment; or one for each alternative, after its probability."""
        return self._formatted("txt")

    def to_json(self, file: str = "") -> str:
        """One JSON object: text, segments and words with times and confidence, duration, model; by default `path`."""
        return self._formatted("json", file or str(self.path or ""))

    def to_srt(self) -> str:
        """SubRip subtitles."""
        return self._formatted("srt")

    def to_vtt(self) -> str:
        """WebVTT subtitles."""
        return self._formatted("vtt")

    def to_tsv(self) -> str:
        """A table of segments, as Whisper writes it: start and end in milliseconds, text."""
        return self._formatted("tsv")

    def to_ctm(self, file: str = "") -> str:
        """NIST CTM, a line for each word; by default of `path`."""
        return self._formatted("ctm", file or str(self.path or "audio"))

    def to_textgrid(self) -> str:
        """Praat's TextGrid, a tier of words for each channel; of an alignment also one of characters."""
        return self._formatted("TextGrid")

    def _formatted(self, name: str, file: str = "") -> str:
        return FORMATS[name](self, file)


def merge_channels(channels: Sequence[Transcript]) -> Transcript:
    """One transcript of the transcripts of all channels, the first channel first."""
    segments = Transcript("", (), 0.0, channels=tuple(channels)).segments
    text, words = join_words(segment.text for segment in segments), [word for each in segments for word in each.words]
    duration = max(channel.duration for channel in channels)
    merged = Transcript(text, tuple(words), duration, channels[0].model, tuple(channels))
    calibrated, punctuated = (all(getattr(each, name) for each in channels) for name in ("calibrated", "punctuated"))
    return dataclasses.replace(merged, calibrated=calibrated, punctuated=punctuated)


def make_transcript(
    hypothesis: "Hypothesis", tokenizer: Tokenizer, frame_seconds: float, duration: float
) -> Transcript:
    """The transcript of a recording of `duration` seconds from a decoder's hypothesis."""
    words = hypothesis_words(hypothesis, tokenizer, frame_seconds, duration)
    return Transcript(" ".join(tokenizer.decode(hypothesis.tokens).split()), words, duration)


def hypothesis_words(
    hypothesis: "Hypothesis", tokenizer: Tokenizer, frame_seconds: float, duration: float
) -> tuple[Word, ...]:
    """Groups tokens into words at spaces; an ideograph is a word by itself."""
    spans = word_spans(list(map(tokenizer.tokens.__getitem__, hypothesis.tokens)))
    return tuple(
        Word(
            text,
            round(start * frame_seconds, 3),
            round(min(end * frame_seconds, duration), 3),
            round(geometric_mean(hypothesis.confidences[first:last]), 4),
        )
        for (text, start, end), (first, last) in zip(placed_texts(hypothesis, tokenizer), spans, strict=True)
    )


def placed_texts(hypothesis: "Hypothesis", tokenizer: Tokenizer) -> list[PlacedText]:
    """The words of `hypothesis_words` without their confidence, which takes longer to compute than all else."""
    texts, starts, ends = list(map(tokenizer.tokens.__getitem__, hypothesis.tokens)), hypothesis.starts, hypothesis.ends
    return [("".join(texts[first:last]), starts[first], ends[last - 1]) for first, last in word_spans(texts)]


def with_confidences(transcript: Transcript, confidences: Iterable[float]) -> Transcript:
    """The transcript with other confidences of its words."""
    words = tuple(
        dataclasses.replace(word, confidence=round(float(confidence), 4))
        for word, confidence in zip(transcript.words, confidences, strict=True)
    )
    return dataclasses.replace(transcript, words=words)
