"""What the READMEs and the help texts tell people to type is understood."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ds2.cli.commands import GROUPS, SECTIONS, parse_command_line

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for folder in ("", "ds2", "recipes", "examples") for path in (ROOT / folder).rglob("README.md"))


def commands(text: str) -> Iterator[str]:
    """The commands `ds2 ...` in indented blocks, whole: a line that ends in a backslash goes on."""
    for line in re.findall(r"^(?:    |.*Example: )(.*ds2 .*)$", text.replace("\\\n", ""), re.MULTILINE):
        for part in re.split(r"; |\| ", line.partition(" # ")[0]):
            if part.strip().startswith("ds2 "):
                yield part.strip()


def examples() -> Iterator[str]:
    """Those of the help texts."""
    for command in [each for section in SECTIONS.values() for each in section.values()]:
        for each in [command] if callable(command) else command.values():
            yield from commands(each.__doc__ or "")


TYPED = sorted({command for page in PAGES for command in commands(page.read_text(encoding="utf-8"))} | set(examples()))


@pytest.mark.parametrize("command", TYPED)
def test_a_command_that_people_are_told_to_type_is_understood(command: str) -> None:
    """Its options and the number of its arguments; the files that it names are not there."""
    _, *arguments = shlex.split(command.replace("...", "").replace("[", "").replace("]", ""))
    assert arguments[0] in GROUPS or arguments[0].startswith("--") or parse_command_line(arguments) is not None


def names_in_files() -> Iterator[tuple[Path, Path, str]]:
    """The page, the file and each name in "`FILE.py` (`NAME`, ...)", "`FILE.py`: `NAME`" or "`NAME` in `FILE.py`"."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for file, names in re.findall(r"`([\w/]+\.py)`(?: \(|: )((?:`\w+`(?:, )?)+)", text):
            yield from ((page, Path(file), name) for name in re.findall(r"\w+", names))
        yield from ((page, Path(file), name) for name, file in re.findall(r"`(\w+)` in `([\w/]+\.py)`", text))


def test_a_file_named_beside_a_name_holds_it() -> None:
    found = list(names_in_files())
    assert len(found) > 3
    for page, file, name in found:
        [place, *_] = [folder / file for folder in (page.parent, ROOT, ROOT / "ds2") if (folder / file).is_file()]
        assert re.search(rf"\b{name}\b", place.read_text(encoding="utf-8")), f"{page}: {file} holds no {name}"


def test_the_extras_of_the_readme_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    install = (ROOT / "README.md").read_text().partition("## Install")[2].partition("## Quick start")[0]
    assert set(re.findall(r"^\| `(\w+)`", install, re.MULTILINE)) == set(extras)
