"""Aligns a recording, short or hours long, with its transcript: when each word is said, and whether it is said."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.audio.files import InMemory, probe
from ds2.audio.loudness import energies, levels
from ds2.ctc.array_alignment import STAR, ArrayAlignment, align_arrays
from ds2.decoder.hypothesis import Hypothesis
from ds2.recognition.alignment_text import TextLine, read_lines, to_tokens
from ds2.recognition.boundaries import has_closure, word_boundaries
from ds2.recognition.confidence import DOUBTFUL_SECONDS, is_doubtful, said_probabilities
from ds2.recognition.evidence import spelling_scores
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, make_transcript, with_confidences
from ds2.recognition.untranscribed_speech import OtherSpeech, find_other_speech, joined_speech
from ds2.recognition.words import Word, word_spans
from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.model_names import packaged_language

LEAST_PROBABILITY = 0.1  # of the tokens of the median word: below it the text belongs to another recording
CHARACTERS_A_SECOND = 25.0  # faster than anybody speaks
ENDLESS = 10_000  # characters that any recording may have


@dataclass(frozen=True)
class AlignedRecording:
    """A transcript with its times, and what plots and the cutting into utterances need.

    Attributes:
        audio: the recording.
        transcript: normalised words, and their characters, with start, end (seconds) and confidence; `display` as the
            user wrote them. The confidence of a word is the probability that it is said there, as far as one in ten is
            not; that of a character is the mean probability of its frames.
        peaks: start and end (seconds) of each word's tokens; between them are only blanks and spaces.
        log_probs: (T, K) of the transcript's tokens only, the blank first; the last column is the best other token.
        names: the tokens of the first K - 1 columns.
        tokens: (L,) columns, stars left out.
        starts: (L,) first frame of each token.
        level: dB of every 10 ms.
        others: speech that the text lacks, or for which it has a star.
        lines: of the text.
    """

    audio: Path
    transcript: Transcript
    peaks: list[tuple[float, float]]
    log_probs: np.ndarray
    names: list[str]
    tokens: np.ndarray
    starts: np.ndarray
    level: np.ndarray
    others: list[OtherSpeech]
    lines: list[TextLine]

    @property
    def doubtful(self) -> list[Word]:
        """Words that were probably not said, or not at this place."""
        return list(filter(is_doubtful, self.transcript.words))


def align(
    recognizer: Recognizer,
    audio: str | Path | InMemory,
    text: str,
    skip: bool = False,
    language: str | None = None,
    on_audio: Callable[[float], object] = lambda seconds: None,
) -> AlignedRecording:
    """Aligns a whole recording with its whole transcript.

    Memory is 4 bytes for each output frame and each different token of the text: an hour of English in frames of 30 ms
    takes 15 MB, and the search for the path some 70 MB; the recording itself is read window by window.

    Args:
        text: prose; it is normalised. `*` as a word stands for speech that is not transcribed.
        skip: allows such speech before, after and between all lines of the text.
        language: "en" or "zh" reads the numbers in the text as words, "" leaves them; see `ds2.text.normalize`. By
            default the language of a model of the package, and none for others.
        on_audio: called with the seconds of each window that was heard.

    Raises:
        InputError: the recording cannot be read; a character that the model lacks; a text that does not fit; NaN.
    """
    lines = _fitting_lines(recognizer, audio, text, language)
    targets = np.array([STAR, 0, *to_tokens(recognizer.tokenizer, lines, skip)])
    used, columns = np.unique(targets, return_inverse=True)
    used, tokens = used[1:], columns[2:] - 1  # a star stays -1, a token becomes the number of its column
    log_probs, level, duration = _used_log_probs(recognizer, audio, used, on_audio)
    try:
        alignment = _aligned_on(str(recognizer.model.device), log_probs, tokens)
    except InputError as error:
        raise InputError(f"{audio}: the transcript does not fit: {error}") from error
    hypothesis = _hypothesis(recognizer, alignment, used, tokens)
    frame_seconds = recognizer.model.config.frame_seconds
    transcript = make_transcript(hypothesis, recognizer.tokenizer, frame_seconds, duration)
    peaks = [(word.start, word.end) for word in transcript.words]
    _check_fit(audio, transcript)
    transcript = with_confidences(transcript, _confidences(recognizer, log_probs, hypothesis, used))
    names = [recognizer.tokenizer.tokens[token] for token in used.tolist()]
    others = find_other_speech(log_probs, tokens, alignment, names, frame_seconds, skip)
    spoken, starts = tokens[tokens != STAR], alignment.starts[tokens != STAR]
    transcript = with_characters(on_sound(transcript, level, others), hypothesis, recognizer.tokenizer, frame_seconds)
    others = joined_speech(others, [word for word in transcript.words if not is_doubtful(word)])
    transcript = dataclasses.replace(
        as_written(transcript, lines), model=recognizer.name, untranscribed=gaps(others, skip)
    )
    return AlignedRecording(Path(str(audio)), transcript, peaks, log_probs, names, spoken, starts, level, others, lines)


def _fitting_lines(
    recognizer: Recognizer, audio: str | Path | InMemory, text: str, language: str | None
) -> list[TextLine]:
    _check_length(audio, text)
    language = language if language is not None else packaged_language(recognizer.name)[0]
    try:
        return read_lines(recognizer.tokenizer, text, language)
    except InputError as error:
        raise InputError(f"{audio}: {error}") from error


def _aligned_on(device: str, log_probs: np.ndarray, tokens: np.ndarray) -> ArrayAlignment:
    """The alignment of (T, K) log-probabilities and (L,) columns, on a GPU if the model runs there."""
    if device == "cpu":
        return align_arrays(log_probs, tokens)
    import torch

    from ds2.ctc.alignment import ctc_align

    found = ctc_align(torch.from_numpy(log_probs).to(device), torch.from_numpy(tokens))
    return ArrayAlignment(found.starts.numpy(), found.ends.numpy(), found.confidences.numpy(), found.log_prob)


def _used_log_probs(
    recognizer: Recognizer, audio: str | Path | InMemory, used: np.ndarray, on_audio: Callable[[float], object]
) -> tuple[np.ndarray, np.ndarray, float]:
    """(T, K) log-probabilities of the tokens `used` and of the best other token; level of every 10 ms; seconds."""
    others = np.setdiff1d(np.arange(len(recognizer.tokenizer)), used)
    parts, energy, count = [], [], 0
    for rows, samples in recognizer.iter_log_probs(audio):
        rest = rows[:, others].max(1, keepdims=True) if len(others) else rows[:, :0]
        parts.append(np.concatenate([rows[:, used], rest], 1))
        energy.append(energies(samples, recognizer.sample_rate))
        count += len(samples)
        on_audio(len(samples) / recognizer.sample_rate)
    level, joined = levels(np.concatenate(energy), recognizer.sample_rate), np.concatenate(parts)
    if np.isnan(joined).any():
        raise InputError(f"{audio}: the model's log-probabilities hold NaN; check the model and its input")
    return joined, level, count / recognizer.sample_rate


def _hypothesis(recognizer: Recognizer, alignment: ArrayAlignment, used: np.ndarray, columns: np.ndarray) -> Hypothesis:
    """The aligned tokens; a star separates words like a space."""
    space = recognizer.tokenizer.index.get(" ")
    tokens = np.where(columns == STAR, space or 0, used[np.maximum(columns, 0)])
    kept = columns != STAR if space is None else np.ones(len(columns), bool)
    return Hypothesis(
        tuple(tokens[kept].tolist()),
        tuple(alignment.starts[kept].tolist()),
        tuple(alignment.ends[kept].tolist()),
        tuple(alignment.confidences[kept].tolist()),
        alignment.log_prob,
    )


def _confidences(recognizer: Recognizer, log_probs: np.ndarray, hypothesis: Hypothesis, used: np.ndarray) -> np.ndarray:
    """(T, K) log-probabilities, of the tokens `used` and the best other one -> (W,) probabilities of the words."""
    column = {token: place for place, token in enumerate(used.tolist())}
    longest = round(DOUBTFUL_SECONDS / recognizer.model.config.frame_seconds)
    frames, spelt = [], []
    for first, last in word_spans([recognizer.tokenizer.tokens[token] for token in hypothesis.tokens]):
        start = hypothesis.starts[first]
        frames.append((start, min(hypothesis.ends[last - 1], start + longest)))
        spelt.append([column[token] for token in hypothesis.tokens[first:last]])
    return said_probabilities(spelling_scores(log_probs, frames, spelt), [len(tokens) for tokens in spelt])


def _check_length(audio: str | Path | InMemory, text: str) -> None:
    """Raises InputError for a text that is much too long: its words would take minutes to look at."""
    seconds = probe(audio).duration
    if len(text) > ENDLESS + 4 * CHARACTERS_A_SECOND * seconds:
        raise InputError(f"{audio}: the transcript does not fit: {len(text):,} characters for {seconds:.1f} s of sound")


def _check_fit(audio: str | Path | InMemory, transcript: Transcript) -> None:
    """Raises InputError where half of the words were hardly recognised."""
    confidences = sorted(word.confidence for word in transcript.words)
    if not confidences or confidences[(len(confidences) - 1) // 2] >= LEAST_PROBABILITY:
        return
    rate = len(transcript.text) / transcript.duration
    if rate > CHARACTERS_A_SECOND:
        hint = f"{rate:.0f} characters a second: is the sample rate in its header right, and the recording whole?"
    else:
        hint = "does it belong to another recording, or is the noise as loud as the speech? "
        hint += "Mark speech that is not transcribed with *, or align with the option skip"
    raise InputError(
        f"{audio}: the transcript does not fit, half of its words have a probability below {LEAST_PROBABILITY}; {hint}"
    )


def on_sound(transcript: Transcript, level: np.ndarray, others: Sequence[OtherSpeech] = ()) -> Transcript:
    """The transcript with its words widened to the edges of their sound.

    Args:
        level: (T,) dB of every 10 ms. others: speech that belongs to none of the words.
    """
    peaks = [(word.start, word.end) for word in transcript.words]
    between = [(each.start, each.end) for each in others if not any(a < each.start < b for a, b in peaks)]
    closures = dict.fromkeys(between, True) | {
        peak: has_closure(word.text) for peak, word in zip(peaks, transcript.words, strict=True)
    }
    merged = sorted([*peaks, *between])
    edges = dict(zip(merged, word_boundaries(level, merged, [closures[span] for span in merged]), strict=True))
    spans = [edges[peak] for peak in peaks]
    words = tuple(
        dataclasses.replace(word, start=round(start, 3), end=round(min(end, transcript.duration), 3))
        for word, (start, end) in zip(transcript.words, spans, strict=True)
    )
    return dataclasses.replace(transcript, words=words)


def with_characters(
    transcript: Transcript, hypothesis: Hypothesis, tokenizer: Tokenizer, frame_seconds: float
) -> Transcript:
    """The transcript with the characters of its words: within the word, each lasts until midway to the next one's
    frames."""
    texts = [tokenizer.tokens[token] for token in hypothesis.tokens]
    characters = []
    for word, (first, last) in zip(transcript.words, word_spans(texts), strict=True):
        midways = [(hypothesis.ends[i] + hypothesis.starts[i + 1]) / 2 * frame_seconds for i in range(first, last - 1)]
        edges = [word.start, *(round(min(max(midway, word.start), word.end), 3) for midway in midways), word.end]
        spans = zip(texts[first:last], itertools.pairwise(edges), hypothesis.confidences[first:last], strict=True)
        characters += [Word(text, start, end, round(confidence, 4)) for text, (start, end), confidence in spans]
    return dataclasses.replace(transcript, characters=tuple(characters))


def gaps(others: Sequence[OtherSpeech], skip: bool) -> tuple[tuple[float, float], ...]:
    """Start and end of the speech that the text lacks, without a star of the user's in its place; all of it where the
    stars come from `skip`."""
    return tuple((speech.start, speech.end) for speech in others if skip or not speech.is_marked)


def as_written(transcript: Transcript, lines: Sequence[TextLine]) -> Transcript:
    """The transcript with its words and lines as the user wrote them."""
    forms = [form for line in lines for form in line.forms]
    if len(forms) != len(transcript.words):  # a token of two ideographs is one word
        return transcript
    pairs = zip(transcript.words, forms, strict=True)
    words = tuple(dataclasses.replace(word, display=form) for word, form in pairs)
    ends = itertools.accumulate(len(line.forms) for line in lines)
    starts = tuple(end for end, line in zip(ends, lines, strict=True) if line.ends)[:-1]
    return dataclasses.replace(transcript, words=words, line_starts=starts)
