"""Augmentation: measured effects, and determinism."""

import math
from pathlib import Path

import pytest
import soundfile
import torch
from torch import Tensor

from ds2.audio.augment import (
    AugmentConfig,
    Augmenter,
    add_noise,
    augment_features,
    coloured_noise,
    equalize,
    layered_noise,
    mask_features,
    reverberate,
    warp_frequency,
)
from ds2.audio.speed import change_speed
from ds2.utils.config import from_dict
from ds2.utils.errors import InputError

NOTHING = AugmentConfig(speed=(1.0,), noise_probability=0.0, gain=(0.0, 0.0), frequency_masks=0, time_masks=0)
EVERYTHING = AugmentConfig(reverberation_probability=0.5, noise_probability=0.5, equalizer_probability=0.5)
GOLDEN = [475.564, 72.1177, 357.6304, 832.2447]  # EVERYTHING, seed 1, before tempo, layers and channels were there


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sine(frequency: float, seconds: float = 1.0, rate: int = 8000) -> Tensor:
    return 0.3 * torch.sin(2 * math.pi * frequency * torch.arange(int(seconds * rate)) / rate)


def peak_frequency(samples: Tensor, rate: int = 8000) -> float:
    return float(torch.fft.rfft(samples).abs().argmax()) * rate / len(samples)


def test_nothing_changes_nothing() -> None:
    assert torch.equal(Augmenter(NOTHING, 8000, seed=1)(sine(500), 0, 0), sine(500))


def test_same_key_same_samples_other_key_other_samples() -> None:
    first, twin = Augmenter(EVERYTHING, 8000, seed=1), Augmenter(EVERYTHING, 8000, seed=1)
    results = [first(sine(500), epoch, index) for epoch in range(3) for index in range(4)]
    again = [twin(sine(500), epoch, index) for epoch in reversed(range(3)) for index in reversed(range(4))]
    assert all(torch.equal(one, other) for one, other in zip(results, reversed(again), strict=True))
    assert len({float(result.sum()) for result in results}) == len(results)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_speed_shortens_and_raises_the_pitch(factor: float) -> None:
    changed = change_speed(sine(1000), 8000, factor)
    assert len(changed) == pytest.approx(8000 / factor, abs=2)
    assert peak_frequency(changed) == pytest.approx(1000 * factor, rel=0.01)


@pytest.mark.parametrize("snr", [0.0, 20.0])
def test_noise_has_the_wanted_ratio(snr: float) -> None:
    clean, noise = sine(500), torch.randn(8000, generator=generator())
    added = add_noise(clean, noise, snr) - clean
    assert 10 * math.log10(float(clean.square().mean() / added.square().mean())) == pytest.approx(snr, abs=0.01)


def test_noise_leaves_silence_alone_and_silent_noise_changes_nothing() -> None:
    assert add_noise(torch.zeros(100), torch.randn(100), 10.0).abs().sum() == 0
    assert torch.equal(add_noise(sine(500), torch.zeros(8000), 10.0), sine(500))


def test_forty_percent_of_utterances_are_noisy() -> None:
    config = AugmentConfig(speed=(1.0,), gain=(0.0, 0.0))
    augmenter, clean = Augmenter(config, 8000, seed=5), sine(500, 0.05)
    noisy = sum(not torch.equal(augmenter(clean, 0, index), clean) for index in range(1000))
    assert noisy / 1000 == pytest.approx(0.4, abs=0.05)


def test_recorded_noise_is_looped_to_length(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "hum.wav", sine(50, 0.2).numpy(), 8000)
    config = AugmentConfig(
        (1.0,), noise=(tmp_path / "hum.wav",), noise_probability=1, synthetic_noise_probability=0, gain=(0, 0)
    )
    noisy = Augmenter(config, 8000, seed=1)(sine(1000), 0, 0)
    assert peak_frequency(noisy - sine(1000)) == pytest.approx(50, abs=5)


