"""The graph computes what the model computes."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from helpers.architectures import (
    GATED,
    SMALL,
    bn_lstm_of_sequences,
    briefly_trained_bn_lstm,
    clipped_rnn,
    configs,
    state,
    trained,
)
from helpers.runtimes import log_probs, session

from ds2.export.acoustic import acoustic_graph
from ds2.model.acoustic import AcousticModel
from ds2.model.config import FrontendConfig, ModelConfig
from ds2.model.normalization import STEPS
from ds2.utils.errors import InputError


def assert_same(model: AcousticModel, samples: torch.Tensor, lengths: torch.Tensor) -> None:
    with torch.no_grad():
        expected, frames = model(samples, lengths)
    found, found_frames = log_probs(acoustic_graph(model.config, state(model), "float32", {}), samples, lengths)
    assert found_frames.tolist() == frames.tolist()
    for row, other, count in zip(found, expected, frames.tolist(), strict=True):
        assert torch.allclose(torch.from_numpy(row[:count]), other[:count], atol=1e-4)


@settings(max_examples=60)
@given(
    config=configs,
    seed=st.integers(0, 2**16),
    lengths=st.lists(st.integers(1, 1200), min_size=1, max_size=4),
    padding=st.integers(0, 50),
)
def test_every_architecture_gives_what_torch_gives(
    config: ModelConfig, seed: int, lengths: list[int], padding: int
) -> None:
    model = trained(config, seed)
    samples = 0.1 * torch.randn(len(lengths), max(lengths) + padding)
    assert_same(model, samples, torch.tensor(lengths))


def test_together_and_alone_agree() -> None:
    """An utterance gives the same in a batch with longer ones, whatever stands in its padding."""
    model, samples = trained(SMALL), torch.randn(3, 1000)
    graph = acoustic_graph(model.config, state(model), "float32", {})
    together, frames = log_probs(graph, samples, torch.tensor([1000, 7, 430]))
    for row, length in ((1, 7), (2, 430)):
        alone, count = log_probs(graph, samples[row : row + 1, :length], torch.tensor([length]))
        assert count[0] == frames[row]
        assert torch.allclose(torch.from_numpy(together[row, : count[0]]), torch.from_numpy(alone[0]), atol=1e-5)


def test_states_of_a_simple_rnn_are_clipped() -> None:
    model = clipped_rnn()
    samples, lengths = torch.randn(2, 1000), torch.tensor([1000, 600])
    with torch.no_grad():
        x = torch.randn(1, 40, 9)
        assert model.recurrent[0].forwards(x, torch.tensor([40]), None).max() == 20.0
    assert_same(model, samples, lengths)


@pytest.mark.parametrize("level", [0.0, 1e-6])
@pytest.mark.parametrize("power", ["utterance", "adaptive"])
def test_silence_is_not_normalised(power: str, level: float) -> None:
    model = trained(dataclasses.replace(SMALL, frontend=FrontendConfig(1000, power=power)))
    assert_same(model, level * torch.randn(1, 500), torch.tensor([500]))


def test_without_lengths_all_samples_count() -> None:
    model, samples = trained(SMALL), torch.randn(2, 500)
    found, frames = session(acoustic_graph(model.config, state(model), "float32", {}, sherpa=True)).run(
        None, {"samples": samples.numpy()}
    )
    with torch.no_grad():
        expected, lengths = model(samples, torch.tensor([500, 500]))
    assert frames.tolist() == lengths.tolist()
    assert torch.allclose(torch.from_numpy(found), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "columns"), [(dataclasses.replace(SMALL, phones=3), [3]), (GATED, [4, 9])], ids=["phones", "biphones"]
)
def test_outputs_for_phones_come_after_those_of_tokens(config: ModelConfig, columns: list[int]) -> None:
    model, samples, lengths = trained(config), torch.randn(3, 900), [900, 400, 30]
    feed = {"samples": samples.numpy(), "lengths": np.array(lengths)}
    tokens, frames, *others = session(acoustic_graph(model.config, state(model), "float32", {})).run(None, feed)
    with torch.no_grad():
        expected, _ = model.all_log_probs(samples, torch.tensor(lengths))
    assert [other.shape[2] for other in others] == columns
    for row, count in enumerate(frames):
        found = np.concatenate([scores[row, :count] for scores in (tokens, *others)], axis=1)
        assert np.allclose(found, expected[row, :count], atol=1e-4)


def test_frames_beyond_the_statistics_of_a_bn_lstm_use_the_last() -> None:
    samples = torch.randn(1, 10 * (2 * STEPS + 20))
    assert_same(briefly_trained_bn_lstm(), samples, torch.tensor([samples.shape[1]]))


def test_a_bn_lstm_with_statistics_of_whole_sequences() -> None:
    """Its file is that of a bn-lstm with equal statistics in all steps."""
    assert_same(bn_lstm_of_sequences(), torch.randn(2, 4000), torch.tensor([4000, 2500]))


def test_a_window_too_long_for_a_table_is_refused() -> None:
    config = dataclasses.replace(SMALL, frontend=FrontendConfig(16000, window=1.02))
    with pytest.raises(InputError, match="a window of 16,320 samples cannot be exported"):
        acoustic_graph(config, state(trained(config)), "float32", {})
