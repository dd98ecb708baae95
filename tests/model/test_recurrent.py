"""The recurrent layer against plain loops in float64."""

import torch
from torch import Tensor

from ds2.model.frontend import valid_mask
from ds2.model.normalization import EPSILON
from ds2.model.recurrent import BidirectionalGRU, GRUDirection, reverse_valid


def gru_by_hand(direction: GRUDirection, inputs: Tensor) -> Tensor:
    """(T, 3H) input terms, already normalised, of one utterance -> (T, H), gate by gate."""
    weight, bias = direction.recurrent_weight, direction.recurrent_bias
    hidden = weight.shape[1]
    state, states = torch.zeros(hidden, dtype=inputs.dtype), []
    for term in inputs:
        recurrent = weight @ state + bias
        reset = torch.sigmoid(term[:hidden] + recurrent[:hidden])
        update = torch.sigmoid(term[hidden : 2 * hidden] + recurrent[hidden : 2 * hidden])
        candidate = torch.tanh(term[2 * hidden :] + reset * recurrent[2 * hidden :])
        state = (1 - update) * candidate + update * state
        states.append(state)
    return torch.stack(states)


def layer_by_hand(layer: BidirectionalGRU, x: Tensor, lengths: list[int]) -> list[Tensor]:
    """Normalises W x over all valid frames, then runs each utterance alone, onwards and backwards, and sums."""
    rows = [row[:length] for row, length in zip(x, lengths, strict=True)]
    results = [torch.zeros(length, layer.forwards.recurrent_weight.shape[1], dtype=x.dtype) for length in lengths]
    for direction, flip in ((layer.forwards, False), (layer.backwards, True)):
        terms = torch.cat(rows) @ direction.input_weight.T
        terms = (terms - terms.mean(0)) / torch.sqrt(terms.var(0, unbiased=False) + EPSILON)
        for index, term in enumerate(terms.split(lengths)):
            states = gru_by_hand(direction, term.flip(0) if flip else term)
            results[index] = results[index] + (states.flip(0) if flip else states)
    return results


def test_reverse_valid_by_hand() -> None:
    x = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]]).unsqueeze(2)
    assert reverse_valid(x, torch.tensor([3, 4])).squeeze(2).tolist() == [[3, 2, 1, 0], [7, 6, 5, 4]]


def test_training_layer_equals_the_loops() -> None:
    layer = BidirectionalGRU(5, 4, batch_norm=True).double()
    x, lengths = torch.randn(3, 6, 5, dtype=torch.float64), [6, 1, 4]
    result = layer(x, torch.tensor(lengths))
    for row, expected in zip(result, layer_by_hand(layer, x, lengths), strict=True):
        assert torch.allclose(row[: len(expected)], expected, atol=1e-10)
        assert row[len(expected) :].abs().sum() == 0


def test_gradients_by_finite_differences() -> None:
    layer = BidirectionalGRU(3, 2, batch_norm=True).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, torch.tensor([4, 2])), (x,))


def test_padding_and_company_do_not_change_a_deployed_result() -> None:
    layer = BidirectionalGRU(5, 4, batch_norm=True).eval()
    x = torch.randn(2, 7, 5)
    together = layer(x, torch.tensor([7, 3]))
    alone = layer(x[1:, :3], torch.tensor([3]))
    assert torch.allclose(together[1, :3], alone[0], atol=1e-6)


def test_without_batch_norm_training_and_deployment_agree() -> None:
    layer, x, lengths = BidirectionalGRU(5, 4, batch_norm=False), torch.randn(2, 7, 5), torch.tensor([7, 3])
    trained = layer.train()(x, lengths)
    assert torch.allclose(trained, layer.eval()(x, lengths))


def test_every_valid_frame_hears_the_whole_utterance() -> None:
    layer = BidirectionalGRU(2, 3, batch_norm=False).double()
    x = torch.randn(1, 5, 2, dtype=torch.float64, requires_grad=True)
    for frame in (0, 4):
        (gradient,) = torch.autograd.grad(layer(x, torch.tensor([5]))[0, frame].sum(), x)
        assert (gradient.abs().sum(2) > 0).all()
    (gradient,) = torch.autograd.grad(layer(x, torch.tensor([3]))[0, 0].sum(), x)
    assert gradient[0, 3:].abs().sum() == 0
    assert valid_mask(torch.tensor([3]), 5).sum() == 3
