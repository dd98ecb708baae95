"""The graph of a step, chunk by chunk, gives what the model gives for the whole utterance."""

import dataclasses

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from helpers.architectures import LIVE, live_configs, state, trained
from helpers.runtimes import session

from ds2.export.streaming import streaming_graph
from ds2.model.acoustic import AcousticModel
from ds2.model.config import FrontendConfig, ModelConfig
from ds2.utils.errors import InputError


def heard(model: AcousticModel, graph: onnx.ModelProto, samples: np.ndarray, frames: list[int], q: int) -> list:
    """(B, N) samples of streams of so many front-end frames, in chunks of q frames -> (T, V) of each."""
    config, runtime = model.config, session(graph)
    hop, overlap = config.frontend.hop_samples, config.frontend.window_samples - config.frontend.hop_samples
    streams, steps = len(samples), -(-(max(frames) + (config.delay + 1) * config.stride) // q)
    padded = np.zeros((streams, steps * q * hop + overlap), np.float32)
    for row, length, source in zip(padded, frames, samples, strict=True):
        row[: length * hop + overlap] = source[: length * hop + overlap]
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    feed = {each.name: np.zeros((streams, *each.shape[1:]), kinds[each.type]) for each in runtime.get_inputs()[3:]}
    feed["lengths"] = np.array(frames)
    rows = []
    for step in range(steps):
        feed["positions"] = np.full(streams, step * q)
        feed["samples"] = padded[:, step * q * hop : (step + 1) * q * hop + overlap]
        found = dict(zip([each.name for each in runtime.get_outputs()], runtime.run(None, feed), strict=True))
        feed |= {name.removeprefix("next_"): kept for name, kept in found.items() if name.startswith("next_")}
        rows.append(found["log_probs"])
    all_rows = np.concatenate(rows, axis=1)[:, config.delay :]
    return [row[: -(-length // config.stride)] for row, length in zip(all_rows, frames, strict=True)]


@settings(max_examples=60, deadline=None)
@given(
    config=live_configs,
    seed=st.integers(0, 2**16),
    frames=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    strides=st.integers(1, 4),
)
def test_chunk_by_chunk_gives_what_the_whole_utterance_gives(
    config: ModelConfig, seed: int, frames: list[int], strides: int
) -> None:
    model = trained(config, seed)
    hop, window = config.frontend.hop_samples, config.frontend.window_samples
    lengths = [(length - 1) * hop + window for length in frames]
    samples = 0.1 * torch.randn(len(frames), max(lengths))
    graph = streaming_graph(config, state(model), "float32", {})
    with torch.no_grad():
        expected, counts = model(samples, torch.tensor(lengths))
    found = heard(model, graph, samples.numpy(), frames, config.step_frames(strides * config.stride))
    for row, other, count in zip(found, expected, counts.tolist(), strict=True):
        assert np.allclose(row, other[:count], atol=1e-4)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"bidirectional": True}, "bidirectional"),
        ({"frontend": FrontendConfig(1000)}, "the power of a whole utterance"),
        ({"frontend": FrontendConfig(1000, power="adaptive", mean="utterance")}, "the mean of a whole utterance"),
        ({"random_walk": 2}, "random walk"),
    ],
)
def test_a_model_that_cannot_stream_is_refused(changed: dict, reason: str) -> None:
    config = dataclasses.replace(LIVE, **changed)
    with pytest.raises(InputError, match=reason):
        streaming_graph(config, state(trained(config)), "float32", {})
