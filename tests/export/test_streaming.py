"""The graph of a step, chunk by chunk, gives what the model gives for the whole utterance."""

import dataclasses

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from helpers.architectures import GATED, LIVE, in_chunks, joined, live_configs, state, trained, whole_utterances
from helpers.runtimes import session

from ds2.export.streaming import streaming_graph
from ds2.model.acoustic import AcousticModel
from ds2.model.config import FrontendConfig, ModelConfig
from ds2.model.steps import Steps
from ds2.utils.errors import InputError


def heard(model: AcousticModel, graph: onnx.ModelProto, samples: np.ndarray, frames: list[int], q: int) -> list:
    """(B, N) samples of streams of so many front-end frames, in chunks of q frames -> (T, V + P + Q) of each."""
    config, runtime, streams = model.config, session(graph), len(samples)
    padded, starts = in_chunks(config, samples, frames, q)
    steps = Steps.of(config)
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    feed = {each.name: np.zeros((streams, *each.shape[1:]), kinds[each.type]) for each in runtime.get_inputs()[3:]}
    feed["lengths"] = np.array(frames)
    rows = []
    for start in starts:
        feed["positions"] = np.full(streams, start)
        feed["samples"] = padded[:, start * steps.hop :][:, : steps.samples(q)]
        found = dict(zip([each.name for each in runtime.get_outputs()], runtime.run(None, feed), strict=True))
        feed |= {name.removeprefix("next_"): kept for name, kept in found.items() if name.startswith("next_")}
        names = [name for name in ("log_probs", "phone_log_probs", "biphones") if name in found]
        rows.append(np.concatenate([found[name] for name in names], axis=2))
    return joined(config, rows, frames)


@settings(max_examples=60)
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
    samples, expected = whole_utterances(model, frames)
    graph = streaming_graph(config, state(model), "float32", {})
    found = heard(model, graph, samples, frames, config.step_frames(strides * config.stride))
    for row, other in zip(found, expected, strict=True):
        assert row.shape == other.shape
        assert np.allclose(row, other, atol=1e-4)


@pytest.mark.parametrize("strides", [1, 2, 3, 7])
def test_gates_and_biphones_chunk_by_chunk(strides: int) -> None:
    model, frames = trained(GATED), [60, 37, 4, 1]
    samples, expected = whole_utterances(model, frames)
    graph = streaming_graph(GATED, state(model), "float32", {})
    found = heard(model, graph, samples, frames, GATED.step_frames(strides * GATED.stride))
    for row, other in zip(found, expected, strict=True):
        assert row.shape == other.shape
        assert np.allclose(row, other, atol=1e-4)


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
