"""Recurrent layers against plain loops in float64."""

import copy

import pytest
import torch
from torch import Tensor

from ds2.model.bn_lstm_step import scale_and_shift
from ds2.model.cells import Cell
from ds2.model.config import EPSILON, ConvolutionConfig, ModelConfig
from ds2.model.frontend import valid_mask
from ds2.model.normalization import MOMENTUM, STEPS, SequenceBatchNorm, StepBatchNorm, keep_steps
from ds2.model.recurrent import NOISE, WHOLE, BackwardChunks, BNLSTMDirection, Direction, RecurrentLayer, reverse_valid

CELLS: list[Cell] = ["rnn", "gru", "lstm"]


def gru_by_hand(direction: Direction, terms: Tensor) -> Tensor:
    """(T, 3H) input terms, already normalised, of one utterance -> (T, H), gate by gate."""
    weight, bias = direction.recurrent_weight, direction.recurrent_bias
    hidden = weight.shape[1]
    state, states = torch.zeros(hidden, dtype=terms.dtype), []
    for term in terms:
        recurrent = weight @ state + bias
        reset = torch.sigmoid(term[:hidden] + recurrent[:hidden])
        update = torch.sigmoid(term[hidden : 2 * hidden] + recurrent[hidden : 2 * hidden])
        candidate = torch.tanh(term[2 * hidden :] + reset * recurrent[2 * hidden :])
        state = (1 - update) * candidate + update * state
        states.append(state)
    return torch.stack(states)


def rnn_by_hand(direction: Direction, terms: Tensor) -> Tensor:
    weight, bias = direction.recurrent_weight, direction.recurrent_bias
    state, states = torch.zeros(weight.shape[1], dtype=terms.dtype), []
    for term in terms:
        state = (term + weight @ state + bias).clamp(0, 20)
        states.append(state)
    return torch.stack(states)


def lstm_by_hand(direction: Direction, terms: Tensor) -> Tensor:
    weight, bias = direction.recurrent_weight, direction.recurrent_bias
    h = c = torch.zeros(weight.shape[1], dtype=terms.dtype)
    states = []
    for term in terms:
        i, f, g, o = (term + weight @ h + bias).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states)


BY_HAND = {"rnn": rnn_by_hand, "gru": gru_by_hand, "lstm": lstm_by_hand}


def layer_by_hand(layer: RecurrentLayer, x: Tensor, lengths: list[int]) -> list[Tensor]:
    """Normalises W x over all valid frames, then runs each utterance alone, onwards and backwards, and sums."""
    rows = [row[:length] for row, length in zip(x, lengths, strict=True)]
    results = [torch.zeros(length, layer.forwards.recurrent_weight.shape[1], dtype=x.dtype) for length in lengths]
    for direction, flip in ((layer.forwards, False), (layer.backwards, True)):
        if direction is None:
            continue
        terms = torch.cat(rows) @ direction.input_weight.T
        terms = (terms - terms.mean(0)) / torch.sqrt(terms.var(0, unbiased=False) + EPSILON)
        for index, term in enumerate(terms.split(lengths)):
            states = BY_HAND[direction.cell](direction, term.flip(0) if flip else term)
            results[index] = results[index] + (states.flip(0) if flip else states)
    return results


def test_reverse_valid_by_hand() -> None:
    x = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]]).unsqueeze(2)
    assert reverse_valid(x, torch.tensor([3, 4])).squeeze(2).tolist() == [[3, 2, 1, 0], [7, 6, 5, 4]]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_training_layer_equals_the_loops(cell: Cell, bidirectional: bool) -> None:
    layer = RecurrentLayer(cell, 5, 4, True, bidirectional).double()
    x, lengths = torch.randn(3, 6, 5, dtype=torch.float64), [6, 1, 4]
    result = layer(x, torch.tensor(lengths))
    for row, expected in zip(result, layer_by_hand(layer, x, lengths), strict=True):
        assert torch.allclose(row[: len(expected)], expected, atol=1e-10)
        assert row[len(expected) :].abs().sum() == 0


