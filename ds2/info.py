"""What is in a bundle or in a manifest, as lines for a person."""

from pathlib import Path
from typing import Any

from ds2.bundle import Bundle
from ds2.data.manifest import read_manifest, summary
from ds2.errors import InputError

CHARACTERS_SHOWN = 60


def describe(path: Path) -> str:
    """A bundle (.safetensors) or a manifest (.jsonl, .json).

    Raises:
        InputError: it is neither, or damaged.
    """
    if path.suffix == ".safetensors":
        return describe_bundle(path)
    if path.suffix in (".jsonl", ".json"):
        return describe_manifest(path)
    raise InputError(f"{path}: neither a bundle (.safetensors) nor a manifest (.jsonl)")


def describe_bundle(path: Path) -> str:
    bundle = Bundle.load(path)
    config, training = bundle.metadata["config"], bundle.metadata.get("training", {})
    parameters: dict[str, int] = {}
    for name, tensor in bundle.weights.items():
        layer = ".".join(part for part in name.split(".")[:2] if not part.endswith(("weight", "bias")))
        parameters[layer] = parameters.get(layer, 0) + tensor.numel()
    lines = [
        f"{path}: {sum(parameters.values()):,} values, {path.stat().st_size / 1e6:.1f} MB",
        f"tokens: {len(bundle.metadata['tokens'])}: {' '.join(map(repr, bundle.metadata['tokens']))}",
        *(f"config.{key}: {value}" for key, value in _flat(config)),
        *(f"training.{key}: {value}" for key, value in _flat(training)),
        *(f"layer {layer}: {count:,} values" for layer, count in parameters.items()),
    ]
    return "\n".join(lines)


def describe_manifest(path: Path) -> str:
    figures = summary(read_manifest(path))
    characters = " ".join(f"{character!r}:{count}" for character, count in figures.characters.items())
    shown = characters if len(figures.characters) <= CHARACTERS_SHOWN else characters[: 10 * CHARACTERS_SHOWN] + " ..."
    return "\n".join(
        [
            f"{path}: {figures.utterances} utterances, {figures.hours:.2f} h, {figures.speakers} speakers",
            f"seconds: shortest {figures.shortest:.2f}, median {figures.median:.2f}, longest {figures.longest:.2f}",
            f"words: {figures.words}",
            f"characters: {len(figures.characters)} kinds: {shown}",
        ]
    )


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested sections as dotted keys."""
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
    return pairs
