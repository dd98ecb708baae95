"""Decoding real files of every kind, and refusing what is not audio."""

import contextlib
import io
import math
import os
import re
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import torch
from fuzz.containers import webm
from torch import Tensor

from ds2.audio.files import (
    MOST_SAMPLES,
    InMemory,
    iter_audio_bytes,
    probe,
    read_audio_bytes_array,
    resample_array,
)
from ds2.audio.mixdown import mixdown
from ds2.audio.tensors import read_audio, resample
from ds2.utils.errors import InputError, TooLong


def sine(frequency: float = 440.0, seconds: float = 0.5, rate: int = 16000) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = 16000, subtype: str | None = None) -> Path:
    soundfile.write(path, samples, rate, subtype=subtype, format="OGG" if path.suffix == ".opus" else None)
    return path


def refused(path: Path) -> str:
    """The message with which a file is refused: one line that names it."""
    with pytest.raises(InputError) as caught:
        read_audio(path, 8000)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [
        ("a.wav", "PCM_U8", 1e-2),
        ("a.wav", "PCM_16", 1e-4),
        ("a.wav", "PCM_24", 1e-6),
        ("a.wav", "PCM_32", 1e-6),
        ("a.wav", "FLOAT", 0.0),
        ("a.wav", "DOUBLE", 0.0),
        ("a.wav", "ULAW", 3e-2),
        ("a.flac", "PCM_16", 1e-4),
        ("a.flac", "PCM_24", 1e-6),
        ("a.ogg", "VORBIS", 5e-2),
        ("a.opus", "OPUS", 5e-2),
        ("a.mp3", None, 5e-2),
    ],
)
def test_decodes(tmp_path: Path, name: str, subtype: str | None, tolerance: float) -> None:
    samples, rate = read_audio(write(tmp_path / name, sine(), subtype=subtype))
    assert rate == 16000
    assert samples.dtype == torch.float32
    assert abs(len(samples) - 8000) <= (1200 if name == "a.mp3" else 0)
    inner = slice(2000, 6000)
    if name == "a.mp3":
        assert float(samples[inner].square().mean()) == pytest.approx(0.125, rel=0.02)
    else:
        np.testing.assert_allclose(samples[inner], sine()[inner], atol=tolerance)


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_channels_are_averaged(tmp_path: Path, channels: int) -> None:
    each = np.stack([np.full(100, 0.1 * number, np.float32) for number in range(channels)], axis=1)
    samples, _ = read_audio(write(tmp_path / "a.wav", each, subtype="FLOAT"))
    assert torch.allclose(samples, torch.full((100,), 0.1 * (channels - 1) / 2))
    assert probe(tmp_path / "a.wav").channels == channels


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.m4a", "a.mka"])
def test_channels_that_cancel_out_are_not_silence(tmp_path: Path, name: str) -> None:
    """One channel is inverted, as by a cable: by libsndfile and by FFmpeg, also in formats that lose bits."""
    voice = 0.3 * sine(440.0, 1.0, 48000) * np.linspace(0.2, 1.0, 48000, dtype=np.float32)
    stereo, path = np.stack([voice, -voice], axis=1), tmp_path / name
    if name in ("a.m4a", "a.mka"):
        encode(path, stereo, 48000, "aac" if name == "a.m4a" else "libopus", "matroska" if name == "a.mka" else None)
    else:
        write(path, stereo, 48000)
    samples, _ = read_audio(path)
    power = samples[4800:43200].square().mean() / np.square(voice[4800:43200]).mean()
    assert power == pytest.approx(1.0, abs=0.05)


def test_the_mean_of_channels_is_kept_where_they_hardly_cancel_out() -> None:
    """A hundredth of their power is left: the mean to the bit, whatever the axis."""
    generator = np.random.default_rng(0)
    left = generator.standard_normal(5000).astype(np.float32)
    stereo = np.stack([left, 0.1 * generator.standard_normal(5000).astype(np.float32) - left])
    expected = (stereo[0] + stereo[1]) / np.float32(2)
    assert np.array_equal(mixdown(stereo, axis=0), expected)
    assert np.array_equal(mixdown(np.ascontiguousarray(stereo.T), axis=1), expected)
    assert np.array_equal(mixdown(np.zeros((2, 5), np.float32), axis=0), np.zeros(5, np.float32))


