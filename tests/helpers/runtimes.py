"""Runs exported models."""

import numpy as np
import onnx
import onnxruntime
from torch import Tensor


def session(model: onnx.ModelProto | bytes) -> onnxruntime.InferenceSession:
    """One thread of onnxruntime on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def log_probs(model: onnx.ModelProto | bytes, samples: Tensor, lengths: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(B, N), (B,) -> log_probs (B, T, V), frames (B,)."""
    inputs = {"samples": samples.numpy(), "lengths": lengths.numpy()}
    found, frames = session(model).run(["log_probs", "frames"], inputs)
    return found, frames