@pytest.mark.parametrize(("slope", "ratio"), [(0.0, 0.0), (1.0, -10.0), (2.0, -20.0)])
def test_noise_colour_falls_by_the_slope_per_decade(slope: float, ratio: float) -> None:
    power = torch.fft.rfft(coloured_noise(1 << 17, slope, generator())).abs().square()
    low, high = power[1000:2000].mean(), power[10000:20000].mean()
    assert 10 * math.log10(float(high / low)) == pytest.approx(ratio, abs=0.7)


def test_reverberation_keeps_length_and_trails_a_click() -> None:
    click = torch.zeros(4000)
    click[100] = 1.0
    wet = reverberate(click, decay=2000.0, generator=generator())
    assert len(wet) == 4000
    assert wet[:100].abs().max() < 1e-5
    early, late = wet[101:600].square().mean(), wet[1601:2100].square().mean()
    assert 10 * math.log10(float(early / late)) == pytest.approx(60 * 1500 / 2000, abs=3)


def test_equalizer_stays_within_its_gain() -> None:
    for frequency in (100.0, 1000.0, 3500.0):
        for seed in range(5):
            changed = equalize(sine(frequency, 2.048), 12.0, generator(seed))
            gain = 10 * math.log10(float(changed.square().mean() / sine(frequency).square().mean()))
            assert abs(gain) < 12.5


def test_samples_stay_within_full_scale() -> None:
    loud = AugmentConfig(gain=(20.0, 20.0))
    assert Augmenter(loud, 8000, seed=1)(sine(500), 0, 0).abs().max() <= 1.0


def test_warp_moves_a_peak_by_the_factor() -> None:
    features = torch.zeros(2, 81, 3)
    features[:, 40] = 1.0
    warped = warp_frequency(features, torch.tensor([1.25, 0.75]))
    assert warped[0].argmax(0).tolist() == [50] * 3
    assert warped[1].argmax(0).tolist() == [30] * 3


def test_warp_by_one_is_the_identity() -> None:
    features = torch.randn(2, 81, 3)
    assert torch.allclose(warp_frequency(features, torch.ones(2)), features)


def test_masks_hide_bounded_bands_and_spans_inside_each_utterance() -> None:
    config = AugmentConfig(frequency_masks=1, frequency_mask_size=0.2, time_masks=1, time_mask_size=0.1)
    features, lengths = torch.ones(16, 80, 100), torch.tensor([100, 50] * 8)
    masked = mask_features(features, lengths, config, generator())
    bands = (masked[:, :, 99] == 0).sum(1)
    assert bands.max() <= 16
    assert bands.max() > 4
    spans = (masked == 0).all(1)
    assert spans.sum(1).max() <= 10
    assert spans[1::2, 50:].sum() == 0
    assert spans.sum() > 0


def test_features_without_masks_and_warp_stay_as_they_are() -> None:
    features = torch.randn(2, 81, 10)
    assert torch.equal(augment_features(features, torch.tensor([10, 5]), NOTHING, generator()), features)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_shortest_samples_survive(size: int) -> None:
    everything = AugmentConfig(reverberation_probability=1.0, noise_probability=1.0, equalizer_probability=1.0)
    changed = Augmenter(everything, 8000, seed=2)(0.1 * torch.ones(size), 0, 0)
    assert changed.isfinite().all()
    assert len(changed) >= 1


def test_new_effects_that_are_off_leave_the_random_numbers_of_the_old_ones_alone() -> None:
    """Sums of an earlier release's output: configurations written then give the same samples now."""
    augmenter = Augmenter(EVERYTHING, 8000, seed=1)
    sums = [float(augmenter(sine(500), 0, index).double().square().sum()) for index in range(4)]
    assert sums == pytest.approx(GOLDEN, rel=1e-4)


def test_tempo_and_line_are_drawn_per_utterance() -> None:
    config = AugmentConfig(
        (1.0,), (0.8, 1.25), noise_probability=0.0, channel_probability=0.5, channels=("mu-law",), gain=(0.0, 0.0)
    )
    results = [Augmenter(config, 8000, seed=1)(sine(500), 0, index) for index in range(12)]
    assert {len(result) for result in results} == {10000, 6400}
    levels = [len(result.unique()) for result in results]  # mu-law has 256, and here only those of the sine
    assert min(levels) < 100 < max(levels)


