"""A tampered language model ends in a one-line error, never in a crash or an endless search."""

import gzip
import json
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.former_lm import in_16_bits

from ds2.bundle import Bundle
from ds2.decoder.config import BeamConfig
from ds2.lm import arpa
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.model_record import LanguageModelPart
from ds2.recognition.bundled_search import bundled_model, with_decoder
from ds2.utils.errors import InputError

MODEL = NGram.from_orders(*estimate([["a", "b"], ["b", "a", "c"], ["a"]], EstimateConfig(3)))
ARRAYS = tuple(MODEL.arrays)
PACKED = MODEL.quantized()
HUGE = 2**31 - 1
Change = Callable[[np.ndarray], np.ndarray]


def put(value: float, place: int = -1) -> Change:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        array[place] = np.clip(value, limits.min, limits.max) if np.isfinite(value) else value
        return array

    return change


CHANGES: dict[str, Change] = {
    "huge": put(HUGE),
    "negative": put(-7),
    "negative first": put(-7, 0),
    "cut": lambda array: array[:-3],
    "longer": lambda array: np.append(array, array[-1:]),
    "empty": lambda array: array[:0],
    "2-D": lambda array: array[None],
    "wrong type": lambda array: array.astype(np.float64 if array.dtype.kind != "f" else np.int32),
    "reversed": lambda array: array[::-1],
}


def cases(model: NGram) -> dict[str, tuple[str, Change]]:
    return {f"{name} {kind}": (name, change) for name in model.arrays for kind, change in CHANGES.items()}


CASES = cases(MODEL)
CASES |= {
    "log_probs of NaN": ("log_probs", put(np.nan)),
    "log_probs of +inf": ("log_probs", put(np.inf)),
    "backoffs of NaN": ("backoffs", put(np.nan)),
    "backoffs of -inf": ("backoffs", put(-np.inf)),
    "shorter leads to itself": ("shorter", lambda array: np.arange(len(array), dtype=np.int32)),
    "shorter leads in a circle": ("shorter", lambda array: np.roll(np.arange(len(array), dtype=np.int32), 1)),
    "shorter one by one": ("shorter", lambda array: np.maximum(np.arange(len(array), dtype=np.int32) - 1, 0)),
    "next negative": ("next", lambda array: -array),
    "words beyond": ("words", lambda array: array + 1),
}
HARMLESS = {"log_probs negative", "log_probs negative first", "log_probs reversed", "next reversed",
            "backoffs negative", "backoffs negative first", "backoffs reversed"}  # fmt: skip
BEYOND_16_BITS = {name for name in CASES if "NaN" in name or "inf" in name}
BEYOND_16_BITS |= {"words negative", "words negative first", "backoffs huge"}
QUANTIZED = {name: case for name, case in CASES.items() if name not in BEYOND_16_BITS}


PACKED_CASES = cases(PACKED) | {
    "levels of NaN": ("levels", put(np.nan)),
    "levels of -inf": ("levels", put(-np.inf)),
    "levels of +inf": ("levels", put(np.inf)),
    "backoff_levels of NaN": ("backoff_levels", put(np.nan)),
    "shorter leads to itself": ("shorter", lambda array: np.full_like(array, 2**32 - 1)),
    "marks of none": ("marks", lambda array: np.zeros_like(array)),
    "marks of all": ("marks", lambda array: np.where(np.arange(len(array)) % 2, 2**32 - 1, array).astype(np.uint32)),
    "words of all": ("words", lambda array: np.full_like(array, 2**32 - 1)),
    "first of all": ("first", lambda array: np.full_like(array, 2**32 - 1)),
    "first of none": ("first", lambda array: np.zeros_like(array)),
}
# Every byte names a level; the first mark was 0 before; the last 32 bits of numbers in bits are past all of them.
PACKED_HARMLESS = {f"{name} {kind}" for name in ("singles", "log_probs", "backoffs", "levels", "backoff_levels")
                   for kind in ("negative", "negative first", "reversed")}  # fmt: skip
PACKED_HARMLESS |= {"log_probs huge", "backoffs huge", "marks negative first"}
PACKED_HARMLESS |= {f"{name} {kind}" for name in ("words", "first", "shorter") for kind in ("huge", "negative")}
PACKED_HARMLESS |= {"shorter negative first", "shorter reversed"}  # contexts forget more, and none goes astray


def tampered(model: NGram, name: str, change: Change) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return model.arrays | {name: change(model.arrays[name])}


