"""The CTC loss against the sum over all alignments, enumerated in float64."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.ctc import CTCLoss, ctc_loss
from ds2.ctc.loss import required_frames
from ds2.ctc.workspace import distance_to_keep


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


@settings(max_examples=100)
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


def test_as_a_module() -> None:
    logits, targets = torch.randn(2, 2, 4), torch.tensor([[0, 1], [2, 2]])
    arguments = (logits, targets, lengths(2, 2), lengths(2, 2))
    module = CTCLoss(blank=3, reduction="sum", zero_infinity=True)
    assert torch.equal(module(*arguments), ctc_loss(*arguments, blank=3, reduction="sum", zero_infinity=True))
    assert module(*arguments).isfinite()
    assert CTCLoss()(logits[:1], targets[:1] + 1, lengths(2), lengths(2)).isfinite()


def test_too_few_frames_give_infinity_or_zero() -> None:
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


def torch_reference(logits: Tensor, *arguments: Tensor) -> tuple[Tensor, Tensor]:
    """Losses and gradient of their sum by torch's own loss, in float64."""
    scores = logits.detach().double().requires_grad_()
    targets, input_lengths, target_lengths = arguments
    losses = torch.nn.functional.ctc_loss(
        scores.log_softmax(2).transpose(0, 1), targets, input_lengths, target_lengths, reduction="none"
    )
    return losses.detach(), torch.autograd.grad(losses.sum(), scores)[0]


def ours(logits: Tensor, *arguments: Tensor) -> tuple[Tensor, Tensor]:
    scores = logits.detach().requires_grad_()
    losses = ctc_loss(scores, *arguments, reduction="none")
    return losses.detach(), torch.autograd.grad(losses.sum(), scores)[0]


def batch(seed: int, frames: int, outputs: int, labels: int, scale: float = 1.0, size: int = 2) -> tuple[Tensor, ...]:
    """Float64 logits, and targets that fit: without equal neighbours where frames are few."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(size, frames, outputs, generator=generator, dtype=torch.float64)
    targets = torch.randint(1, outputs, (size, labels), generator=generator)
    if frames < 2 * labels:
        targets = 1 + (torch.arange(labels) + targets[:, :1]) % (outputs - 1)
    return logits, targets, lengths(*[frames] * size), lengths(*[labels] * size)


@settings(max_examples=150)
@given(st.data())
def test_equals_torch_in_double_precision(data: st.DataObject) -> None:
    outputs, frames = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 40))
    sizes = data.draw(st.lists(st.tuples(st.integers(0, frames), st.integers(0, 12)), min_size=1, max_size=4))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10**6)))
    targets = torch.randint(1, outputs, (len(sizes), 12), generator=generator)
    target_lengths = lengths(*[labels for _, labels in sizes])
    input_lengths = torch.maximum(lengths(*[size for size, _ in sizes]), required_frames(targets, target_lengths))
    input_lengths = input_lengths.clamp(min=1)
    logits = torch.randn(len(sizes), int(input_lengths.max()), outputs, generator=generator, dtype=torch.float64)
    logits *= data.draw(st.sampled_from([0.1, 1.0, 10.0, 100.0]))
    expected, expected_gradient = torch_reference(logits, targets, input_lengths, target_lengths)
    losses, gradient = ours(logits, targets, input_lengths, target_lengths)
    assert torch.allclose(losses, expected, rtol=1e-10, atol=1e-10)
    assert torch.allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-10)
    losses, gradient = ours(logits.float(), targets, input_lengths, target_lengths)
    assert torch.allclose(losses.double(), expected, rtol=1e-4, atol=1e-4)
    assert torch.allclose(gradient.double(), expected_gradient, atol=1e-4)


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 20.0, 100.0])
@pytest.mark.parametrize(
    ("frames", "labels", "outputs"), [(350, 340, 29), (400, 25, 600), (1000, 998, 3), (1500, 400, 29), (4000, 3, 5)]
)
def test_no_underflow_at_any_scale(scale: float, frames: int, labels: int, outputs: int) -> None:
    """Where linear space underflows, log space is used. torch's own rounding error over 4,000 frames is 1e-9."""
    arguments = batch(0, frames, outputs, labels, scale, size=1)
    expected, expected_gradient = torch_reference(*arguments)
    losses, gradient = ours(*arguments)
    assert torch.allclose(losses, expected, rtol=1e-10)
    assert torch.allclose(gradient, expected_gradient, atol=1e-8)
    losses, gradient = ours(arguments[0].float(), *arguments[1:])
    assert torch.allclose(losses.double(), expected, rtol=1e-6)
    assert torch.allclose(gradient.double(), expected_gradient, atol=2e-5)


