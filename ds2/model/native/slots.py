"""The state of live streams, each in a slot; a step of ds2/model/slots.py moves a batch of them on."""

from typing import Any

import numpy as np


class SlotStores:
    """What the layers keep of each slot between chunks, by name: (slots, ...) each, made at its first use."""

    def __init__(self, slots: int):
        self.slots = slots
        self.arrays: dict[str, np.ndarray] = {}


class SlotBatch:
    """Which slots a step moves on, and what it will write to them."""

    def __init__(self, stores: SlotStores, slots: np.ndarray, positions: np.ndarray, lengths: np.ndarray):
        self.stores, self.slots, self.positions, self.lengths = stores, slots, positions, lengths
        self.afresh = np.flatnonzero(positions == 0)
        self.least, self.left = positions.min(), (lengths - positions).min()
        self.writes: dict[str, np.ndarray] = {}

    def numbers(self, frames: int, stride: int, delay: int) -> np.ndarray:
        """(B, frames): the number in its stream of each frame of a layer's output; below 0 before the stream."""
        return (self.positions // stride - delay)[:, None] + np.arange(frames)

    def valid(self, frames: int, stride: int, delay: int) -> np.ndarray:
        """(B, frames, 1) 0 or 1: which frames of a layer's output lie within their stream."""
        index = self.numbers(frames, stride, delay)
        inside = (index >= 0) & (index < ((self.lengths + stride - 1) // stride)[:, None])
        return inside[:, :, None].astype(np.float32)

    def clear_outside(self, x: np.ndarray, stride: int, delay: int) -> None:
        """Makes the frames of a layer's output (B, T, D) 0 that lie outside their stream."""
        if self.least < delay * stride or self.left < (x.shape[1] - delay) * stride:  # else there are none
            x *= self.valid(x.shape[1], stride, delay)

    def kept(self, name: str, shape: tuple[int, ...], kind: Any = np.float32) -> np.ndarray:
        """(B, *shape) that the chunk before kept, 0 where a stream begins."""
        if name not in self.stores.arrays:
            self.stores.arrays[name] = np.zeros((self.stores.slots, *shape), kind)
        rows = self.stores.arrays[name][self.slots]
        if len(self.afresh):
            rows[self.afresh] = 0
        return rows

    def keep(self, name: str, rows: np.ndarray) -> None:
        """(B, ...): what the next chunk of each stream gets."""
        self.writes[name] = rows

    def with_past(self, name: str, x: np.ndarray, count: int) -> np.ndarray:
        """(B, T, D) after the `count` frames that the chunk before left; leaves the last ones to the next chunk."""
        x = np.concatenate([self.kept(name, (count, x.shape[2])), x], axis=1)
        self.keep(name, x[:, x.shape[1] - count :])
        return x

    def commit(self) -> None:
        """No layer has failed: the slots move on."""
        for name, rows in self.writes.items():
            self.stores.arrays[name][self.slots] = rows
