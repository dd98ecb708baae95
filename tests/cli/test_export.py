"""ds2 export."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused


def test_export_prints_the_files_it_wrote(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    code, output, errors = run("export", tiny_bundle, "--weights", "int8", "--output", tmp_path / "out")
    assert (code, errors) == (0, "")
    files = sorted((tmp_path / "out").iterdir())
    assert output.splitlines() == [f"{path}: {path.stat().st_size:,} bytes" for path in files]
    assert [path.name for path in files] == ["model.onnx", "tokens.txt"]


def test_an_export_of_a_model_with_a_language_model_says_that_it_lacks_it(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    code, _, errors = run("export", "english", "--output", tmp_path / "out")
    assert code == 0
    assert "model.onnx is the network alone: without the language model of english it has many more errors" in errors


def test_export_refuses_in_one_line(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    (tmp_path / "file").write_text("")
    assert_refused(run("export", tiny_bundle, "-o", tmp_path / "file"), "file: is no folder")
    assert_refused(run("export", tiny_bundle, "-o", tmp_path, "--format", "sherpa"), "export it as onnx")
    assert_refused(run("export", tiny_bundle, "-o", tmp_path, "--format", "tflite"), "--format")
    assert_refused(
        run("export", tiny_bundle, "-o", tmp_path, "--beam", "0"), "other runtimes have searches of their own"
    )
    assert_refused(run("export", tmp_path / "none.safetensors", "-o", tmp_path), "none.safetensors: cannot read")


def test_a_missing_extra_is_named(run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert_refused(run("export", "digits", "-o", tmp_path / "out"), "onnx is not installed; in ds2's checkout, pip")
    assert not (tmp_path / "out").exists()


def test_a_folder_is_not_named_as_a_graph(run: Callable[..., Outcome], tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    assert_refused(run("export", "digits", "--output", str(tmp_path / "digits.onnx")), "name a folder")
    assert list(tmp_path.iterdir()) == []
