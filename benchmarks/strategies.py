"""Strategies of distributed training where a link or a rank is slow: which one still learns in time?

    sudo python benchmarks/strategies.py [--strategies mixed ...] [--seeds 1 2] [--output runs/strategies]

Four ranks of two machines, each machine a network namespace of its own with two ranks:

    even        nothing is slow
    slow link   the link between the machines carries 40 Mbit/s each way (tc's token bucket)
    slow rank   the last rank is stopped half of the time

Each run trains the digits' comparison, and its row says how many utterances a second all ranks get through, how long
training took until the dev loss was as low as the target, and how it ended; with several seeds the mean and the
deviation. Training alone counts, without start and validation. MB per minibatch is what ranks hand over to each other,
`link` what the devices between the machines have counted. Needs Linux, root, iproute2, recipes/digits/prepare.py.
"""

import argparse
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ds2.train.distributed.bench import FinishedRun, mean_and_deviation, time_to
from ds2.train.metrics import read_metrics

RECIPE = Path(__file__).parents[1] / "recipes" / "digits" / "comparison.toml"
MACHINES, RANKS = ("ds2-bench-a", "ds2-bench-b"), 4
ADDRESS, DEVICE = "10.77.0.{}", "bench"
LINK = "rate 40mbit burst 64kb latency 1000ms"
COUNTED = "link_bytes"  # the file in a finished run's folder with what went through the link
BATCH = 16  # utterances of a minibatch
PAUSE = 0.1  # seconds for which a slow rank stops, and for which it runs
STRATEGIES = {  # settings of `[parallel]`
    "synchronous": (),
    "local-sgd": ("group=2",),
    "asynchronous": ("servers=1",),
    "mixed": ("group=2", "servers=1"),
    "mixed, 2 servers": ("group=2", "servers=2"),
    "backup-workers": ("backups=1",),
}
COLUMNS = ("", "strategy", "utterances/s", "seconds to the target", "dev loss", "dev WER", "MB per minibatch", "link")
CONDITIONS = ("even", "slow link", "slow rank")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=STRATEGIES)
    parser.add_argument("--conditions", nargs="+", default=list(CONDITIONS), choices=CONDITIONS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--target", type=float, default=10.0, help="dev loss")
    parser.add_argument("--output", type=Path, default=Path("runs/strategies"), help="finished runs are not repeated")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for condition in options.conditions:
        with machines(slow=condition == "slow link"):
            for strategy in options.strategies:
                runs = []
                for seed in options.seeds:
                    folder = options.output / f"{condition}.{strategy}.{seed}".replace(" ", "-").replace(",", "")
                    if not (folder / COUNTED).exists():
                        before = link_bytes()
                        train(folder, strategy, seed, options.epochs, slow_rank=condition == "slow rank")
                        (folder / COUNTED).write_text(str(link_bytes() - before))
                    runs.append(FinishedRun(RANKS, read_metrics(folder / "metrics.jsonl"), []))
                counted = int((folder / COUNTED).read_text()) / runs[-1].utterances * BATCH
                print(row(condition, strategy, runs, options.target, counted), flush=True)


@contextlib.contextmanager
def machines(slow: bool) -> Iterator[None]:
    """Two network namespaces with a link between them."""
    first, second = MACHINES
    call("ip", "netns", "add", first)
    try:
        call("ip", "netns", "add", second)
        call("ip", "link", "add", DEVICE, "netns", first, "type", "veth", "peer", "name", DEVICE, "netns", second)
        for number, machine in enumerate(MACHINES, 1):
            inside = ("ip", "netns", "exec", machine)
            call(*inside, "ip", "address", "add", f"{ADDRESS.format(number)}/24", "dev", DEVICE)
            call(*inside, "ip", "link", "set", DEVICE, "up")
            call(*inside, "ip", "link", "set", "lo", "up")
            if slow:
                call(*inside, "tc", "qdisc", "add", "dev", DEVICE, "root", "tbf", *LINK.split())
        yield
    finally:
        for machine in MACHINES:
            subprocess.run(["ip", "netns", "delete", machine], check=False)


def link_bytes() -> int:
    """Bytes that both machines have sent through the link, headers and the start included."""
    counter = f"/sys/class/net/{DEVICE}/statistics/tx_bytes"
    commands = (("ip", "netns", "exec", machine, "cat", counter) for machine in MACHINES)
    return sum(int(subprocess.run(command, check=True, capture_output=True).stdout) for command in commands)


def call(*command: str) -> None:
    subprocess.run(command, check=True)


def train(folder: Path, strategy: str, seed: int, epochs: int, slow_rank: bool) -> None:
    """Trains in real processes, a rank in each."""
    settings = [f"seed={seed}", f"epochs={epochs}", "data.workers=0", "data.fraction=0.5", f"batch_size={BATCH}"]
    settings += ["parallel.synchronize_batch_norm=false", f"parallel.strategy={strategy.split(',')[0]}"]
    settings += [f"parallel.{setting}" for setting in STRATEGIES[strategy]]
    words = [word for setting in settings for word in ("--set", setting)]
    common = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": DEVICE}
    common |= {"MASTER_ADDR": ADDRESS.format(1), "MASTER_PORT": "29400"}
    ranks = []
    for rank in range(RANKS):
        inside = ["ip", "netns", "exec", MACHINES[rank * len(MACHINES) // RANKS]]
        command = [
            sys.executable,
            "-m",
            "ds2",
            "train",
            str(RECIPE),
            "--output",
            str(folder),
            "--device",
            "cpu",
            *words,
        ]
        environment = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank % 2)}
        ranks.append(subprocess.Popen([*inside, *command], env=environment, stdout=subprocess.DEVNULL))
    if slow_rank:
        threading.Thread(target=slow_down, args=(ranks[-1],), daemon=True).start()
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise SystemExit(f"{folder}: a rank failed; see above")


def slow_down(process: "subprocess.Popen[bytes]") -> None:
    """Stops a process half of the time until it ends."""
    for sign in itertools.cycle((signal.SIGSTOP, signal.SIGCONT)):
        if process.poll() is not None:
            return
        process.send_signal(sign)
        time.sleep(PAUSE)


def row(condition: str, strategy: str, runs: Sequence[FinishedRun], target: float, counted: float) -> str:
    """A line of the table; `counted` bytes a minibatch went through the link."""
    columns = [
        mean_and_deviation([run.throughput for run in runs], "{:.1f}"),
        time_to(target, runs),
        mean_and_deviation([run.last("dev_loss") for run in runs], "{:.2f}"),
        mean_and_deviation([100 * run.last("wer") for run in runs], "{:.1f}") + " %",
        f"{runs[0].cost('megabytes'):.2f}",
        f"{counted / 1e6:.2f}",
    ]
    return f"| {condition} | {strategy} | {' | '.join(columns)} |"


if __name__ == "__main__":
    main()
