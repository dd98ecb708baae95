"""The order of training: SortaGrad first, then minibatches of utterances of like length in random order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ds2.data.columnar import Selection, durations
from ds2.data.corpus_sampling import SamplingConfig, cut_into_minibatches, draw, group_by_shards, owners, spread
from ds2.data.utterance import Utterance

JITTER = 0.1  # relative noise on durations when bucketing: neighbours change from epoch to epoch, padding stays low
FIRST_SHARE = 0.25  # of the utterances, the shortest, that a curriculum begins with

Key = tuple[int, int]  # (epoch, index of the utterance): all that an example's augmentation depends on


def part_of(utterances: Sequence[Utterance], fraction: float) -> Sequence[Utterance]:
    """Draws utterances at random that make up a fraction of the hours; larger fractions contain the smaller ones.

    Returns:
        at least one utterance; they keep their order.
    """
    if fraction >= 1.0:
        return utterances
    order = np.random.default_rng(0).permutation(len(utterances))
    seconds = np.cumsum(durations(utterances)[order])
    count = max(1, int((seconds <= fraction * seconds[-1]).sum()))
    return Selection(utterances, np.sort(order[:count]))


@dataclass(frozen=True)
class Share:
    """What one of `ranks` processes takes of every minibatch, cut into `microbatches` (gradient accumulation)."""

    rank: int = 0  # below 0: nothing
    ranks: int = 1
    microbatches: int = 1

    def of(self, batch: Sequence[int], durations: np.ndarray, owner: np.ndarray | None = None) -> list[list[int]]:
        """A minibatch of indices -> this rank's microbatches, of about as many utterances and frames each.

        The longest utterance that is left goes to the microbatch with the least audio that has room. Microbatches are
        empty where a minibatch has fewer utterances than that. With an (N,) `owner` a rank takes those that it owns.
        """
        if owner is not None:
            own = [index for index in batch if owner[index] == self.rank]
            return Share(microbatches=self.microbatches).of(own, durations)
        if self.rank < 0:
            return [[] for _ in range(self.microbatches)]
        if self.ranks * self.microbatches == 1:
            return [list(batch)]
        room = -(-len(batch) // (self.ranks * self.microbatches))
        dealt: list[list[int]] = [[] for _ in range(self.ranks * self.microbatches)]
        audio = np.zeros(len(dealt))
        for index in sorted(batch, key=lambda index: -durations[index]):
            slot = min((slot for slot in range(len(dealt)) if len(dealt[slot]) < room), key=lambda slot: audio[slot])
            dealt[slot].append(index)
            audio[slot] += durations[index]
        return dealt[self.rank * self.microbatches : (self.rank + 1) * self.microbatches]


@dataclass(frozen=True)
class Curriculum:
    """What comes first in training.

    Attributes:
        sortagrad: the first epoch takes the utterances by increasing duration.
        epochs: until all utterances are taken, the shortest ones first (Platanios et al. 2019); 0: all from the start.
    """

    sortagrad: bool = True
    epochs: int = 0


class Sources(NamedTuple):
    """The sources of utterances: the number of utterances of each corpus, in order; the shard of each, from 0."""

    sizes: Sequence[int] = ()
    shards: Sequence[int] | np.ndarray = ()


class SortaGradSampler:
    """Minibatches of one epoch after the other (Deep Speech 2, section 3.3).

    Epoch 0 takes the utterances by increasing duration, the easy ones first. Every later epoch buckets utterances of
    like duration into minibatches and takes these in random order. The order is a function of (seed, epoch) alone,
    so that training resumes inside an epoch by starting at a batch number: nothing is replayed.

    A Curriculum of some epochs begins with the shortest quarter of the utterances and adds longer ones; these epochs
    have fewer minibatches than later ones.

    A SamplingConfig weights several corpora, cuts minibatches by seconds of audio, and reads few shards at a time: then
    each rank reads shards that no other rank reads, the same ones in every epoch.
    """

    def __init__(
        self,
        durations: Sequence[float] | np.ndarray,
        batch_size: int,
        seed: int,
        curriculum: Curriculum | None = None,
        share: Share | None = None,
        sampling: SamplingConfig | None = None,
        sources: Sources | None = None,
    ):
        """(N,) `durations` in seconds; `sources` says for `sampling` where the utterances come from."""
        self.durations = np.asarray(durations, dtype=np.float64)
        self.batch_size = batch_size
        self.seed = seed
        self.curriculum = curriculum or Curriculum()
        self.share = share or Share()
        self.sampling = sampling or SamplingConfig()
        sources = sources or Sources()
        self.sizes = list(sources.sizes) or [len(self.durations)]
        self.shards = np.asarray(sources.shards, dtype=np.int32)
        windowed = self.sampling.open_shards > 0 and len(self.shards) > 0
        self.owner = owners(self.shards, self.share.ranks) if windowed else None
        self.epoch = 0
        self.start = 0  # first batch still to be taken in this epoch

    def begin(self, epoch: int, start: int = 0) -> None:
        """The next iteration yields the batches of `epoch` from number `start` on."""
        self.epoch, self.start = epoch, start

    def utterances(self, epoch: int) -> int:
        """How many utterances an epoch takes: N, or fewer in a curriculum."""
        return self._shortest(epoch, len(self._drawn(epoch)))

    def count(self, epoch: int) -> int:
        """Minibatches of an epoch."""
        if self.sampling != SamplingConfig():
            return len(self.batches(epoch))
        return -(-self.utterances(epoch) // self.batch_size)

    def batches(self, epoch: int) -> list[np.ndarray]:
        """All minibatches of an epoch, each (n,) indices of utterances; views of one order."""
        rng = np.random.default_rng((self.seed, epoch))
        by_increasing_duration = epoch == 0 and self.curriculum.sortagrad
        apparent = np.ones(len(self.durations))
        # Later epochs sort by durations with a little noise, so that neighbours change and padding stays small.
        if not by_increasing_duration:
            apparent += rng.uniform(-JITTER, JITTER, len(self.durations))
        apparent *= self.durations  # in place: a corpus may have ten million utterances
        drawn = self._drawn(epoch)
        apparent = apparent[drawn]
        drawn = drawn[np.argsort(apparent, kind="stable")][: self._shortest(epoch, len(drawn))]
        if by_increasing_duration:
            return self._cut(drawn)
        # Minibatches are shuffled; where few shards may be open at a time, within groups of shards.
        parts = [drawn]
        if self.sampling.open_shards and len(self.shards):
            ranks = 1 if self.owner is None else self.share.ranks
            parts = group_by_shards(drawn, self.shards, self.sampling.open_shards, ranks, rng)
        batches: list[np.ndarray] = []
        for part in parts:
            own = self._cut(part)
            rng.shuffle(own)
            batches += own
        return batches

    def _drawn(self, epoch: int) -> np.ndarray:
        return draw(self.durations, self.sizes, self.sampling, self.seed, epoch)

    def _shortest(self, epoch: int, drawn: int) -> int:
        """How many of the `drawn` utterances an epoch takes: the shortest ones in a curriculum."""
        if epoch >= self.curriculum.epochs:
            return drawn
        share = FIRST_SHARE + (1 - FIRST_SHARE) * epoch / self.curriculum.epochs
        return max(1, round(share * drawn))

    def remaining(self) -> list[np.ndarray]:
        """The minibatches of this epoch that are still to be taken, (n,) indices each."""
        return self.batches(self.epoch)[self.start :]

    def first_uses(self, batches: Sequence[np.ndarray]) -> list[tuple[int, int]]:
        """Minibatches of (n,) indices -> (number of a microbatch, shard) in the order of this rank's first uses."""
        if not batches:
            return []
        order, number = np.concatenate(batches), np.repeat(np.arange(len(batches)), list(map(len, batches)))
        if self.owner is not None:
            own = self.owner[order] == self.share.rank
            order, number = order[own], number[own]
        shards, places = np.unique(self.shards[order], return_index=True)
        begin = np.argsort(places)
        return list(
            zip((number[places] * self.share.microbatches)[begin].tolist(), shards[begin].tolist(), strict=True)
        )

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        if self.owner is not None:
            order = spread(order, self.owner)
        return cut_into_minibatches(order, self.durations, self.batch_size, self.sampling.batch_seconds)

    def __len__(self) -> int:
        """Number of this rank's microbatches in the whole epoch."""
        return self.count(self.epoch) * self.share.microbatches

    def __iter__(self) -> Iterator[list[Key]]:
        yield from self.microbatches(self.remaining())

    def microbatches(self, batches: Sequence[np.ndarray]) -> Iterator[list[Key]]:
        """This rank's microbatches of minibatches, (n,) indices each."""
        for batch in batches:
            for microbatch in self.share.of(batch.tolist(), self.durations, self.owner):
                yield [(self.epoch, index) for index in microbatch]