def test_integers_written_as_float_are_read_and_what_no_square_can_hold_is_refused(tmp_path: Path) -> None:
    samples, _ = read_audio(write(tmp_path / "a.wav", np.full((10, 2), -(2.0**31), np.float32), subtype="FLOAT"))
    assert torch.equal(samples, torch.full((10,), -(2.0**31)))
    assert "full scale" in refused(write(tmp_path / "b.wav", np.full(10, -1e30, np.float32), subtype="FLOAT"))


def encode(path: Path, samples: np.ndarray, rate: int, codec: str, container: str | None = None) -> Path:
    """Writes (N,) or (N, 2) samples by FFmpeg, with a video stream of three pictures before them in .mkv."""
    layout = "mono" if samples.ndim == 1 else "stereo"
    with av.open(path, "w", format=container) as output:
        if path.suffix == ".mkv":
            video = output.add_stream("mpeg4", rate=1)
            video.width = video.height = 16
        sound = output.add_stream(codec, rate=rate, layout=layout)
        if path.suffix == ".mkv":
            for _ in range(3):
                output.mux(video.encode(av.VideoFrame(16, 16, "yuv420p")))
        frame = av.AudioFrame.from_ndarray(
            (samples * 32767).astype(np.int16).reshape(1, -1), format="s16", layout=layout
        )
        frame.sample_rate = rate
        frames = av.AudioResampler(format="fltp" if codec == "aac" else "flt", layout=layout, rate=rate).resample(frame)
        for each in [*frames, None]:
            output.mux(sound.encode(each))
    return path


def lag(whole: Tensor, part: Tensor | np.ndarray) -> int:
    """The sample of `whole` from which on `part` fits best."""
    size = 1 << 20
    return int(np.fft.irfft(np.fft.rfft(whole, size) * np.fft.rfft(part, size).conj()).argmax())


FFMPEG_FILES = [
    ("a.m4a", "aac", None), ("a.mp4", "aac", None), ("a.mkv", "aac", None), ("a.webm", "libopus", None),
    ("a.aac", "aac", "adts"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "codec", "container"), FFMPEG_FILES)
def test_what_ffmpeg_reads_is_read_whole_and_in_parts(
    tmp_path: Path, name: str, codec: str, container: str | None
) -> None:
    """Up to the codec's delay at the beginning, and to the sample between the whole and a part."""
    noise = np.convolve(np.random.default_rng(0).normal(0, 0.1, 6 * 48000), np.ones(20) / 5, "same").astype(np.float32)
    path = encode(tmp_path / name, noise, 48000, codec, container)
    assert probe(path).sample_rate == 48000
    assert probe(path).duration == pytest.approx(6.0, abs=0.1)
    whole, _ = read_audio(path, 48000)
    assert len(whole) == pytest.approx(len(noise), abs=0.1 * 48000)
    assert lag(whole, noise) <= 1024  # the codec's delay, where the container does not know it
    for start in (0.5, 2.3, 5.0):
        part, _ = read_audio(path, 48000, start, 0.5)
        assert len(part) == 24000
        late = lag(whole, part) - round(start * 48000)
        assert abs(late) <= (48 if name == "a.mkv" else 0)  # Matroska's times are whole milliseconds


def test_a_codec_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.webm", sine(seconds=2.0, rate=48000), 48000, "libopus")
    path.write_bytes(path.read_bytes().replace(b"A_OPUS", b"A_OPUX"))
    assert "damaged, or without sound" in refused(path)


def test_packets_without_sound_are_not_counted_for_minutes() -> None:
    """A block of WebM may hold 256 packets of a byte: 24 MB of them took two minutes and a gigabyte."""
    assert probe(InMemory(webm(20, 100), "few.webm")).duration > 0
    with pytest.raises(InputError, match=r"many\.webm: damaged"):
        probe(InMemory(webm(200, 256), "many.webm"))


