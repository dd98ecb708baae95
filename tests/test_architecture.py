"""The house: which room may import which."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ds2

PACKAGE = Path(ds2.__file__).parent
GROUND = {
    "errors",
    "files",
    "progress",
    "config",
    "text",
    "metrics",
    "bundle",
    "cuda",
    "decoder_options",
    "extras",
    "exponential",
    "jit",
    "",
}  # "" is ds2 itself
FLOORS = {  # room: the rooms it may import besides itself and the ground floor
    "model": set(),
    "ctc": set(),
    "decoder": set(),
    "data": set(),
    "decoding": {"decoder"},
    "decoder_tuning": {"recognizer", "decoding", "decoder", "data"},
    "jobs": set(),
    "recognizer": {"jobs", "transcript", "decoding", "model", "ctc", "decoder", "data"},
    "transcript": {"decoder"},
    "align": {"recognizer", "transcript", "ctc", "decoder", "data"},
    "pictures": {"align", "data"},
    "corpus": {"align", "recognizer", "transcript", "ctc", "decoder", "data", "pictures"},
    "formats": {"transcript"},
    "evaluate": {"recognizer", "data"},
    "transcription": {"recognizer", "transcript", "data", "formats"},
    "info": {"data", "model"},
    "average": set(),
    "lm": {"decoder"},
    "train": {"model", "ctc", "decoder", "data"},
    "serve": {"recognizer", "transcript", "model", "decoder", "data", "formats"},
    "cli": {
        "decoding",
        "decoder_tuning",
        "serve",
        "lm",
        "decoder",
        "recognizer",
        "train",
        "evaluate",
        "transcription",
        "info",
        "formats",
        "data",
        "align",
        "pictures",
        "average",
        "corpus",
    },
}


def room(module: str) -> str:
    """ "ds2.data.audio" -> "data"; "ds2" -> ""."""
    return [*module.split("."), ""][1]


def imports() -> set[tuple[str, str]]:
    """All pairs (room, room it imports), imports inside functions included."""
    pairs = set()
    for path in PACKAGE.rglob("*.py"):
        here = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ds2":
                pairs.add((here, room(node.module)))
            elif isinstance(node, ast.Import):
                pairs |= {(here, room(name.name)) for name in node.names if name.name.split(".")[0] == "ds2"}
    return pairs


def test_every_room_is_on_the_plan() -> None:
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert rooms - GROUND - {"__init__"} == set(FLOORS)


@pytest.mark.parametrize(("here", "there"), sorted(imports()))
def test_imports_point_down(here: str, there: str) -> None:
    if here == "__init__":
        assert there in {"recognizer", "transcript"}
    elif here in GROUND:
        assert there in GROUND
    else:
        assert there in GROUND | FLOORS[here] | {here}


def test_import_ds2_is_light() -> None:
    heavy = "{'torch', 'numba', 'numpy', 'soundfile', 'torchaudio'}"
    code = f"import sys, ds2, ds2.cli; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
