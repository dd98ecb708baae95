"""The front end against a plain numpy reference in float64."""

import numpy as np
import pytest
import torch

from ds2.model.config import POWER_FLOOR, FrontendConfig
from ds2.model.frontend import Frontend, valid_mask
from ds2.utils.mel import mel_bands


def reference(samples: np.ndarray, rate: int) -> np.ndarray:
    """(N,) float64 -> (F, T) log-power of the power-normalised samples, frame by frame."""
    window, hop = round(0.020 * rate), round(0.010 * rate)
    samples = samples / np.sqrt(np.mean(samples**2))
    samples = np.pad(samples, (0, max(0, window - len(samples))))
    shape = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / (window - 1))
    columns = []
    for start in range(0, len(samples) - window + 1, hop):
        spectrum = np.fft.rfft(samples[start : start + window] * shape)
        columns.append(np.log(np.abs(spectrum) ** 2 / np.sum(shape**2) + POWER_FLOOR))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_equals_the_numpy_reference(rate: int) -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, rate // 2)
    features, lengths = Frontend(FrontendConfig(rate))(
        torch.tensor(samples[None]).float(), torch.tensor([len(samples)])
    )
    expected = reference(samples, rate)
    assert features.shape == (1, rate // 100 + 1, 49)
    assert lengths.tolist() == [expected.shape[1]]
    np.testing.assert_allclose(features[0].numpy(), expected, atol=1e-4)


def test_double_precision_equals_the_reference_to_rounding() -> None:
    samples = np.random.default_rng(1).normal(0, 0.1, 4000)
    frontend = Frontend(FrontendConfig(8000)).double()
    features, _ = frontend(torch.tensor(samples[None]), torch.tensor([4000]))
    np.testing.assert_allclose(features[0].numpy(), reference(samples, 8000), atol=1e-11)


def test_white_noise_has_unit_power_in_every_inner_bin() -> None:
    samples = torch.randn(1, 80000, generator=torch.Generator().manual_seed(0))
    features, _ = Frontend(FrontendConfig(8000))(samples, torch.tensor([80000]))
    mean_power = features.exp().mean(2)[0, 1:-1]
    assert torch.allclose(mean_power, torch.ones(79), atol=0.2)


def test_gain_does_not_change_features() -> None:
    samples = torch.randn(1, 4000)
    frontend, length = Frontend(FrontendConfig(8000)), torch.tensor([4000])
    assert torch.allclose(frontend(samples, length)[0], frontend(0.01 * samples, length)[0], atol=1e-4)


def test_padding_never_changes_features_whatever_it_holds() -> None:
    frontend = Frontend(FrontendConfig(8000))
    samples = torch.randn(2, 8000)
    alone, _ = frontend(samples[1:, :3000], torch.tensor([3000]))
    together, lengths = frontend(samples, torch.tensor([8000, 3000]))
    frames = int(lengths[1])
    assert torch.allclose(together[1, :, :frames], alone[0], atol=1e-5)
    assert together[1, :, frames:].abs().max() == 0


@pytest.mark.parametrize(("samples", "frames"), [(1, 1), (159, 1), (160, 1), (239, 1), (240, 2), (320, 3)])
def test_number_of_frames(samples: int, frames: int) -> None:
    features, lengths = Frontend(FrontendConfig(8000))(torch.randn(1, samples), torch.tensor([samples]))
    assert lengths.tolist() == [frames]
    assert features.shape[2] == frames


def test_silence_is_finite_and_stays_silent() -> None:
    features, _ = Frontend(FrontendConfig(8000))(torch.zeros(1, 800), torch.tensor([800]))
    assert torch.allclose(features, torch.full_like(features, float(np.log(POWER_FLOOR))))


def test_statistics_standardise() -> None:
    """There are enough frames that no bin of white noise, whose deviation is 1.3 nepers, seems to have less than 1."""
    frontend, samples = Frontend(FrontendConfig(8000)), torch.randn(1, 80000)
    raw, lengths = frontend.log_spectrogram(samples, torch.tensor([80000]))
    frontend.set_statistics(raw[0].mean(1), raw[0].std(1))
    features, _ = frontend(samples, lengths.new_tensor([80000]))
    assert torch.allclose(features.mean(2), torch.zeros(1, 81), atol=1e-4)
    assert torch.allclose(features.std(2), torch.ones(1, 81), atol=1e-3)


def test_noise_in_bins_that_training_never_filled_stays_small() -> None:
    """8 kHz recordings in a 16 kHz model are an example: augmentation adds noise of all frequencies."""
    frontend, samples, length = Frontend(FrontendConfig(16000)), torch.randn(1, 16000), torch.tensor([16000])
    spectrum = torch.fft.rfft(samples)
    spectrum[:, 4000:] = 0
    low = torch.fft.irfft(spectrum, 16000)
    raw = frontend.log_spectrogram(low, length)[0][0]
    frontend.set_statistics(raw.mean(1), raw.std(1))
    assert frontend(low + 0.1 * samples, length)[0].abs().max() < 20


def test_valid_mask_by_hand() -> None:
    assert valid_mask(torch.tensor([0, 2]), 3).tolist() == [[False] * 3, [True, True, False]]


def test_the_training_sets_power_counts_for_a_second_at_any_rate() -> None:
    """At 11,025 Hz the hop is 110 samples, not 110.25: a second has 100.2 frames."""
    frontend = Frontend(FrontendConfig(11025, power="adaptive"))
    level = frontend.level_of_utterances(torch.full((1, 1, frontend.config.window_samples), 0.01))
    power, _ = frontend.adaptive_power(level, torch.zeros(1, dtype=torch.float64))
    frames = 11025 / 110
    assert float(power) == pytest.approx((float(frontend.prior_power) * frames + 0.01**2) / (frames + 1), rel=1e-6)


def test_mel_bands_by_hand() -> None:
    """Three bands of 9 bins up to 4 kHz: centres at 427, 1114 and 2220 Hz, bins at 0, 500, ..., 4000 Hz."""
    bands = mel_bands(3, 9, 8000)
    assert bands.shape == (9, 3)
    np.testing.assert_allclose(bands.sum(0), 1, rtol=1e-6)
    assert bands.argmax(0).tolist() == [1, 2, 5]
    highest = 2595 * np.log10(1 + 4000 / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, 5) / 2595) - 1)
    rising = (1500 - edges[2]) / (edges[3] - edges[2])
    triangle = np.interp(np.arange(9) * 500.0, edges[2:], [0, 1, 0])
    assert triangle[3] == pytest.approx(rising)
    np.testing.assert_allclose(bands[:, 2], triangle / triangle.sum(), rtol=1e-5)