def test_the_simple_rnn_is_clipped() -> None:
    """torch's kernel is not; where it would exceed the clip, the loop takes over, and its gradient with it."""
    torch.manual_seed(0)
    layer = RecurrentLayer("rnn", 3, 4, True, bidirectional=False).double()
    with torch.no_grad():
        layer.forwards.recurrent_weight.mul_(4.0)
    x = torch.randn(2, 30, 3, dtype=torch.float64)
    result = layer(x, torch.tensor([30, 20]))
    assert result.max() == 20
    for row, expected in zip(result, layer_by_hand(layer, x, [30, 20]), strict=True):
        assert torch.allclose(row[: len(expected)], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("cell", "chunks"),
    [*((cell, WHOLE) for cell in (*CELLS, "bn-lstm", "bn-lstm-e")), *((cell, BackwardChunks(2, 1)) for cell in CELLS)],
)
def test_gradients_by_finite_differences(cell: Cell, chunks: BackwardChunks) -> None:
    torch.manual_seed(3)
    layer = RecurrentLayer(cell, 3, 2, True, True, chunks).double()
    x = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor) -> Tensor:
        torch.manual_seed(0)  # a BN-LSTM starts from noise
        return layer(x, torch.tensor([4, 4, 2]))

    assert torch.autograd.gradcheck(run, (x,))


