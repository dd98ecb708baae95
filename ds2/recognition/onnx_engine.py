"""The engine of onnxruntime: runs a bundle's graph, or one that `ds2 export` wrote. No torch."""

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime

from ds2.bundle import Bundle
from ds2.model.config import ModelConfig
from ds2.model_record import Record
from ds2.recognition.windows import padded
from ds2.utils.devices import Cpu, cpu_threads
from ds2.utils.errors import InputError

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64}
FATAL = 4  # onnxruntime reports the rest by exceptions, which become one line


class OnnxEngine:
    """Runs the two graphs of a model; each is loaded at its first use."""

    device = Cpu()

    def __init__(self, config: ModelConfig, tokens: int, offline: Callable[[], bytes], streaming: Callable[[], bytes]):
        """`offline`, `streaming`: give the graphs; `streaming` raises InputError where the model cannot stream."""
        self.config, self.tokens, self._offline, self._streaming = config, tokens, offline, streaming

    @functools.cached_property
    def session(self) -> onnxruntime.InferenceSession:
        """The session of the offline graph."""
        return self.checked(make_session(self._offline()))

    def checked(self, session: onnxruntime.InferenceSession, name: str = "the model") -> onnxruntime.InferenceSession:
        """The same session.

        Raises:
            InputError: its outputs are not those of the model's tokens, phones and biphones.
        """
        found = {each.name: each.shape[-1:] for each in session.get_outputs()}
        needed = {"log_probs": [self.tokens]} | {name: [size] for name, size in _of_phones(self.config).items()}
        if not needed.items() <= found.items():
            raise InputError(
                f"{name}: the weights do not fit the tokens or the configuration; export it again for onnx: what is "
                "for sherpa-onnx runs there alone"
            )
        return session

    def try_out(self) -> None:
        """Runs the graph on a second of silence.

        Raises:
            InputError: the weights do not fit each other; onnxruntime says so when it comes to them.
        """
        self.log_probs([np.zeros(self.config.frontend.sample_rate, np.float32)])

    def log_probs(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Engine`."""
        samples, lengths = padded(batch)
        with refusing_misfits():
            names = ["frames", "log_probs", *_of_phones(self.config)]
            frames, *scores = self.session.run(names, {"samples": samples, "lengths": lengths})
            rows = np.concatenate(scores, axis=2)
            return [row[:count] for row, count in zip(rows, frames.tolist(), strict=True)]

    def slots(self, slots: int, precision: str = "auto", phones: bool = False) -> "OnnxSlots":
        """See `Engine`."""
        if precision not in ("auto", "float32"):
            raise InputError(f"precision {precision}: the engine onnx computes in float32")
        try:
            graph = self._streaming()
        except InputError as error:
            raise ValueError(str(error)) from error
        return OnnxSlots(self.config, self.checked(make_session(graph)), slots, phones)


class OnnxSlots:
    """The step of ds2/export/streaming.py, with the states of all slots."""

    def __init__(self, config: ModelConfig, session: onnxruntime.InferenceSession, slots: int, phones: bool):
        self.config, self.session, self.slots = config, session, slots
        states = session.get_inputs()[3:]
        self.states = {each.name: np.zeros((slots, *each.shape[1:]), KINDS[each.type]) for each in states}
        self.scores = ["log_probs", *(_of_phones(config) if phones else ())]

    def advance(self, slots: np.ndarray, positions: np.ndarray, lengths: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """See `Slots`."""
        feed = {"samples": samples, "positions": positions, "lengths": lengths}
        for name, store in self.states.items():
            feed[name] = store[slots]
            feed[name][positions == 0] = 0
        with refusing_misfits():
            results = self.session.run([*self.scores, *(f"next_{name}" for name in self.states)], feed)
            scores, kept = results[: len(self.scores)], results[len(self.scores) :]
            for store, rows in zip(self.states.values(), kept, strict=True):
                store[slots] = rows
            return np.concatenate(scores, axis=2)


def _of_phones(config: ModelConfig) -> dict[str, int]:
    """The outputs of a model for phones, and the columns of each."""
    return {name: size for name, size in (("phone_log_probs", config.phones), ("biphones", config.pairs)) if size}


def make_onnx_engine(bundle: Bundle, name: str) -> OnnxEngine:
    """The engine of a bundle with NumPy's arrays; `name` stands for it in errors.

    Raises:
        InputError: the weights do not fit their configuration.
    """
    from ds2.export.package import offline, streaming  # imports onnx, which an exported model does not need

    graphs = (lambda: offline(bundle, name).SerializeToString(), lambda: streaming(bundle, name).SerializeToString())
    engine = OnnxEngine(ModelConfig.of(bundle), len(bundle.tokens), *graphs)
    engine.try_out()
    return engine


def load_exported(path: Path) -> tuple[OnnxEngine, Record]:
    """Reads a model.onnx and, if it can stream, the streaming.onnx beside it.

    Raises:
        InputError: missing or damaged, or not written by `ds2 export`.
    """
    data = _read_model(path)
    session = make_session(data, str(path))
    try:
        metadata = json.loads(session.get_modelmeta().custom_metadata_map["ds2"])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not an ONNX file that ds2 export wrote") from error
    # Exports of before speak of punctuation, which they do not hold.
    record = replace(Record.parse(metadata, path), language_model=None, punctuation=None, neural_model=None)
    streaming = functools.partial(_read_model, path.with_name("streaming.onnx"))
    engine = OnnxEngine(ModelConfig.of(record), len(record.tokens), lambda: data, streaming)
    engine.session = engine.checked(session, str(path))
    engine.try_out()
    return engine, record


def _read_model(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read the model ({error.strerror})") from error


@contextlib.contextmanager
def refusing_misfits() -> Iterator[None]:
    """Raises InputError where a graph cannot be run: its weights do not fit each other."""
    try:
        yield
    except Exception as error:  # onnxruntime has a class of its own for each status, with no common one
        raise InputError(f"the model's weights do not fit each other ({error!s:.200})") from error


def make_session(graph: bytes, name: str = "the model") -> onnxruntime.InferenceSession:
    """A session on the CPU, in `cpu_threads()` threads.

    Raises:
        InputError: onnxruntime cannot load the graph, or its weights lie in other files, which would be read.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    options.intra_op_num_threads, options.log_severity_level = cpu_threads(), FATAL
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each status, with no common one
        raise InputError(f"{name}: onnxruntime cannot load it ({str(error).splitlines()[0]:.200})") from error
