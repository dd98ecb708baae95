"""Lines: what comes out is as long as what went in, in the same place, and has lost what the line does not carry."""

import pytest
import torch

from ds2.audio.codecs import CHANNELS, transmit
from ds2.audio.tensors import read_audio


@pytest.fixture(scope="module")
def speech() -> torch.Tensor:
    from conftest import DIGITS

    return read_audio(DIGITS / "synthetic_flite.opus", 16000, 0.0, 2.0)[0]


def share_above(samples: torch.Tensor, frequency: float, rate: int = 16000) -> float:
    power = torch.fft.rfft(samples).abs().square()
    return float(power[round(frequency * len(samples) / rate) :].sum() / power.sum())


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("rate", [8000, 16000])
def test_length_and_place_stay_and_the_same_goes_in_the_same_comes_out(
    speech: torch.Tensor, name: str, rate: int
) -> None:
    sent = speech[: 2 * rate]
    received = transmit(sent, rate, name)  # type: ignore[arg-type]
    assert received.shape == sent.shape
    assert torch.equal(received, transmit(sent, rate, name))  # type: ignore[arg-type]
    spectrum = torch.fft.rfft(sent, 2 * len(sent)) * torch.fft.rfft(received, 2 * len(sent)).conj()
    assert int(torch.fft.irfft(spectrum).argmax()) == 0
    assert not torch.equal(received, sent) or (name == "narrow" and rate == 8000)


@pytest.mark.parametrize("name", ["narrow", "telephone", "gsm"])
def test_nothing_above_four_kilohertz_comes_through(name: str) -> None:
    noise = 0.1 * torch.randn(16000, generator=torch.Generator().manual_seed(0))
    assert share_above(transmit(noise, 16000, name), 4100) < 1e-3  # type: ignore[arg-type]


def test_telephone_carries_300_to_3400_hertz() -> None:
    noise = 0.1 * torch.randn(16000, generator=torch.Generator().manual_seed(0))
    received = transmit(noise, 16000, "telephone")
    assert 1 - share_above(received, 200) < 0.01
    assert share_above(received, 3900) < 0.01
    assert share_above(received, 1000) > 0.5
