"""The CUDA kernels of csrc/viterbi.cu, which find the path that the CPU finds: emulated, compiled, run on a GPU."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.kernels import compiled_by_nvcc, emulate, needs_gpu, needs_nvcc
from torch import Tensor

from ds2.ctc.alignment import ctc_align
from ds2.ctc.array_alignment import STAR
from ds2.ctc.viterbi_cpu import best_path
from ds2.ctc.viterbi_cuda import run_viterbi_kernels


@pytest.fixture(scope="module")
def emulated() -> ctypes.CDLL:
    return emulate("viterbi")


def recording(seed: int, frames: int, count: int, outputs: int = 6) -> tuple[Tensor, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(1, outputs, (count,), generator=generator).numpy().astype(np.uint64)
    return torch.randn(frames, outputs, generator=generator).log_softmax(1), labels


@pytest.mark.parametrize(
    ("frames", "count", "block"),
    [
        (1, 0, 1024),
        (1, 1, 1024),
        (9, 0, 4),
        (12, 7, 1),
        (60, 30, 7),
        (64, 20, 64),  # a block exactly
        (65, 20, 64),
        (300, 100, 128),
        (400, 255, 100),  # the last pair of a tile, and one more
        (400, 256, 100),
        (900, 600, 250),  # three tiles, which wait for each other; some are never reached
        (640, 530, 64),  # nearly as many labels as frames
    ],
)
def test_equals_the_cpu(emulated: ctypes.CDLL, frames: int, count: int, block: int) -> None:
    log_probs, labels = recording(frames + count, frames, count)
    expected, expected_score = best_path(log_probs.numpy(), labels, 0)
    assert expected_score > -np.inf
    for seed in range(2):  # threads run in another order
        emulated.emulator_seed(seed)
        path, score = run_viterbi_kernels(emulated, log_probs, labels, 0, block=block)
        assert score == expected_score
        assert np.array_equal(path, expected)


def test_equal_scores_are_decided_as_on_the_cpu(emulated: ctypes.CDLL) -> None:
    log_probs, labels = torch.full((50, 4), 0.25).log(), np.array([1, 1, 2, 3, 3], np.uint64)
    path, score = run_viterbi_kernels(emulated, log_probs, labels, 0, block=16)
    expected, expected_score = best_path(log_probs.numpy(), labels, 0)
    assert score == expected_score
    assert np.array_equal(path, expected)


def test_impossible_labels_have_no_path(emulated: ctypes.CDLL) -> None:
    """Too few frames for a repeated label; a label that is masked out."""
    log_probs, _ = recording(0, 3, 2)
    assert run_viterbi_kernels(emulated, log_probs, np.array([1, 1, 2], np.uint64), 0)[1] == -np.inf
    log_probs[:, 2] = -torch.inf
    assert run_viterbi_kernels(emulated, log_probs, np.array([2], np.uint64), 0)[1] == -np.inf


@pytest.mark.long
@needs_nvcc
def test_nvcc_compiles_the_kernels(tmp_path: Path) -> None:
    library = compiled_by_nvcc("viterbi", tmp_path)
    assert all(hasattr(library, name) for name in ("ds2_viterbi", "ds2_viterbi_workspace"))


@needs_gpu
def test_on_a_gpu() -> None:
    log_probs, labels = recording(1, 5000, 3000)
    targets = torch.from_numpy(labels.astype(np.int64))
    targets[100] = STAR
    expected, found = ctc_align(log_probs, targets), ctc_align(log_probs.cuda(), targets)
    assert found.log_prob == expected.log_prob
    assert torch.equal(found.starts, expected.starts)
    assert torch.equal(found.ends, expected.ends)
    assert torch.allclose(found.confidences, expected.confidences, equal_nan=True)
