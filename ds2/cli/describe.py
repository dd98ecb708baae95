"""Descriptions of bundles, manifests and architectures, for `ds2 info`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ds2.bundle import Bundle, model_card, read_record
from ds2.data.manifest import read_manifest, summary
from ds2.model.config import ModelConfig
from ds2.model_record import Record
from ds2.text import count_words
from ds2.utils.config import dotted_keys, load_config
from ds2.utils.errors import InputError, counted, printable
from ds2.utils.model_names import MODELS, locate, named_models

FIGURES = {  # of the package's models, which a bundle itself does not say
    "digits": "WER 0.33 % on FSDD's test split, 9.8 % on strangers",
    "english": "WER 9.9 % on audio books, 31.3 % on Common Voice",
    "mandarin": "25.3 % of the characters of Common Voice wrong",
}
OF_RECURRENT_LAYERS = {"cell", "hidden", "bidirectional", "chunk"}
GREEDY = dict.fromkeys(("wer", "cer", "per"), " (greedy, while training)")
CHARACTERS_SHOWN = 60
TOKENS_SHOWN = 100
CHARACTERS = 29  # outputs of a model of English characters: blank, space, apostrophe, a to z


def describe(path: Path) -> str:
    """A bundle (.safetensors, or the name of one), an exported model, a manifest (.jsonl, .arrow), or the network of a
    recipe's train.toml.

    Raises:
        InputError: the file is none of these, or damaged.
        ModuleNotFoundError: torch, which training needs, is not installed.
    """
    path = locate(path)
    if path.suffix == ".safetensors":
        return describe_bundle(path)
    if path.suffix == ".onnx":
        return describe_exported(path)
    if path.suffix in (".jsonl", ".json", ".arrow"):
        return describe_manifest(path)
    if path.suffix == ".toml":
        from ds2.train.config import TrainConfig

        return describe_network(str(path), load_config(TrainConfig, path).model, CHARACTERS)
    if path.suffix == ".lm" or ".arpa" in path.suffixes:
        raise InputError(f"{path}: is a language model; ds2 lm info describes it")
    raise InputError(
        f"{path}: neither a model (.safetensors, .onnx), nor a manifest (.jsonl, .arrow), nor a recipe's train.toml"
    )


def list_models() -> list[str]:
    """A line for each model that has a name: the name, size, what it takes, what it knows and how well.

    Raises:
        InputError: a bundle is damaged.
    """
    lines = []
    for path in named_models().values():
        record = read_record(path)
        config = ModelConfig.of(record)
        takes = "recordings, live streams" if config.streams else "recordings"
        rate = config.frontend.sample_rate / 1000
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        lines.append(f"{path.stem:17} {size:>8}  {rate:2.0f} kHz  {takes:25} {_known(path, record)}")
    return lines


def _known(path: Path, record: Record) -> str:
    """What a bundle knows and, of one in the package, how well."""
    figures = f"; {FIGURES[path.stem]}" if path.parent == MODELS and path.stem in FIGURES else ""
    return f"knows {record.knows}{figures}"


def describe_model(name: str) -> str:
    """A preset of the architecture, as `describe_network` shows it.

    Raises:
        InputError: there is no preset of that name.
    """
    from ds2.model.presets import OUTPUTS

    try:
        config = ModelConfig.preset(name)
    except KeyError as error:
        raise InputError(
            f"--model {name}: no such architecture; choose from {', '.join(error.args[1])}, or name a trained model "
            "without --model"
        ) from error
    return describe_network(name, config, OUTPUTS.get(name, CHARACTERS))


def describe_network(name: str, config: ModelConfig, outputs: int) -> str:
    """A network of so many outputs, layer by layer: shapes, parameters, cost and context."""
    from ds2.model.summary import latency, summarize

    layers = summarize(config, outputs)
    rows = [("layer", "output", "parameters", "Mop/s of audio", "context, seconds")]
    rows += [
        (layer.name, layer.shape, f"{layer.parameters:,}", f"{layer.operations / 1e6:,.1f}", layer.context)
        for layer in layers
    ]
    parameters, operations = sum(layer.parameters for layer in layers), sum(layer.operations for layer in layers)
    rows.append(("all", "", f"{parameters:,}", f"{operations / 1e6:,.1f}", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    delay = latency(config)
    waits = "the end of the utterance" if delay is None else f"{1000 * delay:.0f} ms of sound after it"
    direction = "bidirectional" if config.bidirectional else "forward-only"
    direction += f" (in chunks of {config.chunk} frames)" if config.chunk else ""
    return "\n".join(
        [
            f"{name}: {config.recurrent_layers} {direction} {config.cell} layers of {config.hidden}, "
            f"{outputs} outputs, a frame every {1000 * config.frame_seconds:.0f} ms",
            f"an output frame waits for {waits}",
            *("  ".join(_aligned(row, widths)).rstrip() for row in rows),
        ]
    )


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Aligns numbers to the right, words to the left."""
    sides = "<<>><"
    return [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]


