"""The forward half of the bidirectional digits model, as a start for the streaming one.

    python recipes/digits/forward_only.py recipes/digits/streaming.toml recipes/digits/data/forward_only.safetensors

What the two models share is copied: convolutions, feature statistics, the forward directions, the output layer. The
row convolution begins as the identity; the training set's power becomes the adaptive normalisation's prior.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from ds2.audio.tensors import read_audio
from ds2.bundle import Bundle
from ds2.data.manifest import read_manifest
from ds2.model.acoustic import AcousticModel
from ds2.train.config import TrainConfig
from ds2.utils.config import load_config, to_dict


def mean_square(config: TrainConfig, every: int = 20) -> float:
    """The mean square of the samples of every `every`-th recording of the training set."""
    energy, samples = 0.0, 0
    for path in config.data.train:
        for utterance in read_manifest(path)[::every]:
            audio, _ = read_audio(utterance.audio_path, config.model.frontend.sample_rate)
            energy, samples = energy + float(audio.square().sum()), samples + len(audio)
    return energy / samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="configuration of the streaming training")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    config = load_config(TrainConfig, arguments.config)
    whole = Bundle.load("digits")
    model = AcousticModel(config.model, len(whole.tokens))
    shared = {name: whole.weights[name] for name in model.state_dict() if name in whole.weights}
    model.load_state_dict(shared, strict=False)
    model.frontend.set_prior(mean_square(config))
    half = replace(whole, weights=model.state_dict(), config=to_dict(config.model))
    replace(half, training={"forward_half_of": "digits"}).save(arguments.output)


if __name__ == "__main__":
    main()
