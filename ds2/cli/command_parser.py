"""The command of a line of arguments, parsed by tyro; a mistake ends in one line that says what was meant."""

import contextlib
import difflib
import functools
import io
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tyro
from tyro.extras import SubcommandApp

from ds2.cli.commands import GROUPS, SECTIONS, Command
from ds2.cli.overwriting import check_arguments
from ds2.utils.errors import InputError

UNRECOGNIZED = re.compile(r"Unrecognized options: (.*)")  # how tyro's report begins
MEANT = re.compile(r"(?:Perhaps you meant|Arguments similar to).*\n[ │]*(?:-\w, )?(--[\w-]+)")
CONVENTIONS = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff)
NAMELESS = re.compile(r"Missing value for argument '(\w+)'")  # what stands before the options
TWINS = {"--normalize": "--language", "--language": "--normalize"}  # what other commands call the same
COMPLETION = ("--tyro-print-completion", "--tyro-write-completion")


def parse_command_line(arguments: Sequence[str]) -> Callable[[], int] | None:
    """The command of these arguments, ready to run; None after --help, which tyro has printed.

    Raises:
        InputError: no such command; an argument is missing, unknown, or of the wrong type.
    """
    command, words = _command_of(arguments)
    name = " ".join(words)
    errors = io.StringIO()  # tyro draws its boxes only on a terminal
    try:
        with contextlib.redirect_stderr(errors):
            if command is None:
                return _app().cli(prog="ds2", args=arguments, config=CONVENTIONS)
            # Alone: the tree of all commands would take 80 ms more.
            return tyro.cli(_deferred(command), prog=f"ds2 {name}", args=arguments[len(words) :], config=CONVENTIONS)
    except SystemExit as end:
        if not end.code:
            return None
        report = errors.getvalue()
        line = _one_line(report)
        extra = _extra_file(line, arguments)
        message = f"{extra}: more files than ds2 {name} takes; options name others" if extra else ""
        if (unknown := UNRECOGNIZED.match(line)) and unknown[1].startswith("-") and Path(unknown[1]).exists():
            message = f"{unknown[1]}: a name with a dash before it; write ./{unknown[1]}"
        if (nameless := NAMELESS.match(line)) and f"--{nameless[1]}" in arguments:
            message = f"--{nameless[1]}: it has no name here, and comes first: ds2 {name} {nameless[1].upper()}"
        message = message or f"{_missing(report) or line}{_advice(report, line) or _twin(line, command)}"
        raise InputError(f"{message}; try ds2 {name} --help") from None


def _command_of(arguments: Sequence[str]) -> tuple[Command | None, list[str]]:
    """The command and its words, such as "data", "split"; None where a shell asks for completion of all commands."""
    words: list[str] = []
    found: Any = {name: command for section in SECTIONS.values() for name, command in section.items()}
    for argument in arguments:
        if argument in COMPLETION:
            return None, []
        if argument not in found:
            prog = " ".join(["ds2", *words])
            near = difflib.get_close_matches(argument, found, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{argument}: {prog} has no such command{meant}; try {prog} --help")
        words.append(argument)
        found = found[argument]
        if callable(found):
            return found, words
    return None, words


def _app() -> SubcommandApp:
    """All commands; calling one of the app's returns a function that runs it."""
    app = SubcommandApp()
    for section in SECTIONS.values():
        for name, command in section.items():
            if callable(command):
                app.command(name=name)(_deferred(command))
                continue
            group = SubcommandApp()
            for inner, inner_command in command.items():
                group.command(name=inner)(_deferred(inner_command))
            app.command(group, name=name, help=GROUPS[name][0])
    return app


def _deferred(command: Command) -> Callable[..., Callable[[], int]]:
    """The command with its signature and help, which waits to be run: outside tyro, which would catch its errors."""

    @functools.wraps(command)
    def wait(*values: Any, **named: Any) -> Callable[[], int]:
        def run() -> int:
            check_arguments(command, values, named)
            return command(*values, **named)

        return run

    return wait


def _advice(report: str, line: str) -> str:
    """What the person meant, where tyro's report says so: an option, or a file after the options."""
    if meant := MEANT.search(report):
        return f"; did you mean {meant[1]}?"
    unknown = UNRECOGNIZED.match(line)
    return "; files come before the options" if unknown and not unknown[1].startswith("-") else ""


def _twin(line: str, command: Command | None) -> str:
    """What this command calls an option that other commands call as the person did."""
    unknown = UNRECOGNIZED.match(line)
    twin = TWINS.get(unknown[1].partition(", ")[0], "") if unknown else ""
    if not twin or command is None:
        return ""
    help = io.StringIO()
    with contextlib.redirect_stdout(help), contextlib.suppress(SystemExit):
        tyro.cli(_deferred(command), args=["--help"], config=CONVENTIONS)
    return f"; did you mean {twin}?" if twin in help.getvalue() else ""


def _extra_file(line: str, arguments: Sequence[str]) -> str:
    """The first file beyond those that a command takes, where no option stands before it; or nothing."""
    unknown = UNRECOGNIZED.match(line)
    files = list(itertools.takewhile(lambda argument: not argument.startswith("-"), arguments))
    return next((file for file in files if unknown and file == unknown[1].partition(", ")[0]), "")


def _missing(report: str) -> str:
    """ "Missing from ds2 train: PATH (The recipe's train.toml), -o PATH, --output PATH (Folder for ...)"; or nothing.

    tyro indents the names by four columns more, and what they are by eight; in a box or not.
    """
    found = [line.strip("│").rstrip() for line in report.splitlines()]
    start = next((number for number, line in enumerate(found) if line.strip().startswith("Missing from ")), None)
    if start is None:
        return ""
    margin = found[start].index("Missing")
    lines = [line[margin:] for line in found]
    needed: list[list[str]] = []
    for line in itertools.takewhile(lambda line: line.startswith("    "), lines[start + 1 :]):
        if line.startswith("        "):
            needed[-1].append(line.strip())
        else:
            needed.append([line.strip()])
    described = (f"{name} ({' '.join(help).removesuffix('(required)').strip(' .')})" for name, *help in needed)
    return f"{lines[start]} {', '.join(described)}"


def _one_line(report: str) -> str:
    """The message of tyro's report: the paragraph between its title and the next rule, in a box or not."""
    lines = [line.strip(" │") for line in report.splitlines()[1:]]
    rules = [not line.strip(" -─╰╯") for line in lines]
    below = itertools.dropwhile(lambda pair: pair[1], zip(lines, rules, strict=True))
    paragraph = " ".join(line for line, _ in itertools.takewhile(lambda pair: not pair[1], below))
    return " ".join(paragraph.replace("(required)", "").split()).removesuffix(".")
