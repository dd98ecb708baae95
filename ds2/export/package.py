"""A folder that another runtime loads: model.onnx and tokens.txt."""

import json
from pathlib import Path

import ds2
from ds2.export.acoustic import acoustic_graph
from ds2.export.options import Format, Weights
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder

SHERPA_RATE = 16000  # Hz: sherpa-onnx resamples what a model of raw samples hears to this rate
BLANK_NAME, SPACE_NAME = "<blk>", "▁"  # as sherpa-onnx and onnx-asr name them


def export(bundle: str, output: Path, format: Format = "onnx", weights: Weights = "float32") -> list[Path]:
    """Writes a bundle, by its path or its name in the package, for another runtime -> the files in `output`.

    Raises:
        InputError: missing or damaged bundle, a model that the format cannot hold, or a folder that cannot be written.
    """
    make_folder(output)
    recognizer = Recognizer.load(bundle, "cpu", DecoderOptions(beam=0))
    if format == "sherpa" and recognizer.sample_rate != SHERPA_RATE:
        raise InputError(
            f"{bundle}: sherpa-onnx needs a model of {SHERPA_RATE} Hz, this one is of {recognizer.sample_rate} Hz; "
            "export it as onnx"
        )
    metadata = {
        "tokens": json.dumps(recognizer.tokenizer.tokens, ensure_ascii=False),
        "sample_rate": str(recognizer.sample_rate),
        "frame_seconds": str(recognizer.model.config.frame_seconds),
        "ds2_version": ds2.__version__,
    }
    try:
        model = acoustic_graph(recognizer.model, weights, metadata, lengths_input=format == "onnx")
    except InputError as error:
        raise InputError(f"{bundle}: {error}") from error
    contents = {"model.onnx": model.SerializeToString(), "tokens.txt": token_table(recognizer.tokenizer).encode()}
    for name, content in contents.items():
        with atomic_write(output / name) as partial:
            partial.write_bytes(content)
    return [output / name for name in contents]


def token_table(tokenizer: Tokenizer) -> str:
    """A line "TOKEN INDEX" for each token, the blank first."""
    names = [BLANK_NAME, *(token.replace(" ", SPACE_NAME) for token in tokenizer.tokens[1:])]
    return "".join(f"{name} {index}\n" for index, name in enumerate(names))
