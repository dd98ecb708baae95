"""ds2 serve, bench-serve: live streams."""

import os
import sys
from pathlib import Path

from tyro.conf import Positional

from ds2.cli.exits import SOME_FAILED
from ds2.cli.options import Maybe, OptionalOutput, Settings
from ds2.recognition.options import EngineName
from ds2.utils.errors import ParameterError
from ds2.utils.extras import need
from ds2.utils.model_names import locate


def serve_command(
    config: Maybe[Path] = None,
    model: Maybe[str] = None,
    engine: Maybe[EngineName] = None,
    host: Maybe[str] = None,
    port: Maybe[int] = None,
    workers: Maybe[int] = None,
    set_: Settings = (),
) -> int:
    """Serve live recognition: a page, Vosk's and OpenAI's protocols.

    SIGTERM ends it gracefully.

    Example: ds2 serve --port 2700 --set limits.streams=50

    Args:
        config: A TOML file; ds2/serve/README.md lists its keys.
        model: Bundle of a model that streams, or the name of one; by default english.
        engine: native (a CPU without PyTorch), torch, onnx, which also takes the model.onnx of ds2 export, or auto.
        host: Address to listen on, by default 127.0.0.1; 0.0.0.0 for other machines.
        port: Port to listen on, by default 2700; 0 takes a free one.
        workers: Model processes, by default one.
    """
    from ds2.serve.config import read_serve_config
    from ds2.serve.logs import log_to_stderr
    from ds2.serve.server import run

    named: dict[str, object] = {"engine": engine, "host": host, "port": port, "workers": workers}
    named["model"] = None if model is None else locate(model).absolute()
    flags = {key: str(value) for key, value in named.items() if value is not None}
    pairs = (setting.partition("=") for setting in set_)
    log_to_stderr()
    settings = read_serve_config(config, {**{key: value for key, _, value in pairs}, **flags}, os.environ)
    return run(settings, _name_page)


def _name_page(url: str) -> None:
    """Says at a terminal which page to open."""
    if sys.stderr.isatty():
        print(f"open {url}", file=sys.stderr, flush=True)


def bench_serve_command(
    manifest: Positional[Path],
    url: str = "ws://127.0.0.1:2700",
    streams: str = "10,20,30",
    seconds: float = 20.0,
    key: str = "",
    output: OptionalOutput = None,
) -> int:
    """Measure a server's latency under a load of live streams.

    The streams come in real time; word error rate (of texts in their normal form) and batch sizes are
    measured too.

    Example: ds2 bench-serve recipes/digits/data/test.jsonl --streams 10,20,30 --output load

    Args:
        manifest: Recordings to send and their transcripts: JSON Lines with audio_filepath, duration, text.
        url: A running server: ds2 serve, or another that speaks Vosk's protocol.
        streams: Number of simultaneous streams; several numbers separated by commas are measured in turn.
        seconds: Duration of each measurement.
        key: One of the server's API keys, if it has any.
        output: Folder for load.json, batches.png and latency.png.
    """
    import asyncio
    import json

    from ds2.serve.load_test import apply_load, check_server, load_recordings, load_table
    from ds2.utils.files import make_folder, write_text

    counts = _check_load(url, streams)
    if output is not None:
        need("matplotlib")
        make_folder(output)
    asyncio.run(check_server(url, key))
    recordings = load_recordings(manifest)
    outcomes = []
    for number in counts:
        outcomes.append(asyncio.run(apply_load(url, recordings, number, seconds, key)))
        print(*load_table(outcomes[-1:])[0 if len(outcomes) == 1 else 2 :], sep="\n", flush=True)
    if output is not None:
        from ds2.serve.plots import draw_batches, draw_latencies

        draw_batches(output / "batches.png", outcomes)
        draw_latencies(output / "latency.png", {"": outcomes})
        write_text(output / "load.json", json.dumps([outcome.summary() for outcome in outcomes], indent=1) + "\n")
    return 0 if not any(outcome.failures for outcome in outcomes) else SOME_FAILED


def _check_load(url: str, streams: str) -> list[int]:
    """The numbers of streams.

    Raises:
        ParameterError: they are not numbers, or the server's address is not one.
    """
    from websockets.exceptions import InvalidURI
    from websockets.uri import parse_uri

    try:
        parse_uri(url)
    except (InvalidURI, ValueError) as error:
        raise ParameterError("url", f"{url}: expected a server's address such as ws://127.0.0.1:2700") from error
    if not all(number.strip().isdigit() and int(number) for number in streams.split(",")):
        raise ParameterError("streams", f"{streams}: expected numbers from 1 on, such as 10,20,30")
    return [int(number) for number in streams.split(",")]