@pytest.mark.parametrize(("name", "codec", "container"), FFMPEG_FILES)
def test_damaged_files_of_ffmpeg_end_in_one_line(tmp_path: Path, name: str, codec: str, container: str | None) -> None:
    data = encode(tmp_path / name, sine(seconds=2.0), 16000, codec, container).read_bytes()
    for size in (12, 40, 200, 3 * len(data) // 4):
        (tmp_path / name).write_bytes(data[:size])
        with contextlib.suppress(InputError):  # AAC without a container ends anywhere
            read_audio(tmp_path / name)
    (tmp_path / name).write_bytes(data[:16] + bytes(len(data) - 16))
    assert refused(tmp_path / name)


def spectrum_peak(samples: Tensor, rate: int) -> float:
    return float(torch.fft.rfft(samples * torch.hann_window(len(samples))).abs().argmax()) * rate / len(samples)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 44101])
def test_resampling_keeps_pitch_level_and_length(tmp_path: Path, rate: int) -> None:
    path = write(tmp_path / "a.wav", sine(1000, 1.0, rate), rate, "FLOAT")
    samples, new_rate = read_audio(path, 8000)
    assert new_rate == 8000
    assert len(samples) == pytest.approx(8000, abs=8)
    assert spectrum_peak(samples, 8000) == pytest.approx(1000, rel=0.003)
    assert float(samples[1000:7000].square().mean()) == pytest.approx(0.125, rel=0.02)


def test_resampling_removes_what_the_new_rate_cannot_hold() -> None:
    above = resample(torch.from_numpy(sine(6000, 1.0, 16000)), 16000, 8000)
    assert float(above[500:-500].abs().max()) < 0.005


@pytest.mark.parametrize("rates", [(0, 8000), (8000, 0), (8000, -1)])
def test_impossible_rates_are_refused(rates: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="must be positive"):
        resample(torch.zeros(10), *rates)


def test_same_rate_is_left_alone(tmp_path: Path) -> None:
    samples, _ = read_audio(write(tmp_path / "a.wav", sine(), subtype="FLOAT"), 16000)
    assert torch.equal(samples, torch.from_numpy(sine()))


def uncounted_mp3(samples: np.ndarray, tag: bytes = b"", rate: int = 32000) -> bytes:
    """An MP3 whose header does not say how many frames follow, as Common Voice's clips and recorded streams are."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp3", options={"write_xing": "0", "id3v2_version": "0"}) as container:
        stream = container.add_stream("libmp3lame", rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.rate = rate
        container.mux([*stream.encode(frame), *stream.encode(None)])
    size = bytes(len(tag) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return (b"ID3\x04\x00\x00" + size + tag if tag else b"") + file.getvalue()


@pytest.mark.parametrize("tag", [b"", b"TSSE\0\0\0\x04\0\0\x03abc", bytes(300_000)], ids=["none", "short", "picture"])
def test_mp3_that_does_not_count_its_frames_is_read_whole_with_any_tag(tmp_path: Path, tag: bytes) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(uncounted_mp3(sine(seconds=3.2, rate=32000), tag))
    samples, _ = read_audio(path)
    assert probe(path).duration == pytest.approx(3.2, abs=0.15)
    assert len(samples) == pytest.approx(probe(path).duration * 32000, abs=32)
    assert len(read_audio_bytes_array(path.read_bytes(), 32000, name="a.mp3")[0]) == len(samples)
    span, _ = read_audio(path, offset=2.0, duration=0.5)
    np.testing.assert_allclose(span, samples[64000:80000], atol=1e-4)


@pytest.mark.parametrize("start", [1, 19200, 35999])
@pytest.mark.parametrize(
    ("name", "tolerance"), [("a.wav", 0.0), ("a.flac", 0.0), ("a.ogg", 1e-6), ("a.opus", 1e-6), ("a.mp3", 1e-3)]
)
def test_a_part_equals_that_part_of_the_whole(tmp_path: Path, name: str, tolerance: float, start: int) -> None:
    """To the sample: noise shifted by one sample would differ by about 0.1."""
    noise = np.random.default_rng(0).normal(0, 0.1, 48000).astype(np.float32)
    path = write(tmp_path / name, noise, 48000)
    whole, _ = read_audio(path)
    part, _ = read_audio(path, offset=start / 48000, duration=0.25)
    assert len(part) == 12000
    np.testing.assert_allclose(part, whole[start : start + 12000], rtol=0, atol=tolerance)


def test_duration_beyond_the_end_takes_what_is_there(tmp_path: Path) -> None:
    samples, _ = read_audio(write(tmp_path / "a.wav", sine()), offset=0.4, duration=10.0)
    assert len(samples) == 1600


def test_part_of_an_hour_is_read_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "hour.wav"
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 28_800_036, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8,
                         b"data", 28_800_000)  # fmt: skip
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + 28_800_000)  # a sparse file: zeros, which in 8 bits are full negative scale
    assert probe(path).duration == 3600
    samples, _ = read_audio(path, offset=3599.0)
    assert len(samples) == 8000


def test_bytes_from_a_pipe() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, sine(), 16000, format="WAV", subtype="FLOAT")
    samples, _ = read_audio_bytes_array(buffer.getvalue(), 16000)
    assert np.array_equal(samples, sine())
    for data in (b"", b"no audio at all"):
        with pytest.raises(InputError, match="stdin"):
            read_audio_bytes_array(data)


def test_cut_off_bytes_are_refused() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, sine(), 16000, format="WAV", subtype="PCM_16")
    with pytest.raises(InputError, match=r"stdin: cut off, 0\.25 s of 0\.50 s"):
        read_audio_bytes_array(buffer.getvalue()[:-8000])


def test_damaged_files_in_memory_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Some headers make libsndfile seek before the beginning; Python would print a traceback for each."""
    buffer = io.BytesIO()
    soundfile.write(buffer, sine(), 16000, format="AIFF", subtype="PCM_16")
    for seed in range(300):
        rng = np.random.default_rng(seed)
        data = bytearray(buffer.getvalue())
        for place in rng.integers(0, 80, 3):
            data[place] = rng.choice([0, 127, 128, 255])
        with contextlib.suppress(InputError):
            read_audio_bytes_array(bytes(data), 16000)
    assert "Traceback" not in capfd.readouterr().err


