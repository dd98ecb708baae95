"""MP3: what its first frame promises."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

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


@pytest.mark.parametrize(("before", "after"), [(b"", b""), (TAG, b""), (b"", OLD_TAG), (TAG, OLD_TAG)])
def test_whole_file_is_read_with_any_tags(mp3: bytes, before: bytes, after: bytes) -> None:
    samples, rate = read_audio_array(InMemory(before + mp3 + after, "talk.mp3"))
    assert (len(samples), rate) == (len(NOISE), 16000)
