"""Start-up times of the command line, compared with `import torch` alone.

    python benchmarks/startup.py [--rounds 7] [--wheel dist/ds2_speech-0.2.0-cp311-cp311-manylinux_2_29_x86_64.whl]

Each command runs several times, in turn with the others, in a separate process; the script prints medians of the time
on the wall and of the processor's time, which other work on the machine changes less. "transcribe" has the library of
kernels that `ds2 warmup --library` links; "by numba" does without it, and "first transcribe" also has an empty cache
of numba, as a fresh checkout has. "first of a wheel" has the kernels that --wheel brings. Python may keep its byte
code, which pip makes when it installs. Goals: a first transcript of a fresh installation within 8 s, of a warm one
within 0.7 s; help within 0.1 s.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import soundfile

RATE = 8000  # Hz: the rate of the bundled model and of the recording
BY_NUMBA = {"DS2_KERNELS": "numba"}
RECORDING = Path(__file__).parents[1] / "recipes" / "digits" / "audio" / "fsdd_theo_test.flac"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wheel", type=Path)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    ds2 = shutil.which("ds2", path=str(Path(sys.executable).parent)) or "ds2"
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/five_seconds.wav"
        soundfile.write(path, five_seconds(), RATE)
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "import ds2": [sys.executable, "-c", "import ds2"],
            "help": [ds2, "--help"],
            "import torch": [sys.executable, "-c", "import torch"],
            "transcribe": [ds2, "transcribe", path],
        }
        # Fills the cache, and links the library.
        for filling in ([*commands["transcribe"], "--quiet"], [ds2, "warmup", "--library"]):
            subprocess.run(filling, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **BY_NUMBA})
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in [*commands, "by numba"]}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(seconds(command))
            times["by numba"].append(seconds(commands["transcribe"], BY_NUMBA))
        times["first transcribe"] = [
            seconds(commands["transcribe"], {**BY_NUMBA, "NUMBA_CACHE_DIR": f"{folder}/cache"})
        ]
        if arguments.wheel is not None:
            with ZipFile(arguments.wheel) as archive:
                archive.extractall(f"{folder}/wheel")
            first = {"PYTHONPATH": f"{folder}/wheel", "NUMBA_CACHE_DIR": f"{folder}/none", "XDG_CACHE_HOME": folder}
            times["first of a wheel"] = [seconds([sys.executable, "-P", "-m", "ds2", "transcribe", path], first)]
    for name, values in times.items():
        wall, processor = map(statistics.median, zip(*values, strict=True))
        print(f"{name:16} {wall:6.2f} s, {processor:6.2f} s of the processor")


def five_seconds() -> np.ndarray:
    """Samples of the recipe's recording, or noise where it is not there."""
    if RECORDING.exists():
        return np.asarray(soundfile.read(RECORDING, frames=5 * RATE)[0])
    return np.random.default_rng(0).normal(0, 0.1, 5 * RATE)


def seconds(command: list[str], variables: dict[str, str] | None = None) -> tuple[float, float]:
    """Seconds on the wall and of the processor that a command takes, with these variables."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(variables or {})}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