def save(path: Path, arrays: Mapping[str, np.ndarray], **metadata: str) -> Path:
    from safetensors.numpy import save_file

    kind = "ds2-ngram-2" if "marks" in arrays else "ds2-ngram-1"
    about = {"format": kind, "order": "3", "words": json.dumps(MODEL.words)} | metadata
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, about)
    return path


SEARCH = """
import sys
import torch
from ds2.lm.ngram import NGram
from ds2.recognition.decoding import make_beam_decoder
from ds2.decoder.config import BeamConfig
from ds2.text import Tokenizer
from ds2.utils.errors import InputError
rows = torch.randn(1, 60, 5, generator=torch.Generator().manual_seed(0)).log_softmax(2)
for path in sys.argv[1:]:
    try:
        model = NGram.load(path)
        model.score(["a", "b", "c", "b"])
        make_beam_decoder(Tokenizer.from_texts(["a b c"]), BeamConfig(), model)(rows, torch.tensor([60]))
        print("searched")
    except InputError as error:
        print(error)
"""


@pytest.mark.long
def test_tampered_models_are_refused_or_harmless(tmp_path: Path) -> None:
    """The searches run in a separate process, because a search over an accepted model may crash it."""
    tampered_models = [
        (f"{kind} {name}", tampered(model, *case), name in harmless)
        for kind, model, cases, harmless in (
            ("natural", MODEL, CASES, HARMLESS),
            ("in 16 bits", in_16_bits(MODEL), QUANTIZED, HARMLESS),
            ("packed", PACKED, PACKED_CASES, PACKED_HARMLESS),
        )
        for name, case in cases.items()
    ]
    paths = [save(tmp_path / f"{number}", arrays) for number, (_, arrays, _) in enumerate(tampered_models)]
    result = subprocess.run(
        [sys.executable, "-c", SEARCH, *map(str, paths)], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == len(tampered_models)
    for (name, _, harmless), path, line in zip(tampered_models, paths, lines, strict=True):
        if line == "searched":
            assert harmless, name
        else:
            assert line.startswith(f"{path}: ")


@pytest.mark.parametrize("order", ["Infinity", "NaN", "[]", '"x"'])
def test_an_order_that_is_no_integer_is_refused(tmp_path: Path, order: str) -> None:
    data = save(tmp_path / "model", MODEL.arrays).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].replace(b'"order":"3"', b'"order":' + order.encode())
    (tmp_path / "model").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])
    with pytest.raises(InputError, match="neither an ARPA file nor a language model"):
        NGram.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("model", "case"),
    [(MODEL, CASES[name]) for name in ("next huge", "shorter leads in a circle", "backoffs of NaN", "words 2-D")]
    + [(PACKED, PACKED_CASES[name]) for name in ("marks huge", "first cut", "levels of NaN")],
)
def test_tampered_models_in_a_bundle_are_refused(
    tiny_bundle: Path, tmp_path: Path, model: NGram, case: tuple[str, Change]
) -> None:
    bundle = with_decoder(Bundle.load(tiny_bundle), BeamConfig(), model)
    arrays = tampered(model, *case)
    tensors = {key: torch.from_numpy(array.copy()) for key, array in arrays.items()}
    replace(bundle, language_model=LanguageModelPart(model.order, model.words, tensors)).save(tmp_path / "bundle")
    with pytest.raises(InputError, match="the bundle's language model is damaged"):
        bundled_model(Bundle.load(tmp_path / "bundle"))


def test_a_bundle_that_lacks_arrays_or_holds_others_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = with_decoder(Bundle.load(tiny_bundle), BeamConfig(), MODEL)
    assert bundle.language_model is not None
    whole = bundle.language_model.arrays
    short = {name: tensor for name, tensor in whole.items() if name != "next"}
    half = whole | {"log_probs": whole["log_probs"].bfloat16()}
    for arrays in (short, half):
        with pytest.raises(InputError, match="the bundle's language model is damaged"):
            bundled_model(replace(bundle, language_model=replace(bundle.language_model, arrays=arrays)))
    bundle.save(tmp_path / "bundle")
    data = (tmp_path / "bundle").read_bytes()
    (tmp_path / "bundle").write_bytes(data.replace(b'language_model\\"', b'languageXmodel\\"'))
    with pytest.raises(InputError, match=r"damaged model bundle \(language_model is missing"):
        Bundle.load(tmp_path / "bundle")


