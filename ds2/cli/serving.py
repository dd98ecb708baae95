"""ds2 serve, bench-serve: live streams."""

import os
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.bundle import locate
from ds2.cli.exits import SOME_FAILED
from ds2.utils.errors import InputError
from ds2.utils.extras import need

Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="SECTION.KEY=VALUE")]


def serve(
    config: Path | None = None,
    model: str | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    set_: Settings = (),
) -> int:
    """Serve live recognition: a page, Vosk's WebSocket, OpenAI's transcriptions. SIGTERM ends it gracefully.

    Example: ds2 serve --port 2700 --set limits.streams=50

    Args:
        config: A TOML file; ds2/serve/README.md lists its keys.
        model: A bundle whose layers run forward only; by default digits-streaming, which knows no words but digits.
        host: Address to listen on; 0.0.0.0 for other machines.
        port: Port to listen on; 0 takes a free one.
        workers: Model processes.
        set_: Sets a key of the configuration; may be repeated.
    """
    from ds2.serve.config import read_serve_config
    from ds2.serve.logs import log_to_stderr
    from ds2.serve.server import run

    named = {"host": host, "port": port, "workers": workers, "model": model and locate(model).absolute()}
    flags = {key: str(value) for key, value in named.items() if value is not None}
    pairs = (setting.partition("=") for setting in set_)
    log_to_stderr()
    settings = read_serve_config(config, {**{key: value for key, _, value in pairs}, **flags}, os.environ)
    return run(settings)


def bench_serve(
    manifest: Positional[Path],
    url: str = "ws://127.0.0.1:2700",
    streams: str = "10,20,30",
    seconds: float = 20.0,
    output: Path | None = None,
) -> int:
    """Measure a server under a load of live streams in real time: latency, word error rate, batch sizes.

    Example: ds2 bench-serve recipes/digits/data/test.jsonl --streams 10,20,30 --output load

    Args:
        manifest: The recordings to send and what is said in them: JSON Lines with audio_filepath, duration, text.
        url: The server, running: ds2 serve, or another that speaks Vosk's protocol.
        streams: How many at once; several numbers with commas between.
        seconds: How long each number is held.
        output: Folder for load.json, batches.png and latency.png.
    """
    import asyncio
    import json

    from websockets.exceptions import InvalidURI
    from websockets.uri import parse_uri

    from ds2.serve.load_test import apply_load, read_recordings, table
    from ds2.utils.files import atomic_write, make_folder

    try:
        parse_uri(url)
    except (InvalidURI, ValueError) as error:
        raise InputError(f"--url {url}: expected a server's address such as ws://127.0.0.1:2700") from error
    if not all(number.strip().isdigit() and int(number) for number in streams.split(",")):
        raise InputError(f"--streams {streams}: expected numbers from 1 on, such as 10,20,30")
    if output is not None:
        need("matplotlib")
        make_folder(output)
    recordings = read_recordings(manifest)
    outcomes = []
    for number in map(int, streams.split(",")):
        outcomes.append(asyncio.run(apply_load(url, recordings, number, seconds)))
        print(*table(outcomes[-1:])[0 if len(outcomes) == 1 else 2 :], sep="\n", flush=True)
    if output is not None:
        from ds2.serve.plots import draw_batches, draw_latencies

        draw_batches(output / "batches.png", outcomes)
        draw_latencies(output / "latency.png", {"": outcomes})
        with atomic_write(output / "load.json") as partial:
            partial.write_text(json.dumps([outcome.summary() for outcome in outcomes], indent=1) + "\n")
    return 0 if not any(outcome.failures for outcome in outcomes) else SOME_FAILED
