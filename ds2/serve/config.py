"""The configuration of `ds2 serve`.

It comes from a TOML file, from environment variables (DS2_SERVE_PORT=80; a section and its key are joined by two
underscores: DS2_SERVE_LIMITS__STREAMS=50) and from the command line; a later source overrides an earlier one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ds2.model.config import Precision
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.options import DEFAULT_OPTIONS, DecoderOptions, EngineName
from ds2.serve.dispatch import DispatchConfig
from ds2.utils.config import from_dict, load_config, override
from ds2.utils.model_names import locate

PREFIX = "DS2_SERVE_"
MOST_WORKERS, MOST_STREAMS = 1000, 100_000  # each takes memory before the first client comes
MAY_BE_ZERO = {"partial_interval_seconds", "drain_seconds"}  # all other numbers of a section are above 0


@dataclass(frozen=True)
class Limits:
    """The limits on what a client may request; the server refuses anything above them at once and never queues it."""

    streams: int = 200  # open at the same time, uploads included
    streams_per_client: int = 50  # of these; a client is an API key or, without keys, an address
    backlog_seconds: float = 30.0  # sound of one stream that may wait for the model
    idle_seconds: float = 60.0  # a stream without sound for so long ends
    waiting_bytes: int = 256 << 20  # of all streams; beyond it those end that hold more than an equal share
    stream_seconds: float = 4 * 3600.0  # sound of a live stream
    message_bytes: int = 1 << 20  # of a WebSocket message
    upload_bytes: int = 25 << 20  # of an uploaded file
    upload_audio_seconds: float = 3600.0  # sound in an uploaded file
    upload_timeout_seconds: float = 300.0  # for a whole upload to arrive
    decoded_bytes: int = 768 << 20  # memory of the processes that decode uploads; each may take 48 MB of it
    streams_per_minute: int = 600  # new streams and uploads of one client: its key, else its address
    wrong_keys_per_minute: int = 20  # of one address; then all its keys are refused for some seconds
    request_timeout_seconds: float = 10.0  # for the header of a request
    max_queue_seconds: float = 2.0  # no new stream while chunks wait longer than this for the model
    worker_timeout_seconds: float = 30.0  # a model process silent for so long is replaced
    load_timeout_seconds: float = 300.0  # a model process that is not ready after so long is killed
    drain_seconds: float = 30.0  # after SIGTERM, for the final results of live streams


@dataclass(frozen=True)
class ServeConfig:
    """The configuration of the whole server."""

    model: Path | None = None  # bundle; None: english
    models: tuple[Path, ...] = ()  # further bundles that clients may choose by name, the file's without its suffix
    host: str = "127.0.0.1"  # 0.0.0.0: reachable from other machines
    port: int = 2700  # the port of Vosk's server
    device: str = "auto"  # auto, cpu, cuda; a comma between several
    engine: EngineName = "auto"  # native, torch, onnx; auto: see recognition/engine.py
    precision: Precision = "auto"  # of the recurrent weights; auto: float16 on a GPU, int8 on a CPU
    workers: int = 1  # model processes on each device
    api_keys: tuple[str, ...] = ()  # without any, everybody may connect
    hosts: tuple[str, ...] = ()  # names of this server besides localhost and addresses; "*": any name
    origins: tuple[str, ...] = ()  # of web pages on other hosts that may connect, such as "https://example.org"
    trusted_proxies: tuple[str, ...] = ()  # addresses whose X-Forwarded-For is believed
    certificate: Path | None = None  # TLS: the PEM file of the certificate and its chain
    certificate_key: Path | None = None  # the PEM file of the key
    traces: str = ""  # URL of OpenTelemetry's collector, such as http://collector:4318/v1/traces
    decoder: DecoderOptions = DEFAULT_OPTIONS  # language model, weights, beam, hot words
    live: LiveConfig = field(default_factory=LiveConfig)
    dispatch: DispatchConfig = field(default_factory=DispatchConfig)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for section in ("live", "dispatch", "limits"):
            for name, value in vars(getattr(self, section)).items():
                if value < 0 or (value == 0 and name not in MAY_BE_ZERO):
                    raise ValueError(f"{section}.{name} must be above 0, got {value:g}")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ValueError(f"workers must be from 1 to {MOST_WORKERS}, got {self.workers}")
        if self.limits.streams > MOST_STREAMS:
            raise ValueError(f"limits.streams must be at most {MOST_STREAMS:,}, got {self.limits.streams}")
        if not 0 <= self.port < 65536:
            raise ValueError(f"port must be 0 to 65535, got {self.port}")
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("certificate and certificate_key need each other")
        if self.traces and not self.traces.startswith(("http://", "https://")):
            raise ValueError(f"traces must be a URL of http or https, got {self.traces!r}")
        if any(key != key.strip() or not key for key in self.api_keys):
            raise ValueError("api_keys: a key may neither be empty nor begin or end with a space")
        if self.decoder.beam == 0:
            raise ValueError("decoder: live streams need a beam search")


def read_serve_config(path: Path | None, flags: Mapping[str, str], environment: Mapping[str, str]) -> ServeConfig:
    """The configuration of a TOML file, overridden by the environment, overridden by `flags` ("limits.streams": "50").

    Relative paths are relative to the file's folder, or, without a file, to the current one.

    Raises:
        InputError: an unknown key, or a value that does not fit; the message names it.
    """
    overrides = [
        f"{name.removeprefix(PREFIX).lower().replace('__', '.')}={value}"
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX)
    ]
    overrides += [f"{key}={value}" for key, value in flags.items()]
    if path is not None:
        return _located(load_config(ServeConfig, path, overrides), path.parent)
    values: dict[str, Any] = {}
    for setting in overrides:
        override(values, setting)
    return _located(from_dict(ServeConfig, values, "ds2 serve", warns=True), Path())


def _located(config: ServeConfig, folder: Path) -> ServeConfig:
    """The configuration with the paths of models that are named as in the package."""

    def found(model: Path) -> Path:
        packaged = model.parent == folder and not model.suffix and not model.exists()
        return locate(model.name) if packaged else model

    model = None if config.model is None else found(config.model)
    return replace(config, model=model, models=tuple(map(found, config.models)))