def test_missing_folder_empty_and_text(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "gone.wav")
    assert "folder" in refused(tmp_path)
    (tmp_path / "empty.wav").touch()
    assert "0 bytes" in refused(tmp_path / "empty.wav")
    (tmp_path / "text.wav").write_text("this is a text\n" * 100)
    assert "not an audio file" in refused(tmp_path / "text.wav")
    (tmp_path / "text.wav").rename(tmp_path / "text.raw")
    assert "not an audio file" in refused(tmp_path / "text.raw")


@pytest.mark.parametrize("name", ["nul\0.wav", "surrogate\ud800.wav"])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="not a possible file name"):
        read_audio(name)


def test_permission_denied(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", sine())
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read everything
    try:
        assert "Permission denied" in refused(path)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", ["cut.flac", "cut.wav"])
def test_cut_off_files_are_refused(tmp_path: Path, name: str, share: float) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 48000).astype(np.float32)
    path = write(tmp_path / name, noise)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert "of 3.00 s" in refused(path)


@pytest.mark.parametrize("cut", [1, 50, 3000, 10_000])
@pytest.mark.parametrize("name", ["cut.opus", "cut.ogg"])
def test_cut_off_ogg_is_refused(tmp_path: Path, name: str, cut: int) -> None:
    """libsndfile takes the last whole page for the end."""
    noise = np.random.default_rng(0).normal(0, 0.1, 160_000).astype(np.float32)
    path = write(tmp_path / name, noise, subtype="OPUS" if name == "cut.opus" else None)
    assert len(read_audio(path)[0]) == 160_000
    path.write_bytes(path.read_bytes()[:-cut])
    assert "cut off" in refused(path)
    with pytest.raises(InputError, match=r"cut\.o.*: cut off"):
        probe(path)


def test_cut_off_says_how_much_is_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", sine(seconds=1.0))
    path.write_bytes(path.read_bytes()[:-16000])  # half of the 16-bit samples
    assert "0.50 s of 1.00 s" in (message := refused(path))
    assert message.endswith(f"ffmpeg -i {path} rest.wav")


def test_the_intact_part_of_a_cut_off_flac_is_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 48000).astype(np.float32)
    path = write(tmp_path / "a.flac", noise)
    path.write_bytes(path.read_bytes()[:-30000])
    assert len(read_audio(path, duration=0.5)[0]) == 8000
    with pytest.raises(InputError, match=r"a\.flac: cut off or damaged before 2\.90 s of 3\.00 s"):
        read_audio(path, offset=2.9)


def ogg_crc(page: bytes) -> int:
    """The checksum of an Ogg page whose own field is zero (RFC 3533, section 6)."""
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1) ^ (0x104C11DB7 if value >> 31 else 0)
    return value


