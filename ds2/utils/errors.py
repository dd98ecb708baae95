"""Errors for the user: bad input, in one line."""

import re
from collections.abc import Sequence
from typing import Any

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LONGEST = 1000  # characters of a message; a longer one, which quotes a file, loses its middle


class InputError(ValueError):
    """Bad input from outside: a file, a manifest line, a configuration key.

    The message is one line that names the file, line or key and says what to do about it.
    The command line prints it and exits with code 2; a library caller may catch it as ValueError.
    """

    def __init__(self, message: str):
        line = printable(message)
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}")


class WorkerError(InputError):
    """What ends a training, raised where a process of a DataLoader reads its data: not one damaged file of many."""

    def __init__(self, message: str):
        """A DataLoader hands the error of its worker over with a traceback in front, which is left out."""
        super().__init__(message.rpartition(f"{type(self).__name__}: ")[2].strip())


class TooLong(InputError):
    """A recording is longer than is allowed."""


class ParameterError(InputError):
    """A parameter has a value that cannot be used: `ParameterError("device", "no CUDA device here; use cpu")`.

    The message begins with the parameter's name; the command line puts the name of its option there instead.
    """

    def __init__(self, parameter: str, reason: str):
        super().__init__(f"{parameter}: {reason}")
        self.parameter = parameter
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes; by default Python would make this one anew of its message alone."""
        return type(self), (self.parameter, self.reason)


def unexpected(source: object, error: Exception) -> InputError:
    """Where ds2 itself fails at one of many recordings, so that the others go on; its cause is the error.

    Raises:
        ModuleNotFoundError: the error is one, and would be that of all recordings.
    """
    if isinstance(error, ModuleNotFoundError):
        raise error
    if isinstance(error, InputError):
        return error
    found = InputError(f"{source}: ds2 itself fails here, please report it: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def counted(number: int, kind: str) -> str:
    """A number of something for a message: "1 speaker", "1,200 speakers"."""
    return f"{number:,} {kind}{'' if number == 1 else 's'}"


def some_of(items: Sequence[str], shown: int = 3, kind: str = "") -> str:
    """The first of them, for a message of one line: "a, b, c and 5 more", with the kind "word" "and 5 more words"."""
    rest = len(items) - shown
    if rest <= 0:
        return ", ".join(items)
    named = kind and f" {kind}{'s' if rest > 1 else ''}"
    return f"{', '.join(items[:shown])} and {rest:,} more{named}"


def printable(text: str) -> str:
    """The text on one line, with escapes for control characters and for bytes of a file's name that are not UTF-8."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
