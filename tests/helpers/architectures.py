"""Small models of every architecture, and the strategies that draw them."""

import dataclasses
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.normalization import SequenceBatchNorm, StepBatchNorm
from ds2.model.steps import Steps

SMALL = ModelConfig(
    FrontendConfig(1000),  # Hz: frames of 20 samples
    (ConvolutionConfig(2, (5, 3), (2, 2)), ConvolutionConfig(3, (3, 3), (2, 1))),
    recurrent_layers=2,
    hidden=4,
)
LIVE = dataclasses.replace(SMALL, bidirectional=False, frontend=FrontendConfig(1000, power="adaptive"), lookahead=2)
GATED = dataclasses.replace(  # as the bundled english: time-delay layers, of which two have gates; biphones
    LIVE,
    convolutions=(
        SMALL.convolutions[0],
        ConvolutionConfig(6, (0, 3), (1, 2), gate=3),
        ConvolutionConfig(6, (1, 3), (1, 1), bottleneck=3, bypass=0.66),
        ConvolutionConfig(6, (1, 5), (1, 1), lookahead=1, bottleneck=4, bypass=0.66, gate=2),
    ),
    recurrent_layers=0,
    lookahead=0,
    phones=4,
    biphones=3,
)


def trained(config: ModelConfig, seed: int = 0) -> AcousticModel:
    """A deployed model whose running statistics are not the initial ones."""
    torch.manual_seed(seed)
    model = AcousticModel(config, 5)
    torch.nn.init.normal_(model.output.weight)
    for name, weight in model.named_parameters():
        if name.startswith(("gates.", "biphones.")):  # their last layers begin with zeros
            torch.nn.init.normal_(weight)
    model.frontend.set_statistics(torch.randn(config.frontend.bins), 1 + torch.rand(config.frontend.bins))
    model.train()(torch.randn(4, 1000), torch.tensor([1000, 700, 500, 30]))
    return model.eval()


def clipped_rnn() -> AcousticModel:
    """Its states would grow to 30 without the clip."""
    model = trained(dataclasses.replace(SMALL, cell="rnn", recurrent_layers=1))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith("recurrent.") and name.endswith("norm.beta"):
                weight.fill_(18.0)
            elif name.endswith("recurrent_weight"):
                weight.fill_(0.1)
    return model


def briefly_trained_bn_lstm() -> AcousticModel:
    """Training has reached 20 time steps; the statistics of later ones are as they were at first."""
    model = trained(dataclasses.replace(SMALL, cell="bn-lstm", bidirectional=False))
    for norm in model.modules():
        if isinstance(norm, StepBatchNorm):
            norm.variances[:20] = 0.04
            norm.means[20:], norm.variances[20:] = 0, 1
    return model


def bn_lstm_of_sequences() -> AcousticModel:
    """Its input term has equal statistics in all time steps."""
    model = trained(dataclasses.replace(SMALL, cell="bn-lstm-e", bidirectional=True))
    for norm in model.modules():
        if isinstance(norm, SequenceBatchNorm):
            norm.train().over_sequences(torch.randn(3, 9, len(norm.gamma)), torch.ones(3, 9, dtype=torch.bool))
    return model.eval()


