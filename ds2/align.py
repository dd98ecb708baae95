"""Aligning a recording, short or hours long, with its transcript: when is each word said, and is it said at all."""

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ds2.ctc.alignment import STAR, Alignment, ctc_align
from ds2.data.audio import read_audio
from ds2.data.boundaries import word_boundaries
from ds2.decoder import Hypothesis
from ds2.errors import InputError
from ds2.recognizer import Recognizer
from ds2.text import normalize
from ds2.transcript import Transcript, Word, make_transcript

STAR_WORD = "*"  # in a transcript: speech that is not transcribed
LEAST_CONFIDENCE = 0.1  # of the median word: below it the text is of another recording
DOUBTFUL_CONFIDENCE = 0.02  # of a word that is reported
DOUBTFUL_SECONDS = 4.0  # a word this long is reported: something else was said there


@dataclass(frozen=True)
class AlignedRecording:
    """A transcript with its times, and what a picture of it needs.

    Attributes:
        transcript: normalised words with start, end (seconds) and confidence.
        samples: (N,) of the recording at the model's rate. log_probs: (T, V). tokens: (L,), stars left out.
        starts: (L,) first frame of each token.
    """

    transcript: Transcript
    samples: Tensor
    log_probs: Tensor
    tokens: Tensor
    starts: Tensor

    @property
    def doubtful(self) -> list[Word]:
        """Words that were probably not said, or not there."""
        return [
            word
            for word in self.transcript.words
            if word.confidence < DOUBTFUL_CONFIDENCE or word.end - word.start > DOUBTFUL_SECONDS
        ]


def align(recognizer: Recognizer, audio: str | Path, text: str, skip: bool = False) -> AlignedRecording:
    """Aligns a whole recording with its whole transcript.

    Args:
        text: as prose; it is normalised. `*` as a word stands for speech that is not transcribed.
        skip: takes such speech for possible before, after and between all lines of the text.

    Raises:
        InputError: the recording cannot be read; a character that the model does not know; a text that does not fit.
    """
    tokens = _tokens(recognizer, text, skip)
    log_probs, duration = recognizer.file_log_probs(audio)
    try:
        alignment = ctc_align(log_probs, tokens)
    except InputError as error:
        raise InputError(f"{audio}: the transcript does not fit: {error}") from error
    samples, _ = read_audio(audio, recognizer.sample_rate)
    transcript = _transcript(recognizer, alignment, tokens, duration)
    transcript = _on_sound(transcript, samples, recognizer.sample_rate)
    confidences = torch.tensor([word.confidence for word in transcript.words])
    if len(confidences) and float(confidences.median()) < LEAST_CONFIDENCE:
        raise InputError(
            f"{audio}: the transcript does not fit, half of its words have a confidence below {LEAST_CONFIDENCE}; "
            "is it of another recording? Mark what is not transcribed with *, or use --skip"
        )
    spoken = tokens != STAR
    return AlignedRecording(transcript, samples, log_probs, tokens[spoken], alignment.starts[spoken])


def _tokens(recognizer: Recognizer, text: str, skip: bool) -> Tensor:
    """(L,) tokens of the normalised text, stars among them; a space between words where the alphabet has one.

    A star needs no spaces: it stands for those as well.
    """
    lines = [words for line in text.splitlines() if (words := _words(line))]
    if skip:
        lines = [[STAR_WORD], *(line for words in lines for line in (words, [STAR_WORD]))]
    words = [word for line in lines for word in line]
    if not any(word != STAR_WORD for word in words):
        raise InputError("the transcript holds no words")
    encode = recognizer.tokenizer.encode
    space = encode(" ") if " " in recognizer.tokenizer.index else []
    tokens: list[int] = []
    for before, word in itertools.pairwise([STAR_WORD, *words]):
        if word == STAR_WORD:
            tokens.append(STAR)
        else:
            tokens += [*([] if before == STAR_WORD else space), *encode(word)]
    return torch.tensor(tokens)


def _words(line: str) -> list[str]:
    return [word for raw in line.split() for word in ([STAR_WORD] if raw == STAR_WORD else normalize(raw).split())]


def _transcript(recognizer: Recognizer, alignment: Alignment, tokens: Tensor, duration: float) -> Transcript:
    """The words; a star divides them as a space does."""
    space = recognizer.tokenizer.index.get(" ")
    kept = tokens != STAR if space is None else torch.ones_like(tokens, dtype=torch.bool)
    hypothesis = Hypothesis(
        tuple(tokens.masked_fill(tokens == STAR, space or 0)[kept].tolist()),
        tuple(alignment.starts[kept].tolist()),
        tuple(alignment.ends[kept].tolist()),
        tuple(alignment.confidences[kept].tolist()),
        alignment.log_prob,
    )
    return make_transcript(hypothesis, recognizer.tokenizer, recognizer.model.config.frame_seconds, duration)


def _on_sound(transcript: Transcript, samples: Tensor, sample_rate: int) -> Transcript:
    """The transcript with its words widened to the edges of their sound."""
    spans = word_boundaries(samples, sample_rate, [(word.start, word.end) for word in transcript.words])
    words = tuple(
        dataclasses.replace(word, start=round(start, 3), end=round(min(end, transcript.duration), 3))
        for word, (start, end) in zip(transcript.words, spans, strict=True)
    )
    return dataclasses.replace(transcript, words=words)
