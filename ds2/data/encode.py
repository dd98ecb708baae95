"""Utterances as files in memory, for shards and tables that contain audio."""

import io
from typing import Literal

import soundfile

from ds2.audio.files import InMemory, probe, read_audio_array, resample_array
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.object_storage import fetched
from ds2.utils.tar import archive_of, read_member

Coding = Literal["keep", "flac", "opus"]
FORMATS = {"flac": ("FLAC", "PCM_16"), "opus": ("OGG", "OPUS")}
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)  # Hz: there are no others


def encoded(utterance: Utterance, coding: Coding = "keep", sample_rate: int | None = None) -> tuple[bytes, str]:
    """The bytes of an utterance and their suffix.

    Args:
        coding: "keep" passes whole files on as they are, and makes FLAC of spans.
        sample_rate: Hz to resample to; None keeps that of the file. Opus takes the next rate up that it knows.

    Raises:
        InputError: the audio cannot be read, or the coding has no such sample rate.
    """
    if coding == "keep":
        if utterance.offset is None and sample_rate is None:
            return _file(utterance), utterance.audio_path.suffix
        coding = "flac"
    path, offset, duration, channel = utterance.span
    samples, rate = read_audio_array(path, sample_rate, offset, duration, channel)
    if coding == "opus":
        known = next((known for known in OPUS_RATES if known >= rate), OPUS_RATES[-1])
        samples, rate = resample_array(samples, rate, known), known
    buffer = io.BytesIO()
    container, subtype = FORMATS[coding]
    try:
        soundfile.write(buffer, samples, rate, format=container, subtype=subtype)
    except soundfile.LibsndfileError as error:
        raise InputError(f"{utterance.audio_path}: {coding} cannot hold {rate} Hz; choose another rate") from error
    return buffer.getvalue(), f".{coding}"


def _file(utterance: Utterance) -> bytes:
    """The bytes of a whole recording; of what is no recording, such as a device, nothing is read."""
    path = utterance.audio_path
    try:
        if archive := archive_of(path):
            data = read_member(path, archive)
            probe(InMemory(data, str(path)))
            return data
        probe(path)
        return fetched(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
