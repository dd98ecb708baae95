"""The `ds2` command: parses, calls, prints. Heavy imports wait inside the commands, so that help comes at once."""

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence

import ds2
from ds2.cli.command_parser import parse_command_line
from ds2.cli.commands import GROUPS, command_overview
from ds2.cli.exits import BAD_INPUT, INTERRUPTED
from ds2.cli.standard_streams import prepare_streams
from ds2.utils.errors import InputError, ParameterError, printable
from ds2.utils.extras import hint

# Turns for which a thread of OpenMP that waits keeps its core; read when torch is loaded. With its own 300,000 a
# transcription of 4 s takes 15 s beside two busy processes, because waiting threads take the turns of those that work.
# A training of small layers beside one busy process hears 1.4 utterances a second with 30,000 and 11 with 3,000; alone
# it hears 39 with either (two cores).
SPINS = 3_000
GARBAGE_OBJECTS = 100_000  # new ones before Python looks for garbage: its own 700 cost half a second at start


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; bad input ends in one line on standard error and code 2."""
    prepare_streams()
    gc.set_threshold(GARBAGE_OBJECTS)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    try:
        with _warnings_on_stderr():
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()  # at exit it would be too late to report that the disk is full
        return code
    except ParameterError as error:
        return _refuse(f"--{error.parameter.replace('_', '-')}: {error.reason}")
    except InputError as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        return _refuse(hint(error))
    except OSError as error:  # of standard output, as a rule
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more at exit either
        if isinstance(error, BrokenPipeError):
            return INTERRUPTED
        return _refuse(f"{error.filename or 'standard output'}: {error.strerror or error}")


def _run(arguments: list[str]) -> int:
    match arguments:
        case [] | ["--help" | "-h"]:
            print(command_overview())
        case ["--version"]:
            print(f"ds2 {ds2.__version__}")
        case [group] | [group, "--help" | "-h"] if group in GROUPS:
            print(command_overview(group))
        case _:
            command = parse_command_line(arguments)
            return command() if command is not None else 0
    return 0


def _refuse(message: str) -> int:
    print(f"ds2: {printable(message)}", file=sys.stderr)
    return BAD_INPUT


class _Warnings(logging.Handler):
    """Prints the library's log messages, one line each: warnings, and the progress of long work."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"ds2: {printable(record.getMessage())}", file=sys.stderr)


@contextlib.contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Installs the handler while a command runs; `ds2 serve` replaces it with its own."""
    handler, root = _Warnings(logging.WARNING), logging.getLogger()
    root.addHandler(handler)
    progress = logging.getLogger("ds2.progress")
    progress.setLevel(logging.INFO)
    progress.handlers, progress.propagate = [_Warnings()], False
    try:
        yield
    finally:
        root.removeHandler(handler)
        progress.handlers, progress.propagate = [], True
        logging.getLogger("ds2").setLevel(logging.NOTSET)  # --quiet raises it