def test_recorded_room_keeps_the_words_in_place(tmp_path: Path) -> None:
    response = torch.zeros(2000)
    response[300], response[1300] = 0.5, 0.25  # an echo of half the level, an eighth of a second later
    soundfile.write(tmp_path / "room.wav", response.numpy(), 8000, subtype="FLOAT")
    config = AugmentConfig(
        (1.0,),
        reverberation_probability=1.0,
        impulse_responses=(tmp_path / "room.wav",),
        noise_probability=0.0,
        gain=(0.0, 0.0),
    )
    click = torch.zeros(4000)
    click[100] = 0.8
    wet = Augmenter(config, 8000, seed=1)(click, 0, 0)
    assert wet[100] == pytest.approx(0.8, abs=1e-3)
    assert wet[1100] == pytest.approx(0.4, abs=1e-3)
    assert wet.abs().sum() == pytest.approx(1.2, abs=0.01)


def test_layers_of_noise_are_summed_and_never_louder_than_the_first() -> None:
    recordings = [sine(200, 0.5), sine(900, 0.5), sine(2000, 0.5)]
    kinds = set()
    for seed in range(30):
        noise = layered_noise(recordings, 12000, (1, 3), 10.0, generator(seed))
        power = torch.fft.rfft(noise[:8000]).abs().square()
        kinds.add(sum(bool(power[f - 3 : f + 4].max() > 0.01 * power.max()) for f in (200, 900, 2000)))
        assert len(noise) == 12000
    assert kinds == {1, 2, 3}


def test_normal_ratios_have_the_middle_and_a_quarter_of_the_range() -> None:
    config = AugmentConfig(snr=(0.0, 20.0), snr_shape="normal")
    augmenter = Augmenter(config, 8000, seed=1)
    ratios = torch.tensor([augmenter._snr(generator(seed)) for seed in range(2000)])
    assert float(ratios.mean()) == pytest.approx(10.0, abs=0.4)
    assert float(ratios.std()) == pytest.approx(5.0, abs=0.3)


@pytest.mark.parametrize("key", ["noise", "impulse_responses"])
def test_recordings_that_cannot_be_used_are_left_out_unless_all_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    good, silent, gone = (tmp_path / f"{name}.wav" for name in ("good", "silent", "gone"))
    soundfile.write(good, sine(500), 8000)
    soundfile.write(silent, torch.zeros(800), 8000)
    augmenter = Augmenter(AugmentConfig(**{key: (silent, good, gone)}), 8000, seed=1)
    assert len(augmenter.noises + augmenter.impulse_responses) == 1
    lines = caplog.messages
    assert lines[0] == f"not augmented with {silent}: silence"
    assert lines[1].startswith(f"not augmented with {gone}: cannot be read")
    with pytest.raises(InputError, match=r"silent\.wav: silence; 2 recordings .* none can be used"):
        Augmenter(AugmentConfig(**{key: (silent, gone)}), 8000, seed=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("noise_probability", 2.0),
        ("time_mask_size", -0.1),
        ("speed", []),
        ("speed", [0.0]),
        ("tempo", [1.0, -1.0]),
        ("channels", []),
        ("snr", [float("nan"), 5.0]),
        ("snr", [30.0, 5.0]),
        ("gain", [0.0, float("inf")]),
        ("gain", [0.0, 1e6]),
        ("equalizer_gain", -1.0),
        ("noise_layers", [0, 1]),
        ("noise_layers", [3, 1]),
        ("noise_layers", [1, 1001]),
        ("time_masks", -1),
        ("reverberation_seconds", [0.0, 1.0]),
        ("frequency_warp", [0.0, 1.0]),
    ],
)
def test_values_that_no_augmentation_can_have_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"train.toml: .*{key}"):
        from_dict(AugmentConfig, {key: value}, "train.toml")
