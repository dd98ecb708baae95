"""The assembled model."""

import pytest
import torch

from ds2.model.acoustic import AcousticModel, ModelConfig
from ds2.model.convolution import ConvolutionConfig
from ds2.model.frontend import FrontendConfig

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


def test_configuration_without_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ModelConfig(recurrent_layers=0)
