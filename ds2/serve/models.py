"""The models of a server, chosen by name; each has its own model processes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ds2.bundle import read_record
from ds2.model_record import KNOWS_ANY
from ds2.recognition.engine import ONNX_SUFFIX
from ds2.serve.config import ServeConfig
from ds2.serve.messages import WorkerConfig
from ds2.serve.model_process import Timeouts
from ds2.serve.process_choice import Pool
from ds2.serve.prometheus import Metrics
from ds2.utils.errors import InputError, ParameterError

DEFAULT_NAMES = ("", "whisper-1")  # the first model: clients of OpenAI's API must name one


class Models:
    """The pools of model processes by the names of their models; the first model is the default."""

    def __init__(self, paths: Sequence[Path]):
        """`paths` of the bundles.

        Raises:
            InputError: two of them have the same name.
        """
        self.paths = {path.stem: path for path in paths}
        if len(self.paths) < len(paths):
            raise InputError(f"models: {', '.join(path.stem for path in paths)}: names must differ; rename a bundle")
        self.pools: dict[str, Pool] = {}
        self.rates: dict[str, int] = {}  # Hz
        self.listing: list[dict[str, Any]] = []  # in the form of OpenAI's API, and what each model knows

    async def start(self, config: ServeConfig, metrics: Metrics) -> None:
        """Starts the model processes of all models and waits until they are ready.

        Raises:
            InputError: a model cannot be loaded, or cannot stream.
        """
        # Each model has its own processes, and the streams of a model are divided among them.
        limits, devices = config.limits, config.device.split(",") * config.workers
        slots = -(-limits.streams // len(devices))
        timeouts = Timeouts(limits.worker_timeout_seconds, limits.load_timeout_seconds)
        for name, path in self.paths.items():
            workers = [
                WorkerConfig(
                    path, device, config.decoder, config.precision, slots, config.live, config.dispatch, config.engine
                )
                for device in devices
            ]
            self.pools[name] = Pool(workers, metrics, limits.max_queue_seconds, timeouts)
        metrics.queue.set_function(lambda: sum(pool.queue for pool in self.pools.values()))
        rates = await asyncio.gather(*(pool.started() for pool in self.pools.values()))
        self.rates = dict(zip(self.pools, rates, strict=True))
        self.listing = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "ds2",
                "knows": KNOWS_ANY if path.suffix == ONNX_SUFFIX else read_record(path).knows,
            }
            for name, path in self.paths.items()
        ]

    def stop(self) -> None:
        """Ends all model processes."""
        for pool in self.pools.values():
            pool.stop()

    @property
    def is_ready(self) -> bool:
        """Whether every model takes new streams."""
        return bool(self.pools) and all(pool.is_ready for pool in self.pools.values())

    def find(self, name: str) -> str:
        """The model of this name, or the default one.

        Raises:
            ParameterError: there is no such model here.
        """
        if name in DEFAULT_NAMES:
            return next(iter(self.paths))
        if name not in self.paths:
            raise ParameterError("model", f"{name!r:.60} is not served here; choose from {', '.join(self.paths)}")
        return name