@pytest.mark.parametrize("cell", [*CELLS, "bn-lstm", "bn-lstm-e"])
def test_padding_and_company_do_not_change_a_deployed_result(cell: Cell) -> None:
    layer = RecurrentLayer(cell, 5, 4, True, bidirectional=True).eval()
    x = torch.randn(2, 7, 5)
    together = layer(x, torch.tensor([7, 3]))
    alone = layer(x[1:, :3], torch.tensor([3]))
    assert torch.allclose(together[1, :3], alone[0], atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_without_batch_norm_training_and_deployment_agree(cell: Cell) -> None:
    layer, x, lengths = RecurrentLayer(cell, 5, 4, False, True), torch.randn(2, 7, 5), torch.tensor([7, 3])
    trained = layer.train()(x, lengths)
    assert torch.allclose(trained, layer.eval()(x, lengths), atol=1e-6)


def test_every_valid_frame_hears_the_whole_utterance_and_a_forward_layer_the_past() -> None:
    x = torch.randn(1, 5, 2, dtype=torch.float64, requires_grad=True)
    layer = RecurrentLayer("gru", 2, 3, False, bidirectional=True).double()
    for frame in (0, 4):
        (gradient,) = torch.autograd.grad(layer(x, torch.tensor([5]))[0, frame].sum(), x)
        assert (gradient.abs().sum(2) > 0).all()
    (gradient,) = torch.autograd.grad(layer(x, torch.tensor([3]))[0, 0].sum(), x)
    assert gradient[0, 3:].abs().sum() == 0
    layer = RecurrentLayer("gru", 2, 3, False, bidirectional=False).double()
    (gradient,) = torch.autograd.grad(layer(x, torch.tensor([5]))[0, 2].sum(), x)
    assert (gradient[0].abs().sum(1) > 0).tolist() == [True, True, True, False, False]
    assert valid_mask(torch.tensor([3]), 5).sum() == 3


@pytest.mark.parametrize("cell", CELLS)
def test_the_backward_direction_hears_its_chunk_only(cell: Cell) -> None:
    """Chunks of 3 frames, the first of 2: [0 1] [2 3 4] [5 6]; the shorter utterance ends within the second."""
    layer = RecurrentLayer(cell, 5, 4, True, True, BackwardChunks(3, 1)).double()
    layer.train()(torch.randn(4, 9, 5, dtype=torch.float64), torch.tensor([9, 8, 4, 1]))
    layer.eval()
    x, lengths = torch.randn(2, 7, 5, dtype=torch.float64), [7, 4]
    result = layer(x, torch.tensor(lengths))
    assert layer.backwards is not None
    for row, length in enumerate(lengths):
        whole = x[row : row + 1, :length]
        expected = layer.forwards(whole, torch.tensor([length]), None)
        for start, end in ((0, 2), (2, 5), (5, 7)):
            chunk = whole[:, start:end]
            if count := chunk.shape[1]:
                expected[:, start:end] += layer.backwards(chunk.flip(1), torch.tensor([count]), None).flip(1)
        torch.testing.assert_close(result[row, :length], expected[0])
        assert not result[row, length:].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk": 4, "bidirectional": False}, "forward-only"),
        ({"chunk": 2}, "must be more than the convolutions' delay of 3"),
        ({"chunk": -1}, "0 or more"),
        ({"chunk": 9, "cell": "bn-lstm"}, "not for a bn-lstm"),
    ],
)
def test_chunks_that_cannot_be(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig(convolutions=(ConvolutionConfig(4, (5, 7), (2, 1)),), **change)


def bn_lstm_by_hand(direction: BNLSTMDirection, x: Tensor, lengths: list[int], h: Tensor) -> list[list[Tensor]]:
    """Frame by frame, with the statistics of the utterances that reach it (arXiv 1603.09025, equations 6-8).

    A SequenceBatchNorm's are those of all frames of all utterances (section 5.4).
    """

    def norm(rows: Tensor, gamma: Tensor) -> Tensor:
        return gamma * (rows - rows.mean(0)) / torch.sqrt(rows.var(0, unbiased=False) + EPSILON)

    frames = [row[:length] @ direction.input_weight.T for row, length in zip(x, lengths, strict=True)]
    pooled = norm(torch.cat(frames), direction.input_norm.gamma).split(lengths)
    hs, cs = list(h), [torch.zeros_like(h[0]) for _ in h]
    states: list[list[Tensor]] = [[] for _ in h]
    for t in range(max(lengths)):
        here = [index for index, length in enumerate(lengths) if t < length]
        recurrent = norm(
            torch.stack([direction.recurrent_weight @ hs[i] for i in here]), direction.recurrent_norm.gamma
        )
        if isinstance(direction.input_norm, SequenceBatchNorm):
            inputs = torch.stack([pooled[i][t] for i in here])
        else:
            inputs = norm(torch.stack([frames[i][t] for i in here]), direction.input_norm.gamma)
        cells = []
        gates = [row.chunk(4) for row in recurrent + inputs + direction.bias]
        for index, (i, f, g, _) in zip(here, gates, strict=True):
            cs[index] = f.sigmoid() * cs[index] + i.sigmoid() * g.tanh()
            cells.append(cs[index])
        shown = norm(torch.stack(cells), direction.cell_norm.gamma) + direction.beta
        for index, (_, _, _, o), cell in zip(here, gates, shown, strict=True):
            hs[index] = o.sigmoid() * cell.tanh()
            states[index].append(hs[index])
    return states


@pytest.mark.parametrize("sequence_input", [False, True])
def test_bn_lstm_equals_the_loops(sequence_input: bool) -> None:
    direction = BNLSTMDirection(5, 4, sequence_input).double().train()
    x, lengths = torch.randn(4, 6, 5, dtype=torch.float64), [6, 3, 6, 2]
    torch.manual_seed(0)
    result = direction(x, torch.tensor(lengths), None)
    torch.manual_seed(0)
    start = 0.01 * torch.randn_like(torch.zeros(4, 4, dtype=torch.float64))
    for row, expected in zip(result, bn_lstm_by_hand(direction, x, lengths, start), strict=True):
        assert torch.allclose(row[: len(expected)], torch.stack(expected), atol=1e-10)


def test_the_statistics_of_whole_sequences_are_those_of_every_step_when_deployed() -> None:
    """One update from mean 0 and variance 1, by valid frames alone."""
    norm, x = SequenceBatchNorm(2).double().train(), torch.randn(2, 5, 2, dtype=torch.float64)
    norm.over_sequences(x, torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    frames = torch.cat([x[0], x[1, :3]])
    for step in (0, 7, STEPS - 1):
        torch.testing.assert_close(norm.means[step], MOMENTUM * frames.mean(0))
        torch.testing.assert_close(norm.variances[step], 1 - MOMENTUM + MOMENTUM * frames.var(0))
    assert int(norm.last) == STEPS - 1


def test_bn_lstm_starts_with_a_small_gamma() -> None:
    direction = BNLSTMDirection(3, 2)
    for norm in (direction.input_norm, direction.recurrent_norm, direction.cell_norm):
        assert torch.allclose(norm.gamma, torch.full_like(norm.gamma, 0.1))


def test_bn_lstm_survives_constant_starts() -> None:
    """All-zero first frames have no variance; the noise on the first state keeps gradients finite."""
    layer = RecurrentLayer("bn-lstm", 3, 4, True, bidirectional=True)
    x = torch.zeros(3, 8, 3)
    x[:, 4:] = torch.randn(3, 4, 3)
    result = layer(x.requires_grad_(), torch.tensor([8, 8, 7]))
    result.square().sum().backward()
    assert result.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_step_statistics_are_of_their_step_and_its_utterances_and_last_beyond_the_end() -> None:
    norm = StepBatchNorm(2).double()
    x = torch.randn(4, 2, dtype=torch.float64)
    everyone = torch.ones(4, dtype=torch.bool)
    norm(x, everyone, torch.full((4,), 3))
    assert torch.allclose(norm.means[3], MOMENTUM * x.mean(0))
    assert torch.allclose(norm.variances[3], (1 - MOMENTUM) + MOMENTUM * x.var(0))
    assert norm.means[2].abs().sum() == 0
    before = norm.means.clone(), norm.variances.clone()
    norm(x, ~everyone, torch.full((4,), 3))
    assert torch.equal(norm.means, before[0])
    assert torch.equal(norm.variances, before[1])
    norm(x + 5.0, everyone, torch.full((4,), STEPS + 20))
    norm.eval()
    late = norm(x, everyone, torch.full((4,), STEPS + 500))
    assert torch.equal(late, norm(x, everyone, torch.full((4,), STEPS - 1)))
    assert not torch.allclose(late, norm(x, everyone, torch.full((4,), 3)))


def test_steps_that_training_has_not_reached_use_the_last_one_that_it_has() -> None:
    torch.manual_seed(0)
    direction = BNLSTMDirection(3, 4).train()
    x = 2.0 + torch.randn(8, 6, 3)
    for _ in range(50):
        direction(x, torch.tensor([6, 6, 6, 6, 5, 4, 3, 2]), None)
    norm = direction.eval().input_norm
    assert int(norm.last) == 5
    states = torch.randn(2, 8, 4)
    own, late, before = (
        direction._run(x[:, :1], torch.ones(8, dtype=torch.long), (*states, torch.full((8,), frames)))
        for frames in (5, 90, 4)
    )
    assert torch.equal(own, late)
    assert not torch.allclose(own, before)
    scale, _ = scale_and_shift(norm)
    assert torch.equal(scale[90], scale[5])
    assert not torch.allclose(scale[90], scale[4])
    assert int(StepBatchNorm(2).last) == 0


def test_a_bn_lstm_has_as_many_statistics_as_training_or_its_weights_say() -> None:
    """More than any constant; what is beyond them uses the last."""
    torch.manual_seed(0)
    layer, lengths = RecurrentLayer("bn-lstm", 3, 4, True, bidirectional=True).train(), torch.tensor([STEPS + 60, 9, 7])
    keep_steps(layer, STEPS + 50)
    x = torch.randn(3, STEPS + 60, 3)
    layer(x, lengths)
    norm = layer.forwards.input_norm
    assert norm.means.shape == norm.variances.shape == (STEPS + 50, 16)
    assert int(norm.last) == STEPS + 49
    other = RecurrentLayer("bn-lstm", 3, 4, True, bidirectional=True)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.eval()(x, lengths), layer.eval()(x, lengths))
    keep_steps(other, 20)
    assert torch.equal(other.forwards.input_norm.variances, torch.ones(20, 16))


def test_a_frozen_direction_takes_no_statistics() -> None:
    """Its sister still does, and both get the moments of their input."""
    layer = RecurrentLayer("gru", 4, 3, batch_norm=True, bidirectional=True).train()
    layer.forwards.eval()
    layer(torch.randn(2, 5, 4), torch.tensor([5, 3]))
    assert layer.forwards.norm.mean.abs().sum() == 0
    assert layer.backwards.norm.mean.abs().sum() > 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_pass_a_frozen_layer_on_a_gpu(cell: Cell) -> None:
    """To those that learn below it; cuDNN's kernels must be told, whatever the layer's mode."""
    torch.manual_seed(0)
    layer = RecurrentLayer(cell, 5, 4, batch_norm=True, bidirectional=True).eval().requires_grad_(False)
    lengths, gradients = torch.tensor([6, 3]), []
    x = torch.randn(2, 6, 5)
    for device in ("cpu", "cuda"):
        below = x.detach().to(device).requires_grad_()
        layer.to(device)(below, lengths.to(device)).square().sum().backward()
        assert below.grad is not None
        gradients.append(below.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_gpu_takes_the_type_that_autocast_asks_for(cell: Cell) -> None:
    """Gradients of 1e-9, which float16 would round to nothing."""
    direction = Direction(cell, 5, 4, batch_norm=False).cuda()
    x = torch.randn(2, 6, 5, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        states = direction(x, torch.tensor([6, 3], device="cuda"), None)
    assert states.dtype == torch.bfloat16
    (1e-9 * states.float().sum()).backward()
    assert x.grad is not None
    assert x.grad.any()


@pytest.mark.parametrize("sequence_input", [False, True])
def test_the_kernels_of_a_bn_lstm_equal_the_loop_over_frames(sequence_input: bool) -> None:
    """States, gradients of everything and running statistics, also beyond the last step that has its own."""
    torch.manual_seed(1)
    direction = BNLSTMDirection(5, 4, sequence_input).double().train()
    other = copy.deepcopy(direction)
    lengths = torch.tensor([STEPS + 3, 3, STEPS - 7, 60])
    x = torch.randn(4, STEPS + 3, 5, dtype=torch.float64, requires_grad=True)
    valid = valid_mask(lengths, x.shape[1]).unsqueeze(2)
    torch.manual_seed(0)
    found = direction(x, lengths, None) * valid
    torch.manual_seed(0)
    h, c, frames = other.start(4)
    expected = other._run(x, lengths, (h + NOISE * torch.randn_like(h), c, frames)) * valid
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    for one, two in zip(
        torch.autograd.grad((found * weights).sum(), [x, *direction.parameters()]),
        torch.autograd.grad((expected * weights).sum(), [x, *other.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(one, two)
    for name, buffer in direction.named_buffers():
        torch.testing.assert_close(buffer, dict(other.named_buffers())[name])


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_under_autocast_a_bn_lstm_rounds_its_input_terms_alone(precision: torch.dtype) -> None:
    torch.manual_seed(1)
    direction, x, lengths = BNLSTMDirection(5, 8).train(), torch.randn(6, 9, 5), torch.tensor([9, 9, 9, 8, 7, 3])
    torch.manual_seed(0)
    exact = direction(x, lengths, None)
    torch.manual_seed(0)
    with torch.autocast("cpu", precision):
        rounded = direction(x, lengths, None)
    assert rounded.dtype == torch.float32
    assert 0.0 < float((rounded - exact).detach().abs().max()) < 0.05
