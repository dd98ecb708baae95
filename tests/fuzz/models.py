"""Hostile models: bundles, compiled language models, ARPA files and checkpoints."""

import copy
import dataclasses
import gzip
import io
import json
import struct
import tempfile
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from conftest import TINY
from fuzz.kind import Files, Kind
from fuzz.mutations import dumped, mutated, mutated_json, mutated_text
from fuzz.sounds import AUDIO
from helpers.former_lm import in_16_bits
from helpers.neural import random_arrays

from ds2.bundle import Bundle, read_record
from ds2.cli.describe import describe_bundle
from ds2.decoder.config import BeamConfig
from ds2.decoder.pronunciations import Pronunciations
from ds2.export.package import export
from ds2.lm.arpa import write_arpa
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ModelConfig
from ds2.model_record import NeuralModelPart, PunctuationPart
from ds2.recognition.bundled_search import with_decoder
from ds2.recognition.calibration import WEIGHTS, Calibration
from ds2.recognition.decoding import make_beam_decoder
from ds2.recognition.formats import to_json
from ds2.recognition.punctuation import shapes
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tune_confidence import calibrated
from ds2.text import Tokenizer
from ds2.train.checkpoint import load_checkpoint
from ds2.utils.config import to_dict

ORDERS = estimate([["a", "b"], ["b", "a", "c"], ["a", "c", "c"], ["c"]], EstimateConfig(3))
TOKENS = ["<blank>", " ", "a", "b", "c"]
IDEOGRAPHS = ["<blank>", "中", "国", "人", "民"]
PRONUNCIATIONS = Pronunciations.of({"a": [(2, 3), (4,)], "b": [(2, 3)], "c": [(5,)]})
EXTREMES = (0.0, -0.0, 1e-45, 1e38, -1e38, float("nan"), float("inf"), float("-inf"))
TYPES = ("F32", "F16", "BF16", "F64", "I32", "I64", "U8", "BOOL", "I16", "F8_E4M3", "X")
SOUND = (AUDIO / "so762_000010035.opus").read_bytes()


def lm_seeds() -> list[Files]:
    """A model with each type of array that a file may have: natural logarithms, 16-bit ones as once, and packed."""
    model = NGram.from_orders(*ORDERS)
    first = model.arrays["first"].astype(np.int32)
    narrow = NGram.from_arrays(model.words, model.arrays | {"first": first}, model.order)
    return [{"lm": saved(each.save)} for each in (model, narrow, in_16_bits(model), model.quantized())]


def arpa_seeds() -> list[Files]:
    return [{"lm.arpa": saved(lambda path: write_arpa(path, *ORDERS))}]


def bundle_seeds() -> list[Files]:
    """Greedy, with a closed vocabulary, with a language model, with pronunciations, with all that ds2 adds, and without
    spaces."""
    torch.manual_seed(0)
    plain = random_bundle(TINY)
    model = NGram.from_orders(*ORDERS)
    closed = dataclasses.replace(plain, vocabulary=["a", "b", "ab"])
    spoken = with_decoder(random_bundle(dataclasses.replace(TINY, phones=6)), BeamConfig(), model, PRONUNCIATIONS)
    judged = calibrated(spoken, Calibration((0.1,) * WEIGHTS, 0.5, 0.1))
    tagger = {name: torch.randn(shape).half() for name, shape in shapes(2, 4, 3, 2).items()}
    full = dataclasses.replace(judged, punctuation=PunctuationPart(["a", "b"], {"comma": 0.5}, arrays=tagger))
    neural = {name: torch.from_numpy(values) for name, values in random_arrays(["_a", "_b"], 4, 6, seed=1).items()}
    full = dataclasses.replace(full, neural_model=NeuralModelPart(["_a", "_b"], 0.5, 0.5, 0.5, neural))
    mandarin = with_decoder(
        dataclasses.replace(random_bundle(dataclasses.replace(TINY, phones=6)), tokens=IDEOGRAPHS),
        BeamConfig(beam_width=20, closed=True, recombine=True, eager=True),
        NGram.from_orders(*estimate([["中", "国"], ["国", "人", "中"], ["人"]], EstimateConfig(3))),
        Pronunciations.of({"中": [(2, 3)], "国": [(2, 3), (4,)], "人": [(5,)]}),
    )
    bundles = (plain, closed, with_decoder(plain, BeamConfig(), model), spoken, full, full, mandarin)
    return [{"model.safetensors": saved(bundle.save)} for bundle in bundles]