def test_pages_of_an_opus_file_that_leap_are_refused(tmp_path: Path) -> None:
    """libsndfile then seeks to a place that there is not, without an error."""
    path = tmp_path / "a.ogg"
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 8000), 16000, subtype="OPUS")
    data = path.read_bytes()
    start = data.index(b"OggS", 4)
    end = data.index(b"OggS", start + 4)
    page = data[start : start + 18] + struct.pack("<II", 973078529, 0) + data[start + 26 : end]  # number, checksum
    page = page[:22] + struct.pack("<I", ogg_crc(page)) + page[26:]
    path.write_bytes(data[:start] + page + data[end:])
    with pytest.raises(InputError, match=r"a\.ogg: cut off or damaged before 0\.10 s of 0\.50 s"):
        read_audio(path, offset=0.1, duration=0.2)


def wav(riff: int, data: int, there: int) -> bytes:
    """A WAV of 8 bits at 8 kHz that claims `riff` and `data` bytes, of which `there` follow."""
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8,
                         b"data", data)  # fmt: skip
    return header + b"\x80" * there


@pytest.mark.parametrize(
    ("riff", "data", "there"),
    [
        (836, 800, 800),
        (844, 800, 800),  # counts its own 8 bytes
        (838, 801, 801),  # counts a pad byte that is not there
        (0xFFFFFFFF, 0xFFFFFFFF, 800),  # streamed, as ffmpeg does it
        (0x7FFFF024, 0x7FFFF000, 800),  # streamed, as sox does it
    ],
)
def test_wav_with_a_careless_header_is_read(tmp_path: Path, riff: int, data: int, there: int) -> None:
    (tmp_path / "a.wav").write_bytes(wav(riff, data, there))
    assert len(read_audio(tmp_path / "a.wav")[0]) == there


def test_a_wav_whose_recorder_did_not_end_is_not_called_empty(tmp_path: Path) -> None:
    """Its sound is there, and FFmpeg reads it; who is told that it is empty deletes it."""
    (tmp_path / "a.wav").write_bytes(wav(0, 0, 4000))
    assert re.search(
        r"says that it holds no sound, but 0\.50 s follow.*ffmpeg -i \S*a\.wav", refused(tmp_path / "a.wav")
    )
    with av.open(str(tmp_path / "a.wav")) as container:
        assert sum(frame.samples for frame in container.decode(audio=0)) == 4000


@pytest.mark.parametrize("rate", [0, 999, 768_001, 12_345_677, 2**31 - 1])
def test_sample_rates_that_no_sound_has_are_refused(tmp_path: Path, rate: int) -> None:
    """A header of 2**31 - 1 Hz ended a whole run; 12 MHz took 20 s and 3 GB."""
    path = tmp_path / "a.wav"
    data = bytearray(wav(836, 800, 800))
    data[24:28] = rate.to_bytes(4, "little")
    path.write_bytes(data)
    assert f"{rate} Hz" in refused(path) or rate == 0
    with pytest.raises(InputError, match=r"a\.wav"):
        probe(path)


def test_lengths_that_headers_claim_are_not_allocated(tmp_path: Path) -> None:
    """FLAC of 2**36 samples and Opus of 2**40: both were MemoryErrors."""
    flac = write(tmp_path / "a.flac", sine())
    data = bytearray(flac.read_bytes())
    data[21] |= 0x0F
    data[22:26] = b"\xff" * 4
    flac.write_bytes(data)
    assert "cut off or damaged" in refused(flac)
    with pytest.raises(InputError, match="cut off or damaged"):
        read_audio_bytes_array(bytes(data))
    opus = write(tmp_path / "a.opus", sine(seconds=5.0), subtype="OPUS")
    data = bytearray(opus.read_bytes())
    page = data.rfind(b"OggS")
    data[page + 6 : page + 14] = (2**40).to_bytes(8, "little")
    data[page + 22 : page + 26] = bytes(4)
    data[page + 22 : page + 26] = ogg_checksum(data[page:]).to_bytes(4, "little")
    opus.write_bytes(data)
    assert probe(opus).duration > 1e6
    assert "cut off or damaged" in refused(opus)


def ogg_checksum(page: bytes) -> int:
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 1 << 31 else 0)) & 0xFFFFFFFF
    return value


