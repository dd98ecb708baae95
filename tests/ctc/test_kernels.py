"""The CUDA kernels of csrc/ctc.cu: run on the CPU by tests/helpers/emulator.h, compiled by nvcc, run on a GPU."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.kernels import compiled_by_nvcc, emulate, needs_gpu, needs_nvcc
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.ctc import ctc_loss
from ds2.ctc.cuda import run_ctc_kernels, run_rescale
from ds2.ctc.loss import required_frames
from ds2.ctc.loss_inputs import LossInputs

Result = tuple[Tensor, Tensor]


@pytest.fixture(scope="session")
def emulated() -> ctypes.CDLL:
    return emulate("ctc")


@pytest.fixture(params=["emulated", pytest.param("gpu", marks=needs_gpu)])
def kernels(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Logits, targets, lengths -> losses and gradient of weights[b] times each, on the CPU."""
    if request.param == "gpu":
        return on_gpu
    library = request.getfixturevalue("emulated")

    def run(logits: Tensor, *rest: Tensor, weights: Tensor | None = None) -> Result:
        return run_ctc_kernels(library, LossInputs(logits, *rest, ones(rest, weights), 0, True))

    return run


def on_gpu(logits: Tensor, *rest: Tensor, weights: Tensor | None = None) -> Result:
    rest = tuple(tensor.cuda() for tensor in (*rest, ones(rest, weights)))
    losses, gradient = torch.ops.ds2.ctc(logits.cuda(), *rest, 0, True)
    return losses.cpu(), gradient.cpu()


def ones(rest: tuple[Tensor, ...], weights: Tensor | None) -> Tensor:
    return torch.ones(len(rest[1]), dtype=torch.float64) if weights is None else weights


def on_cpu(logits: Tensor, *rest: Tensor) -> Result:
    weights = torch.ones(len(logits), dtype=torch.float64)
    return torch.ops.ds2.ctc(logits, *rest, weights, 0, True)


