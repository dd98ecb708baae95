"""Shards of object storage are fetched while the minibatches before them are trained on."""

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ds2.data.sampler import Key, SortaGradSampler
from ds2.utils.errors import InputError
from ds2.utils.object_storage import fetched

AHEAD = 4  # shards, or those of the next window where it has more
THREADS = 2


class PrefetchingSampler:
    """The minibatches of a sampler, whose next shards are being fetched."""

    def __init__(self, sampler: SortaGradSampler, archives: Sequence[Path | None]):
        """`archives` of the sampler's shards, by their numbers; None for plain files."""
        self.sampler, self.archives = sampler, archives

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[Key]]:
        batches = self.sampler.remaining()
        waiting = deque(self.sampler.first_uses(batches))
        ahead = max(AHEAD, self.sampler.sampling.open_shards // self.sampler.share.ranks)
        begun: deque[int] = deque()  # first uses, still to come, of shards that are being fetched
        with ThreadPoolExecutor(THREADS) as threads:
            try:
                for number, keys in enumerate(self.sampler.microbatches(batches)):
                    while begun and begun[0] <= number:
                        begun.popleft()
                    while waiting and len(begun) < ahead:
                        first, shard = waiting.popleft()
                        threads.submit(_fetch, self.archives[shard])
                        begun.append(first)
                    yield keys
            finally:
                threads.shutdown(cancel_futures=True)


def _fetch(archive: Path | None) -> None:
    """What goes wrong is reported by the process that reads the file."""
    with contextlib.suppress(InputError):
        if archive is not None:
            fetched(archive)
