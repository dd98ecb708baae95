"""Gates of channels by the utterance so far."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import GATE_FRAMES, ConvolutionConfig, ModelConfig
from ds2.model.gate import ChannelGate
from ds2.model.native.gate import NativeGate


def made(channels: int = 4, units: int = 3) -> ChannelGate:
    torch.manual_seed(0)
    gate = ChannelGate(channels, units)
    for weight in gate.parameters():
        torch.nn.init.normal_(weight)
    return gate


def by_definition(gate: ChannelGate, rows: np.ndarray) -> np.ndarray:
    """(T, C) of an utterance -> (T, C), frame by frame in float64."""
    weights = {name: weight.detach().double().numpy() for name, weight in gate.named_parameters()}
    result = np.zeros(rows.shape)
    for frame in range(len(rows)):
        so_far = rows[: frame + 1].astype(np.float64)
        mean = (so_far.sum(0) + GATE_FRAMES * weights["prior"]) / (frame + 1 + GATE_FRAMES)
        units = np.maximum(weights["narrow.weight"] @ mean + weights["narrow.bias"], 0)
        scores = weights["wide.weight"] @ units + weights["wide.bias"]
        result[frame] = rows[frame] * 2 / (1 + np.exp(-scores))
    return result


def in_frames(rows: np.ndarray) -> Tensor:
    """(B, T, C) -> (B, C, 1, T)."""
    return torch.from_numpy(rows).transpose(1, 2).unsqueeze(2)


def test_one_channel_by_hand() -> None:
    """The mean at the second frame is (17 + 3 + 16 * 1) / 18 = 2; its score, log 3, has the sigmoid 3 / 4."""
    gate = ChannelGate(1, 1)
    with torch.no_grad():
        gate.prior.fill_(1.0)
        gate.narrow.weight.fill_(1.0)
        gate.wide.weight.fill_(np.log(3) / 2)
        result = gate(torch.tensor([17.0, 3.0]).view(1, 1, 1, 2))
    assert result[0, 0, 0, 1].item() == pytest.approx(3 * 1.5)


def test_the_definition() -> None:
    gate, rows = made(), np.random.default_rng(0).normal(size=(2, 50, 4)).astype(np.float32)
    found = gate(in_frames(rows)).detach().squeeze(2).transpose(1, 2).numpy()
    for each, row in zip(found, rows, strict=True):
        assert np.allclose(each, by_definition(gate, row), atol=1e-5)


@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("size", [1, 4, 7])
@torch.no_grad()
def test_chunk_by_chunk_it_is_that_of_the_utterance(engine: str, size: int) -> None:
    """The first stream lags by 0 frames, the second by 3, which are zeros."""
    gate, delays = made(), [0, 3]
    rows = np.random.default_rng(0).normal(size=(2, 28, 4)).astype(np.float32)
    rows[1, :3] = 0
    native = NativeGate(4, 3, LayerWeights({name: weight.numpy() for name, weight in gate.state_dict().items()}))
    sums, parts = np.zeros((2, 4)), []
    for start in range(0, 28, size):
        chunk = rows[:, start : start + size].copy()
        numbers = start + np.arange(chunk.shape[1]) - np.array(delays)[:, None]
        if engine == "native":
            sums = native(chunk, sums, numbers)
            parts.append(chunk)
        else:
            part, kept = gate.step(in_frames(chunk), torch.from_numpy(sums), torch.from_numpy(numbers))
            sums = kept.numpy()
            parts.append(part.squeeze(2).transpose(1, 2).numpy())
        assert sums.dtype == np.float64
    for found, row, delay in zip(np.concatenate(parts, 1), rows, delays, strict=True):
        whole = gate(in_frames(row[None, delay:])).squeeze(2)[0].T.numpy()
        assert np.allclose(found[delay:], whole, atol=1e-5)
        assert not found[:delay].any()


def test_at_first_it_changes_nothing() -> None:
    x = torch.randn(2, 4, 1, 9)
    assert torch.equal(ChannelGate(4, 3)(x), x)


def test_a_gradient_reaches_every_weight() -> None:
    gate = made()
    gate(torch.randn(2, 4, 1, 9)).square().sum().backward()
    for name, weight in gate.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


def test_a_gate_is_of_one_bin() -> None:
    with pytest.raises(ValueError, match="a layer with a gate gives one bin, not"):
        ModelConfig(convolutions=(ConvolutionConfig(4, (5, 3), (2, 1), gate=2),))