def checkpoint_seeds() -> list[Files]:
    """What a training keeps: tensors that share memory, nested values, random states."""
    weights = torch.arange(12.0)
    state = {
        "model": {"a": weights, "b": weights[2:5]},
        "optimizer": {"state": {0: {"step": 1}}, "groups": [{"lr": 1.0}]},
    }
    state |= {"epoch": 3, "random": torch.get_rng_state()[:64], "half": weights.bfloat16(), "text": "x"}
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return [{"checkpoint.pt": buffer.getvalue()}]


def onnx_seeds() -> list[Files]:
    """Models of each cell, for live streams or not."""
    torch.manual_seed(0)
    live = {"bidirectional": False, "lookahead": 3, "frontend": dataclasses.replace(TINY.frontend, power="adaptive")}
    changes: tuple[dict[str, Any], ...] = ({}, {"cell": "lstm", "phones": 6}, live, {"cell": "bn-lstm"})
    bundles = [random_bundle(dataclasses.replace(TINY, **change)) for change in changes]
    return [{"model.safetensors": saved(bundle.save)} for bundle in bundles]


def random_bundle(config: ModelConfig) -> Bundle:
    """Of a model of random weights that says something else at every frame."""
    model = AcousticModel(config, len(TOKENS))
    torch.nn.init.normal_(model.output.weight, std=2.0)
    return Bundle(weights=model.state_dict(), config=to_dict(config), tokens=TOKENS, training={"wer": 1.0})


def saved(save: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder, "model"))
        return Path(folder, "model").read_bytes()


def make_safetensors(rng: Random, valid: list[Files]) -> Files:
    """Header, metadata or values changed in a file that is well formed but for that; now and then any bytes."""
    [(name, data)] = rng.choice(valid).items()
    if rng.random() < 0.15:
        return {name: mutated(rng, data)}
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    for _ in range(rng.choice((1, 1, 2))):
        match rng.randrange(5):
            case 0 | 1:
                about = header["__metadata__"]
                key = rng.choice(list(about))
                about[key] = _changed_text(rng, about[key])
            case 2:
                _change_entry(rng, header)
            case 3:
                header = mutated_json(rng, header) if rng.random() < 0.3 else header
                if not isinstance(header, dict) or "__metadata__" not in header:
                    break
            case _:
                _change_values(rng, body)
        if not isinstance(header.get("__metadata__"), dict) or not header["__metadata__"]:
            break
    text = dumped(header)
    return {name: struct.pack("<Q", len(text)) + text + body}


