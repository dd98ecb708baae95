"""Models with names."""

import pytest
import torch

from ds2.model.acoustic import AcousticModel
from ds2.model.config import FrontendConfig, ModelConfig
from ds2.model.presets import PRESETS
from ds2.model.summary import summarize

SIZES = {"ds1": 36e6, "ds2-research": 100e6, "ds2-deploy": 200e6, "ds2-small": 10e6, "ds2-tiny": 1e6}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_sizes_they_promise(name: str) -> None:
    config = ModelConfig.preset(name)
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in AcousticModel(config, 29).parameters())
    assert sum(layer.parameters for layer in summarize(config, 29)) == parameters
    assert parameters == pytest.approx(SIZES[name], rel=0.1)


def test_unknown_presets_are_refused() -> None:
    with pytest.raises(KeyError):
        ModelConfig.preset("ds2-huge")


def test_a_preset_is_a_configuration_of_values() -> None:
    """What it does not name is at its default."""
    deployed = ModelConfig.preset("ds2-deploy")
    assert deployed.frontend == FrontendConfig(power="adaptive")
    assert deployed.convolutions == ModelConfig().convolutions
    assert ModelConfig.preset("ds2-research").convolutions[0].stride == (2, 3)
