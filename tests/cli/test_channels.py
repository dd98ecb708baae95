"""Recordings with a speaker on each channel."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.commands import Outcome, assert_refused

import ds2
from ds2.audio.tensors import read_audio


@pytest.fixture
def call(spoken_digits: Callable[[int], Path], tmp_path: Path) -> Path:
    """Zero on the left, zero again on the right, three seconds later."""
    samples, rate = soundfile.read(spoken_digits(1).parent / "0.wav")
    stereo = np.zeros((8 * rate, 2))
    stereo[rate : rate + len(samples), 0] = samples
    stereo[4 * rate : 4 * rate + len(samples), 1] = samples
    soundfile.write(tmp_path / "call.wav", stereo, rate)
    return tmp_path / "call.wav"


@pytest.mark.parametrize("suffix", [".wav", ".mka"])
def test_one_channel_is_read(call: Path, suffix: str) -> None:
    path = call.with_suffix(suffix)
    if suffix == ".mka":
        av = pytest.importorskip("av")
        samples, rate = soundfile.read(call, dtype="int16")
        with av.open(str(path), "w", format="matroska") as container:
            stream = container.add_stream("pcm_s16le", rate=rate, layout="stereo")
            frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="stereo")
            frame.sample_rate = rate
            container.mux([*stream.encode(frame), *stream.encode(None)])
    stereo, _ = soundfile.read(call, dtype="float32")
    for channel in (0, 1):
        assert np.allclose(read_audio(path, channel=channel)[0].numpy(), stereo[:, channel], atol=1e-4)
    assert np.allclose(read_audio(path)[0].numpy(), stereo.mean(axis=1), atol=1e-4)


def test_channels_are_transcribed_by_themselves(run: Callable[..., Outcome], call: Path, tmp_path: Path) -> None:
    code, output, _ = run("transcribe", call, "--channels", "separate", "--format", "json", "--model", "digits")
    assert code == 0
    turns = json.loads(output)["segments"]
    assert [(turn["channel"], turn["text"]) for turn in turns] == [(1, "zero"), (2, "zero")]
    assert 0.9 < turns[0]["start"] < 2 < 3.9 < turns[1]["start"] < 5
    assert run("transcribe", call, "--channels", "separate", "--model", "digits")[1] == "1: zero\n2: zero\n"


def test_a_single_channel_gets_the_usual_transcript(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    path = spoken_digits(1).parent / "0.wav"
    (path.parent / "bad.wav").write_text("no audio")
    code, output, errors = run("transcribe", path.parent / "*.wav", "--channels", "separate", "--model", "digits")
    assert (code, output) == (1, f"{path}\t{ds2.load('digits').transcribe(path).text}\n")
    assert "bad.wav: " in errors


def test_standard_input_is_refused(run: Callable[..., Outcome]) -> None:
    assert_refused(run("transcribe", "-", "--channels", "separate"), "--channels: separate", "name a file")
