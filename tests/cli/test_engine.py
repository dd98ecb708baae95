"""ds2 transcribe --engine."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.commands import Outcome, assert_refused

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
from onnx import TensorProto, helper

from ds2.bundle import Bundle

RECORDING = Path(__file__).parents[2] / "recipes" / "digits" / "audio" / "so762_000260033.opus"


def test_both_engines_write_the_same(run: Callable[..., Outcome]) -> None:
    outcomes = [run("transcribe", RECORDING, "--engine", engine, "--no-punctuate") for engine in ("torch", "onnx")]
    assert outcomes[0] == outcomes[1] == (0, "three one seven nine\n", "")


def test_int8_writes_the_same(run: Callable[..., Outcome]) -> None:
    outcome = run("transcribe", RECORDING, "--precision", "int8", "--engine", "torch", "--model", "digits", "--quiet")
    assert outcome == (0, "three one seven nine\n", "")


def test_bad_input_is_refused_in_one_line(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "damaged.onnx").write_bytes(b"nothing")
    command = ("transcribe", RECORDING, "--engine", "onnx", "--model")
    assert_refused(run(*command, tmp_path / "damaged.onnx"), "damaged.onnx: onnxruntime cannot load it")
    assert_refused(run(*command, tmp_path / "none.onnx"), "none.onnx: cannot read the model")
    assert_refused(run(*command, "digits", "--device", "cuda"), "the engine onnx runs on the cpu")
    assert_refused(run("transcribe", RECORDING, "--engine", "tensorflow"), "--engine")
    assert_refused(
        run(*command, "digits", "--precision", "int8"), "--precision: int8: the engine onnx computes in float32"
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    node = helper.make_node("Identity", ["x"], ["y"])
    other = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    other.ir_version = 8
    onnx.save(other, tmp_path / "other.onnx")
    assert_refused(run(*command, tmp_path / "other.onnx"), "other.onnx: not an ONNX file that ds2 export wrote")
    bundle = Bundle.load(tiny_bundle)
    bundle.weights["output.bias"] = torch.zeros(3)
    bundle.save(tiny_bundle)
    assert_refused(run(*command, tiny_bundle), "the weights do not fit")