def silent_flac(seconds: int) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(seconds * 48000, np.int16), 48000, format="FLAC")
    return buffer.getvalue()


def test_more_samples_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a gigabyte at a time; here with a smaller bound, so that the test is quick."""
    assert MOST_SAMPLES * 4 <= 2**29
    monkeypatch.setattr("ds2.audio.files.MOST_SAMPLES", 16000)
    with pytest.raises(TooLong, match="more than 16000 samples"):
        read_audio_bytes_array(silent_flac(2), 16000)
    assert len(read_audio_bytes_array(silent_flac(1), 16000)[0]) == 16000


def test_a_limit_in_seconds_is_checked_before_decoding() -> None:
    with pytest.raises(TooLong, match=r"call\.flac: longer than the 2 s"):
        read_audio_bytes_array(silent_flac(3), 16000, "call.flac", longest=2)
    wide = io.BytesIO()
    soundfile.write(wide, np.zeros((48000, 8), np.int16), 48000, format="FLAC")
    with pytest.raises(TooLong):  # a second of eight channels takes as long as four of two
        read_audio_bytes_array(wide.getvalue(), 16000, longest=2)
    assert len(read_audio_bytes_array(wide.getvalue(), 16000, longest=4)[0]) == 16000


def test_buffers_make_up_the_whole_to_the_bit() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.random.default_rng(0).normal(0, 0.1, 700_000), 44100, format="FLAC")
    buffers = list(iter_audio_bytes(buffer.getvalue(), 16000))
    assert len(buffers) > 2
    assert np.array_equal(np.concatenate(buffers), read_audio_bytes_array(buffer.getvalue(), 16000)[0])
    whole, _ = read_audio_bytes_array(buffer.getvalue())
    assert np.array_equal(np.concatenate(buffers), resample_array(whole, 44100, 16000))


def test_one_missing_sample_is_noticed_whatever_the_outer_size_says(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(36 + 799, 800, 799))
    assert "cut off" in refused(tmp_path / "a.wav")


def test_flac_without_a_length_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", sine())
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0  # STREAMINFO: 36 bits from here on count the samples, 0 stands for unknown
    data[22:26] = bytes(4)
    path.write_bytes(data)
    assert "does not say how long" in refused(path)
    with pytest.raises(InputError, match="does not say how long"):
        probe(path)


def test_streamed_wav_of_unknown_length_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", sine())
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 4 + data[8:])
    assert len(read_audio(path)[0]) == 8000


def test_no_samples_nan_and_infinity(tmp_path: Path) -> None:
    assert "no samples" in refused(write(tmp_path / "none.wav", np.zeros(0, np.float32)))
    for value in (math.nan, math.inf):
        samples = sine()
        samples[100] = value
        assert "NaN" in refused(write(tmp_path / "bad.wav", samples, subtype="FLOAT"))
    opposite = np.array([[math.inf, -math.inf]], np.float32)
    assert "NaN" in refused(write(tmp_path / "bad.wav", opposite, subtype="FLOAT"))


def test_offset_beyond_the_end(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.wav: ends at 0\.50 s"):
        read_audio(write(tmp_path / "a.wav", sine()), offset=2.0)


def test_times_beyond_any_recording(tmp_path: Path) -> None:
    """1e308 s times a sample rate is infinite, which no integer can hold."""
    path = write(tmp_path / "a.wav", sine())
    assert len(read_audio(path, duration=1e308)[0]) == 8000
    with pytest.raises(InputError, match=r"before the offset 1e\+308 s"):
        read_audio(path, offset=1e308)


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_impossible_offset_and_duration(tmp_path: Path, value: float) -> None:
    path = write(tmp_path / "a.wav", sine())
    with pytest.raises(InputError, match=r"a\.wav: offset must be 0 or more"):
        read_audio(path, offset=value)
    for duration in (value, 0.0):
        with pytest.raises(InputError, match=r"a\.wav: duration must be positive"):
            read_audio(path, duration=duration)


def test_clipping_and_silence_are_audio(tmp_path: Path) -> None:
    square = np.sign(sine())
    assert float(read_audio(write(tmp_path / "a.wav", square))[0].abs().max()) == pytest.approx(1.0, abs=1e-4)
    assert float(read_audio(write(tmp_path / "b.wav", 0 * square))[0].abs().max()) == 0.0