def test_narrow_bands_are_never_empty() -> None:
    bands = mel_bands(80, 257, 16000)
    assert ((bands > 0).sum(0) >= 1).all()
    np.testing.assert_allclose(bands.sum(0), 1, rtol=1e-5)


def test_mel_features_are_the_bands_of_the_power() -> None:
    samples = torch.randn(1, 4000, generator=torch.Generator().manual_seed(0))
    frontend = Frontend(FrontendConfig(8000, mel_bins=20))
    features, _ = frontend(samples, torch.tensor([4000]))
    frames = samples[0].double().numpy() / float(samples.square().mean().sqrt())
    shape = np.hanning(160)
    spectrum = np.fft.rfft(frames[:160] * shape / np.linalg.norm(shape), 256)
    expected = np.log(np.abs(spectrum) ** 2 @ mel_bands(20, 129, 8000) + POWER_FLOOR)
    np.testing.assert_allclose(features[0, :, 0].numpy(), expected, atol=1e-4)


def test_the_mean_of_an_utterance_becomes_that_of_the_training_set() -> None:
    """A channel that colours the sound, each bin by its own factor, does not change the features."""
    frontend = Frontend(FrontendConfig(8000, mean="utterance"))
    frontend.set_statistics(torch.randn(81), torch.full((81,), 2.0))
    log_power, lengths = 3 + 2 * torch.randn(2, 81, 30), torch.tensor([30, 20])
    level = frontend.level_of_utterances(torch.ones(2, 30, 160))
    found = frontend.standardised(frontend.centred(log_power, lengths, level))
    coloured = frontend.standardised(frontend.centred(log_power + torch.randn(81, 1), lengths, level))
    torch.testing.assert_close(found[0].mean(1), torch.zeros(81), atol=1e-5, rtol=0)
    torch.testing.assert_close(found[1, :, :20].mean(1), torch.zeros(81), atol=1e-5, rtol=0)
    torch.testing.assert_close(found[0], coloured[0], atol=1e-4, rtol=0)


