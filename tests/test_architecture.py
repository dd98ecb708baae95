"""The house: which room may import which."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ds2

PACKAGE = Path(ds2.__file__).parent
SHARED = {"bundle", "text", "metrics"}  # the vocabulary of all rooms; it stands on utils alone
FLOORS = {  # room: the rooms it may import besides itself, utils and the shared vocabulary
    "model": set(),
    "ctc": set(),
    "decoder": set(),
    "data": set(),
    "recognition": {"model", "ctc", "decoder", "data"},
    "curation": {"recognition", "ctc", "decoder", "data"},
    "train": {"model", "ctc", "decoder", "data"},
    "serve": {"recognition", "model", "decoder", "data"},
    "cli": {"serve", "train", "curation", "recognition", "model", "decoder", "data"},
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
    assert rooms - SHARED - {"__init__", "__main__", "utils"} == set(FLOORS)


@pytest.mark.parametrize(("here", "there"), sorted(imports()))
def test_imports_point_down(here: str, there: str) -> None:
    allowed = {"__init__": {"recognition"}, "__main__": {"cli"}, "utils": {"utils"}}
    allowed |= {name: SHARED | {"utils"} for name in SHARED}
    allowed |= {name: below | SHARED | {name, "utils", ""} for name, below in FLOORS.items()}
    assert there in allowed[here]


def test_import_ds2_is_light() -> None:
    heavy = "{'torch', 'numba', 'numpy', 'soundfile', 'torchaudio'}"
    code = f"import sys, ds2, ds2.cli; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
