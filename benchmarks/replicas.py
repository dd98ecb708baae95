"""Streams that one server keeps up with, and three behind HAProxy: has each new server room for as many again?

    python benchmarks/replicas.py [IMAGE] [--share 0.2] [--seconds 15]

Each server is a container of the image (ds2:cpu) that may use this share of a core, so that three are no more than a
small machine has. The largest number of live streams is searched at which 98 % of the final results come within 0.5 s,
the limit of the alert Ds2FinalsLate, and none fails. Needs Docker, HAProxy and deploy/haproxy.cfg.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "deploy"))

import check_image  # noqa: E402  # beside deploy/test.sh, outside of the package

from ds2.serve.load_test import Recording, apply_load, load_recordings  # noqa: E402

MODEL = "digits-streaming"
BALANCER = check_image.PORT + 9
ENOUGH, LATE = 0.98, 500  # of the final results, milliseconds
PERIOD = 20_000  # microseconds in which a container uses its share


@contextlib.contextmanager
def servers(image: str, share: float) -> Iterator[list[int]]:
    """The ports of three containers, which have all of the machine while they start."""
    check_image.RUN += ["--cgroup-parent", "/", "--cpu-shares", "8192"]  # before what else the machine does
    limits = {"STREAMS": "1000", "STREAMS_PER_CLIENT": "1000", "STREAMS_PER_MINUTE": "100000"}
    settings = {f"DS2_SERVE_LIMITS__{name}": value for name, value in limits.items()}
    with contextlib.ExitStack() as stack:
        ports = [check_image.PORT + number for number in range(3)]
        for port in ports:
            name, _ = check_image.started(image, MODEL, port, **settings)
            stack.callback(check_image.docker, "rm", "--force", name)
            quota = str(round(share * PERIOD))
            check_image.docker("update", "--cpu-period", str(PERIOD), "--cpu-quota", quota, name)
        yield ports


@contextlib.contextmanager
def balancer(ports: list[int]) -> Iterator[str]:
    """The URL of HAProxy, with deploy/haproxy.cfg, before servers."""
    text = (ROOT / "deploy" / "haproxy.cfg").read_text().replace("bind :80\n", f"bind 127.0.0.1:{BALANCER}\n")
    for number in (1, 2, 3):
        server = f"127.0.0.1:{ports[number - 1]}" if number <= len(ports) else "127.0.0.1:1"
        text = text.replace(f"10.0.0.{number}:2700", server)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "haproxy.cfg")
        path.write_text(text.replace("/run/haproxy", folder))
        process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(path)])
        time.sleep(5)  # its checks find the servers
        try:
            yield f"ws://127.0.0.1:{BALANCER}"
        finally:
            process.kill()
            process.wait()


def most_streams(works: Callable[[int], bool], step: int) -> int:
    """The largest number for which `works`, a multiple of the step or between two of them."""
    count = step
    while works(count):
        count += step
    low, high = count - step, count
    while high - low > max(1, step // 8):
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def measured(url: str, recordings: list[Recording], seconds: float, step: int) -> int:
    def works(count: int) -> bool:
        outcome = asyncio.run(apply_load(url, recordings, count, seconds))
        late = outcome.percentile(ENOUGH)
        print(f"  {count} streams: {late:.0f} ms, {len(outcome.failures)} failed", flush=True)
        return not outcome.failures and late <= LATE

    return most_streams(works, step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", nargs="?", default="ds2:cpu")
    parser.add_argument("--share", type=float, default=0.2, help="of a core, for each server")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--step", type=int, default=8, help="streams, for one server")
    arguments = parser.parse_args()
    recordings = load_recordings(ROOT / "recipes" / "digits" / "audio" / "utterances.jsonl")
    found = {}
    with servers(arguments.image, arguments.share) as ports:
        for number in (1, 3):
            with balancer(ports[:number]) as url:
                print(f"{number} behind HAProxy, {arguments.share} of a core each:", flush=True)
                found[number] = measured(url, recordings, arguments.seconds, arguments.step * number)
    print(f"one: {found[1]} streams, three: {found[3]}, {found[3] / max(1, found[1]):.2f} times as many")


if __name__ == "__main__":
    main()
