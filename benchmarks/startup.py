"""Start-up times of the command line, compared with `import torch` alone.

    python benchmarks/startup.py [--rounds 7]

Each command runs several times, in turn with the others, in a separate process; the script prints medians. Goals:
transcribing one 5 s file takes at most 3 times as long as importing torch; help appears within 0.3 s.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

RATE = 8000  # Hz: the rate of the bundled model and of the recording
RECORDING = Path(__file__).parents[1] / "recipes" / "digits" / "audio" / "fsdd_theo_test.flac"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
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
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:13} {median:6.2f} s")
    print(f"transcribe / import torch: {medians['transcribe'] / medians['import torch']:.2f} (goal: at most 3)")
    print(f"help: {medians['help']:.2f} s (goal: at most 0.3 s)")


def five_seconds() -> np.ndarray:
    """Samples of the recipe's recording, or noise where it is not there."""
    if RECORDING.exists():
        return np.asarray(soundfile.read(RECORDING, frames=5 * RATE)[0])
    return np.random.default_rng(0).normal(0, 0.1, 5 * RATE)


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
