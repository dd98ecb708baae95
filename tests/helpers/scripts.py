"""Scripts of recipes, run in this process: its imports, seconds for each new process, are paid already."""

import contextlib
import io
import runpy
import sys
from pathlib import Path

import pytest


def run_script(path: Path, *arguments: object) -> str:
    """What `python PATH ARGUMENTS` prints. The modules beside it are forgotten: other scripts have some of their names.

    Raises:
        SystemExit: the script ended with an error.
    """
    before, printed = set(sys.modules), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        patch.setattr(sys, "path", [str(path.parent), *sys.path])
        runpy.run_path(str(path), run_name="__main__")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(path.parents[1])):
            del sys.modules[name]
    return printed.getvalue()
