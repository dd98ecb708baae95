"""Small models of every architecture, and the strategies that draw them."""

import dataclasses
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig

SMALL = ModelConfig(
    FrontendConfig(1000),  # Hz: frames of 20 samples
    (ConvolutionConfig(2, (5, 3), (2, 2)), ConvolutionConfig(3, (3, 3), (2, 1))),
    recurrent_layers=2,
    hidden=4,
)
LIVE = dataclasses.replace(SMALL, bidirectional=False, frontend=FrontendConfig(1000, power="adaptive"), lookahead=2)


def trained(config: ModelConfig, seed: int = 0) -> AcousticModel:
    """A deployed model whose running statistics are not the initial ones."""
    torch.manual_seed(seed)
    model = AcousticModel(config, 5)
    torch.nn.init.normal_(model.output.weight)
    model.frontend.set_statistics(torch.randn(config.frontend.bins), 1 + torch.rand(config.frontend.bins))
    model.train()(torch.randn(4, 1000), torch.tensor([1000, 700, 500, 30]))
    return model.eval()


def state(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The weights of a model, as exports take them."""
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@st.composite
def convolutions(draw: st.DrawFn) -> ConvolutionConfig:
    """Over frequency and time, or time alone; of any stride; centred, or with a right context of its own."""
    time = draw(st.sampled_from([1, 3, 5]))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, min(3, time)))
    lookahead = draw(st.none() | st.integers(0, time - 1))
    return ConvolutionConfig(draw(st.integers(1, 3)), (draw(st.sampled_from([0, 1, 3, 7])), time), stride, lookahead)


@st.composite
def time_delays(draw: st.DrawFn) -> tuple[ConvolutionConfig, ...]:
    """A layer over all bins and factored ones above it; or none."""
    channels = draw(st.integers(1, 3))
    layers = draw(st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 2)), max_size=2))
    factored = [
        ConvolutionConfig(channels, (1, time), (1, 1), draw(st.none() | st.integers(0, time - 1)), narrow, bypass)
        for (time, narrow), bypass in zip(layers, draw(st.permutations([0.0, 0.66])), strict=False)
    ]
    return (ConvolutionConfig(channels, (0, 1), (1, 1)), *factored) if factored else ()


def stacks() -> st.SearchStrategy[tuple[ConvolutionConfig, ...]]:
    below = st.lists(convolutions(), min_size=1, max_size=2).map(tuple)
    return st.tuples(below, time_delays()).map(lambda parts: parts[0] + parts[1])


def made(**values: Any) -> ModelConfig:
    return ModelConfig(**values)


def is_possible(values: dict[str, Any]) -> bool:
    """Layers with a bottleneck are always normalised."""
    return values["batch_norm"] or not any(layer.bottleneck for layer in values["convolutions"])


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
            "batch_norm": st.booleans(),
        }
    )
    .filter(is_possible)
    .map(lambda values: made(**{**vars(LIVE), **values})),
    st.sampled_from([0, 0, 1, 4]),
)
