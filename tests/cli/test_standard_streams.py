"""The command without standard streams, and with Ctrl-C at any moment."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import assert_refused, write_noise


def shell(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """`ds2` stands for the command in `command`, $1, $2 ... for the arguments."""
    line = command.replace("ds2", f"{sys.executable} -m ds2", 1)
    return subprocess.run(["bash", "-c", line, "", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("command", ['ds2 transcribe "$1" --model "$2" >&-', "ds2 --help >&-", 'ds2 info "$2" >&-'])
def test_closed_standard_output_is_one_line(command: str, tiny_bundle: Path, tmp_path: Path) -> None:
    result = shell(command, write_noise(tmp_path / "a.wav"), tiny_bundle)
    assert_refused((result.returncode, result.stdout, result.stderr), "standard output: Bad file descriptor")


def test_closed_standard_input_is_one_line(tiny_bundle: Path) -> None:
    result = shell('ds2 transcribe - --model "$1" <&-', tiny_bundle)
    assert_refused((result.returncode, result.stdout, result.stderr), "stdin: cannot be read (Bad file descriptor)")


def test_closed_standard_error_does_not_bring_errors_to_standard_output(tmp_path: Path) -> None:
    result = shell('ds2 transcribe "$1" 2>&-', tmp_path / "none.wav")
    assert (result.returncode, result.stdout) == (2, "")


def test_files_are_written_without_any_standard_stream(tiny_bundle: Path, tmp_path: Path) -> None:
    """None of them gets the descriptor of a stream, into which libraries print."""
    audio = write_noise(tmp_path / "a.wav")
    expected = shell('ds2 transcribe "$1" --model "$2"', audio, tiny_bundle).stdout
    result = shell('ds2 transcribe "$1" --model "$2" --output "$3" <&- >&- 2>&-', audio, tiny_bundle, tmp_path / "out")
    assert result.returncode == 0
    assert (tmp_path / "out" / "a.txt").read_text() == expected


def as_at_a_terminal() -> None:
    """A shell starts what it runs in the background with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("module", ["ds2.cli.exits", "tyro", "numpy", "numba", "ds2.recognition.recognizer"])
def test_ctrl_c_while_modules_are_imported_is_quiet(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ds2", "transcribe", str(write_noise(tmp_path / "a.wav"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=as_at_a_terminal) as process:
        assert process.stderr is not None
        for line in process.stderr:  # one of each module that has been imported
            if line.endswith(f" {module}\n"):
                process.send_signal(signal.SIGINT)
                break
        errors = [line for line in process.stderr if not line.startswith("import time:")]
    # Python ends itself by the signal if that came while it ran a string, as dataclasses do: 130 for shells as well.
    assert process.returncode in (130, -signal.SIGINT)
    assert errors == []