def describe_bundle(path: Path) -> str:
    """Returns the text of `ds2 info` on a bundle: size, layers, tokens, language model, training."""
    bundle = Bundle.load(path, "numpy")
    parameters: dict[str, int] = {}
    for name, array in bundle.weights.items():
        layer = ".".join(part for part in name.split(".")[:2] if not part.endswith(("weight", "bias")))
        parameters[layer] = parameters.get(layer, 0) + array.size
    lines = [
        f"{path}: {sum(parameters.values()):,} values, {path.stat().st_size / 1e6:.1f} MB",
        *_describe_record(path, bundle),
        *_describe_words(bundle),
        *(f"layer {layer}: {count:,} values" for layer, count in parameters.items()),
    ]
    named = named_models()
    if path in named.values() and (card := model_card(path)):
        lines[2:2] = ["", *card.splitlines(), ""]
    elif known := next(filter(named.__contains__, _ancestors(bundle.training)), None):
        lines.insert(2, f"trained on from {known}: ds2 info {known} shows its card, with the data and their licences")
    return "\n".join(map(printable, lines))


def _ancestors(training: dict[str, Any]) -> Iterator[str]:
    """The models of the package that a model, or one of those whose average it is, was trained on from."""
    averaged = training.get("average_of")
    for each in (training.get("origin"), *(averaged if isinstance(averaged, list) else ())):
        if isinstance(each, dict):
            yield str(each.get("model"))
            yield from _ancestors(each)


def describe_exported(path: Path) -> str:
    """A model.onnx that `ds2 export` wrote.

    Raises:
        InputError: another ONNX file, or a damaged one.
    """
    from ds2.recognition.onnx_engine import load_exported

    _, record = load_exported(path)
    lines = [
        f"{path}: written by ds2 export, {path.stat().st_size / 1e6:.1f} MB",
        *_describe_record(path, record),
        "language model: none in an exported model",
    ]
    return "\n".join(map(printable, lines))


def _describe_record(path: Path, record: Record) -> list[str]:
    """Lines on what a model knows, its tokens and its configuration."""
    more = " ..." if len(record.tokens) > TOKENS_SHOWN else ""
    absent = set() if record.config.get("recurrent_layers") else OF_RECURRENT_LAYERS
    config = {key: value for key, value in record.config.items() if key not in absent}
    training = _with_hints(record.training)
    sections = {"config": config, "decoder": record.decoder or {}, "training": training}
    return [
        _known(path, record),
        f"tokens: {len(record.tokens)}: {' '.join(map(repr, record.tokens[:TOKENS_SHOWN]))}{more}",
        *(f"{key}: {value}" for name, part in sections.items() for key, value in dotted_keys(part, f"{name}.").items()),
    ]


def _with_hints(training: dict[str, Any]) -> dict[str, Any]:
    """The same, and of the models whose average it is, whose error rates are those of their epochs."""
    found = {key + GREEDY.get(key, ""): value for key, value in training.items()}
    if isinstance(models := found.get("average_of"), list):
        found["average_of"] = [_with_hints(each) if isinstance(each, dict) else each for each in models]
    return found


def _describe_words(bundle: Bundle) -> list[str]:
    """Lines on its language model, and on what it can say about words."""
    lines = []
    if lm := bundle.language_model:
        lines.append(f"language model: {lm.order}-gram, {count_words(lm.words):,} words")
    if neural := bundle.neural_model:
        lines.append(f"second pass: neural language model, {len(neural.pieces):,} pieces, weight {neural.weight:g}")
    if least := bundle.least_confidence:
        lines.append(f"confidence: calibrated; segments with a mean below {least:g} are no speech")
    if (tagger := bundle.punctuation) and tagger.f1:
        figures = ", ".join(f"{name} {value:.2f}" for name, value in tagger.f1.items())
        lines.append(f"punctuation, F1: {figures}")
    return lines


def describe_manifest(path: Path) -> str:
    """Returns the text of `ds2 info` on a manifest: utterances, hours, speakers, durations, words, characters."""
    figures = summary(read_manifest(path, repeated=True))
    characters = " ".join(f"{character!r}:{count}" for character, count in figures.characters.items())
    shown = characters if len(figures.characters) <= CHARACTERS_SHOWN else characters[: 10 * CHARACTERS_SHOWN] + " ..."
    return "\n".join(
        [
            f"{path}: {counted(figures.utterances, 'utterance')}, {figures.hours:.2f} h, "
            + counted(figures.speakers, "speaker"),
            f"seconds: shortest {figures.shortest:.2f}, median {figures.median:.2f}, longest {figures.longest:.2f}",
            f"words: {figures.words}",
            f"characters: {len(figures.characters)} kinds: {shown}",
        ]
    )
