"""ds2 listen, with a file in place of the microphone."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.commands import Outcome, assert_refused


@pytest.fixture
def talk(spoken_digits: Callable[[int], Path], tmp_path: Path) -> Path:
    """Zero twice, a pause of a second after each."""
    samples, rate = soundfile.read(spoken_digits(1).parent / "0.wav")
    pause = np.random.default_rng(0).normal(0, 1e-3, rate)
    soundfile.write(tmp_path / "talk.wav", np.concatenate([samples, pause, samples, pause]), rate)
    return tmp_path / "talk.wav"


def test_pauses_end_lines_and_the_file_plays_in_real_time(run: Callable[..., Outcome], talk: Path) -> None:
    began = time.monotonic()
    code, output, _ = run("listen", "--file", talk, "--model", "digits-streaming")
    assert code == 0
    assert time.monotonic() - began >= soundfile.info(talk).duration
    lines = [line.split() for line in output.splitlines()]
    assert [words for _, *words in lines] == [["zero"], ["zero"]]
    assert 1.0 < float(lines[1][0]) < soundfile.info(talk).duration


def test_silence_is_said_to_be_without_speech(run: Callable[..., Outcome], tmp_path: Path) -> None:
    soundfile.write(tmp_path / "silent.wav", np.zeros(4000), 8000)
    code, output, errors = run("listen", "--file", tmp_path / "silent.wav", "--model", "digits-streaming")
    assert (code, output) == (0, "")
    assert errors.splitlines()[-1] == "ds2: no speech was found in 0.5 s"


def test_a_bad_file_and_a_model_that_cannot_stream_are_refused(
    run: Callable[..., Outcome], talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(run("listen", "--file", tmp_path / "gone.wav"), "gone.wav")
    with talk.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        assert "--model: " in run("listen", "--file", "-", "--model", "digits")[2]  # after the file was read
        assert_refused(run("listen", "--file", "-"), "stdin: empty")
    code, output, errors = run("listen", "--file", talk, "--model", "digits")
    assert (code, output) == (2, "")
    assert "--model: " in errors


def test_the_microphone_needs_its_package(run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sounddevice", None)
    assert_refused(run("listen"), "sounddevice is not installed", "pip install -c constraints.txt '.[listen]'")


def test_the_microphone_needs_portaudio_and_a_sound_card(run: Callable[..., Outcome]) -> None:
    """One line, whatever this machine lacks; a microphone would listen for ever."""
    try:
        import sounddevice
    except OSError:
        assert_refused(run("listen"), "microphone: PortAudio library not found", "apt install libportaudio2")
        return
    if any(device["max_input_channels"] for device in sounddevice.query_devices()):
        pytest.skip("this machine has a microphone")
    code, output, errors = run("listen")
    assert (code, output) == (2, "")
    assert "python -m sounddevice lists the devices" in errors
