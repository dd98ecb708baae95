"""Exit codes, the same for every command; 0 means that everything was done. And what is said of an early end."""

import contextlib
import sys
from collections.abc import Iterator

SOME_FAILED = 1  # done, except for some files
BAD_INPUT = 2  # nothing was done
INTERRUPTED = 130  # by Ctrl-C, as shells count it


@contextlib.contextmanager
def stopping_says(remedy: str) -> Iterator[None]:
    """After Ctrl-C says how to go on, unless there is nothing to say."""
    try:
        yield
    except KeyboardInterrupt:
        if remedy:
            print(f"ds2: stopped; {remedy}", file=sys.stderr)
        raise
