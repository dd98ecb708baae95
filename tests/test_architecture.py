"""The plan of the package: which room may import which, and how large a file and a function may be."""

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

import ds2

PACKAGE = Path(ds2.__file__).parent
MOST_ENTRIES = 22  # of `ls ds2`
MOST_FILE_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 300, 50, 8
SHARED = {"bundle", "model_record", "text", "metrics"}  # the vocabulary of all rooms; it stands on utils alone
FLOORS = {  # room: the rooms it may import besides itself, utils and the shared vocabulary
    "lm": set(),
    "model": set(),
    "ctc": set(),
    "decoder": {"lm"},
    "audio": set(),
    "data": {"audio"},
    "export": {"model", "decoder"},
    "recognition": {"export", "model", "ctc", "decoder", "data", "audio", "lm"},
    "curation": {"recognition", "ctc", "decoder", "data", "audio"},
    "train": {"model", "ctc", "decoder", "data", "audio"},
    "serve": {"recognition", "model", "decoder", "data", "audio"},
    "spark": {"curation", "recognition", "data", "audio"},
    "cli": {"spark", "serve", "train", "curation", "export", "recognition", "model", "decoder", "data", "audio", "lm"},
}
SPEAKING = ("cli/", "__main__.py")  # may print, exit and name flags
FLAG = re.compile(r"(?<![\w-])--[a-z]+(-[a-z]+)*(?![\w-])")
FILES = sorted(PACKAGE.rglob("*.py"))
CHECKOUT = Path(__file__).parents[1]
# The same operation in torch, NumPy and ONNX.
MIRRORED = {"clipped_relu", "linear", "valid_mask", "_rnn_step", "_gru_step", "_lstm_step", "_of_steps"}
LARGE = {
    "digits",
    "digits-streaming",
    "english",
    "mandarin",
    "start",
}  # names of the bundles: nothing else grows the repository
INTERFACES = {"__getattr__", "main", "read", "write"}  # of the command, and of the corpus layouts
USERS = ("tests", "recipes", "benchmarks", "examples")  # folders of the checkout whose scripts import ds2


def name(path: Path) -> str:
    """ "recognition/align.py"."""
    return path.relative_to(PACKAGE).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.AST, modules: Collection[str] = ()) -> Iterator[str]:
    """All modules of ds2 that a file imports, also inside functions and under TYPE_CHECKING.

    Of `from ds2.cli import data` that is ds2.cli.data where it is among the `modules`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ds2":
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (module if module in modules else node.module for module in inner)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "ds2")


def room(module: str) -> str:
    """ "ds2.audio.files" -> "audio"; "ds2" -> ""."""
    return [*module.split("."), ""][1]


def rooms_imported() -> set[tuple[str, str]]:
    """All pairs (room, room it imports)."""
    return {(name(path).removesuffix(".py").split("/")[0], room(module)) for path in FILES
            for module in imported(parsed(path))}  # fmt: skip


def borrowed(tree: ast.AST) -> list[str]:
    """Names that come from a module which only imports them itself; a package may be the face of its files."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ds2":
            path = PACKAGE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            if path != PACKAGE.with_suffix(".py") and path.exists():
                found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name in names_imported(path)]
    return found


@cache
def names_imported(path: Path) -> set[str]:
    """Names at a module's top that other modules gave it."""
    top = parsed(path).body
    return {
        alias.asname or alias.name
        for node in [*top, *(inner for node in top if isinstance(node, ast.If) for inner in node.body)]
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
    }


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """A circle of arrows, if there is one: ["a", "b", "a"]."""
    done: set[str] = set()

    def walk(here: str, path: list[str]) -> list[str]:
        if here in path:
            return [*path[path.index(here) :], here]
        if here not in done:
            for there in sorted(arrows.get(here, ())):
                if found := walk(there, [*path, here]):
                    return found
            done.add(here)
        return []

    return next((found for start in sorted(arrows) if (found := walk(start, []))), [])


def spoken(tree: ast.AST) -> list[str]:
    """What a library module must not hold: print, exit, the names of flags."""
    found = []
    arguments = {id(inner) for node in ast.walk(tree) for item in list_items(node) for inner in ast.walk(item)}
    for node in ast.walk(tree):
        if id(node) in arguments:
            continue
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "exit", "quit", "sys.exit", "sys.stdout.write", "sys.stderr.write"):
                found.append(f"{node.lineno}: {called}()")
        elif isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc):
            found.append(f"{node.lineno}: raises SystemExit")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (flag := FLAG.search(node.value)):
            found.append(f"{node.lineno}: names the flag {flag[0]}")
    return found


def list_items(node: ast.AST) -> list[ast.expr]:
    """The strings of a list: the arguments of another command, which may be flags."""
    items = node.elts if isinstance(node, ast.List) else [node.elt] if isinstance(node, ast.ListComp) else []
    return [item for item in items if isinstance(item, ast.Constant | ast.JoinedStr)]


