"""Which utterances of several corpora an epoch takes, and how they are cut into minibatches."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ds2.utils.jit import njit


@dataclass(frozen=True)
class SamplingConfig:
    """By default an epoch takes every utterance once, in minibatches of equally many."""

    weights: tuple[float, ...] = ()  # share of each training manifest in the epoch's hours; empty: all hours it has
    epoch_hours: float = 0.0  # 0: all hours of the manifests
    batch_seconds: float = 0.0  # of padded audio in a minibatch; 0: no limit, minibatches are cut by number
    open_shards: int = 0  # read from at a time, from the second epoch on, each by one rank alone; 0: all, by all ranks

    def __post_init__(self) -> None:
        for name in ("epoch_hours", "batch_seconds", "open_shards"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} must be 0 or more")
        if self.weights and not (min(self.weights) >= 0 and sum(self.weights) > 0):
            raise ValueError(f"weights = {list(self.weights)} must be 0 or more, and not all 0")


def draw(durations: np.ndarray, sizes: Sequence[int], config: SamplingConfig, seed: int, epoch: int) -> np.ndarray:
    """The utterances of an epoch, some of them several times where a corpus has fewer hours than its weight asks for.

    Each corpus is an endless sequence of random orders of its utterances, of which each epoch takes the next part:
    over the epochs all utterances of a corpus are taken equally often, give or take one.

        corpus     |---- order 0 ----|---- order 1 ----|--
        epochs     |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 --

    Args:
        durations: (N,) seconds.
        sizes: utterances of each corpus, in order; together N.

    Returns:
        indices; a function of (seed, epoch) alone.
    """
    if not config.weights and not config.epoch_hours:
        return np.arange(len(durations), dtype=np.int32)
    parts, first = [], 0
    shares = _shares(durations, sizes, config)
    for number, (size, seconds) in enumerate(zip(sizes, shares, strict=True)):
        own = durations[first : first + size]
        parts.append(first + _part(own, epoch * seconds, (epoch + 1) * seconds, (seed, number)))
        first += size
    return np.concatenate(parts)


def cut_into_minibatches(
    order: np.ndarray, durations: np.ndarray, batch_size: int, batch_seconds: float
) -> list[np.ndarray]:
    """(n,) `order` in minibatches of neighbours, up to `batch_size` utterances and `batch_seconds` of padded audio.

    An utterance longer than `batch_seconds` is a minibatch by itself. The minibatches are views of `order`.
    """
    if not len(order):
        return []
    starts = np.arange(0, len(order), batch_size)
    if batch_seconds:
        starts = _starts(durations[order], batch_size, batch_seconds)
    return [order[start:end] for start, end in itertools.pairwise([*starts.tolist(), len(order)])]


@njit()
def _starts(durations: np.ndarray, batch_size: int, batch_seconds: float) -> np.ndarray:
    """The first place of each minibatch."""
    starts = np.empty(len(durations), np.int64)
    count, longest = 0, 0.0
    for place in range(len(durations)):
        size = place - starts[count - 1]  # of the minibatch so far
        widened = max(longest, durations[place])
        if count and size < batch_size and (size + 1) * widened <= batch_seconds:
            longest = widened
        else:
            starts[count] = place
            count += 1
            longest = durations[place]
    return starts[:count]


def owners(shards: np.ndarray, ranks: int) -> np.ndarray | None:
    """(N,) the rank that reads the shard of each utterance; None where shards are too few or too unequal to share."""
    owner = shards % ranks
    counts = np.bincount(owner, minlength=ranks)
    return owner if ranks > 1 and counts.max(initial=0) <= 2 * counts.min() else None


def group_by_shards(
    drawn: np.ndarray, shards: np.ndarray, open_shards: int, ranks: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Groups `drawn` by windows of about `open_shards` random shards, as many of each owner.

    Args:
        shards: (N,) the shard of each utterance.
        ranks: number of owners.
    """
    order = rng.permutation(int(shards.max()) + 1)
    window_of_shard = np.empty_like(order)
    own = [order[order % ranks == rank] for rank in range(ranks)]
    count = -(-max(1, min(map(len, own))) // max(1, open_shards // ranks))
    for part in own:
        window_of_shard[part] = np.arange(len(part)) * count // max(1, len(part))
    window = window_of_shard[shards[drawn]]
    grouped = np.argsort(window, kind="stable")
    return np.split(drawn[grouped], np.flatnonzero(np.diff(window[grouped])) + 1)


def spread(order: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The utterances of all owners side by side: a minibatch of neighbours has as many of each, of like duration.

    Args:
        order: utterances by duration.
        owner: (N,) of each utterance.
    """
    place = np.empty(len(order))
    for rank in range(int(owner.max()) + 1):
        own = np.flatnonzero(owner[order] == rank)
        place[own] = (np.arange(len(own)) + 0.5) / max(1, len(own))
    return order[np.argsort(place, kind="stable")]


def _shares(durations: np.ndarray, sizes: Sequence[int], config: SamplingConfig) -> np.ndarray:
    """Seconds of each corpus in an epoch."""
    edges = np.cumsum([0, *sizes])
    own = np.array([durations[start:end].sum() for start, end in itertools.pairwise(edges)])
    weights = np.array(config.weights) if config.weights else own
    return weights / weights.sum() * (config.epoch_hours * 3600 or own.sum())


def _part(durations: np.ndarray, start: float, end: float, key: tuple[int, int]) -> np.ndarray:
    """The utterances whose middles lie between `start` and `end` seconds in the endless sequence of a corpus."""
    total = float(durations.sum())
    if end <= start or total <= 0:
        return np.zeros(0, dtype=np.int64)
    taken = []
    for number in range(int(start // total), int(np.ceil(end / total))):
        order = np.random.default_rng((*key, number)).permutation(len(durations))
        middles = number * total + np.cumsum(durations[order]) - durations[order] / 2
        taken.append(order[(middles >= start) & (middles < end)])
    return np.concatenate(taken)