def whole_utterances(model: AcousticModel, frames: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """(B, N) noise of utterances of so many front-end frames, and the (T, V + P + Q) scores of each."""
    hop, window = model.config.frontend.hop_samples, model.config.frontend.window_samples
    lengths = [(length - 1) * hop + window for length in frames]
    samples = 0.1 * torch.randn(len(frames), max(lengths))
    with torch.no_grad():
        expected, counts = model.all_log_probs(samples, torch.tensor(lengths))
    return samples.numpy(), [row[:count] for row, count in zip(expected.numpy(), counts.tolist(), strict=True)]


def in_chunks(config: ModelConfig, samples: np.ndarray, frames: list[int], q: int) -> tuple[np.ndarray, range]:
    """(B, N) of streams of so many front-end frames -> (B, M), 0 beyond their ends, as many whole chunks of q frames as
    give all their outputs; the first frame of each chunk."""
    steps = Steps.of(config)
    count = -(-(max(frames) + (config.delay + 1) * config.stride) // q)
    padded = np.zeros((len(samples), steps.samples(count * q)), np.float32)
    for row, length, source in zip(padded, frames, samples, strict=True):
        row[: steps.samples(length)] = source[: steps.samples(length)]
    return padded, range(0, count * q, q)


def joined(config: ModelConfig, rows: list[np.ndarray], frames: list[int]) -> list[np.ndarray]:
    """(B, T, V) of each chunk -> (T, V) of each stream."""
    every = np.concatenate(rows, axis=1)[:, config.delay :]
    return [row[: -(-length // config.stride)] for row, length in zip(every, frames, strict=True)]


def state(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The weights of a model, as exports take them."""
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


gates = st.sampled_from([0, 0, 2])  # units


@st.composite
def convolutions(draw: st.DrawFn) -> ConvolutionConfig:
    """Over frequency and time, or time alone; of any stride; centred, or with a right context of its own."""
    time = draw(st.sampled_from([1, 3, 5]))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, min(3, time)))
    lookahead = draw(st.none() | st.integers(0, time - 1))
    channels, height = draw(st.integers(1, 3)), draw(st.sampled_from([0, 1, 3, 7]))
    return ConvolutionConfig(channels, (height, time), stride, lookahead, gate=0 if height else draw(gates))


@st.composite
def time_delays(draw: st.DrawFn) -> tuple[ConvolutionConfig, ...]:
    """A layer over all bins and factored ones above it; or none."""
    channels = draw(st.integers(1, 3))
    layers = draw(st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 2)), max_size=2))
    factored = [
        ConvolutionConfig(
            channels, (1, time), (1, 1), draw(st.none() | st.integers(0, time - 1)), narrow, bypass, draw(gates)
        )
        for (time, narrow), bypass in zip(layers, draw(st.permutations([0.0, 0.66])), strict=False)
    ]
    return (ConvolutionConfig(channels, (0, 1), (1, 1)), *factored) if factored else ()


def stacks() -> st.SearchStrategy[tuple[ConvolutionConfig, ...]]:
    below = st.lists(convolutions(), min_size=1, max_size=2).map(tuple)
    return st.tuples(below, time_delays()).map(lambda parts: parts[0] + parts[1])


def made(**values: Any) -> ModelConfig:
    return ModelConfig(**values)


def is_possible(values: dict[str, Any]) -> bool:
    """Layers with a bottleneck are always normalised, and biphones are of phones."""
    normalised = values["batch_norm"] or not any(layer.bottleneck for layer in values["convolutions"])
    return normalised and (values["phones"] > 0 or not values["biphones"])


def with_chunks(config: ModelConfig, frames: int) -> ModelConfig:
    """Both directions, of which the backward one begins anew after so many frames beyond the least; 0: as it is."""
    if not frames or config.spec.step_statistics or not config.recurrent_layers:
        return config
    return dataclasses.replace(config, bidirectional=True, chunk=config.waits[-1][1] + frames)


configs = st.builds(
    with_chunks,
    st.fixed_dictionaries(
        {
            "frontend": st.builds(
                FrontendConfig,
                sample_rate=st.sampled_from([1000, 1150]),
                hop=st.sampled_from([0.01, 0.0125]),
                power=st.sampled_from(["utterance", "adaptive"]),
                mean=st.sampled_from(["training", "utterance", "adaptive"]),
                mel_bins=st.sampled_from([0, 5]),
            ),
            "convolutions": stacks(),
            "cell": st.sampled_from(["rnn", "gru", "lstm", "bn-lstm", "bn-lstm-e"]),
            "recurrent_layers": st.integers(0, 2),
            "hidden": st.integers(1, 5),
            "bidirectional": st.booleans(),
            "lookahead": st.integers(0, 3),
            "fully_connected": st.integers(0, 4),
            "random_walk": st.integers(0, 2),
            "phones": st.sampled_from([0, 3]),
            "biphones": st.sampled_from([0, 2]),
            "batch_norm": st.booleans(),
        }
    )
    .filter(is_possible)
    .map(lambda values: made(**values)),
    st.sampled_from([0, 0, 1, 4]),
)

live_configs = st.builds(
    with_chunks,
    st.fixed_dictionaries(
        {
            "frontend": st.builds(
                FrontendConfig,
                sample_rate=st.just(1000),
                hop=st.sampled_from([0.01, 0.0125]),
                power=st.just("adaptive"),
                mean=st.sampled_from(["training", "adaptive"]),
                mel_bins=st.sampled_from([0, 5]),
            ),
            "convolutions": stacks(),
            "cell": st.sampled_from(["rnn", "gru", "lstm", "bn-lstm", "bn-lstm-e"]),
            "recurrent_layers": st.integers(0, 2),
            "hidden": st.integers(1, 5),
            "lookahead": st.integers(0, 3),
            "fully_connected": st.integers(0, 4),
            "phones": st.sampled_from([0, 3]),
            "biphones": st.sampled_from([0, 2]),
            "batch_norm": st.booleans(),
        }
    )
    .filter(is_possible)
    .map(lambda values: made(**{**vars(LIVE), **values})),
    st.sampled_from([0, 0, 1, 4]),
)
