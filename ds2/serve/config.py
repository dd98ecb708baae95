"""What `ds2 serve` can be told, by a TOML file, by environment variables (DS2_SERVE_PORT=80, sections by two
underscores: DS2_SERVE_LIMITS__STREAMS=50) and by flags, the later ones going before."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ds2.bundle import locate
from ds2.recognition.options import DEFAULT_OPTIONS, DecoderOptions
from ds2.serve.dispatch import DispatchConfig
from ds2.serve.messages import LiveConfig, Precision
from ds2.utils.config import from_dict, load_config, override

PREFIX = "DS2_SERVE_"
MAY_BE_NOTHING = {"partial_every", "timeout", "drain"}  # keys; all other numbers of a section are above 0


@dataclass(frozen=True)
class Limits:
    """What a client may ask for; beyond it is refused, never queued."""

    streams: int = 200  # at once, uploads included
    backlog: float = 30.0  # seconds of sound that may wait of one stream; a Vosk client is held back long before
    idle: float = 60.0  # seconds without sound after which a stream ends
    duration: float = 4 * 3600.0  # seconds of sound of a live stream
    message: int = 1 << 20  # bytes of a WebSocket message
    upload: int = 25 << 20  # bytes of a file
    upload_duration: float = 3600.0  # seconds of sound in a file
    rate: int = 600  # new streams and uploads in a minute from one client (its key or else its address)
    wait: float = 2.0  # seconds that chunks wait for the model above which no new stream is let in
    answer: float = 30.0  # seconds that a model process has to answer; it is killed and started again where it does not
    drain: float = 30.0  # seconds that live streams get for their final results after SIGTERM


@dataclass(frozen=True)
class ServeConfig:
    """The whole server."""

    model: Path | None = None  # bundle; None: the streaming digits model of the package
    host: str = "127.0.0.1"  # 0.0.0.0: reachable from other machines
    port: int = 2700  # Vosk's
    device: str = "auto"  # auto, cpu, cuda; a comma between several
    precision: Precision = "auto"  # of the recurrent weights; auto: float16 on a GPU, float32 on a CPU
    workers: int = 1  # model processes on each device
    keys: tuple[str, ...] = ()  # API keys; none: everybody may enter
    origins: tuple[str, ...] = ()  # of web pages on other hosts that may connect, such as "https://example.org"
    certificate: Path | None = None  # TLS: PEM files
    certificate_key: Path | None = None
    decoder: DecoderOptions = DEFAULT_OPTIONS  # language model, weights, beam, hot words
    live: LiveConfig = field(default_factory=LiveConfig)
    dispatch: DispatchConfig = field(default_factory=DispatchConfig)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for section in ("live", "dispatch", "limits"):
            for name, value in vars(getattr(self, section)).items():
                enough = isinstance(value, str) or value > 0 or (value == 0 and name in MAY_BE_NOTHING)
                if not enough:
                    raise ValueError(f"{section}.{name} must be above 0, got {value:g}")
        if self.workers < 1 or not 0 <= self.port < 65536:
            raise ValueError(f"workers {self.workers} must be at least 1 and port {self.port} 0 to 65535")
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("certificate and certificate_key come together")
        if self.decoder.rescore is not None or self.decoder.beam == 0:
            raise ValueError("decoder: live speech is searched with a beam, and not rescored")


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
    return _located(from_dict(ServeConfig, values, "ds2 serve"), Path())


def _located(config: ServeConfig, folder: Path) -> ServeConfig:
    """With the path of the model, where it was named as one of the package."""
    model = config.model
    if model is None or model.parent != folder or model.suffix or model.exists():
        return config
    return replace(config, model=locate(model.name))
