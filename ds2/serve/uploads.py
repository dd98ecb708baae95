"""An uploaded file -> samples; a file that would be too long is refused before it is decoded."""

import io
import os

import numpy as np
import soundfile

from ds2.utils.errors import InputError

WIDEST = 2 * 48_000  # samples a second of a recording, channels together, that its length in seconds allows for
RATES = (1_000, 768_000)  # Hz; what resampling takes grows with the rate that a header names
CONTAINERS = {  # where in the file, what stands there: FFmpeg's name. Named, for a playlist would open other files
    (0, b"\x1a\x45\xdf\xa3"): "matroska",
    (4, b"ftyp"): "mp4",
    (0, b"OggS"): "ogg",
    (0, b"\xff\xf1"): "aac",
    (0, b"\xff\xf9"): "aac",
}


class TooLong(InputError):
    """The recording is longer than allowed."""


def decode_upload(data: bytes, name: str, sample_rate: int, most: float) -> np.ndarray:
    """(N,) float32 samples at `sample_rate` of a file in memory, of `most` seconds at most.

    Raises:
        TooLong: it is longer.
        InputError: it is empty, no sound, of no rate or loudness that sound has, or cut off.
    """
    from ds2.data.audio import read_audio_bytes  # with torch, at the first upload

    name = os.path.basename(name.replace("\\", "/"))[:100] or "upload"
    if not data:
        raise InputError(f"{name}: empty file (0 bytes)")
    try:
        info = soundfile.info(io.BytesIO(data))
    except soundfile.LibsndfileError:
        return _by_ffmpeg(data, name, sample_rate, most)
    if not RATES[0] <= info.samplerate <= RATES[1]:
        raise InputError(f"{name}: {info.samplerate} Hz; sound has {RATES[0]} to {RATES[1]} Hz")
    if info.frames > most * info.samplerate or info.frames * info.channels > most * WIDEST:
        raise TooLong(f"{name}: longer than the {most:g} s that are allowed")
    return read_audio_bytes(data, sample_rate, name)[0].numpy()


def _by_ffmpeg(data: bytes, name: str, sample_rate: int, most: float) -> np.ndarray:
    """What libsndfile cannot read: WebM, M4A, AAC."""
    import av

    from ds2.data.audio import refuse_impossible

    kinds = [kind for (place, magic), kind in CONTAINERS.items() if data[place:].startswith(magic)]
    if not kinds:
        raise InputError(f"{name}: not an audio file of a known kind (WAV, FLAC, MP3, OGG, Opus, WebM, M4A, AAC)")
    pieces, total = [], 0
    try:
        with av.open(io.BytesIO(data), "r", format=kinds[0]) as container:
            resampler = av.AudioResampler(format="flt", layout="mono", rate=sample_rate)
            for frame in container.decode(audio=0):
                for part in resampler.resample(frame):
                    pieces.append(part.to_ndarray()[0])
                    total += part.samples
                if total > most * sample_rate:
                    raise TooLong(f"{name}: longer than the {most:g} s that are allowed")
            pieces += [part.to_ndarray()[0] for part in resampler.resample(None)]
    except (av.error.FFmpegError, IndexError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: damaged, or without sound; convert or record it again") from error
    if not total:
        raise InputError(f"{name}: holds no samples; remove it or record it again")
    samples = np.concatenate(pieces).astype(np.float32)
    refuse_impossible(samples, name)
    return samples
