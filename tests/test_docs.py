"""The reference of the site has every command, option, configuration key and package."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from ds2.cli import exits
from ds2.cli.commands import all_commands
from ds2.model.config import ConvolutionConfig, FrontendConfig
from ds2.serve.prometheus import Metrics
from ds2.train.config import OptimizerConfig, TrainConfig

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "reference"]  # written by people


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(DOCS))
    try:
        import pages
    finally:
        sys.path.remove(str(DOCS))
    folder = tmp_path_factory.mktemp("reference")
    pages.write_reference(folder)
    return folder


def test_every_command_is_in_the_reference_with_its_example(reference: Path) -> None:
    sections = (reference / "commands.md").read_text().split("\n### ")
    found = {section.partition("\n")[0]: section for section in sections}
    for command in all_commands():
        assert f"```shell\nds2 {command}" in found[f"ds2 {command}"]
    assert "| `--hot STR` | Word or 'phrase of words' to prefer" in found["ds2 transcribe"]
    assert "| `-o, --output PATH` |" in found["ds2 transcribe"]


def test_every_key_is_in_the_reference_with_type_default_and_meaning(reference: Path) -> None:
    text = (reference / "configuration.md").read_text()
    for config in (TrainConfig, OptimizerConfig, FrontendConfig, ConvolutionConfig):
        for field in fields(config):
            assert f"| `{field.name}` | " in text or f"[{field.name}]" in text or f"[model.{field.name}" in text
    assert "| `hop` | `float` | `0.01` | seconds |" in text
    keys = re.findall(r"^\| `\w+` \|.*$", text, re.MULTILINE)
    assert len(keys) > 100
    assert [row for row in keys if row.endswith("|  |")] == []
    # a comment on the line before the key, not after it
    assert "| `mean` |" in text
    assert "what is subtracted from each bin" in text


def test_functions_are_in_the_reference_with_signature_and_arguments(reference: Path) -> None:
    text = (reference / "ds2.ctc.md").read_text()
    assert "{py:function} ctc_loss(logits: Tensor, targets: Tensor" in text
    assert "- `target_lengths`: (B,) labels of each utterance, 0 allowed." in text
    index = (DOCS / "index.md").read_text()
    for page in reference.glob("*.md"):
        assert f"reference/{page.stem}\n" in index, page.stem


def test_exit_codes_are_in_the_reference(reference: Path) -> None:
    table = (reference / "commands.md").read_text().partition("## Exit codes")[2]
    codes = {name: value for name, value in vars(exits).items() if name.isupper()}
    assert codes["BAD_INPUT"] == 2
    for name, code in codes.items():
        assert f"| {code} | `{name}` | " in table


def test_every_series_of_the_server_is_in_the_reference(reference: Path) -> None:
    """As the server writes them, a histogram's by its own name."""
    found = set(re.findall(r"^\| `(ds2_\w+)` \|", (reference / "server_metrics.md").read_text(), re.MULTILINE))
    written = re.findall(r"^# TYPE (ds2_\w+) ", Metrics().text().decode(), re.MULTILINE)
    assert found == {name for name in written if not name.endswith("_created")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_found_from_the_index(page: Path) -> None:
    entries = re.findall(r"^[\w/.]+$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert page.relative_to(DOCS).with_suffix("").as_posix() in [*entries, "index"]


SHAPE = re.compile(r"(?<!\w)\((?:|\*\w+|\.\.\.|[\w' +*/.()-]+,[\w' +*/.,()-]*)\)")  # (), (...), (N,), (B, T / stride)
SHAPELESS = {  # all tensors of a model or a generator, whatever their shapes, and what torch calls
    *("buffers", "tensors_of", "parameter_gradients", "broadcast", "widen", "random_state", "restore_random_state"),
    "setup_context",
}


def public_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Of a module, also in its public classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if isinstance(node, ast.ClassDef):
                yield from public_functions(node)
            else:
                yield node


def types(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What a signature is annotated with."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    found = [function.returns, *(argument.annotation for argument in arguments)]
    return " ".join(ast.unparse(annotation) for annotation in found if annotation is not None)


def test_a_function_of_tensors_or_arrays_states_a_shape() -> None:
    """Or refers to the one that does: See `Engine`, Like `forward`."""
    counted, without = 0, []
    for path in sorted((DOCS.parent / "ds2").rglob("*.py")):
        for function in public_functions(ast.parse(path.read_text())):
            if function.name in SHAPELESS or not re.search(r"\bTensor\b|\bndarray\b", types(function)):
                continue
            text = ast.get_docstring(function) or ""
            counted += 1
            if not SHAPE.search(text) and not text.startswith(("See `", "Like `")):
                without.append(f"{path.relative_to(DOCS.parent)}: {function.name}")
    assert counted > 200
    assert without == []
