"""Scripts of recipes and benchmarks, in this process: its imports, seconds for each new process, are paid already."""

import contextlib
import importlib.util
import io
import runpy
import sys
from pathlib import Path
from types import ModuleType

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
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(path.parent)):
            del sys.modules[name]
    return printed.getvalue()


def import_script(path: Path) -> ModuleType:
    """A script as a module, under a name of its own: folder_script."""
    name = f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
