"""Commands whose system calls are interrupted all the time, by a timer whose signal they handle (EINTR)."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.train_toml import small_toml

STORM = """
import signal, sys
from ds2.cli.main import main
interruptions = 0
def handle(*_):
    global interruptions
    interruptions += 1
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001, float(sys.argv.pop(1)))
code = main(sys.argv[1:])
signal.setitimer(signal.ITIMER_REAL, 0)
print(interruptions, file=sys.stderr)
sys.exit(code)
"""
NEVER, OFTEN = 0, 0.001  # seconds between signals
COMMANDS = {  # with {sound}, {manifest}, {text} and {config}, and the output behind them
    "transcribed": ("transcribe {sound} --model digits --format json --output", "out.json"),
    "counted": ("lm build {text} --order 2 --output", "out.arpa"),
    "table": ("data compile {manifest} --output", "out.arrow"),
    "trained": ("train {config} --output", "run"),
}


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_interrupted_system_calls_change_nothing(
    spoken_digits: Callable[[int], Path], tmp_path: Path, command: str
) -> None:
    text, manifest = tmp_path / "text.txt", spoken_digits(9)
    text.write_text("".join(f"one two word{number} three\n" for number in range(4000)))
    config = tmp_path / "train.toml"
    config.write_text(small_toml(manifest).replace("workers = 0", "workers = 2"))
    sound = next(manifest.parent.glob("*.wav"))
    words, name = COMMANDS[command]
    found = []
    for interval in (NEVER, OFTEN):
        output = tmp_path / f"{interval}" / name
        output.parent.mkdir()
        arguments = words.format(text=text, sound=sound, manifest=manifest, config=config).split()
        ran = subprocess.run(
            [sys.executable, "-c", STORM, str(interval), *arguments, str(output)], capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        assert int(ran.stderr.splitlines()[-1]) > (100 if interval else -1)
        found.append((output / "best.safetensors" if output.is_dir() else output).read_bytes())
    assert found[0] == found[1]
