"""What was said: text, and words with times and confidence."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ds2.text import Tokenizer

if TYPE_CHECKING:
    from ds2.decoder import Hypothesis


@dataclass(frozen=True)
class Word:
    """One word: seconds from the start of the recording; confidence 0 to 1.

    A search with competitors gives posteriors: the share of the n-best's probability that has this word at this
    place. Without competitors it is the geometric mean of the tokens' probabilities.
    """

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording of `duration` seconds."""

    text: str
    words: tuple[Word, ...]
    duration: float


def make_transcript(
    hypothesis: "Hypothesis",
    tokenizer: Tokenizer,
    frame_seconds: float,
    duration: float,
    competitors: "Sequence[Hypothesis]" = (),
) -> Transcript:
    """The transcript of a recording of `duration` seconds from a decoder's hypothesis and the other n-best."""
    words = tuple(_words(hypothesis, tokenizer, frame_seconds, duration))
    if competitors:
        rows = [words, *(tuple(_words(competitor, tokenizer, frame_seconds, duration)) for competitor in competitors)]
        words = _with_posteriors(rows, [hypothesis.score, *(competitor.score for competitor in competitors)])
    return Transcript(" ".join(tokenizer.decode(hypothesis.tokens).split()), words, duration)


def _words(hypothesis: "Hypothesis", tokenizer: Tokenizer, frame_seconds: float, duration: float) -> Iterator[Word]:
    """Groups tokens into words at spaces; an ideograph is a word by itself."""
    texts = [tokenizer.tokens[token] for token in hypothesis.tokens]
    for first, last in _word_spans(texts):
        logs = [math.log(max(confidence, 1e-9)) for confidence in hypothesis.confidences[first:last]]
        yield Word(
            "".join(texts[first:last]),
            round(hypothesis.starts[first] * frame_seconds, 3),
            round(min(hypothesis.ends[last - 1] * frame_seconds, duration), 3),
            round(math.exp(sum(logs) / len(logs)), 4),
        )


def _with_posteriors(rows: list[tuple[Word, ...]], scores: list[float]) -> tuple[Word, ...]:
    """The first row's words; the confidence of each is the share of the rows in which it is said at that time."""
    shares = [math.exp(score - max(scores)) for score in scores]
    posteriors = [
        sum(share for row, share in zip(rows, shares, strict=True) if _holds(row, word)) / sum(shares)
        for word in rows[0]
    ]
    pairs = zip(rows[0], posteriors, strict=True)
    return tuple(dataclasses.replace(word, confidence=round(posterior, 4)) for word, posterior in pairs)


def _holds(row: tuple[Word, ...], word: Word) -> bool:
    return any(word.text == other.text and word.start < other.end and other.start < word.end for other in row)


def _word_spans(texts: list[str]) -> Iterator[tuple[int, int]]:
    """(first, past the last) token of each word."""
    first = 0
    for position, text in enumerate([*texts, " "]):
        alone = text == " " or _is_ideograph(text)
        if alone and position > first:
            yield first, position
        if _is_ideograph(text):
            yield position, position + 1
        if alone:
            first = position + 1


def _is_ideograph(text: str) -> bool:
    return len(text) == 1 and ("\u3400" <= text <= "\u9fff" or "\U00020000" <= text <= "\U0003ffff")
