"""A folder that another runtime loads: model.onnx and tokens.txt, of a live model also streaming.onnx; or a page."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from ds2.bundle import Bundle, model_card
from ds2.export.acoustic import acoustic_graph
from ds2.export.options import Format, Weights
from ds2.export.search import Decoder
from ds2.export.streaming import refuse_streaming, streaming_graph
from ds2.export.web import page_files
from ds2.model.config import ModelConfig
from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder
from ds2.utils.model_names import MODELS, locate
from ds2.utils.version import VERSION

LICENCE = "Apache-2.0"  # of the bundles in the package; their cards name the licences of the data
SHERPA_RATE = 16000  # Hz: sherpa-onnx resamples what a model of raw samples hears to this rate
BLANK_NAME, SPACE_NAME = "<blk>", "▁"  # as sherpa-onnx and onnx-asr name them
MISFITS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, TypeError, ValueError, IndexError)


def export(
    bundle: str, output: Path, format: Format = "onnx", weights: Weights = "float32", decoder: Decoder | None = None
) -> list[Path]:
    """Writes a bundle, by its path or its name in the package, for another runtime -> the files in `output`.

    `decoder`: the search of the page; None decodes greedily. Other runtimes have searches of their own.

    Raises:
        InputError: missing or damaged bundle, a model that the format cannot hold, or a folder that cannot be written.
    """
    make_folder(output)
    model = Bundle.load(bundle, "numpy")
    config = ModelConfig.of(model)
    if format == "sherpa" and config.frontend.sample_rate != SHERPA_RATE:
        rate = config.frontend.sample_rate
        raise InputError(
            f"{bundle}: sherpa-onnx needs a model of {SHERPA_RATE} Hz, this one is of {rate} Hz; export it as onnx"
        )
    live, tokens, card = streams(config), Tokenizer(model.tokens), model_card(bundle)
    about = {"model_card": card, "license": LICENCE if locate(bundle).parent == MODELS else ""}
    if format == "web":
        graph = streaming(model, bundle, weights) if live else offline(model, bundle, weights)
        contents = page_files(config, tokens, labelled(graph, about), live, decoder)
        if card:
            contents["model-card.md"] = card.encode()
    else:
        whole = labelled(offline(model, bundle, weights, format == "sherpa"), about)
        contents = {"model.onnx": whole.SerializeToString()}
        if format == "onnx" and live:
            contents["streaming.onnx"] = labelled(streaming(model, bundle, weights), about).SerializeToString()
        contents["tokens.txt"] = token_table(tokens).encode()
    for name, content in contents.items():
        with atomic_write(output / name) as partial:
            partial.write_bytes(content)
    return [output / name for name in contents]


def offline(bundle: Bundle, name: str, weights: Weights = "float32", sherpa: bool = False) -> onnx.ModelProto:
    """The graph for whole utterances; `name` of the bundle, for errors.

    Raises:
        InputError: the weights do not fit the configuration.
    """
    return _checked_session(
        bundle, name, lambda config, metadata: acoustic_graph(config, bundle.weights, weights, metadata, sherpa)
    )


def streaming(bundle: Bundle, name: str, weights: Weights = "float32") -> onnx.ModelProto:
    """The graph of a step of live streams.

    Raises:
        InputError: the model cannot stream, or the weights do not fit the configuration.
    """
    return _checked_session(
        bundle, name, lambda config, metadata: streaming_graph(config, bundle.weights, weights, metadata)
    )


def streams(config: ModelConfig) -> bool:
    """Whether the model has a graph for live streams."""
    try:
        refuse_streaming(config)
    except InputError:
        return False
    return True


def _checked_session(
    bundle: Bundle, name: str, graph: Callable[[ModelConfig, dict[str, str]], onnx.ModelProto]
) -> onnx.ModelProto:
    config = ModelConfig.of(bundle)
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return graph(config, _metadata(bundle, config))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    except FloatingPointError as error:
        raise InputError(
            f"{name}: its weights are zero, infinite or no numbers where none may be; copy it again"
        ) from error
    except MISFITS as error:
        raise InputError(f"{name}: the weights do not fit the bundle's own configuration; train it again") from error


def labelled(graph: onnx.ModelProto, about: dict[str, str]) -> onnx.ModelProto:
    """The same graph, with these facts in its metadata; empty ones are left out."""
    for key, value in about.items():
        if value:
            graph.metadata_props.add(key=key, value=value)
    return graph


def _metadata(bundle: Bundle, config: ModelConfig) -> dict[str, str]:
    """What stands in the file besides the graph: for every runtime, and as `ds2` for our own."""
    facts = replace(bundle, language_model=None, punctuation=None, neural_model=None).metadata()
    return {
        "tokens": json.dumps(bundle.tokens, ensure_ascii=False),
        "sample_rate": str(config.frontend.sample_rate),
        "frame_seconds": str(config.frame_seconds),
        "ds2_version": VERSION,
        "ds2": json.dumps(facts, ensure_ascii=False),
    }


def token_table(tokenizer: Tokenizer) -> str:
    """A line "TOKEN INDEX" for each token, the blank first.

    Raises:
        InputError: a token holds white space other than the space: the lines would give tokens other numbers.
    """
    names = [BLANK_NAME, *(token.replace(" ", SPACE_NAME) for token in tokenizer.tokens[1:])]
    if spaced := next((name for name in names if name.split() != [name]), None):
        raise InputError(f"tokens.txt cannot hold the token {spaced!r:.60}; the web page needs no such file")
    return "".join(f"{name} {index}\n" for index, name in enumerate(names))
