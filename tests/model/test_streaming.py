"""A model chunk by chunk gives what it gives offline."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.model.acoustic import AcousticModel
from ds2.model.cells import Cell
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.streaming import StreamingModel
from ds2.model.summary import latency

RATE = 8000
HOP = 80  # samples
BASE = ModelConfig(
    FrontendConfig(RATE, power="adaptive"),
    (ConvolutionConfig(4, (11, 7), (2, 2)), ConvolutionConfig(4, (5, 5), (2, 1), lookahead=1)),
    recurrent_layers=2,
    hidden=12,
    bidirectional=False,
    lookahead=3,
    fully_connected=10,
)
TIME_DELAYS = (
    ConvolutionConfig(10, (1, 3), (1, 1), bottleneck=4, bypass=0.66),
    ConvolutionConfig(10, (1, 5), (1, 1), lookahead=1, bottleneck=4),
)
OTHERS = {
    "rnn": dataclasses.replace(BASE, cell="rnn"),
    "lstm, no lookahead": dataclasses.replace(BASE, cell="lstm", lookahead=0, fully_connected=0),
    "bn-lstm": dataclasses.replace(BASE, cell="bn-lstm"),
    "1-D, stride 4": dataclasses.replace(BASE, convolutions=(ConvolutionConfig(8, (0, 11), (1, 4)),), lookahead=19),
    "three layers, causal": dataclasses.replace(
        BASE, convolutions=tuple(ConvolutionConfig(3, (7, 5), (2, stride), lookahead=0) for stride in (3, 1, 1))
    ),
    "no BN": dataclasses.replace(BASE, batch_norm=False),
    "chunks": dataclasses.replace(BASE, bidirectional=True, chunk=7),
    "time delays": dataclasses.replace(
        BASE,
        frontend=FrontendConfig(RATE, power="adaptive", mean="adaptive", mel_bins=24),
        convolutions=(*BASE.convolutions, ConvolutionConfig(10, (0, 1), (1, 1)), *TIME_DELAYS),
        recurrent_layers=0,
        fully_connected=0,
    ),
    "chunks, lstm, no lookahead": dataclasses.replace(BASE, bidirectional=True, chunk=5, cell="lstm", lookahead=0),
}


def made(config: ModelConfig) -> AcousticModel:
    """A deployed model whose statistics are not the initial ones."""
    torch.manual_seed(0)
    model = AcousticModel(config, 6)
    model.frontend.set_prior(0.05)
    model.train()(torch.randn(4, RATE), torch.tensor([8000, 7000, 5000, 300]))
    return model.eval()


def speech(samples: int, seed: int = 0) -> Tensor:
    """Noise that swells and fades."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(samples, generator=generator)
    return noise * (0.2 + torch.sin(torch.arange(samples) / 900).abs())


def offline(model: AcousticModel, samples: Tensor) -> Tensor:
    with torch.no_grad():
        log_probs, lengths = model(samples.unsqueeze(0), torch.tensor([len(samples)]))
    return log_probs[0, : int(lengths[0])]


def streamed(streaming: StreamingModel, samples: Tensor, sizes: list[int]) -> Tensor:
    """Chunks of these sizes in turn, over and over."""
    stream, parts, start = streaming.begin(), [], 0
    for size in itertools.cycle(sizes):
        end = start + size
        parts += streaming.step([stream], [samples[start:end]], [end >= len(samples)])
        start = end
        if start >= len(samples):
            return torch.cat(parts)
    raise AssertionError


@pytest.mark.parametrize("frames", [1, 2, 7, 100])
@pytest.mark.parametrize("name", ["base", *OTHERS])
def test_chunks_of_any_size_equal_offline(name: str, frames: int) -> None:
    model = made(BASE if name == "base" else OTHERS[name])
    samples = speech(6130)
    result = streamed(StreamingModel(model), samples, [frames * HOP])
    assert torch.allclose(result, offline(model, samples), atol=1e-5)