def lengths(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def batch(seed: int, outputs: int, sizes: list[tuple[int, int]], scale: float = 1.0) -> tuple[Tensor, ...]:
    """Float64 logits and padded targets for (frames, labels) of each utterance; frames grow where labels repeat."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(1, outputs, (len(sizes), max(labels for _, labels in sizes)), generator=generator)
    target_lengths = lengths(*(labels for _, labels in sizes))
    input_lengths = torch.maximum(lengths(*(frames for frames, _ in sizes)), required_frames(targets, target_lengths))
    shape = (len(sizes), int(input_lengths.max()), outputs)
    logits = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    return logits, targets, input_lengths, target_lengths


SHAPES = [
    (2, [(1, 0), (1, 1), (2, 1), (3, 3)]),  # the smallest
    (5, [(12, 4), (0, 0), (9, 9), (7, 0), (30, 11)]),
    (29, [(40, 30), (70, 31), (50, 32), (64, 33)]),  # around one pair a lane
    (29, [(150, 63), (160, 64), (40, 1)]),
    (29, [(130, 120), (127, 127)]),
    (40, [(21, 9), (5, 2)]),  # rows of whole 16 bytes
    (1500, [(20, 10), (15, 3)]),  # a block for each row
    (1501, [(9, 3)]),
]
MANY_LABELS = [  # one warp and several
    ([(140, 130), (260, 255)], 1.0),
    ([(140, 130), (260, 255)], 30.0),
    ([(275, 270)], 1.0),
    ([(530, 515)], 30.0),
]


@pytest.mark.parametrize(
    ("outputs", "sizes", "scale"),
    [
        *((*shape, scale) for shape in SHAPES for scale in (1.0, 30.0)),
        *(pytest.param(9, *of_many_labels, marks=pytest.mark.long) for of_many_labels in MANY_LABELS),
    ],
)
def test_equals_the_cpu(
    kernels: Callable[..., Result], outputs: int, sizes: list[tuple[int, int]], scale: float
) -> None:
    arguments = batch(0, outputs, sizes, scale)
    expected, expected_gradient = on_cpu(*arguments)
    losses, gradient = kernels(*arguments)
    assert torch.allclose(losses, expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-11)
    losses, gradient = kernels(arguments[0].float(), *arguments[1:])
    assert torch.allclose(losses.double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.allclose(gradient.double(), expected_gradient, atol=2e-5 * scale)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 16),
    outputs=st.sampled_from([2, 3, 8, 32, 33, 64]),
    sizes=st.lists(st.tuples(st.integers(0, 13), st.integers(0, 40)), min_size=1, max_size=3),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1000.0]),
    blank=st.integers(0, 63),
    padded=st.booleans(),
)
def test_any_batch_equals_the_cpu(
    emulated: ctypes.CDLL,
    seed: int,
    outputs: int,
    sizes: list[tuple[int, int]],
    scale: float,
    blank: int,
    padded: bool,
) -> None:
    """Any blank, any number of frames, targets that fit into them or do not."""
    generator = torch.Generator().manual_seed(seed)
    counts = tuple(lengths(*(size[part] for size in sizes)) for part in (0, 1))
    blank %= outputs
    targets = torch.randint(0, outputs - 1, (len(sizes), 40), generator=generator)
    targets += targets >= blank
    if not padded:
        targets = targets[torch.arange(40) < counts[1].unsqueeze(1)]
    logits = scale * torch.randn(len(sizes), 13, outputs, generator=generator, dtype=torch.float64)
    weights = torch.rand(len(sizes), generator=generator, dtype=torch.float64)
    arguments = (logits, targets, *counts, weights, blank, True)
    expected, expected_gradient = torch.ops.ds2.ctc(*arguments)
    losses, gradient = run_ctc_kernels(emulated, LossInputs(*arguments))
    assert torch.allclose(losses, expected, rtol=1e-10, atol=1e-10)
    assert torch.allclose(gradient, expected_gradient, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("size", [(1100, 1050), (2100, 2050)])
def test_thousands_of_labels(kernels: Callable[..., Result], size: tuple[int, int]) -> None:
    arguments = batch(1, 5, [size])
    expected, expected_gradient = on_cpu(*arguments)
    losses, gradient = kernels(*arguments)
    assert torch.allclose(losses, expected, rtol=1e-10)
    assert torch.allclose(gradient, expected_gradient, atol=1e-9)


def test_paths_of_a_million_nats(kernels: Callable[..., Result]) -> None:
    """float32 scores so far apart that their differences are rounded: the rounding must be compensated."""
    logits, *rest = batch(1, 7, [(90, 20), (47, 46)], scale=1e4)
    logits = logits.float()
    expected, expected_gradient = on_cpu(logits.double(), *rest)
    losses, gradient = kernels(logits, *rest)
    assert losses.min() > 1e5
    assert torch.allclose(losses.double(), expected, rtol=3e-7)
    assert torch.allclose(gradient.double(), expected_gradient, atol=1e-4)


@pytest.mark.parametrize("outputs", [12, 40, 1504])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_in_and_out(kernels: Callable[..., Result], dtype: torch.dtype, outputs: int) -> None:
    logits, *rest = batch(2, outputs, [(30, 8), (20, 3)])
    logits = logits.to(dtype)
    expected, expected_gradient = on_cpu(logits.double(), *rest)
    losses, gradient = kernels(logits, *rest)
    assert losses.dtype == torch.float32
    assert gradient.dtype == dtype
    assert torch.allclose(losses.double(), expected, rtol=1e-5)
    assert torch.allclose(gradient.double(), expected_gradient.to(dtype).double(), atol=1e-2)


def test_layouts_and_concatenated_targets(kernels: Callable[..., Result]) -> None:
    logits, targets, *counts = batch(3, 7, [(20, 5), (14, 3), (9, 0)])
    losses, gradient = kernels(logits, targets, *counts)
    time_first = logits.transpose(0, 1).contiguous().transpose(0, 1)
    outputs_first = logits.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    row = torch.cat([labels[:count] for labels, count in zip(targets, counts[1].tolist(), strict=True)])
    for other, labels in ((time_first, targets), (outputs_first, targets), (logits, row)):
        other_losses, other_gradient = kernels(other, labels, *counts)
        assert torch.equal(other_losses, losses)
        assert torch.equal(other_gradient, gradient)


def test_weights_scale_the_gradient_alone(kernels: Callable[..., Result]) -> None:
    arguments = batch(4, 6, [(20, 5), (14, 3)])
    losses, gradient = kernels(*arguments)
    weights = torch.tensor([0.25, 3.0], dtype=torch.float64)
    other_losses, other_gradient = kernels(*arguments, weights=weights)
    assert torch.equal(other_losses, losses)
    assert torch.allclose(other_gradient, gradient * weights[:, None, None], atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rescaling_changes_the_weights_in_place(emulated: ctypes.CDLL, dtype: torch.dtype) -> None:
    """Time first in memory; the first utterance has the right weight already and keeps its bits."""
    gradient = torch.randn(40, 2, 35).to(dtype).transpose(0, 1)
    expected = gradient.clone()
    expected[1] = (gradient[1].double() * 1.5).to(dtype)
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    weights, wanted = torch.tensor([0.3, 0.5], dtype=kind), torch.tensor([0.3, 0.0, 0.75], dtype=kind)[::2]
    assert run_rescale(emulated, gradient, weights, wanted) is gradient
    assert torch.equal(gradient, expected)


@needs_gpu
def test_backward_passes_of_other_weights_and_of_a_kept_graph() -> None:
    logits, *rest = (tensor.cuda() for tensor in batch(4, 6, [(20, 5), (14, 3)]))
    scores = logits.requires_grad_()
    loss = ctc_loss(scores, *rest, reduction="mean")
    first, second = (torch.autograd.grad(loss * factor, scores, retain_graph=True)[0] for factor in (1.0, 3.0))
    last = torch.autograd.grad(loss * 2.0, scores)[0]
    assert torch.allclose(second, 3 * first)
    assert torch.allclose(last, 2 * first)


def test_what_cannot_be_aligned_has_infinite_loss_and_no_gradient(kernels: Callable[..., Result]) -> None:
    """Too few frames by one for the repeated label; a label masked out; a good utterance beside them."""
    logits = torch.randn(3, 4, 5, dtype=torch.float64)
    logits[1, :, 2] = -torch.inf
    targets = torch.tensor([[1, 1, 2], [2, 3, 1], [1, 2, 3]])
    losses, gradient = kernels(logits, targets, lengths(3, 4, 4), lengths(3, 3, 3))
    assert losses.isinf().tolist() == [True, True, False]
    assert gradient[:2].abs().max() == 0
    assert gradient[2].abs().max() > 0


def test_more_labels_than_frames_of_any_utterance(kernels: Callable[..., Result]) -> None:
    losses, gradient = kernels(torch.randn(1, 3, 5), torch.tensor([[1, 2, 3, 4, 1, 2]]), lengths(3), lengths(6))
    assert losses.isinf().all()
    assert gradient.abs().max() == 0


def test_nan_stays_in_its_utterance(kernels: Callable[..., Result]) -> None:
    logits, *rest = batch(5, 5, [(10, 2), (10, 3)])
    logits[0, 3, 4] = torch.nan
    losses, gradient = kernels(logits, *rest)
    assert losses.isnan().tolist() == [True, False]
    assert gradient[0].isnan().any()
    assert not gradient[1].isnan().any()


def test_wrong_lengths_and_labels_give_nan(kernels: Callable[..., Result]) -> None:
    """They are on the GPU and are not checked before."""
    logits = torch.randn(6, 6, 4)
    targets = torch.tensor([[1, 2], [1, 4], [0, 1], [1, -1], [1, 2], [3, 2]])
    losses, _ = kernels(logits, targets, lengths(7, 6, 6, 6, 6, 6), lengths(2, 2, 2, 2, 3, 2))
    assert losses.isnan().tolist() == [True, True, True, True, True, False]


def test_padding_has_no_influence_and_no_gradient(kernels: Callable[..., Result]) -> None:
    logits, *rest = batch(6, 5, [(12, 3), (5, 2)])
    losses, gradient = kernels(logits, *rest)
    logits[1, 5:] = torch.nan
    assert torch.equal(kernels(logits, *rest)[0], losses)
    assert gradient[1, 5:].abs().max() == 0


def test_losses_alone(emulated: ctypes.CDLL) -> None:
    arguments = batch(7, 9, [(30, 8), (20, 3)])
    weights = torch.ones(2, dtype=torch.float64)
    losses, gradient = run_ctc_kernels(emulated, LossInputs(*arguments, weights, 0, False))
    assert gradient.numel() == 0
    assert torch.equal(losses, run_ctc_kernels(emulated, LossInputs(*arguments, weights, 0, True))[0])


@pytest.mark.long
@pytest.mark.parametrize("sizes", [[(40, 30), (9, 2)], [(300, 290)], [(600, 560)]])
def test_the_same_bits_in_whatever_order_threads_run(emulated: ctypes.CDLL, sizes: list[tuple[int, int]]) -> None:
    """A missing barrier would show."""
    logits, *rest = batch(8, 9, sizes)
    weights = torch.ones(len(sizes), dtype=torch.float64)
    results = []
    for seed in range(5):
        emulated.emulator_seed(seed)
        results.append(run_ctc_kernels(emulated, LossInputs(logits.float(), *rest, weights, 0, True)))
    for losses, gradient in results[1:]:
        assert torch.equal(losses, results[0][0])
        assert torch.equal(gradient, results[0][1])


@pytest.mark.long
@needs_nvcc
@pytest.mark.timeout(1200)  # 45 s of processor time, which a busy machine gives slowly
def test_nvcc_compiles_the_kernels(tmp_path: Path) -> None:
    library = compiled_by_nvcc("ctc", tmp_path)
    assert all(hasattr(library, name) for name in ("ds2_ctc", "ds2_ctc_workspace", "ds2_ctc_rescale"))
    assert library.ds2_ctc_most_labels() >= 4000


@needs_gpu
def test_captured_in_a_graph_and_deterministic() -> None:
    logits, *rest = (tensor.cuda() for tensor in batch(9, 29, [(200, 60), (150, 40)]))
    scores = logits.float().requires_grad_()

    def step() -> Tensor:
        return torch.autograd.grad(ctc_loss(scores, *rest, reduction="sum"), scores)[0]

    expected = step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gradient = step()
    graph.replay()
    assert torch.equal(gradient, expected)
