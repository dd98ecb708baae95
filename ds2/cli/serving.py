"""ds2 serve, bench-serve: live streams."""

import os
from pathlib import Path
from typing import Annotated

import tyro

from ds2.errors import InputError

Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="SECTION.KEY=VALUE")]


def serve(
    config: Path | None = None,
    model: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    set_: Settings = (),
) -> int:
    """Serve live recognition: a page, Vosk's WebSocket, OpenAI's transcriptions. SIGTERM ends it gracefully.

    Example: ds2 serve --port 2700 --set limits.streams=50

    Args:
        config: A TOML file; ds2/serve/README.md lists its keys.
        model: A bundle of a forward-only model; by default the streaming digits model of the package.
        host: Address to listen on; 0.0.0.0 for other machines.
        port: Port to listen on; 0 takes a free one.
        workers: Model processes.
        set_: Sets a key of the configuration; may be repeated.
    """
    try:
        from ds2.serve.config import read_serve_config
        from ds2.serve.server import log_to_stderr, run
    except ModuleNotFoundError as error:
        raise InputError(f"serve: {error.name} is not installed; pip install 'ds2[serve]'") from error

    named = {"host": host, "port": port, "workers": workers, "model": model and model.absolute()}
    flags = {key: str(value) for key, value in named.items() if value is not None}
    pairs = (setting.partition("=") for setting in set_)
    settings = read_serve_config(config, {**{key: value for key, _, value in pairs}, **flags}, os.environ)
    log_to_stderr()
    return run(settings)