@pytest.mark.parametrize("frames", [2, 100])
def test_phones_follow_the_tokens(frames: int) -> None:
    model = made(dataclasses.replace(BASE, phones=7, fully_connected=0))
    samples = speech(6130)
    with torch.no_grad():
        expected, _ = model.all_log_probs(samples.unsqueeze(0), torch.tensor([len(samples)]))
    result = streamed(StreamingModel(model, phones=True), samples, [frames * HOP])
    assert result.shape[1] == 6 + 7
    assert torch.allclose(result, expected[0], atol=1e-5)
    assert torch.equal(streamed(StreamingModel(model), samples, [frames * HOP]), result[:, :6])


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([0, 3, 8]), st.lists(st.integers(0, 2000), min_size=1, max_size=8).filter(any), st.integers(1, 4000)
)
def test_random_splits_equal_offline(chunk: int, sizes: list[int], length: int) -> None:
    model = made(dataclasses.replace(BASE, bidirectional=chunk > 0, chunk=chunk))
    samples = speech(length)
    assert torch.allclose(streamed(StreamingModel(model), samples, sizes), offline(model, samples), atol=1e-5)


@pytest.mark.parametrize(("cell", "chunk"), [("gru", 0), ("lstm", 0), ("bn-lstm", 0), ("gru", 4), ("lstm", 4)])
def test_streams_of_different_ages_share_a_batch(cell: Cell, chunk: int) -> None:
    """Three streams begin, pause and end at different times."""
    model = made(dataclasses.replace(BASE, cell=cell, bidirectional=chunk > 0, chunk=chunk))
    streaming = StreamingModel(model)
    recordings = [speech(5000, 1), speech(2300, 2), speech(4100, 3)]
    generator = torch.Generator().manual_seed(0)
    streams = [streaming.begin() for _ in recordings]
    position, parts = [0, 0, 0], [[], [], []]  # type: ignore[var-annotated]
    for turn in itertools.count():
        live = [i for i in range(3) if turn >= 2 * i and not streams[i].ended]
        if not live and turn > 4:
            break
        sizes = [int(torch.randint(0, 700, (1,), generator=generator)) for _ in live]
        chunks = [recordings[i][position[i] : position[i] + size] for i, size in zip(live, sizes, strict=True)]
        last = [position[i] + size >= len(recordings[i]) for i, size in zip(live, sizes, strict=True)]
        for i, size, part in zip(live, sizes, streaming.step([streams[i] for i in live], chunks, last), strict=True):
            position[i] += size
            parts[i].append(part)
    for recording, rows in zip(recordings, parts, strict=True):
        assert torch.allclose(torch.cat(rows), offline(model, recording), atol=1e-5)


def test_frames_come_as_soon_as_the_latency_allows() -> None:
    """After n seconds all output frames whose sound lies the latency or more before are there."""
    streaming = StreamingModel(made(BASE))
    stream, frame = streaming.begin(), BASE.frame_seconds
    samples = speech(8000)
    for start in range(0, 8000, 200):
        streaming.step([stream], [samples[start : start + 200]], [False])
        certain = math.floor(((start + 200) / RATE - latency(BASE)) / frame + 1e-9) + 1
        assert stream.outputs == max(0, certain)


def test_frames_of_a_chunk_come_together_within_the_latency() -> None:
    """The last frame of a chunk needs no more sound than the convolutions see; the first one, all of the chunk."""
    config = dataclasses.replace(BASE, bidirectional=True, chunk=5, lookahead=0)
    streaming = StreamingModel(made(config))
    stream, frame, counts = streaming.begin(), config.frame_seconds, set()
    for start in range(0, 8000, 40):
        streaming.step([stream], [speech(8000)[start : start + 40]], [False])
        counts.add(stream.outputs)
        assert stream.outputs >= math.floor(((start + 40) / RATE - latency(config)) / frame + 1e-9) + 1
    assert counts == {0, *range(5 - config.delay, max(counts) + 1, 5)}


def test_an_empty_stream_ends_as_an_empty_recording_does() -> None:
    model = made(BASE)
    streaming = StreamingModel(model)
    [result] = streaming.step([streaming.begin()], [torch.zeros(0)], [True])
    assert result.shape == offline(model, torch.zeros(1)).shape


def test_an_ended_stream_takes_no_more() -> None:
    streaming = StreamingModel(made(BASE))
    stream = streaming.begin()
    streaming.step([stream], [speech(500)], [True])
    with pytest.raises(ValueError, match="ended"):
        streaming.step([stream], [speech(500)], [False])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bidirectional": True}, "bidirectional"),
        ({"bidirectional": True, "chunk": 80}, "chunk of 1.60 s is too long"),
        ({"frontend": FrontendConfig(RATE)}, "adaptive"),
        ({"random_walk": 2}, "random walk"),
    ],
)
def test_models_that_cannot_stream_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamingModel(AcousticModel(dataclasses.replace(BASE, **change), 6))
