"""ds2 export: a trained model for other runtimes."""

import sys
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.cli.options import DEFAULT_SEARCH, Output, Search
from ds2.export.options import Format, Weights
from ds2.utils.errors import ParameterError, printable
from ds2.utils.extras import need


def export_command(
    model: Positional[Annotated[str, tyro.conf.arg(metavar="MODEL")]],
    output: Output,
    format: Format = "onnx",
    weights: Weights = "float32",
    decoder: Search = DEFAULT_SEARCH,
) -> int:
    """Write a model for onnxruntime, sherpa-onnx or the browser.

    For onnxruntime and sherpa-onnx it is the network alone: the language model and the pronunciations of english stay
    behind, and with them much of its accuracy. The page has them.

    Example: ds2 export english --format sherpa --weights int8 --output english-sherpa

    Args:
        model: Bundle of a trained model, or the name of one (ds2 models list).
        output: Folder for model.onnx and tokens.txt, and streaming.onnx if the model streams; or for the page.
        format: onnx takes a batch of samples and their lengths; sherpa takes samples only, as sherpa-onnx passes them;
            web is a page that transcribes in the browser (needs npm).
        weights: Type of the weights in the file; int8 makes it about a quarter as large.
        decoder: Options of the page's search.
    """
    need("onnx")
    from ds2.bundle import Bundle, read_record
    from ds2.export.package import export
    from ds2.recognition.decoding import make_beam
    from ds2.text import Tokenizer

    if output.suffix == ".onnx":
        raise ParameterError("output", f"{output}: name a folder; it gets model.onnx and what belongs to it")
    if format != "web" and decoder != DEFAULT_SEARCH:
        raise ParameterError("format", f"{format}: other runtimes have searches of their own; use --format web")
    beam = None
    if format == "web":
        bundle = Bundle.load(model, "numpy")
        beam = make_beam(Tokenizer(bundle.tokens), bundle, decoder)
    for path in export(model, output, format, weights, beam):
        print(f"{path}: {path.stat().st_size:,} bytes")
    if format != "web" and read_record(model).language_model is not None:
        print(
            f"ds2: model.onnx is the network alone: without the language model of {printable(model)} it has many more "
            f"errors; ds2 transcribe --model {printable(model)} --engine onnx has both",
            file=sys.stderr,
        )
    return 0
