"""MP3: what its first frame promises."""

import ctypes
import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ds2.audio.c_messages import no_c_messages
from ds2.audio.files import InMemory, read_audio_array
from ds2.audio.mp3 import first_frame, promised_bytes
from ds2.utils.errors import InputError

NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 32000).astype(np.float32)
OLD_TAG = b"TAG" + bytes(125)  # ID3v1, at the end
TAG = b"ID3\x04\0\0\0\0\0\x0aTSSE" + bytes(6)


@pytest.fixture(scope="module")
def mp3() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, NOISE, 16000, format="MP3")
    return file.getvalue()


@pytest.mark.parametrize("tag", [b"", TAG])
def test_first_frame_promises_the_bytes_of_the_file(mp3: bytes, tag: bytes) -> None:
    assert promised_bytes(first_frame(io.BytesIO(tag + mp3))) == len(mp3)
    assert promised_bytes(first_frame(io.BytesIO(tag + mp3[1000:]))) == 0


def test_cut_off_file_is_one_line_that_names_it(mp3: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The decoder's own lines, on standard error, name none."""
    path = tmp_path / "talk.mp3"
    path.write_bytes(mp3[: len(mp3) // 2])
    for source in (path, InMemory(path.read_bytes(), "talk.mp3")):
        with pytest.raises(InputError, match=rf"talk\.mp3: cut off, {len(mp3) // 2:,} of {len(mp3):,} bytes are here"):
            read_audio_array(source)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("bad", [bytes(3000), b"\xff" * 3000, b""])
def test_damaged_file_prints_no_lines_of_its_decoder(mp3: bytes, bad: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """Several are read at once by threads; what Python prints meanwhile is shown."""
    damaged = InMemory(mp3[:5000] + bad + mp3[8000:] + bytes(3000 - len(bad)), "talk.mp3")

    def read(_: int) -> str:
        with pytest.raises(InputError) as caught:
            read_audio_array(damaged)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        messages = set(pool.map(read, range(4)))
    assert all(message.startswith("talk.mp3: cut off or damaged, ") for message in messages)
    assert capfd.readouterr() == ("", "")
    with no_c_messages():
        print("ours", file=sys.stderr)
        os.write(2, b"and the system's\n")
    ctypes.CDLL(None).perror(b"later")
    assert capfd.readouterr().err.startswith("ours\nand the system's\nlater: ")


@pytest.mark.parametrize(("before", "after"), [(b"", b""), (TAG, b""), (b"", OLD_TAG), (TAG, OLD_TAG)])
def test_whole_file_is_read_with_any_tags(mp3: bytes, before: bytes, after: bytes) -> None:
    samples, rate = read_audio_array(InMemory(before + mp3 + after, "talk.mp3"))
    assert (len(samples), rate) == (len(NOISE), 16000)


def test_every_part_equals_that_part_of_the_whole(capfd: pytest.CaptureFixture[str]) -> None:
    """Loud and quiet by turns, so that loud frames take bits that quiet ones left over."""
    noise = np.random.default_rng(0).normal(0, 0.1, 1_500_000).astype(np.float32)
    noise *= np.abs(np.sin(np.arange(len(noise)) / 2500)) ** 4
    file = io.BytesIO()
    soundfile.write(file, noise, 16000, format="MP3")
    whole, _ = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")
    talk = InMemory(file.getvalue(), "talk.mp3")
    np.testing.assert_allclose(read_audio_array(talk)[0], whole, rtol=0, atol=1e-5)
    assert capfd.readouterr() == ("", "")
    for start in range(5000, 1_400_000, 7001):
        part, _ = read_audio_array(talk, offset=start / 16000, duration=0.5)
        np.testing.assert_allclose(part, whole[start : start + 8000], rtol=0, atol=1e-5)
