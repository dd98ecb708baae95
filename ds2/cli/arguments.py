"""From the words of a command line to a command with its arguments; what does not fit is told in one line."""

import contextlib
import functools
import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from ds2.utils.errors import InputError


def parse(command: Callable[..., int], name: str, arguments: Sequence[str]) -> Callable[[], int]:
    """The command, ready to run; of --help, which prints, nothing is left to do.

    Raises:
        InputError: an argument is missing, unknown, or not of its kind.
    """

    @functools.wraps(command)
    def later(*values: Any, **named: Any) -> Callable[[], int]:  # what the command itself prints is for the person
        return functools.partial(command, *values, **named)

    printed = io.StringIO()  # where tyro finds no terminal it draws no boxes
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            return tyro.cli(later, prog=name, args=arguments, config=(tyro.conf.DisallowNone,))
    except SystemExit as end:
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        if end.code:
            raise InputError(f"{_wrong(lines)}; try {name} --help") from None
        print("\n".join(lines))
        return lambda: 0


def _wrong(lines: Sequence[str]) -> str:
    """What is wrong: the paragraph under the title and its rule, up to a blank line or another rule."""
    paragraph = itertools.takewhile(lambda line: line.strip(" -"), lines[2:])
    words = " ".join(paragraph).replace("(required)", "").split()
    return " ".join(words).removesuffix(".")