def test_errors_are_smaller_than_torchs() -> None:
    logits, *rest = batch(1, 800, 29, 200, scale=3.0)
    logits = logits.float()
    _, expected = torch_reference(logits, *rest)
    scores = logits.clone().requires_grad_()
    arguments = (rest[0], rest[1], rest[2])
    theirs = torch.nn.functional.ctc_loss(scores.log_softmax(2).transpose(0, 1), *arguments, reduction="sum")
    their_error = (torch.autograd.grad(theirs, scores)[0].double() - expected).abs().max()
    our_error = (ours(logits, *rest)[1].double() - expected).abs().max()
    assert our_error < 0.1 * their_error


def test_brute_force_over_thousands_of_small_cases() -> None:
    """All paths of every case, in one batch of each shape."""
    generator = torch.Generator().manual_seed(7)
    for frames, outputs, labels in [(1, 2, 1), (2, 2, 1), (3, 3, 2), (4, 3, 1), (5, 3, 2), (5, 2, 3), (4, 4, 2)]:
        paths = torch.tensor(list(itertools.product(range(outputs), repeat=frames)))
        collapsed = [[symbol for symbol, _ in itertools.groupby(path) if symbol] for path in paths.tolist()]
        size = 300
        logits = torch.randn(size, frames, outputs, generator=generator, dtype=torch.float64) * 3
        targets = torch.randint(1, outputs, (size, labels), generator=generator)
        rows = logits.log_softmax(2)
        scores = rows[:, torch.arange(frames), paths].sum(2)
        fits = torch.tensor([[path == target for path in collapsed] for target in targets.tolist()])
        expected = -scores.masked_fill(~fits, -torch.inf).logsumexp(1)
        losses = ctc_loss(logits, targets, lengths(*[frames] * size), lengths(*[labels] * size), reduction="none")
        assert torch.allclose(losses, expected, rtol=1e-12, atol=1e-12)


def test_layouts_are_equal_and_keep_theirs() -> None:
    logits, *rest = batch(2, 30, 7, 5)
    expected = ours(logits, *rest)
    time_first = logits.transpose(0, 1).contiguous().transpose(0, 1)
    outputs_first = logits.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    padded = torch.nn.functional.pad(logits, (0, 3))[..., :7]
    for other in (time_first, outputs_first, padded):
        losses, gradient = ours(other, *rest)
        assert torch.equal(losses, expected[0])
        assert torch.equal(gradient, expected[1])
    assert ours(time_first, *rest)[1].stride() == time_first.stride()


def test_a_stretched_batch_of_one() -> None:
    """An expanded tensor has stride 0, but its gradient has a row for each utterance."""
    logits, targets, input_lengths, target_lengths = batch(3, 20, 5, 4, size=1)
    stretched = logits.expand(3, -1, -1)
    arguments = (targets.expand(3, -1), input_lengths.expand(3), target_lengths.expand(3))
    assert torch.equal(ours(stretched, *arguments)[1][2], ours(logits, targets, input_lengths, target_lengths)[1][0])


def test_padding_has_no_gradient_and_no_influence() -> None:
    logits, targets, _, _ = batch(4, 12, 5, 3)
    arguments = (targets, lengths(7, 0), lengths(2, 0))
    losses, gradient = ours(logits, *arguments)
    logits[0, 7:], logits[1] = torch.nan, torch.nan
    targets[:, 2] = 4
    assert torch.equal(ours(logits, *arguments)[0], losses)
    assert gradient[0, :7].abs().sum() > 0
    assert gradient[0, 7:].abs().sum() == gradient[1].abs().sum() == 0
    assert losses[1] == 0


def test_nan_and_masked_scores() -> None:
    logits, *rest = batch(5, 10, 5, 2)
    masked, nan = logits.clone(), logits.clone()
    spare = next(v for v in range(1, 5) if v not in rest[0][0].tolist())
    masked[0, :, spare] = -torch.inf
    nan[0, 3, spare] = torch.nan
    expected = torch_reference(logits[:1, :, [v for v in range(5) if v != spare]], *fewer_outputs(rest, spare))
    losses, gradient = ours(masked, *rest)
    assert torch.allclose(losses[:1], expected[0])
    assert gradient[0, :, spare].abs().max() < 1e-30
    losses, gradient = ours(nan, *rest)
    assert losses[0].isnan()
    assert gradient[0].isnan().any()
    assert not losses[1].isnan()
    assert not gradient[1].isnan().any()


def fewer_outputs(rest: list[Tensor], spare: int) -> tuple[Tensor, ...]:
    """The first utterance's targets when output `spare` does not exist."""
    targets = rest[0][:1]
    return targets - (targets > spare).long(), rest[1][:1], rest[2][:1]


def test_a_label_that_is_masked_out_gives_infinity() -> None:
    logits, *rest = batch(6, 10, 5, 2)
    logits[0, :, rest[0][0, 0]] = -torch.inf
    losses, gradient = ours(logits, *rest)
    assert losses[0].isinf()
    assert not losses[1].isinf()
    assert gradient.isfinite().all()


