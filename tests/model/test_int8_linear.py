"""int8 weights, float activations."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model import slots
from ds2.model.acoustic import AcousticModel
from ds2.model.cells import Cell
from ds2.model.config import UNENDED, ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.slots import SlotModel
from ds2.utils import int8_linear as int8_linear_module
from ds2.utils.int8_linear import Int8Weight, int8_linear


def test_by_hand() -> None:
    weight = Int8Weight.of(np.array([[127.0, -64.0], [0.0, 0.0], [0.5, 1.27]], np.float32))
    assert weight.levels[:, :2].tolist() == [[127, -64], [0, 0], [50, 127]]
    assert not weight.levels[:, 2:].any()
    assert weight.scale.tolist() == pytest.approx([1.0, 1.0, 0.01])
    found = int8_linear(np.array([[1, 2]], np.float32), weight, np.array([1, 2, 3], np.float32))
    assert found[0].tolist() == pytest.approx([0.0, 2.0, 6.04], abs=1e-2)


@settings(max_examples=40)
@given(
    rows=st.integers(0, 9), outputs=st.integers(1, 11), inputs=st.integers(1, 70), threads=st.sampled_from([1, 2, 3])
)
def test_the_kernel_is_the_product_with_the_rounded_weight(rows: int, outputs: int, inputs: int, threads: int) -> None:
    random = np.random.default_rng(rows + 10 * outputs)
    x, bias = random.normal(size=(rows, inputs)).astype(np.float32), random.normal(size=outputs).astype(np.float32)
    weight = Int8Weight.of(random.normal(size=(outputs, inputs)).astype(np.float32))
    restored = weight.levels[:, :inputs] * weight.scale[:, None]
    before, least = torch.get_num_threads(), int8_linear_module.LEAST_PRODUCTS
    torch.set_num_threads(threads)
    int8_linear_module.LEAST_PRODUCTS = 0
    try:
        found = int8_linear(x, weight, bias)
    finally:
        torch.set_num_threads(before)
        int8_linear_module.LEAST_PRODUCTS = least
    assert np.allclose(found, x @ restored.T + bias, atol=2e-3)


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("chunk", [0, 6])
def test_a_step_in_int8_is_nearly_that_in_float32(monkeypatch: pytest.MonkeyPatch, cell: Cell, chunk: int) -> None:
    """Of a stream that goes on and one that begins late and ends early, whose states are 0 outside of it."""
    monkeypatch.setattr(slots, "LEAST_WEIGHTS", 1)
    torch.manual_seed(0)
    layers = (ConvolutionConfig(4, (11, 5), (2, 2)),)
    frontend = FrontendConfig(1000, power="adaptive")
    size = {"chunk": chunk} if chunk else {"bidirectional": False, "lookahead": 2}
    config = ModelConfig(frontend, layers, cell, 2, 32, fully_connected=16, **size)
    model = AcousticModel(config, 6)
    plain, rounded = SlotModel(model, 2, "float32"), SlotModel(model, 2, "int8")
    for step in range(4):
        numbers, samples = torch.arange(2), 0.1 * torch.randn(2, plain.steps.samples(12))
        positions, lengths = torch.tensor([12 * step, 12 * max(0, step - 1)]), torch.tensor([UNENDED, 20])
        inputs = numbers, positions, lengths, samples
        difference = plain.step(*inputs) - rounded.step(*inputs)
        assert 0 < difference.abs().max() < 0.05


def test_a_model_that_may_still_learn_steps_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do not inherit no_grad."""
    monkeypatch.setattr(slots, "LEAST_WEIGHTS", 1)
    config = ModelConfig(FrontendConfig(1000, power="adaptive"), cell="rnn", hidden=32, bidirectional=False)
    rounded = SlotModel(AcousticModel(config, 6), 2, "int8")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        lengths = torch.full((2,), UNENDED)
        found = rounded.step(
            torch.arange(2), torch.zeros(2, dtype=torch.long), lengths, torch.zeros(2, rounded.steps.samples(12))
        )
    finally:
        torch.set_num_threads(before)
    assert found.isfinite().all()


def test_small_layers_stay_in_float32() -> None:
    config = ModelConfig(FrontendConfig(1000, power="adaptive"), hidden=8, bidirectional=False, recurrent_layers=1)
    model = SlotModel(AcousticModel(config, 3), 1, "int8")
    assert isinstance(model.recurrent[0].recurrent_weight, torch.Tensor)
