"""The assembled model."""

import dataclasses

import pytest
import torch
from torch import Tensor

from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig

SMALL = ModelConfig(
    FrontendConfig(8000),
    (ConvolutionConfig(4, (11, 5), (2, 2)), ConvolutionConfig(4, (5, 3), (2, 1))),
    recurrent_layers=2,
    hidden=16,
)


def model() -> AcousticModel:
    """A deployed model whose running statistics are not the initial ones."""
    torch.manual_seed(0)
    made = AcousticModel(SMALL, 5)
    made.train()(torch.randn(4, 8000), torch.tensor([8000, 7000, 5000, 300]))
    return made.eval()


def test_shapes_and_probabilities() -> None:
    log_probs, lengths = model()(torch.randn(2, 8000), torch.tensor([8000, 4000]))
    assert log_probs.shape == (2, 50, 5)
    assert lengths.tolist() == [50, 25]
    assert torch.allclose(log_probs.exp().sum(2), torch.ones(2, 50), atol=1e-5)


@pytest.mark.parametrize("length", [1, 160, 2000, 7999])
def test_alone_and_in_a_batch_agree(length: int) -> None:
    acoustic, samples = model(), torch.randn(3, 8000)
    together, lengths = acoustic(samples, torch.tensor([8000, length, 4000]))
    alone, _ = acoustic(samples[1:2, :length], torch.tensor([length]))
    assert alone.shape[1] == int(lengths[1])
    assert torch.allclose(together[1, : int(lengths[1])], alone[0], atol=1e-5)


def test_training_step_reaches_every_parameter() -> None:
    acoustic = model().train()
    log_probs, _ = acoustic(torch.randn(2, 4000), torch.tensor([4000, 3000]))
    (log_probs * torch.randn_like(log_probs)).sum().backward()
    for name, parameter in acoustic.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_seconds_per_output_frame() -> None:
    assert SMALL.frame_seconds == pytest.approx(0.02)
    assert ModelConfig().frame_seconds == pytest.approx(0.02)
    assert ModelConfig(FrontendConfig(11025)).frame_seconds == pytest.approx(220 / 11025)  # a hop of 110.25 samples


def test_configuration_without_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        ModelConfig(recurrent_layers=-1)
    with pytest.raises(ValueError, match="at least one layer"):
        ModelConfig(convolutions=())


def test_a_time_delay_layer_stands_above_one_bin_and_is_normalised() -> None:
    layer = ConvolutionConfig(8, (1, 3), (1, 1), bottleneck=4)
    with pytest.raises(ValueError, match="takes one bin, not 81: put one of kernel"):
        ModelConfig(convolutions=(ConvolutionConfig(8), layer))
    with pytest.raises(ValueError, match="always normalised"):
        ModelConfig(convolutions=(ConvolutionConfig(8, (0, 1), (1, 1)), layer), batch_norm=False)
    with pytest.raises(ValueError, match="bottleneck is for layers of kernel"):
        ConvolutionConfig(8, (3, 3), (1, 1), bottleneck=4)
    with pytest.raises(ValueError, match="bypass is for layers with a bottleneck"):
        ConvolutionConfig(8, bypass=0.5)


FAMILY = {
    "rnn": {"cell": "rnn"},
    "lstm": {"cell": "lstm"},
    "bn-lstm": {"cell": "bn-lstm"},
    "forward": {"bidirectional": False, "lookahead": 3, "fully_connected": 8},
    "random walk": {"random_walk": 2},
    "time delays": {
        "convolutions": (
            ConvolutionConfig(8, (0, 5), (1, 2)),
            ConvolutionConfig(8, (1, 3), (1, 1), bottleneck=4, bypass=0.66),
        ),
        "recurrent_layers": 0,
    },
    "mel bands": {"frontend": FrontendConfig(mel_bins=40, mean="utterance")},
    "1-D": {"convolutions": (ConvolutionConfig(8, (0, 11), (1, 2)),)},
    "adaptive": {"frontend": FrontendConfig(8000, power="adaptive")},
}


@pytest.mark.parametrize("name", FAMILY)
def test_every_member_trains_and_does_not_mind_its_company(name: str) -> None:
    torch.manual_seed(0)
    acoustic = AcousticModel(dataclasses.replace(SMALL, **FAMILY[name]), 5).train()
    samples, lengths = torch.randn(4, 8000), torch.tensor([8000, 7000, 5000, 300])
    output = acoustic.network(*acoustic.frontend(samples, lengths))
    loss = (output.logits * torch.randn_like(output.logits)).sum()
    if output.affinities is not None:
        loss = loss + output.affinities.square().sum()
    loss.backward()
    for parameter_name, parameter in acoustic.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name
    together, frames = acoustic.eval()(samples, lengths)
    alone, _ = acoustic(samples[2:3, :5000], torch.tensor([5000]))
    assert torch.allclose(together[2, : int(frames[2])], alone[0], atol=1e-5)


@pytest.mark.parametrize("change", [{"lookahead": -1}, {"fully_connected": -1}, {"random_walk": -1}, {"hidden": 0}])
def test_impossible_sizes_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(SMALL, **change)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lstm", "forward", "random walk"])
def test_compiles_and_gives_the_same(name: str) -> None:
    config = dataclasses.replace(SMALL, **FAMILY[name])
    torch.manual_seed(0)
    acoustic = AcousticModel(config, 5).eval()
    features, lengths = acoustic.frontend(torch.randn(2, 4000), torch.tensor([4000, 3000]))
    compiled = torch.compile(acoustic.network, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert torch.allclose(compiled(features, lengths).logits, acoustic.network(features, lengths).logits, atol=1e-5)


class Network(torch.nn.Module):
    """Features in, scores out: what is exported."""

    def __init__(self, acoustic: AcousticModel):
        super().__init__()
        self.acoustic = acoustic

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        return self.acoustic.network(features, lengths).logits


@pytest.mark.parametrize("name", ["lstm", "forward"])
def test_exports(name: str) -> None:
    """For one number of frames, which torch.export unrolls the recurrence over; utterances of any length inside it."""
    torch.manual_seed(0)
    acoustic = AcousticModel(dataclasses.replace(SMALL, **FAMILY[name]), 5).eval()
    features, lengths = acoustic.frontend(torch.randn(2, 4000), torch.tensor([4000, 3000]))
    exported = torch.export.export(Network(acoustic), (features, lengths)).module()
    others, lengths = acoustic.frontend(torch.randn(2, 4000), torch.tensor([1700, 4000]))
    with torch.no_grad():
        assert torch.allclose(exported(others, lengths), acoustic.network(others, lengths).logits, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "forward", "rnn"])
def test_low_precision_stays_close(name: str) -> None:
    """bfloat16 by autocast, and half weights; log-probabilities come in float32 either way."""
    torch.manual_seed(0)
    acoustic = AcousticModel(dataclasses.replace(SMALL, **FAMILY[name]), 5).eval()
    samples, lengths = torch.randn(2, 4000), torch.tensor([4000, 3000])
    with torch.no_grad():
        expected, _ = acoustic(samples, lengths)
        with torch.autocast("cpu", torch.bfloat16):
            low, _ = acoustic(samples, lengths)
        half = acoustic.half()
        features, frames = half.frontend.float()(samples, lengths)
        sixteen = half.network(features.half(), frames).logits.float().log_softmax(2)
    assert low.dtype == torch.float32
    assert (low - expected).abs().mean() < 0.05
    assert (sixteen - expected).abs().mean() < 0.02
