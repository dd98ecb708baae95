"""What the documentation tells people to type is understood, and what it names exists."""

import contextlib
import dataclasses
import importlib
import io
import re
import shlex
import tomllib
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ds2.cli.command_parser import parse_command_line
from ds2.cli.commands import SECTIONS, all_commands
from ds2.serve.config import ServeConfig
from ds2.train.config import TrainConfig
from ds2.utils.former_keys import FORMER_KEYS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(
            page
            for folder in ("ds2", "recipes", "docs/guides", "docs/tutorials")
            for page in (ROOT / folder).rglob("*.md")
        ),
    ]
)
FILES = {"py", "sh", "toml", "onnx", "safetensors", "jsonl", "json", "md", "png", "txt"}  # suffixes, not keys
PAGES.remove(ROOT / "CHANGELOG.md")  # speaks of what was


def in_blocks(page: Path) -> Iterator[str]:
    """The lines of indented and fenced blocks, whole: one that ends in a backslash goes on."""
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    for fenced, indented in re.findall(r"^```(.*?)^```|^    (.*?)$", text, re.MULTILINE | re.DOTALL):
        yield from fenced.splitlines() or [indented]


def commands(lines: Iterable[str]) -> Iterator[str]:
    """The commands `ds2 ...` of a shell or, after an exclamation mark, of a notebook."""
    for line in lines:
        for part in re.split(r"; | \|\|? | 2?> ?", line.removeprefix("!").partition(" # ")[0]):
            if part.strip().startswith("ds2 "):
                yield part.strip()


def examples() -> Iterator[str]:
    """Those of the help texts."""
    for command in [each for section in SECTIONS.values() for each in section.values()]:
        for each in [command] if callable(command) else command.values():
            yield from re.findall(r"Example: (.*)", each.__doc__ or "")


EXAMPLES = list(examples())
TYPED = sorted({command for lines in (EXAMPLES, *map(in_blocks, PAGES)) for command in commands(lines)})


@pytest.mark.parametrize("command", TYPED)
def test_a_command_that_people_are_told_to_type_is_understood(command: str) -> None:
    """Its options and the number of its arguments; the files that it names are not there."""
    _, *arguments = shlex.split(command.replace("...", "").replace("[", "").replace("]", ""))
    assert arguments[0].startswith("--") or parse_command_line(arguments) is not None


def test_commands_are_found_in_pages_and_in_help_texts() -> None:
    assert len(EXAMPLES) > 20
    assert len(TYPED) > 60


def names_in_files() -> Iterator[tuple[Path, Path, str]]:
    """The page, the file and each name in "`FILE.py` (`NAME`, ...)", "`FILE.py`: `NAME`" or "`NAME` in `FILE.py`"."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for file, names in re.findall(r"`([\w/]+\.py)`(?:\s\(|:\s)((?:`\w+`(?:,\s)?)+)", text):
            yield from ((page, Path(file), name) for name in re.findall(r"\w+", names))
        yield from ((page, Path(file), name) for name, file in re.findall(r"`(\w+)`\sin\s`([\w/]+\.py)`", text))


def test_a_file_named_beside_a_name_holds_it() -> None:
    found = list(names_in_files())
    assert len(found) > 3
    for page, file, name in found:
        [place, *_] = [folder / file for folder in (page.parent, ROOT, ROOT / "ds2") if (folder / file).is_file()]
        assert re.search(rf"\b{name}\b", place.read_text(encoding="utf-8")), f"{page}: {file} holds no {name}"


def test_a_file_named_in_a_page_exists() -> None:
    """Scripts and sources in backticks: from the page's folder or one below it, from the root, or from ds2/."""
    for page in PAGES:
        for name in set(re.findall(r"`([\w/-]+\.(?:py|sh|cu|js))`", page.read_text(encoding="utf-8"))):
            direct = any((folder / name).is_file() for folder in (page.parent, ROOT, ROOT / "ds2"))
            assert direct or (page.parent != ROOT and [*page.parent.rglob(name)]), f"{page}: {name}"


def test_a_link_in_a_page_leads_to_a_file() -> None:
    for page in [page for page in PAGES if ROOT / "docs" not in page.parents]:  # Sphinx follows those of the site
        for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
            found = page.parent / target if target else page
            assert found.exists(), f"{page}: {target}"
            assert not heading or heading in headings(found), f"{page}: {target}#{heading}"


