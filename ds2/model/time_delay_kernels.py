"""What follows the product in a time-delay layer, in as few passes over memory as there can be, on the CPU.

    rows (B, T, C) of x -> gamma (x - mean) / deviation + beta -> clipped ReLU -> * kept (B, C) -> + bypass * skip

Arrays are flat, in float32, float64, or bfloat16 as its bits in uint16. Rows beyond an utterance count in no sum, and
come out as 0. What is constant for a channel travels in one array: with few arrays in a loop the compiler can check
that they do not overlap, and makes vector instructions of it.
"""

import numpy as np

from ds2.utils.bfloat16 import real, store
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
inlined = njit(error_model="numpy", fastmath=REORDER, _nrt=False, forceinline=True)


@inlined
def through_relu(before, grad, clip):  # type: ignore[no-untyped-def]
    """The gradient of the clipped ReLU's input `before`."""
    zero = clip - clip
    return grad if (before > zero) & (before < clip) else zero


@kernel
def add_moments(x, lengths, frames, sums):  # type: ignore[no-untyped-def]
    """Adds the sum and the sum of squares of each channel over the valid rows of each utterance to its (B, 2C) sums."""
    channels = np.uint64(len(sums) // len(lengths) // 2)
    for b in range(np.uint64(len(lengths))):
        own = b * (channels + channels)
        for t in range(np.uint64(lengths[b])):
            here = (b * np.uint64(frames) + t) * channels
            for c in range(channels):
                value = real(x[here + c])
                sums[own + c] += value
                sums[own + channels + c] += value * value


@kernel
def activate(x, skip, constants, lengths, frames, bypass, clip, result):  # type: ignore[no-untyped-def]
    """result = min(max(scale x + shift, 0), clip) kept + bypass skip of the valid rows, 0 of the others.

    `constants`: (B, 3, C) scale, shift and kept.
    """
    channels, zero = np.uint64(len(constants) // len(lengths) // 3), clip - clip
    for b in range(np.uint64(len(lengths))):
        scale = b * (channels + channels + channels)
        shift, kept = scale + channels, scale + channels + channels
        for t in range(np.uint64(lengths[b])):
            here = (b * np.uint64(frames) + t) * channels
            for c in range(channels):
                value = real(x[here + c]) * constants[scale + c] + constants[shift + c]
                value = min(max(value, zero), clip) * constants[kept + c]
                store(result, here + c, value + bypass * real(skip[here + c]))
        # The rows beyond the utterance.
        first, end = (b * np.uint64(frames) + np.uint64(lengths[b])) * channels, (b + 1) * np.uint64(frames) * channels
        for i in range(first, end):
            store(result, np.uint64(i), zero)


@kernel
def add_gradient_sums(x, grad, constants, lengths, frames, clip, sums):  # type: ignore[no-untyped-def]
    """Adds to (B, 2C) `sums`, for each channel, the gradient of scale x + shift, and its product with x."""
    channels = np.uint64(len(constants) // len(lengths) // 3)
    for b in range(np.uint64(len(lengths))):
        scale, own = b * (channels + channels + channels), b * (channels + channels)
        shift, kept = scale + channels, scale + channels + channels
        for t in range(np.uint64(lengths[b])):
            here = (b * np.uint64(frames) + t) * channels
            for c in range(channels):
                value = real(x[here + c])
                before = value * constants[scale + c] + constants[shift + c]
                flowing = through_relu(before, real(grad[here + c]) * constants[kept + c], clip)
                sums[own + c] += flowing
                sums[own + channels + c] += flowing * value


@kernel
def gradients(x, grad, constants, slopes, lengths, frames, clip, result):  # type: ignore[no-untyped-def]
    """result = scale * (gradient of scale x + shift) + slope x + offset; (2, C) `slopes` hold slope and offset."""
    channels, zero = np.uint64(len(constants) // len(lengths) // 3), clip - clip
    for b in range(np.uint64(len(lengths))):
        scale = b * (channels + channels + channels)
        shift, kept = scale + channels, scale + channels + channels
        for t in range(np.uint64(lengths[b])):
            here = (b * np.uint64(frames) + t) * channels
            for c in range(channels):
                value = real(x[here + c])
                before = value * constants[scale + c] + constants[shift + c]
                flowing = through_relu(before, real(grad[here + c]) * constants[kept + c], clip)
                store(result, here + c, flowing * constants[scale + c] + slopes[c] * value + slopes[channels + c])
        # The rows beyond the utterance.
        first, end = (b * np.uint64(frames) + np.uint64(lengths[b])) * channels, (b + 1) * np.uint64(frames) * channels
        for i in range(first, end):
            store(result, np.uint64(i), zero)
