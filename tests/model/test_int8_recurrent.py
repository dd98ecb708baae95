"""Recurrent weights in int8 offline: nearly the model in float32."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.int8_recurrent import Int8Direction, in_int8
from ds2.model.recurrent import Direction
from ds2.utils.int8_dot import INSTRUCTIONS, dots
from ds2.utils.int8_linear import Int8Weight, kernel


def rounded(direction: Direction) -> Direction:
    """The same layer in float32, with the recurrent weight that int8 stands for."""
    levels, scale = Int8Weight.of(direction.recurrent_weight.detach().numpy())
    hidden = direction.recurrent_weight.shape[1]
    direction.recurrent_weight.data = torch.from_numpy(levels[:, :hidden] * scale[:, None])
    return direction


@settings(max_examples=30)
@given(
    cell=st.sampled_from(["rnn", "gru", "lstm"]),
    hidden=st.integers(1, 70),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    threads=st.sampled_from([1, 3]),
)
def test_states_are_those_of_the_rounded_weights(cell: str, hidden: int, lengths: list[int], threads: int) -> None:
    torch.manual_seed(hidden)
    direction = Direction(cell, 5, hidden, True).eval()
    ours, own = Int8Direction(direction), rounded(direction)
    counts, x = torch.tensor(lengths), torch.randn(len(lengths), max(lengths), 5)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            ours.weight = direction.norm(direction.input_weight, None)[0]
            found, expected = ours(x, counts, None), own(x, counts, None)
    finally:
        torch.set_num_threads(before)
    for row, row_of_torch, count in zip(found, expected, lengths, strict=True):
        assert torch.allclose(row[:count], row_of_torch[:count], atol=2e-3)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_model_in_int8_is_nearly_that_in_float32(cell: str) -> None:
    torch.manual_seed(0)
    layers = (ConvolutionConfig(4, (11, 5), (2, 2)),)
    model = AcousticModel(ModelConfig(FrontendConfig(1000), layers, cell, 2, 32, phones=3), 6).eval()
    samples, lengths = 0.1 * torch.randn(3, 900), torch.tensor([900, 500, 40])
    with torch.inference_mode():
        plain, frames = model.all_log_probs(samples, lengths)
        found, found_frames = in_int8(model).all_log_probs(samples, lengths)
    assert found_frames.tolist() == frames.tolist()
    assert 0 < (found - plain).abs().max() < 0.05


@pytest.mark.parametrize("feature", ["", *INSTRUCTIONS])
@pytest.mark.parametrize(("outputs", "rows"), [(1, 1), (1, 4), (2, 4), (4, 1)])
def test_every_instruction_gives_the_same_sums(feature: str, outputs: int, rows: int) -> None:
    """Up to the largest values, whose sums reach the end of int32."""
    if feature and not _has(feature):
        pytest.skip(f"this processor has no {feature}")
    intrinsic = dots(outputs, rows, feature)

    @kernel
    def sums(levels, x, found):  # type: ignore[no-untyped-def]
        for m in range(0, len(levels), outputs):
            for number, total in enumerate(intrinsic(levels, m, x, 0)):
                found[m + number // rows, number % rows] = total

    generator = np.random.default_rng(0)
    levels = generator.integers(-127, 128, (4, 64)).astype(np.int8)
    x = generator.integers(-(2**15) + 1, 2**15, (rows, 64)).astype(np.int16)
    levels[2], x[0] = 127, 2**15 - 1
    found = np.zeros((4, rows), np.int64)
    sums(levels, x, found)
    assert found.tolist() == (levels.astype(np.int64) @ x.T.astype(np.int64)).tolist()


def _has(feature: str) -> bool:
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get(feature))


def test_a_bn_lstm_is_refused() -> None:
    config = ModelConfig(FrontendConfig(1000), (ConvolutionConfig(2, (5, 3), (2, 2)),), "bn-lstm", 1, 4)
    with pytest.raises(ValueError, match="a bn-lstm stays in float32"):
        in_int8(AcousticModel(config, 3))
