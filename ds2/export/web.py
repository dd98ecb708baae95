"""A folder with a page that transcribes in the browser: onnxruntime-web, the model, no server behind it."""

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from ds2.export.search import Decoder, search_file
from ds2.model.config import ModelConfig
from ds2.model.steps import Steps
from ds2.text import Tokenizer
from ds2.utils.errors import InputError

RUNTIME = "onnxruntime-web@1.30.0"  # of npm; its licence is MIT
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")  # of the package's folder dist
NPM_SECONDS = 300
SEARCH_FILE = "search.safetensors"


def page_files(
    config: ModelConfig, tokenizer: Tokenizer, graph: onnx.ModelProto, live: bool, decoder: Decoder | None
) -> dict[str, bytes]:
    """Name -> content of all files of the page.

    Args:
        graph: of live streams, or (not `live`) of whole utterances.
        decoder: the search; None decodes greedily.

    Raises:
        InputError: npm is not installed, or cannot fetch onnxruntime-web.
    """
    page = resources.files("ds2.export") / "page"
    files = {each.name: each.read_bytes() for each in page.iterdir() if each.is_file()}
    facts = _model_json(config, list(tokenizer.tokens), graph, live)
    if decoder is not None:
        facts["search"] = SEARCH_FILE
        files[SEARCH_FILE] = search_file(decoder, tokenizer)
    files |= {"model.onnx": graph.SerializeToString(), "model.json": json.dumps(facts, ensure_ascii=False).encode()}
    return files | runtime_files()


def _model_json(config: ModelConfig, tokens: list[str], graph: onnx.ModelProto, live: bool) -> dict[str, Any]:
    """What model.js must know."""
    facts = {"tokens": tokens, "sample_rate": config.frontend.sample_rate, "frame_seconds": config.frame_seconds}
    if not live:
        return facts | {"streaming": False}
    states = {
        state.name: {
            "double": state.type.tensor_type.elem_type == TensorProto.DOUBLE,
            "shape": [size.dim_value for size in state.type.tensor_type.shape.dim[1:]],
        }
        for state in graph.graph.input[3:]
    }
    return facts | {"streaming": True, "steps": asdict(Steps.of(config)), "states": states}


def runtime_files() -> dict[str, bytes]:
    """The files of onnxruntime-web, by npm, which keeps them in its cache.

    Raises:
        InputError: npm is not installed, or cannot fetch the package.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise InputError("npm is not installed; it fetches onnxruntime-web for the page (on Debian: apt install npm)")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", RUNTIME, "--silent", "--prefer-offline", "--pack-destination", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=NPM_SECONDS, cwd=folder, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"npm cannot fetch {RUNTIME}: {error}") from error
        packed = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packed:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(f"npm cannot fetch {RUNTIME}: {reason:.200}")
        return _unpacked(packed[0].read_bytes())


def _unpacked(archive: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for name in RUNTIME_FILES:
            try:
                member = tar.extractfile(f"package/dist/{name}")
            except KeyError:
                member = None
            if member is None:
                raise InputError(f"{RUNTIME} lacks {name}")
            found[name] = member.read()
    return found