def headings(page: Path) -> set[str]:
    """Those of a page as links name them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_a_link_to_another_site_is_whole() -> None:
    """It names a host, goes by https where the host speaks it, and ends before the sentence goes on."""
    without_tls = {"www.speech.cs.cmu.edu", "www.repository.voxforge1.org"}
    found = 0
    for page in {*PAGES, *ROOT.glob("docs/how_it_works/*.md"), *ROOT.glob("*/README.md")}:
        text = re.sub(r"(?ms)^```.*?^```|`[^`]+`|^    .*?$", "", page.read_text(encoding="utf-8"))  # without code
        for address in re.findall(r"https?://[^\s)>]+", text):
            host = urlsplit(address).hostname or ""
            assert "." in host, f"{page}: {address}"
            if host == "127.0.0.1":
                continue
            assert address.startswith("https") or host in without_tls, f"{page}: {address}"
            assert not address.endswith(";"), f"{page}: {address} ends with what follows it"
            found += 1
    assert found > 20


def test_a_name_imported_or_dotted_in_a_page_exists() -> None:
    """`from ds2.x import NAME` in blocks, and `ds2.x.NAME` in the text."""
    found = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for module, names in re.findall(r"^    from (ds2[\w.]*) import ([\w, ]+)", text, re.MULTILINE):
            for name in names.split(","):
                assert hasattr(importlib.import_module(module), name.strip()), f"{page}: {module} has no {name}"
                found += 1
        for dotted in re.findall(r"`(ds2(?:\.\w+)+)(?:\(.*?\))?`", text.replace("`ds2.key.KEY`", "")):  # a subprotocol
            module, _, name = dotted.rpartition(".")
            try:
                importlib.import_module(dotted)
            except ModuleNotFoundError:
                assert hasattr(importlib.import_module(module), name), f"{page}: {dotted}"
            found += 1
    assert found > 10


def keys_of(config: type, prefix: str = "") -> Iterator[str]:
    """ "model", "limits.streams", ...: the keys of a configuration, with their former names."""
    yield from (prefix + former for former in FORMER_KEYS.get(config.__name__, {}))
    for field, kind in zip(dataclasses.fields(config), typing.get_type_hints(config).values(), strict=True):
        yield prefix + field.name
        if dataclasses.is_dataclass(kind):
            yield from keys_of(typing.cast(type, kind), f"{prefix}{field.name}.")


def test_a_key_named_in_a_page_is_one_of_a_configuration() -> None:
    """`section.key`, alone or before its value."""
    known = {*keys_of(TrainConfig), *keys_of(ServeConfig)}
    sections = {key.partition(".")[0] for key in known if "." in key}
    assert {"optimizer", "limits"} <= sections
    for page in PAGES:
        for key in re.findall(r"`(\w+\.\w+)(?:`| ?=)", page.read_text(encoding="utf-8")):
            if key.partition(".")[0] in sections and key.partition(".")[2] not in FILES:
                assert key in known, f"{page}: {key}"


def test_an_option_named_in_a_page_is_one_of_a_program() -> None:
    """In backticks, alone or after `ds2`: one that the help of a command or the code of a script shows."""
    options = {"--max-restarts", "--cpus-per-task"}  # of torchrun and Slurm
    for command in all_commands():
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            assert parse_command_line([*command.split(), "--help"]) is None
        options |= set(re.findall(r"--[a-z][\w-]*", shown.getvalue()))
    of_commands = frozenset(options)
    for script in (path for folder in ("recipes", "benchmarks") for path in (ROOT / folder).rglob("*.py")):
        options |= set(re.findall(r'"(--[a-z][\w-]*)"', script.read_text(encoding="utf-8")))
    for page in PAGES:
        for quoted in re.findall(r"`((?:--|ds2 )[^`]*)`", page.read_text(encoding="utf-8")):
            for option in re.findall(r"(?<!\S)--[a-z][\w-]*", quoted):
                assert option in (of_commands if quoted.startswith("ds2 ") else options), f"{page}: {option}"


def test_the_extras_of_the_guide_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    install = (ROOT / "docs" / "guides" / "install.md").read_text()
    assert set(re.findall(r"^\| `(\w+)`", install, re.MULTILINE)) == set(extras)