def _changed_text(rng: Random, text: Any) -> Any:
    """JSON in a string, changed; another string is replaced."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return mutated_json(rng, [text])
    return dumped(mutated_json(rng, value)).decode("utf-8", "surrogatepass")


def _change_entry(rng: Random, header: dict[str, Any]) -> None:
    """Another type, shape, place or name of a tensor."""
    names = [name for name in header if name != "__metadata__" and isinstance(header[name], dict)]
    if not names:
        return
    name, other = rng.choice(names), rng.choice(names)
    entry = header[name]
    if not {"dtype", "shape", "data_offsets"} <= entry.keys() or not isinstance(entry["shape"], list):
        return  # changed before
    match rng.randrange(5):
        case 0:
            entry["dtype"] = rng.choice(TYPES)
        case 1:
            entry["shape"] = rng.choice(
                ([], [1, *entry["shape"]], entry["shape"][::-1], [0], [2**62], [*entry["shape"], 1])
            )
        case 2:
            header[name], header[other] = header[other], header[name]
        case 3:
            header[rng.choice(("x", "", "language_model/x", name + "x"))] = header.pop(name)
        case 4:
            size = {"F64": 8, "I64": 8, "F16": 2, "BF16": 2, "I16": 2, "U8": 1, "BOOL": 1}
            dtype = rng.choice(list(size))
            match entry["data_offsets"]:
                case [int(start), int(end)]:
                    pass
                case _:
                    return
            if (end - start) % size[dtype] == 0:  # the same bytes, seen in another way
                entry |= {"dtype": dtype, "shape": [(end - start) // size[dtype]]}


def _change_values(rng: Random, body: bytearray) -> None:
    """Extreme numbers at aligned places."""
    for _ in range(rng.choice((1, 4, 200))):
        if len(body) < 16:
            return
        place = rng.randrange(len(body) // 4) * 4
        if rng.random() < 0.5:
            body[place : place + 4] = np.float32(rng.choice(EXTREMES)).tobytes()
        else:
            body[place : place + 4] = struct.pack("<i", rng.choice((-1, 0, 1, 2**31 - 1, -(2**31), rng.randrange(100))))


def make_arpa(rng: Random, valid: list[Files]) -> Files:
    """Words and lines changed; a third is gzipped, and of these every other damaged."""
    [(name, data)] = rng.choice(valid).items()
    data = mutated_text(rng, data.decode())
    if rng.random() < 0.67:
        return {name: data}
    packed = gzip.compress(data, 1, mtime=0)
    return {f"{name}.gz": mutated(rng, packed) if rng.random() < 0.5 else packed}


def make_checkpoint(rng: Random, valid: list[Files]) -> Files:
    """Changed bytes; tensors that claim other shapes; a part of the archive changed, and its checksum right."""
    [(name, data)] = rng.choice(valid).items()
    if rng.random() < 0.2:
        return {name: _claiming(rng)}
    if rng.random() < 0.4:
        return {name: mutated(rng, data)}
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w", rng.choice((0, 0, 0, 8))) as new:
        parts = {info.filename: old.read(info) for info in old.infolist()}
        for part in rng.sample(sorted(parts), rng.choice((1, 1, 2))):
            parts[part] = mutated(rng, parts[part])
        if rng.random() < 0.1:
            parts.pop(rng.choice(sorted(parts)))
        for part, content in parts.items():
            new.writestr(zipfile.ZipInfo(part), content)
    return {name: changed.getvalue()}


def _claiming(rng: Random) -> bytes:
    """Tensors that see a few elements in other shapes, up to one that holds more than any machine."""
    weights, buffer = torch.arange(float(rng.choice((1, 12, 500)))), io.BytesIO()
    shapes = ((1,), (1, 4), (1 << 10, 1 << 10), (1 << 40,), (1 << 20, 1 << 20, 1 << 20))
    views = [weights[:1].expand(rng.choice(shapes)) for _ in range(rng.choice((1, 2, 100)))]
    torch.save({"model": {"a": weights}, "epoch": rng.choice((3, views)), "half": views}, buffer)
    return buffer.getvalue()


def enter_lm(path: Path) -> None:
    """Loads it, scores a sentence and searches with it."""
    model = NGram.load(path)
    model.score(["a", "b", "c", "b"])
    rows = torch.randn(1, 40, 5, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    make_beam_decoder(Tokenizer(TOKENS), BeamConfig(), model)(rows, torch.tensor([40]))


def enter_bundle(path: Path) -> None:
    """Shows what is in it, loads it, and transcribes with it."""
    describe_bundle(path)
    assert read_record(path).knows
    transcript = Recognizer.load(path, "cpu").transcribe(SOUND)
    transcript.to_srt()
    json.loads(to_json(transcript, ""), parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def enter_onnx(path: Path) -> None:
    """Exports it, and runs the graph."""
    model = export(str(path), path.parent / "out")[0]
    recognizer = Recognizer.load(model, "cpu", engine="onnx")
    recognizer.transcribe(SOUND)
    if model.with_name("streaming.onnx").exists():
        stream = recognizer.stream()
        stream.accept(np.sin(np.arange(8000, dtype=np.float32)), recognizer.sample_rate)
        stream.finish()


def enter_checkpoint(path: Path) -> None:
    copy.deepcopy(load_checkpoint(path, "model", "epoch"))


LM = Kind(lm_seeds, make_safetensors, enter_lm)
ARPA = Kind(arpa_seeds, make_arpa, enter_lm)
ONNX = Kind(onnx_seeds, make_safetensors, enter_onnx)
BUNDLE = Kind(bundle_seeds, make_safetensors, enter_bundle)
CHECKPOINT = Kind(checkpoint_seeds, make_checkpoint, enter_checkpoint)
