"""The CUDA kernels of csrc/crf.cu, against torch's operators: emulated, compiled by nvcc, run on a GPU."""

import ctypes
from pathlib import Path

import pytest
import torch
from helpers.kernels import compiled_by_nvcc, emulate, needs_gpu, needs_nvcc
from torch import Tensor

from ds2.ctc.crf import _Paths, ctc_crf_loss
from ds2.ctc.crf_cuda import run_all_paths, run_label_paths
from ds2.ctc.label_paths import NEVER, _log_weight
from ds2.ctc.trigram import Trigram


@pytest.fixture(scope="module")
def emulated() -> ctypes.CDLL:
    return emulate("crf")


def random_trigram(outputs: int, generator: torch.Generator) -> Trigram:
    """A third of the labels may not follow."""
    table = torch.rand(3 * (outputs,), generator=generator)
    table = torch.where(torch.rand(table.shape, generator=generator) < 1 / 3, 1e-9, table)
    return Trigram(table / table.sum(2, keepdim=True))


@pytest.mark.parametrize("depends", [False, True])
@pytest.mark.parametrize(("outputs", "frames"), [(2, 1), (4, 9), (33, 6), (46, 4), (54, 3)])
def test_all_paths_against_operators(emulated: ctypes.CDLL, outputs: int, frames: int, depends: bool) -> None:
    """One state to three a thread, whatever the order in which threads run."""
    generator = torch.Generator().manual_seed(outputs)
    trigram = random_trigram(outputs, generator)
    scores = 5 * torch.randn(3, frames, outputs if depends else 1, outputs, generator=generator)
    lengths = torch.tensor([frames, 0, max(1, frames - 2)])
    order = [0, 2, 1]  # the longest first
    paths = _Paths(scores[order].double().exp(), lengths[order], Trigram(trigram.table.double()))
    expected, exact = paths.forward()[order], paths.posteriors()[order]
    for seed in range(2):
        emulated.emulator_seed(seed)
        totals, posteriors = run_all_paths(emulated, scores, lengths, trigram, True)
        torch.testing.assert_close(totals.double(), expected, rtol=1e-6, atol=1e-5)
        torch.testing.assert_close(posteriors.double(), exact, rtol=1e-4, atol=1e-6)
        assert torch.equal(run_all_paths(emulated, scores, lengths, trigram, False)[0], totals)


@pytest.mark.parametrize("sharpness", [1.0, 30.0])
def test_label_paths_against_operators(emulated: ctypes.CDLL, sharpness: float) -> None:
    """Labels that come twice; as many as fit, more, and none."""
    generator = torch.Generator().manual_seed(6)
    emitted = (sharpness * torch.randn(6, 40, 38, generator=generator)).requires_grad_()
    silent = (sharpness * torch.randn(6, 40, generator=generator)).requires_grad_()
    again = torch.rand(6, 38, generator=generator) < 0.2
    again[3, 1:20] = False
    again[:, 0] = True
    lengths, sizes = torch.tensor([40, 40, 17, 20, 5, 1]), torch.tensor([12, 0, 9, 20, 6, 1])
    expected = _log_weight(emitted.double(), silent.double(), again, lengths, sizes).float()
    some = torch.tensor([True, True, True, True, False, True])  # what does not fit has no gradient
    exact = torch.autograd.grad(expected[some].sum(), (emitted, silent))
    plain = emitted.detach(), silent.detach(), again, lengths, sizes
    for seed in range(2):
        emulated.emulator_seed(seed)
        totals, *gradients = run_label_paths(emulated, *plain, True)
        assert totals[4] == torch.tensor(NEVER)
        torch.testing.assert_close(totals, expected, rtol=1e-6, atol=1e-5)
        torch.testing.assert_close(gradients, list(exact), rtol=1e-5, atol=1e-6)
        assert torch.equal(run_label_paths(emulated, *plain, False)[0], totals)


@pytest.mark.long
def test_more_labels_than_threads(emulated: ctypes.CDLL) -> None:
    generator = torch.Generator().manual_seed(7)
    emitted, silent = torch.randn(1, 1030, 1025, generator=generator), torch.randn(1, 1030, generator=generator)
    rest = torch.zeros(1, 1025, dtype=torch.bool), torch.tensor([1030]), torch.tensor([1025])
    totals, of_labels, of_blank = run_label_paths(emulated, emitted, silent, *rest, True)
    torch.testing.assert_close(totals, _log_weight(emitted.double(), silent.double(), *rest).float())
    assert of_labels is not None
    assert of_blank is not None
    torch.testing.assert_close(of_labels.sum(2) + of_blank, torch.ones(1, 1030), rtol=1e-5, atol=1e-5)


@pytest.mark.long
@needs_nvcc
def test_nvcc_compiles_the_kernels(tmp_path: Path) -> None:
    library = compiled_by_nvcc("crf", tmp_path)
    assert all(hasattr(library, name) for name in ("ds2_all_paths", "ds2_label_paths"))


@needs_gpu
@pytest.mark.parametrize("depends", [False, True])
@pytest.mark.parametrize("outputs", [5, 42, 60])  # the last ones are too many for the kernels
def test_the_loss_on_a_gpu(outputs: int, depends: bool) -> None:
    generator = torch.Generator().manual_seed(outputs)
    trigram = random_trigram(outputs, generator)
    targets = torch.randint(1, outputs, (6, 30), generator=generator)
    lengths, sizes = torch.tensor([90, 77, 60, 61, 3, 1]), torch.tensor([30, 12, 30, 0, 5, 1])
    logits = torch.randn(6, 90, outputs, generator=generator)
    biphones = torch.randn(6, 90, outputs - 1, outputs - 1, generator=generator)

    def loss(device: str) -> tuple[Tensor, ...]:
        scores, pairs = (each.to(device).requires_grad_() for each in (logits, biphones))
        rest = (each.to(device) for each in (targets, lengths, sizes))
        losses = ctc_crf_loss(scores, *rest, trigram, 0.1, pairs if depends else None)
        wanted = (scores, pairs) if depends else (scores,)
        return tuple(each.cpu() for each in (losses, *torch.autograd.grad(losses.sum(), wanted)))

    for found, expected in zip(loss("cuda"), loss("cpu"), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