def test_the_same_bits_with_any_threads_and_in_any_batch() -> None:
    logits, *rest = batch(7, 60, 9, 12, size=7)
    threads = torch.get_num_threads()
    results = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        results.append(ours(logits, *rest))
    torch.set_num_threads(threads)
    alone = [ours(logits[b : b + 1], *(argument[b : b + 1] for argument in rest)) for b in range(7)]
    results.append((torch.cat([losses for losses, _ in alone]), torch.cat([gradient for _, gradient in alone])))
    for losses, gradient in results[1:]:
        assert torch.equal(losses, results[0][0])
        assert torch.equal(gradient, results[0][1])


def test_the_same_bits_however_little_room_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 700, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(1, 7, (3, 150), generator=generator)
    arguments = (targets, lengths(700, 461, 1), lengths(150, 90, 1))

    def with_room(size: int) -> tuple[Tensor, Tensor]:
        monkeypatch.setattr("ds2.ctc.cpu.LEAST_ROOM", size)
        return ours(logits, *arguments)

    losses, gradient = with_room(1 << 24)
    for size in (1 << 16, 0):
        other_losses, other_gradient = with_room(size)
        assert torch.equal(other_losses, losses)
        assert torch.equal(other_gradient, gradient)


@given(st.integers(1, 400), st.integers(1, 12))
def test_kept_columns_fit_their_places_and_are_computed_as_seldom_as_promised(blocks: int, places: int) -> None:
    """Blocks are passed from the last to the first; each from the nearest column that is kept before it."""
    most = next(times for times in itertools.count(1) if math.comb(places - 1 + times, times - 1) >= blocks)
    computed, kept = [0] * blocks, [0]
    for number in reversed(range(blocks)):
        keep = kept[-1] + distance_to_keep(number + 1 - kept[-1], places - len(kept))
        for here in range(kept[-1], number + 1):
            if here == keep:
                kept.append(here)
                keep += distance_to_keep(number + 1 - here, places - len(kept))
            computed[here] += 1
        assert len(kept) <= places
        if kept[-1] == number:
            kept.pop()
    assert max(computed) <= most


def test_more_threads_than_utterances_with_work() -> None:
    logits, *_ = batch(7, 60, 9, 12, size=3)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    losses = ctc_loss(logits, torch.zeros(3, 0, dtype=torch.long), *[lengths(0, 0, 0)] * 2, reduction="none")
    torch.set_num_threads(threads)
    assert losses.tolist() == [0.0, 0.0, 0.0]


def test_any_incoming_gradient_scales() -> None:
    logits, *rest = batch(8, 20, 5, 4)
    scores = logits.requires_grad_()
    losses = ctc_loss(scores, *rest, reduction="none")
    above = torch.tensor([2.0, -0.5], dtype=torch.float64)
    first = torch.autograd.grad(losses, scores, above, retain_graph=True)[0]
    again = torch.autograd.grad(losses, scores, torch.ones(2, dtype=torch.float64))[0]
    assert torch.allclose(first, again * above[:, None, None])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operator_is_well_formed(reduction: str, dtype: torch.dtype) -> None:
    logits, *rest = batch(9, 12, 5, 3)
    weights = torch.rand(2, dtype=torch.float64) + 0.5
    torch.library.opcheck(torch.ops.ds2.ctc, (logits.to(dtype).requires_grad_(), *rest, weights, 0, True))


def test_compiles_without_a_break() -> None:
    logits, *rest = batch(10, 12, 5, 3)

    def step(scores: Tensor) -> Tensor:
        return ctc_loss(scores * 2, *rest)

    expected = torch.autograd.grad(step(logits.requires_grad_()), logits)[0]
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.allclose(torch.autograd.grad(compiled(logits), logits)[0], expected)


def test_autocast_and_vmap() -> None:
    logits, *rest = batch(11, 12, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        low = torch.nn.functional.linear(logits.float(), torch.eye(5))
        assert low.dtype == torch.bfloat16
        assert ctc_loss(low, *rest).dtype == torch.float32
    with pytest.raises(ValueError, match="whole batch"):
        torch.func.vmap(lambda scores: ctc_loss(scores, *rest))(logits.expand(2, *logits.shape))


def test_many_gradients_at_once() -> None:
    """`is_grads_batched`: the Jacobian of the losses, row by row or all together."""
    logits = torch.randn(3, 6, 4, dtype=torch.float64, requires_grad=True)
    losses = ctc_loss(
        logits, torch.randint(1, 4, (3, 2)), torch.tensor([6, 6, 5]), torch.tensor([2, 1, 0]), reduction="none"
    )
    rows = torch.eye(3, dtype=torch.float64)
    (together,) = torch.autograd.grad(losses, logits, rows, retain_graph=True, is_grads_batched=True)
    one_by_one = [torch.autograd.grad(losses, logits, row, retain_graph=True)[0] for row in rows]
    assert torch.equal(together, torch.stack(one_by_one))