def too_large(tree: ast.AST) -> list[str]:
    """Functions with too many lines or parameters, kernels of numba aside."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_kernel(node):
            continue
        lines = (node.end_lineno or 0) - node.lineno + 1
        if lines > MOST_FUNCTION_LINES:
            found.append(f"{node.name}: {lines} lines")
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        parameters = [argument.arg for argument in every if argument.arg not in ("self", "cls")]
        if len(parameters) > MOST_PARAMETERS:
            found.append(f"{node.name}: {len(parameters)} parameters")
    return found


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        re.search("jit|overload|kernel|inlined", ast.unparse(decorator)) for decorator in function.decorator_list
    )


def test_every_room_is_on_the_plan() -> None:
    rooms = {name(path).removesuffix(".py").split("/")[0] for path in FILES}
    assert rooms - SHARED - {"__init__", "__main__", "utils"} == set(FLOORS)


def test_the_package_is_few_large_rooms() -> None:
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__", "compiled"}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_imports_point_down() -> None:
    allowed = {"__init__": {"recognition", "utils"}, "__main__": {"cli"}, "utils": {"utils"}}
    allowed |= {name: SHARED | {"utils"} for name in SHARED}
    allowed |= {name: below | SHARED | {name, "utils", ""} for name, below in FLOORS.items()}
    assert sorted((here, there) for here, there in rooms_imported() if there not in allowed[here]) == []


def test_no_circle_of_files() -> None:
    modules = {
        ".".join(["ds2", *name(path).removesuffix(".py").removesuffix("/__init__").split("/")]): path for path in FILES
    }
    modules["ds2"] = modules.pop("ds2.__init__")
    arrows = {
        module: {there for there in imported(parsed(path), modules) if there in modules and there != module}
        for module, path in modules.items()
    }
    assert len(arrows["ds2.cli.commands"]) > 5  # the imports are read
    assert circle(arrows) == []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b", "c"}, "b": {"d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    hidden = ast.parse("def f():\n    from ds2.text import x\nif TYPE_CHECKING:\n    from ds2.metrics import y\n")
    assert set(imported(hidden)) == {"ds2.text", "ds2.metrics"}


def test_a_name_is_imported_from_its_home() -> None:
    scripts = [path for folder in USERS for path in sorted((CHECKOUT / folder).rglob("*.py"))]
    found = {str(path): names for path in [*FILES, *scripts] if (names := borrowed(parsed(path)))}
    assert found == {}


def test_a_name_has_one_meaning() -> None:
    """No two classes or functions at the tops of modules share a name."""
    homes: dict[str, set[str]] = {}
    for path in FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                homes.setdefault(node.name, set()).add(name(path))
    shared = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert shared.keys() == MIRRORED | INTERFACES, shared


def test_a_borrowed_name_is_found() -> None:
    """The beam search imports Hypothesis; the package ctc shows its loss."""
    assert borrowed(ast.parse("from ds2.decoder.beam import Hypothesis, Config")) == ["ds2.decoder.beam.Hypothesis"]
    assert borrowed(ast.parse("from ds2.ctc import ctc_loss, alignment")) == []


@pytest.mark.parametrize("path", [path for path in FILES if not name(path).startswith(SPEAKING)], ids=name)
def test_a_library_module_neither_prints_nor_exits_nor_names_flags(path: Path) -> None:
    assert spoken(parsed(path)) == []


@pytest.mark.parametrize(
    "line", ["print(1)", "sys.exit(2)", "raise SystemExit", 'x = f"--device {name}: none"', '"use --beam 0"']
)
def test_what_a_library_module_must_not_hold_is_found(line: str) -> None:
    assert len(spoken(ast.parse(line))) == 1


def test_what_looks_like_a_flag_and_is_none_is_allowed() -> None:
    assert spoken(ast.parse('"a -- b, well--known, -----, <!-- note -->, o --t--> (to), |--the--|"')) == []
    assert spoken(ast.parse('["flite", "--setf", f"--set={key}"]')) == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_and_functions_are_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_FILE_LINES, f"{lines} lines"
    assert too_large(parsed(path)) == []


def test_a_long_function_and_many_parameters_are_found() -> None:
    body = "    pass\n" * MOST_FUNCTION_LINES
    assert too_large(ast.parse(f"def f():\n{body}")) == ["f: 51 lines"]
    assert too_large(ast.parse("def f(self, a, b, c, d, e, f, g, *, h, i): ...")) == ["f: 9 parameters"]
    assert too_large(ast.parse("@njit(cache=True)\ndef f(a, b, c, d, e, f, g, h, i): ...")) == []


def test_import_ds2_is_light() -> None:
    heavy = "{'torch', 'numba', 'numpy', 'soundfile', 'torchaudio'}"
    code = f"import sys, ds2, ds2.cli; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_imports_no_numpy() -> None:
    code = "import sys\ntry:\n    from ds2.cli.main import main; main(['--help'])\nexcept SystemExit: pass\n"
    result = subprocess.run(
        [sys.executable, "-c", f"{code}print('numpy' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "False"


def test_deadlines_and_intervals_do_not_follow_the_wall_clock() -> None:
    """It jumps when it is set. Only the times of files in the mirror of object storage are compared with it."""
    wall = re.compile(r"\btime\.time(_ns)?\(|from time import .*\btime\b|datetime\.(now|utcnow|today)\(")
    assert [name(path) for path in FILES if wall.search(path.read_text())] == ["utils/storage_cache.py"]


@pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="no checkout of git")
def test_nothing_large_enters_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    files = [CHECKOUT / name for name in listed.split("\0") if name]
    large = {file for file in files if file.is_file() and file.stat().st_size > 1_000_000}
    assert {file.name for file in large} <= {f"{name}.safetensors" for name in LARGE}