@pytest.mark.parametrize(
    "metadata",
    [
        {"words": "[" * 100_000},
        {"words": "{}"},
        {"words": '["<unk>", "<unk>"]'},
        {"words": '["a", "b"]'},
        {"words": "[5]"},
        {"order": "9" * 5000},
        {"order": "0"},
        {"order": "1000000"},
        {"order": "²"},
    ],
)
def test_metadata_that_is_none_is_refused(tmp_path: Path, metadata: dict[str, str]) -> None:
    with pytest.raises(InputError, match="lm: "):
        NGram.load(save(tmp_path / "lm", MODEL.arrays, **metadata))


def test_headers_that_are_none_are_refused(tmp_path: Path) -> None:
    for text in (b"[" * 100_000, b"[]", b"5", b'{"__metadata__": 5}', b"\xff\xfe", b""):
        for length in (len(text), 2**63, 2**64 - 1):
            (tmp_path / "lm").write_bytes(struct.pack("<Q", length) + text)
            with pytest.raises(InputError, match="neither an ARPA file"):
                NGram.load(tmp_path / "lm")


ARPA = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-0.5\t</s>\n-0.7\tcat\n\n\\end\\\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</s>", "dog", "</s> is not among the 1-grams"),
        ("=4", "=²", "line 2: expected ngram 1=COUNT"),
        ("=4", "=" + "9" * 5000, "line 2: expected ngram 1=COUNT"),
        ("=4", "=999999999999", "line 10: not a 1-gram"),
        ("cat", "c" * 10_000_000, "line 8: longer than 100,000 characters"),
        ("ngram 1=4\n", "".join(f"ngram {order}=4\n" for order in range(1, 1000)), "more than 64 words"),
        ("-0.7", "0.7", "line 8: not a 1-gram"),
        ("-0.7", "inf", "line 8: not a 1-gram"),
        ("-0.7\tcat", "-0.7\tcat\t1e300", "line 8: not a 1-gram"),
    ],
)
def test_hostile_arpa_files_are_refused_at_once(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ARPA
    for path in (tmp_path / "lm.arpa", tmp_path / "lm.arpa.gz"):
        data = ARPA.replace(old, new).encode()
        path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
        with pytest.raises(InputError, match=message) as error:
            NGram.load(path)
        assert len(str(error.value)) < 500


def test_a_long_word_that_is_not_among_the_single_words_is_cut_in_the_message(tmp_path: Path) -> None:
    text = ARPA.replace("=4", "=4\nngram 2=1").replace("\\end", "\\2-grams:\n-1\t" + "c" * 5000 + " cat\n\n\\end")
    (tmp_path / "lm.arpa").write_text(text)
    with pytest.raises(InputError, match=r"the word 'c{59} stands in an n-gram"):
        NGram.load(tmp_path / "lm.arpa")


@pytest.mark.parametrize("place", [9, 40, 3000, -20, -5])
def test_damaged_gzip_is_refused(tmp_path: Path, place: int) -> None:
    rng = np.random.default_rng(0)
    words = "".join(f"-2\tw{number}\n" for number in rng.permutation(3000))
    data = bytearray(gzip.compress(ARPA.replace("=4", "=3004").replace("-0.7\tcat\n", "-0.7\tcat\n" + words).encode()))
    NGram.load(write(tmp_path / "whole.arpa.gz", data))
    for step in range(1, 8):
        damaged = bytearray(data)
        damaged[place] ^= step * 31
        damaged[place + 1] ^= 255
        with pytest.raises(InputError):
            NGram.load(write(tmp_path / "lm.arpa.gz", damaged))


def write(path: Path, data: bytearray) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("line", ["0\ta", "0\ta a", ""], ids=["a word", "a bigram", "nothing"])
def test_a_packed_model_does_not_fill_the_memory(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that a file of a few kilobytes repeats: what the model would hold before it is refused is bounded."""
    monkeypatch.setattr(arpa, "LARGE_TEXT", 100_000)
    order = 2 if " " in line else 1
    counts = "".join(f"ngram {k}={3 if k < order else 1_000_000}\n" for k in range(1, order + 1))
    head = f"\\data\\\n{counts}\n\\1-grams:\n0\t</s>\n0\t<s>\n"
    text = head + ("0\ta\n\\2-grams:\n" if order == 2 else "") + f"{line}\n" * 1_000_000
    path = write(tmp_path / "lm.arpa.gz", gzip.compress(text.encode()))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"a 1-gram stands twice|packed over 200 to 1"):
        NGram.load(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 30_000_000
