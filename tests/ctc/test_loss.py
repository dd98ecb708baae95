"""The CTC loss against the sum over all alignments, enumerated in float64."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.ctc import ctc_loss
from ds2.ctc.loss import required_frames


def brute_force(logits: Tensor, labels: list[int]) -> float:
    """(T, V) -> -log of the probability of all paths that collapse to the labels."""
    rows = logits.double().log_softmax(1).tolist()
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if [symbol for symbol, _ in itertools.groupby(path) if symbol != 0] == labels:
            total += math.exp(sum(row[symbol] for row, symbol in zip(rows, path, strict=True)))
    return -math.log(total) if total else math.inf


def lengths(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.lists(st.integers(1, 2), max_size=4))
def test_equals_the_sum_over_all_alignments(seed: int, frames: int, labels: list[int]) -> None:
    logits = torch.randn(1, frames, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    targets = torch.tensor([labels], dtype=torch.long).reshape(1, -1)
    loss = ctc_loss(logits, targets, lengths(frames), lengths(len(labels)), reduction="none")
    assert float(loss) == pytest.approx(brute_force(logits[0], labels), rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    logits = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 1, 2], [3, 0, 0]])
    assert torch.autograd.gradcheck(lambda x: ctc_loss(x, targets, lengths(6, 4), lengths(3, 1)), (logits,))


def test_concatenated_targets_equal_padded_ones() -> None:
    logits = torch.randn(2, 6, 4)
    padded = ctc_loss(logits, torch.tensor([[1, 2, 3], [2, 0, 0]]), lengths(6, 6), lengths(3, 1))
    joined = ctc_loss(logits, torch.tensor([1, 2, 3, 2]), lengths(6, 6), lengths(3, 1))
    assert torch.equal(padded, joined)


def test_reductions() -> None:
    logits, targets = torch.randn(2, 6, 4), torch.tensor([[1, 2, 3], [2, 0, 0]])
    each = ctc_loss(logits, targets, lengths(6, 6), lengths(3, 1), reduction="none")
    assert torch.allclose(ctc_loss(logits, targets, lengths(6, 6), lengths(3, 1), reduction="sum"), each.sum())
    mean = ctc_loss(logits, targets, lengths(6, 6), lengths(3, 1), reduction="mean")
    assert torch.allclose(mean, (each / torch.tensor([3.0, 1.0])).mean())


def test_too_few_frames_cost_infinity_or_nothing() -> None:
    logits = torch.randn(1, 2, 3, requires_grad=True)
    arguments = (torch.tensor([[1, 1]]), lengths(2), lengths(2))
    assert ctc_loss(logits, *arguments, reduction="sum").isinf()
    loss = ctc_loss(logits, *arguments, reduction="sum", zero_infinity=True)
    loss.backward()
    assert loss == 0
    assert logits.grad is not None
    assert logits.grad.abs().sum() == 0


def test_log_probs_serve_as_logits() -> None:
    logits, arguments = torch.randn(1, 5, 3), (torch.tensor([[1, 2]]), lengths(5), lengths(2))
    assert torch.allclose(ctc_loss(logits, *arguments), ctc_loss(logits.log_softmax(2), *arguments), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    logits, arguments = torch.randn(1, 5, 3).to(dtype), (torch.tensor([[1, 2]]), lengths(5), lengths(2))
    assert torch.equal(ctc_loss(logits, *arguments), ctc_loss(logits.float(), *arguments))


def test_empty_batch_and_empty_targets() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert ctc_loss(torch.zeros(0, 5, 3), none.reshape(0, 1), none, none, reduction="sum") == 0
    logits = torch.randn(1, 3, 2)
    loss = ctc_loss(logits, none.reshape(1, 0), lengths(3), lengths(0), reduction="sum")
    assert torch.allclose(loss, -logits.log_softmax(2)[0, :, 0].sum())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": torch.zeros(5, 3)}, "B, T, V"),
        ({"blank": 3}, "blank 3"),
        ({"input_lengths": lengths(6)}, "0..5"),
        ({"input_lengths": lengths(5, 5)}, r"\(1,\)"),
        ({"targets": torch.tensor([[0, 1]])}, "without the blank"),
        ({"targets": torch.tensor([[1, 3]])}, "0..2"),
        ({"targets": torch.tensor([[1]])}, "do not hold"),
        ({"targets": torch.tensor([1])}, "sum to 2"),
    ],
)
def test_bad_arguments_are_refused_by_name(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "logits": torch.zeros(1, 5, 3),
        "targets": torch.tensor([[1, 2]]),
        "input_lengths": lengths(5),
        "target_lengths": lengths(2),
    }
    with pytest.raises(ValueError, match=message):
        ctc_loss(**(arguments | change))  # type: ignore[arg-type]


def test_required_frames_by_hand() -> None:
    targets = torch.tensor([[1, 1, 2, 2], [1, 2, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    assert required_frames(targets, lengths(4, 3, 1, 0)).tolist() == [6, 3, 1, 0]
