"""ds2 models list, doctor, warmup."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome
from helpers.without_torch import WITHOUT_TORCH

import ds2
from ds2.bundle import read_record
from ds2.utils.model_names import MODELS

ROOT = Path(__file__).parents[2]


def test_models_lists_all_that_are_packaged(run: Callable[..., Outcome]) -> None:
    code, output, errors = run("models", "list")
    assert (code, errors) == (0, "")
    lines = {line.split()[0]: line for line in output.splitlines()}
    for path in MODELS.glob("*.safetensors"):
        assert f"knows {read_record(path).knows}" in lines[path.stem]
        assert ("live streams" in lines[path.stem].split("knows")[0]) == (path.stem != "digits")


def doctor(environment: dict[str, str], before: str = "pass") -> tuple[int, list[str]]:
    """The exit code and the lines of ds2 doctor in a new process."""
    code = f"import sys; {before}; from ds2.cli.main import main; sys.exit(main(['doctor']))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_doctor_names_what_mends(tmp_path: Path) -> None:
    code, lines = doctor({"NUMBA_CACHE_DIR": str(tmp_path)}, "sys.modules['optuna'] = None")
    assert code == 0
    kernels = next(number for number, line in enumerate(lines) if "kernels" in line)
    assert lines[kernels].startswith("missing")
    assert lines[kernels + 1].strip() == "ds2 warmup"
    train = next(number for number, line in enumerate(lines) if "[train]" in line)
    assert lines[train].endswith("lacks optuna")
    assert "pip install" in lines[train + 1]


def test_doctor_says_whether_a_microphone_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    _, lines = doctor({"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(ds2.__file__).parents[1]}"})
    [place] = [number for number, line in enumerate(lines) if "PortAudio" in line]
    assert lines[place].startswith("missing")
    assert "libportaudio2" in lines[place + 1]


def test_doctor_fails_where_torch_is_broken(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: no such file')")
    code, lines = doctor({"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(ds2.__file__).parents[1]}"})
    assert code == 1
    assert any(line.startswith("broken   torch") for line in lines)


def test_doctor_is_content_with_onnxruntime_alone() -> None:
    code, lines = doctor({}, f"exec({WITHOUT_TORCH!r})")
    assert code == 0
    assert any(line.split()[:4] == ["missing", "torch", "not", "installed;"] for line in lines)


def test_native_engine_needs_what_ds2_needs_but_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = set(project["dependencies"])
    listed = {line for line in (ROOT / "native-engine.txt").read_text().splitlines() if not line.startswith("#")}
    assert listed == {need for need in wanted if not need.startswith("torch")}


@pytest.mark.long
def test_warmup_compiles_what_a_first_run_needs(run: Callable[..., Outcome]) -> None:
    code, output, errors = run("warmup")
    assert (code, errors) == (0, "")
    names = [line.split(":")[0] for line in output.splitlines()]
    assert names[-4:] == ["language models", "alignment", "int8", "training"]
    assert "compiled, in" in run("doctor")[1]


@pytest.mark.long
def test_warmup_without_torch_compiles_the_searches() -> None:
    """For an image that holds no PyTorch."""
    code = f"{WITHOUT_TORCH}\nfrom ds2.cli.main import main; raise SystemExit(main(['warmup']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert names[1:] == ["digits-streaming", "digits", "english", "mandarin", "language models", "alignment"]
