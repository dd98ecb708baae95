"""Synthesised sounds without speech."""

import torch

from ds2.audio.no_speech import SOUNDS, sounds


def test_every_kind_is_finite_within_full_scale_and_the_same_for_a_seed() -> None:
    first, again, other = (dict(sounds(2.0, 8000, seed)) for seed in (1, 1, 2))
    assert first.keys() == SOUNDS.keys()
    for name, samples in first.items():
        assert samples.shape == (16000,)
        assert bool(samples.isfinite().all())
        assert float(samples.abs().max()) <= 1.0
        assert torch.equal(samples, again[name])
        assert torch.equal(samples, other[name]) == (name == "silence")
