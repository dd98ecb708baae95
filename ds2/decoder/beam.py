"""Prefix beam search over CTC log-probabilities (Hannun et al. 2014; Deep Speech 2, section 3.8).

A prefix is a label string without blanks. Its probability is the sum over all alignments that collapse to it, kept
in two parts, because a repeated label starts anew only behind a blank:

    prefix "a" --a--> "a"   from alignments that end in a     (the run goes on)
    prefix "a" --a--> "aa"  from alignments that end in blank (a new run)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from ds2.decoder.greedy import BLANK
from ds2.decoder.hypothesis import Hypothesis, frame_counts
from ds2.errors import InputError


@dataclass(frozen=True)
class BeamConfig:
    """How widely to search."""

    beam_width: int = 100  # prefixes kept after each frame
    cumulative_probability: float = 0.999  # a frame's symbols are tried, best first, until they reach this
    max_symbols: int = 40  # and no more than these; the blank is always tried
    best: int = 1  # hypotheses returned
    lexicon: "Lexicon | None" = None  # only its words are found; None: any label string

    def __post_init__(self) -> None:
        if min(self.beam_width, self.max_symbols, self.best) < 1:
            raise ValueError("beam_width, max_symbols and best must be at least 1")
        if not 0 < self.cumulative_probability <= 1:
            raise ValueError(f"cumulative_probability must be in (0, 1], got {self.cumulative_probability}")


class Lexicon:
    """A closed vocabulary: which label can follow inside a word, and where a word may end."""

    def __init__(self, words: Iterable[Sequence[int]], space: int):
        """`words` as token indices; `space` is the token between them."""
        self.words = {tuple(word) for word in words}
        self.beginnings = {word[:length] for word in self.words for length in range(len(word) + 1)}
        self.space = space

    def allows(self, tokens: tuple[int, ...], symbol: int) -> bool:
        """Whether `symbol` may follow the prefix `tokens`."""
        word = self.last_word(tokens)
        return word in self.words if symbol == self.space else (*word, symbol) in self.beginnings

    def completes(self, tokens: tuple[int, ...]) -> bool:
        """Whether the prefix ends with a whole word, or with a space, or is empty."""
        word = self.last_word(tokens)
        return not word or word in self.words

    def last_word(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """What stands behind the last space."""
        for position in range(len(tokens), 0, -1):
            if tokens[position - 1] == self.space:
                return tokens[position:]
        return tokens


@dataclass(frozen=True)
class Run:
    """The last label of an alignment: frames start..end - 1, its highest log-probability; and the runs before it."""

    before: "Run | None"
    start: int
    end: int
    peak: float


@dataclass
class Ending:
    """All alignments of a prefix that end alike (in the blank, or in the last label)."""

    total: float = -math.inf  # log of their summed probability
    best: float = -math.inf  # log-probability of the best one, whose runs give the times
    runs: Run | None = None

    def add(self, total: float, best: float, runs: Run | None) -> None:
        self.total = add_logs(self.total, total)
        if best > self.best:
            self.best, self.runs = best, runs


@dataclass
class Prefix:
    """Probability of one label string so far."""

    blank: Ending = field(default_factory=Ending)
    label: Ending = field(default_factory=Ending)

    @property
    def total(self) -> float:
        return add_logs(self.blank.total, self.label.total)

    @property
    def likelier(self) -> Ending:
        """The ending that holds the best single alignment."""
        return self.blank if self.blank.best >= self.label.best else self.label


Beam = dict[tuple[int, ...], Prefix]


def beam_search(log_probs: Tensor, lengths: Tensor, config: BeamConfig | None = None) -> list[list[Hypothesis]]:
    """(B, T, V) log-probabilities, (B,) frames -> for each utterance its n-best hypotheses, best first.

    A hypothesis' score is the log-probability of its label string, summed over all alignments that the beam kept;
    its times are those of the best alignment. Where no label string has any probability (a frame of -inf alone), the
    empty one is returned with the score -inf, so that every utterance has a hypothesis.

    Raises:
        InputError: NaN or +inf among an utterance's log-probabilities; what lies behind its length does not count.
        ValueError: lengths that do not fit.
    """
    config = config or BeamConfig()
    rows = log_probs.detach().double().cpu().numpy()
    utterances = [row[:count] for row, count in zip(rows, frame_counts(log_probs, lengths), strict=True)]
    for index, frames in enumerate(utterances):
        _check(frames, index)
    return [_search(frames, config) for frames in utterances]


def _check(frames: np.ndarray, index: int) -> None:
    if not (frames < np.inf).all():  # false for NaN too
        raise InputError(f"utterance {index}: log_probs hold NaN or +inf; check the model and its input")


def _search(frames: np.ndarray, config: BeamConfig) -> list[Hypothesis]:
    beam: Beam = {(): Prefix(blank=Ending(0.0, 0.0, None))}
    lexicon = config.lexicon
    for time, frame in enumerate(frames):
        beam = _keep_best(_extend(beam, frame, time, config), config.beam_width)
    if lexicon is not None:  # what was cut off inside a word counts only where nothing else is left
        beam = {tokens: prefix for tokens, prefix in beam.items() if lexicon.completes(tokens)} or beam
    ranked = sorted(beam.items(), key=lambda item: (-item[1].total, item[0]))
    return [_hypothesis(tokens, prefix) for tokens, prefix in ranked[: config.best]] or [Hypothesis(score=-math.inf)]


def _extend(beam: Beam, frame: np.ndarray, time: int, config: BeamConfig) -> Beam:
    """All prefixes one frame later."""
    extended: Beam = {}
    symbols = [(symbol, float(frame[symbol])) for symbol in _symbols(frame, config)]
    for tokens, prefix in beam.items():
        stay = extended.setdefault(tokens, Prefix())
        likelier, total = prefix.likelier, prefix.total
        blank = float(frame[BLANK])
        stay.blank.add(total + blank, likelier.best + blank, likelier.runs)
        for symbol, score in symbols:
            if tokens and symbol == tokens[-1]:
                _continue_run(prefix.label, stay.label, score, time)
            if config.lexicon is not None and not config.lexicon.allows(tokens, symbol):
                continue
            longer = extended.setdefault((*tokens, symbol), Prefix())
            if tokens and symbol == tokens[-1]:
                start, total_before = prefix.blank, prefix.blank.total
            else:
                start, total_before = likelier, total
            longer.label.add(total_before + score, start.best + score, Run(start.runs, time, time + 1, score))
    return extended


def _continue_run(before: Ending, after: Ending, score: float, time: int) -> None:
    """The last label fills one frame more."""
    if before.runs is None or before.total == -math.inf:
        return
    run = before.runs
    longer = Run(run.before, run.start, time + 1, max(run.peak, score))
    after.add(before.total + score, before.best + score, longer)


def _symbols(frame: np.ndarray, config: BeamConfig) -> list[int]:
    """The labels worth trying in a frame, without the blank: the fewest whose probability, with it, reaches p."""
    order = np.argsort(-frame, kind="stable")
    if config.cumulative_probability < 1.0:
        reached = np.cumsum(np.exp(frame[order])) >= config.cumulative_probability
        order = order[: int(np.argmax(reached)) + 1] if reached.any() else order
    return [int(symbol) for symbol in order[: config.max_symbols] if symbol != BLANK and frame[symbol] > -math.inf]


def _keep_best(beam: Beam, width: int) -> Beam:
    """The `width` most probable prefixes; ties go to the smaller label string, so that the result is deterministic."""
    alive = [(tokens, prefix) for tokens, prefix in beam.items() if prefix.total > -math.inf]
    if len(alive) > width:
        alive = sorted(alive, key=lambda item: (-item[1].total, item[0]))[:width]
    return dict(alive)


def _hypothesis(tokens: tuple[int, ...], prefix: Prefix) -> Hypothesis:
    runs = []
    run = prefix.likelier.runs
    while run is not None:
        runs.append(run)
        run = run.before
    runs.reverse()
    return Hypothesis(
        tokens,
        tuple(run.start for run in runs),
        tuple(run.end for run in runs),
        tuple(math.exp(run.peak) for run in runs),
        prefix.total,
    )


def add_logs(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == -math.inf else a + math.log1p(math.exp(b - a))
