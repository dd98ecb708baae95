"""Estimation of a pruned word 3-gram model from a large text: time and peak memory at several limits; also lmplz.

    python benchmarks/lm_build.py [--words 20000000]

The text is sampled: word ranks follow Zipf's law, and every other word is one of a few that often follow the word
before it. Each run has a separate process. "peak" is its highest memory use; "start" is the part of the interpreter
and the libraries; the rest includes the vocabulary and the finished model. N-grams that occur once are pruned.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.texts import read_sentences

VOCABULARY = 100_000
SENTENCE = 16  # words
FOLLOWERS = 20  # words that follow a word every other time
SETTINGS = (100, 400, 4_000)  # MB; with the last, everything fits into memory
PRUNE = (0, 1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=20_000_000)
    parser.add_argument("--settings", type=int, nargs="+", default=SETTINGS, help="MB")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        write_corpus(text, arguments.words)
        print(f"{arguments.words:,} words, {text.stat().st_size / 1e6:.0f} MB of text\n")
        print("| estimator | memory, MB | s | peak, MB | start, MB | n-grams |\n|---|---|---|---|---|---|")
        lmplz = shutil.which("lmplz")
        for memory in arguments.settings:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, peak, start, counts = pool.apply(ours, (text, memory))
            print(f"| ours | {memory:,} | {seconds:.0f} | {peak:,.0f} | {start:,.0f} | {counts} |", flush=True)
            if lmplz:
                seconds, peak = theirs(lmplz, text, memory)
                print(f"| lmplz | {memory:,} | {seconds:.0f} | {peak:,.0f} | | |", flush=True)
        if not lmplz:
            print("| lmplz | not on PATH | | | | |")


def write_corpus(path: Path, words: int) -> None:
    rng = np.random.default_rng(0)
    names = np.array([f"w{number}" for number in range(VOCABULARY)], dtype=object)
    with path.open("w") as file:
        for start in range(0, words, 1_000_000):
            free = np.minimum(rng.zipf(1.2, min(1_000_000, words - start)), VOCABULARY) - 1
            liked = (free[:-1] * 31 + rng.integers(0, FOLLOWERS, len(free) - 1) ** 3) % VOCABULARY
            free[1::2] = liked[::2][: len(free[1::2])]
            for begin in range(0, len(free), SENTENCE):
                file.write(" ".join(names[free[begin : begin + SENTENCE]]) + "\n")


def ours(text: Path, memory: int) -> tuple[float, float, float, str]:
    start, began = held("VmRSS"), time.perf_counter()
    _, orders = estimate(read_sentences(text), EstimateConfig(3, PRUNE, memory=memory))
    seconds = time.perf_counter() - began
    return seconds, held("VmHWM"), start, " + ".join(f"{len(grams.word):,}" for grams in orders)


def held(key: str) -> float:
    """MB, of this process: VmRSS now, VmHWM at most."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[key].split()[0]) * 1024 / 1e6


def theirs(lmplz: str, text: Path, memory: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [lmplz, "--order", "3", "--memory", f"{memory}M", "--temp_prefix", folder, "--discount_fallback"]
        command += ["--prune", *map(str, PRUNE), "--text", str(text), "--arpa", f"{folder}/lm.arpa"]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"lmplz failed with {process.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
