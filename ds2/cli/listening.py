"""ds2 listen: live recognition at the shell, from a microphone or from a file in real time."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ds2.cli.options import DEFAULT_TEXT, Maybe, Model, Text
from ds2.cli.standard_streams import standard_input
from ds2.utils.errors import InputError
from ds2.utils.extras import need
from ds2.utils.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    import numpy as np

    from ds2.audio.files import InMemory
    from ds2.recognition.transcript import Transcript

    Chunks = Iterator[tuple["np.ndarray", int]]

CHUNK_SECONDS = 0.1  # of sound recognised at once
WIDTH = 79  # characters of a partial result, which stays on one line


def listen_command(
    model: Model = DEFAULT_MODEL,
    file: Maybe[Path] = None,
    device: Maybe[str] = None,
    decoder: Text = DEFAULT_TEXT,
) -> int:
    """Recognise live speech from the microphone.

    The text grows while you speak; a pause ends a line. Press Ctrl-C to stop.

    Example: ds2 listen --file talk.wav

    Args:
        file: Recording to play in real time instead of the microphone, with a header, such as that of WAV; - reads
            standard input.
        device: Number or part of the name of the microphone; by default the system's.
        decoder: Options of the search.
    """
    from ds2.audio.files import InMemory, probe
    from ds2.recognition.recognizer import Recognizer

    if file is None:
        _check_portaudio()
    else:
        recording = InMemory(standard_input(), "stdin") if file == Path("-") else file
        probe(recording)  # a bad file ends the command before the model is loaded
    stream = Recognizer.load(model, "cpu", decoder).stream()
    seconds, found = 0.0, False
    try:
        for samples, rate in _microphone(device) if file is None else _played(recording):
            stream.accept(samples, rate)
            seconds += len(samples) / rate
            for transcript in stream.results():
                found = True
                _print_final(transcript)
            if sys.stdout.isatty():
                print(f"\r{stream.partial()[-WIDTH:]:{WIDTH}}", end="", flush=True)
    except KeyboardInterrupt:
        pass
    for transcript in stream.finish():
        found = True
        _print_final(transcript)
    if not found:
        print(f"ds2: no speech was found in {seconds:.1f} s", file=sys.stderr)
    return 0


def _print_final(transcript: "Transcript") -> None:
    """A line in place of the partial result."""
    start = "\r" + " " * WIDTH + "\r" if sys.stdout.isatty() else ""
    print(f"{start}{transcript.words[0].start:7.1f}  {transcript.display}", flush=True)


def _check_portaudio() -> None:
    """Refuses where no microphone can be opened, before the model is loaded.

    Raises:
        InputError: the system lacks the library PortAudio.
        ModuleNotFoundError: the package sounddevice is not installed.
    """
    need("sounddevice")
    try:
        import sounddevice  # noqa: F401
    except OSError as error:
        raise InputError(f"microphone: {error}; on Debian: apt install libportaudio2; or play a --file") from error


def _microphone(device: str | None) -> "Chunks":
    """Chunks of sound as the microphone delivers them, and their rate in Hz.

    Raises:
        InputError: there is no such microphone.
    """
    import queue

    import sounddevice

    found: queue.SimpleQueue[np.ndarray] = queue.SimpleQueue()
    chosen = int(device) if device is not None and device.isdecimal() else device
    try:
        rate = int(sounddevice.query_devices(chosen, "input")["default_samplerate"])
        with sounddevice.InputStream(
            samplerate=rate, channels=1, dtype="float32", blocksize=round(CHUNK_SECONDS * rate), device=chosen,
            callback=lambda samples, *_: found.put(samples[:, 0].copy()),
        ):  # fmt: skip
            print("listening; Ctrl-C ends", file=sys.stderr)
            while True:
                yield found.get(), rate
    except (sounddevice.PortAudioError, ValueError, OverflowError) as error:
        raise InputError(f"microphone: {error}; python -m sounddevice lists the devices") from error


def _played(recording: "InMemory | Path") -> "Chunks":
    """Chunks of a file, each at the time when its last sample would have been spoken."""
    from ds2.audio.files import read_audio_array

    samples, rate = read_audio_array(recording)
    began, size = time.monotonic(), round(CHUNK_SECONDS * rate)
    for start in range(0, len(samples), size):
        chunk = samples[start : start + size]
        time.sleep(max(0.0, began + (start + len(chunk)) / rate - time.monotonic()))
        yield chunk, rate
