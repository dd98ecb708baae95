"""Trained models for other runtimes: ONNX and sherpa-onnx."""
