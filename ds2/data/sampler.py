"""The order of training: SortaGrad first, then length-bucketed minibatches in random order."""

from collections.abc import Iterator, Sequence

import numpy as np

from ds2.data.manifest import Utterance

JITTER = 0.1  # relative noise on durations when bucketing: neighbours change from epoch to epoch, padding stays low

Key = tuple[int, int]  # (epoch, index of the utterance): all that an example's augmentation depends on


def part_of(utterances: Sequence[Utterance], fraction: float) -> list[Utterance]:
    """As many utterances, drawn at random, as make up that fraction of the hours; a larger part holds the smaller ones.

    At least one; in the order they had.
    """
    if fraction >= 1.0:
        return list(utterances)
    order = np.random.default_rng(0).permutation(len(utterances))
    seconds = np.cumsum([utterances[index].duration for index in order])
    count = max(1, int((seconds <= fraction * seconds[-1]).sum()))
    return [utterances[index] for index in sorted(order[:count].tolist())]


class SortaGradSampler:
    """Minibatches of one epoch after the other (Deep Speech 2, section 3.3).

    Epoch 0 takes the utterances by increasing duration, the easy ones first. Every later epoch buckets utterances of
    like duration into minibatches and takes these in random order. The order is a function of (seed, epoch) alone,
    so that training resumes inside an epoch by starting at a batch number: nothing is replayed.
    """

    def __init__(self, durations: Sequence[float], batch_size: int, seed: int, sortagrad: bool = True):
        """`durations` in seconds; `sortagrad=False` treats the first epoch as all the others."""
        self.durations = np.asarray(durations, dtype=np.float64)
        self.batch_size = batch_size
        self.seed = seed
        self.sortagrad = sortagrad
        self.epoch = 0
        self.start = 0  # first batch still to be taken in this epoch

    def begin(self, epoch: int, start: int = 0) -> None:
        """The next iteration yields the batches of `epoch` from number `start` on."""
        self.epoch, self.start = epoch, start

    def batches(self, epoch: int) -> list[list[int]]:
        """All minibatches of an epoch as indices of utterances."""
        rng = np.random.default_rng((self.seed, epoch))
        by_increasing_duration = epoch == 0 and self.sortagrad
        jitter = 0.0 if by_increasing_duration else rng.uniform(-JITTER, JITTER, len(self.durations))
        order = np.argsort(self.durations * (1.0 + jitter), kind="stable")
        batches = [order[at : at + self.batch_size].tolist() for at in range(0, len(order), self.batch_size)]
        if not by_increasing_duration:
            rng.shuffle(batches)
        return batches

    def __len__(self) -> int:
        """Minibatches of a whole epoch."""
        return -(-len(self.durations) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for batch in self.batches(self.epoch)[self.start :]:
            yield [(self.epoch, index) for index in batch]
