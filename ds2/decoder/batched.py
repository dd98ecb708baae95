"""Prefix beam search of a whole batch at once, in torch operations on the device that holds the log-probabilities.

It searches what beam.py searches, by the formulas of README.md, "Scoring": operations over (B, W prefixes, K symbols):

    W prefixes --+-- stay as they are ---- (B, W) ----+-- the W best --> W prefixes
                 +-- with one more label - (B, W, K) -+

A hash of its labels identifies a prefix: two ways to it are added. For each frame the decoder keeps where the best
alignment of every prefix came from. No shape depends on a computed value, so no frame waits for the host.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ds2.decoder import scoring
from ds2.decoder.batched_prefixes import (
    BatchedBeam,
    best_before,
    find_elders,
    make_hypotheses,
    slot_numbers,
    stayed,
    trace,
)
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.device_tables import lexicon_table, ngram_table
from ds2.decoder.hypothesis import Hypothesis, frame_counts, without_last_words
from ds2.decoder.lexicon import Lexicon
from ds2.decoder.recombination import MULTIPLIER, recombined
from ds2.lm.ngram import NGram
from ds2.text import BLANK
from ds2.utils.errors import InputError


class CandidateSymbols(NamedTuple):
    """The symbols that may follow in a frame, for each utterance."""

    blank: Tensor  # (B, 1) log-probability
    labels: Tensor  # (B, K)
    scores: Tensor  # (B, K) log-probabilities, -inf for a label that is not tried


class BatchedDecoder(BeamDecoder):
    """A BeamDecoder that searches batches on the device that holds them; streams are searched as before."""

    def __init__(
        self,
        config: BeamConfig | None = None,
        lexicon: Lexicon | None = None,
        lm: NGram | None = None,
        lm_words: "np.ndarray | None" = None,
        labels: "np.ndarray | None" = None,
    ):
        super().__init__(config, lexicon, lm, lm_words, labels)
        settings = self.tables.settings[0]
        self._kind, self._space, self._phrases = (int(settings[name]) for name in ("lm_kind", "space", "phrases"))
        names = ("bonus", "unknown", "unknown_letter")
        self._bonus, self._unknown, self._unknown_letter = (float(settings[name]) for name in names)
        self._spells = bool(settings["spells"]) and self._kind != scoring.TOKENS
        self._eager = bool(settings["eager"])
        self._device: torch.device | None = None  # the device that holds the tables

    @torch.inference_mode()
    def __call__(self, log_probs: Tensor | np.ndarray, lengths: Tensor | np.ndarray) -> list[list[Hypothesis]]:
        """(B, T, V) log-probabilities on any device, (B,) frames -> for each utterance its n-best, best first.

        Raises:
            InputError: an utterance has NaN or +inf among its log-probabilities; frames beyond its length do not count.
            ValueError: the lengths do not fit.
        """
        counts, log_probs = frame_counts(log_probs, lengths), torch.as_tensor(log_probs)
        if not counts:
            return []
        if log_probs.device != self._device:
            self._load_tables(log_probs.device)
        log_probs = _padded(log_probs, counts)
        labels, scores = self._choose(log_probs)
        beam, steps = self._begin(len(counts)), []
        for t in range(max(counts)):
            beam = self._step(beam, CandidateSymbols(log_probs[:, t, BLANK, None].double(), labels[:, t], scores[:, t]))
            steps.append(torch.stack((beam.from_blank, beam.from_label, beam.last)).int())
        return self._finish(beam, steps, log_probs, counts)

    def _load_tables(self, device: torch.device) -> None:
        """Brings the lexicon and the language model onto the device."""
        self._device, self._words = device, lexicon_table(self.tables, device)
        self._ngram = ngram_table(self.tables.lm, self.lm.order if self.lm else 1, device)

    def _begin(self, utterances: int) -> BatchedBeam:
        """The empty prefix alone."""
        zero = torch.zeros(utterances, 1, dtype=torch.float64, device=self._device)
        none = torch.zeros_like(zero, dtype=torch.int64)
        never, start = zero - math.inf, none + self.lm_start
        return BatchedBeam(zero, never, zero, zero, never, none, none, none + BLANK, none + 1, none, start, none)

    def _choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, K) labels to try in each frame, best first, the space once more at the end; (B, T, K) their scores.

        These are the fewest labels that reach the cumulative probability together with the blank, at most max_symbols.
        """
        config, blank = self.config, log_probs[..., BLANK, None].double()
        scores, labels = log_probs[..., 1:].topk(min(config.max_symbols, log_probs.shape[2] - 1), dim=2)
        scores, labels = scores.double(), labels + 1
        # The blank has its place among the labels, by its probability: it counts for those that come after it.
        after_blank = blank >= scores
        reached = scores.exp().cumsum(2) - scores.exp() + torch.where(after_blank, blank.exp(), 0.0)
        tried = torch.arange(scores.shape[2], device=self._device) + after_blank.long() < config.max_symbols
        if config.cumulative_probability < 1:
            tried &= reached < config.cumulative_probability
        if self._space >= 0:
            # Words would not end without the space: it is tried even where it is improbable.
            space = log_probs[..., self._space, None].double()
            there = (tried & (labels == self._space)).any(2, keepdim=True)
            labels = torch.cat((labels, torch.full_like(there, self._space, dtype=labels.dtype)), 2)
            scores, tried = torch.cat((scores, space), 2), torch.cat((tried, ~there), 2)
        if config.blank_skip < 1:
            tried &= blank.exp() < config.blank_skip
        return labels, scores.masked_fill(~tried, -math.inf)

    def _step(self, beam: BatchedBeam, frame: CandidateSymbols) -> BatchedBeam:
        """Searches one frame: computes all candidates and keeps the best."""
        # The prefixes that stay: by a blank, by their last label again, or reached anew from the one without it.
        same = beam.last[..., None] == frame.labels[:, None]  # (B, W, K)
        on = torch.where(same, frame.scores[:, None], -math.inf).amax(2)  # (B, W) score of the last label
        elder, has_elder = find_elders(beam)
        stay = stayed(beam, frame.blank, on, elder, has_elder)
        # Each prefix with one more label; one that is already in the beam does not count as a new one.
        there = torch.zeros_like(same, dtype=torch.int32)
        there.scatter_add_(1, elder[..., None].expand_as(same), (same & has_elder[..., None]).int())
        more = self._more(beam, frame, same, there > 0)
        joined = BatchedBeam(*(torch.cat((a, b.flatten(1)), 1) for a, b in zip(stay, more, strict=True)))
        return self._select(joined)

    def _more(self, beam: BatchedBeam, frame: CandidateSymbols, same: Tensor, there: Tensor) -> BatchedBeam:
        """(B, W, K) all prefixes with one more label."""
        slots = slot_numbers(beam.blank)[..., None]
        beam = BatchedBeam(*(column[..., None].expand_as(same) for column in beam))
        labels, scores = frame.labels[:, None].expand_as(same), frame.scores[:, None]
        gain, lm, node = self._extend(beam, labels)
        both = torch.logaddexp(beam.blank, beam.label)
        label = torch.where(same, beam.blank, both) + scores + gain
        best, origin = best_before(beam, same, slots)
        never, mixed = torch.full_like(label, -math.inf), beam.hash * MULTIPLIER + labels
        return BatchedBeam(
            never, label.masked_fill(there, -math.inf), beam.gains + gain, never, best + scores,
            torch.zeros_like(origin), origin, labels, mixed ^ mixed >> 29, beam.hash, lm, node,
        )  # fmt: skip

    def _select(self, candidates: BatchedBeam) -> BatchedBeam:
        """The beam_width best of (B, N) candidates, without those too far below the best one."""
        totals = torch.logaddexp(candidates.blank, candidates.label)
        if self.config.recombine:
            totals = recombined(totals, candidates.lm, candidates.node, candidates.last)
        totals, chosen = totals.topk(min(self.config.beam_width, totals.shape[1]), 1)
        dropped = (totals < totals[:, :1] - self.config.score_threshold) | totals.isneginf()
        beam = BatchedBeam(*(column.gather(1, chosen) for column in candidates))
        blank, label = (score.masked_fill(dropped, -math.inf) for score in (beam.blank, beam.label))
        return beam._replace(blank=blank, label=label)

    def _extend(self, beam: BatchedBeam, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, W, K) gain, state of the language model and node of the lexicon after one more label."""
        if self._kind == scoring.TOKENS:
            number = self._words.numbers[labels]
            log_prob, lm = self._ngram.advance(beam.lm, number.clamp(min=0))
            gain = self.config.lm_weight * log_prob + self._bonus
            return torch.where(number < 0, 0.0, gain), torch.where(number < 0, beam.lm, lm), beam.node
        if not self._spells:
            return torch.zeros_like(beam.gains), beam.lm, beam.node
        node, hoped = self._words.step(beam.node, labels), self._words.hoped(beam.node)
        paid = torch.where(beam.node == scoring.OUTSIDE, 0.0, self._unknown) + self._unknown_letter
        unknown = -math.inf if self.config.closed else paid
        given = self._words.hoped(node)
        if self._eager:
            whole, _ = self._whole_word(beam.lm.expand_as(node), node)
            given = torch.where(self._words.is_leaf(node), whole, given)
        gain = torch.where(node == scoring.OUTSIDE, unknown, given) - hoped
        end_gain, end_lm = self._end_word(beam.lm[..., 0], beam.node[..., 0])
        space = labels == self._space
        gain = torch.where(space, end_gain[..., None], gain)
        return gain, torch.where(space, end_lm[..., None], beam.lm), torch.where(space, 0, node)

    def _end_word(self, lm: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        """(B, W) gain if the word ends here, -inf where it may not, and the state of the language model after it."""
        whole, after = self._whole_word(lm, node)
        gain = whole - self._words.hoped(node)
        if self._eager:
            gain = gain.masked_fill(self._words.is_leaf(node), 0.0)
        if self.config.closed:
            known = (node >= 0) & (self._words.words[node.clamp(min=0)] >= 0)
            return gain.masked_fill(~known, -math.inf), after
        return gain.masked_fill(node == 0, 0.0), torch.where(node == 0, lm, after)  # two spaces in a row end no word

    def _whole_word(self, lm: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        """(B, ...) gain of the word that ends at a node in its context, and the state of the language model after."""
        table, word = self._words, torch.where(node == scoring.OUTSIDE, -1, self._words.words[node.clamp(min=0)])
        known, after, gain = word >= 0, lm, torch.full_like(node, self._bonus, dtype=torch.float64)
        if self._kind == scoring.WORDS:
            number = torch.where(known, table.numbers[word.clamp(min=0)], scoring.UNKNOWN)
            log_prob, after = self._ngram.advance(lm & scoring.LM_MASK, number)
            gain = gain + self.config.lm_weight * log_prob
        if self._phrases:
            place = lm >> scoring.LM_BITS, torch.where(known, table.columns[word.clamp(min=0)], 0)
            gain, after = gain + table.gains[place], after & scoring.LM_MASK | table.next[place] << scoring.LM_BITS
        left = torch.where(node == scoring.OUTSIDE, 0.0, self._unknown)  # outside the lexicon it is paid already
        return gain + torch.where(known, table.boosts[word.clamp(min=0)], left), after

    def _finish(
        self, beam: BatchedBeam, steps: list[Tensor], log_probs: Tensor, counts: list[int]
    ) -> list[list[Hypothesis]]:
        """The n-best of each utterance, with one transfer for labels and one for the scores of their alignments."""
        totals, gains = torch.logaddexp(beam.blank, beam.label), self._final_gains(beam)
        broken = ~((totals + gains) > -math.inf).any(1)  # then the last word is incomplete
        gains, cut = gains.masked_fill(broken[:, None], 0.0), (broken & self.config.closed).tolist()
        # Without their last words several prefixes may be equal.
        most = totals.shape[1] if any(cut) else min(self.config.nbest, totals.shape[1])
        scores, slots = (totals + gains).topk(most, 1)
        gains = (beam.gains + gains).gather(1, slots)
        paths = trace(beam, steps, slots)
        peaks = log_probs.gather(2, paths).transpose(1, 2).tolist()
        rows = zip(paths.transpose(1, 2).tolist(), peaks, scores.tolist(), gains.tolist(), counts, strict=True)
        found = [make_hypotheses(*row, hot=self.prefers) for row in rows]
        whole = [
            list(without_last_words(each, self._space)) if is_cut else each
            for each, is_cut in zip(found, cut, strict=True)
        ]
        return [each[: self.config.nbest] or [Hypothesis(score=-math.inf)] for each in whole]

    def _final_gains(self, beam: BatchedBeam) -> Tensor:
        """(B, W) what each prefix gains when the utterance ends here: its last word, and </s>."""
        gains, after = torch.zeros_like(beam.gains), beam.lm
        if self._spells:
            end_gain, end_lm = self._end_word(beam.lm, beam.node)
            gains, after = torch.where(beam.node == 0, 0.0, end_gain), torch.where(beam.node == 0, beam.lm, end_lm)
        if self._kind != scoring.NO_LM and self.sentence_end >= 0:
            log_prob, _ = self._ngram.advance(after & scoring.LM_MASK, torch.full_like(after, self.sentence_end))
            gains = gains + self.config.lm_weight * log_prob
        if self._phrases:
            gains = gains - self._words.held[after >> scoring.LM_BITS]
        return gains


def _padded(log_probs: Tensor, counts: list[int]) -> Tensor:
    """Log-probabilities with certain blanks after the end of every utterance, cut at the longest utterance."""
    log_probs = log_probs.detach()[:, : max(counts)]
    if log_probs.dtype != torch.float64:
        log_probs = log_probs.float()
    frames = torch.arange(log_probs.shape[1], device=log_probs.device)
    over = frames >= torch.tensor(counts, device=log_probs.device)[:, None]
    log_probs = log_probs.masked_fill(over[..., None], -math.inf)
    log_probs[..., BLANK].masked_fill_(over, 0.0)
    if bad := (~(log_probs < math.inf).all(2).all(1)).nonzero().flatten().tolist():  # false for NaN too
        raise InputError(f"utterance {bad[0]}: log_probs hold NaN or +inf; check the model and its input")
    return log_probs