def test_the_adaptive_mean_by_hand() -> None:
    """At frame t: the mean of t + 1 frames and of a second, 100 frames, at the training set's mean of 4."""
    frontend = Frontend(FrontendConfig(8000, mean="adaptive"))
    frontend.set_statistics(torch.full((81,), 4.0), torch.ones(81))
    log_power = torch.zeros(1, 81, 3)
    log_power[0, :, 1] = 6.0
    sound = torch.ones(1, 3, 160)
    found = frontend.centred(log_power, torch.tensor([3]), frontend.level_of_utterances(sound))
    means = [(100 * 4 + 0) / 101, (100 * 4 + 6) / 102, (100 * 4 + 6) / 103]
    expected = [0 + 4 - means[0], 6 + 4 - means[1], 0 + 4 - means[2]]
    torch.testing.assert_close(found[0, 0], torch.tensor(expected))
    sums, count = torch.zeros(1, 81, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    first, sums = frontend.adaptively_centred(log_power[:, :, :2], frontend.level(sound[:, :2], count), sums)
    second, _ = frontend.adaptively_centred(log_power[:, :, 2:], frontend.level(sound[:, 2:], count + 2), sums)
    torch.testing.assert_close(torch.cat([first, second], dim=2), found)


def test_digital_silence_teaches_nothing() -> None:
    """Before or within speech it leaves the features of the speech as they are: neither power nor mean takes it in."""
    frontend = Frontend(FrontendConfig(8000, mean="adaptive", power="adaptive"))
    frontend.set_statistics(torch.full((81,), -3.0), torch.ones(81))
    generator = torch.Generator().manual_seed(0)
    first, second = 0.1 * torch.randn(2, 8000, generator=generator)
    alone, _ = frontend(torch.cat([first, second])[None], torch.tensor([16000]))
    faint = 1e-6 * torch.randn(80000, generator=generator)  # what decoders make of silence
    silenced = torch.cat([torch.zeros(40000), first, faint, second])
    found, _ = frontend(silenced[None], torch.tensor([len(silenced)]))
    # From the first frame that lies within the sound, and but for those that lie in both parts of it.
    torch.testing.assert_close(found[..., 500:598], alone[..., :98], atol=0.05, rtol=0)
    torch.testing.assert_close(found[..., -98:], alone[..., -98:], atol=0.05, rtol=0)
    assert found[..., 400:498].max() < -3  # silence itself lies far below speech


def test_mel_bands_are_brought_to_a_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph cannot hold the copy from the host that the first call makes."""
    frontend = Frontend(FrontendConfig(8000, mel_bins=20)).to("meta")
    arguments = torch.zeros(1, 3, 160, device="meta"), torch.ones(1, 3, device="meta")
    frontend.log_frames(*arguments)
    monkeypatch.delattr(torch, "from_numpy")
    assert frontend.log_frames(*arguments).shape == (1, 20, 3)
