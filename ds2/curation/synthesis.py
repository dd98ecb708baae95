"""Text spoken by the synthesisers espeak-ng and flite: recordings whose words and times are known.

espeak-ng is called as a library, since only this reports the sample at which each word and each sound begins; flite is
called as a command and reports no words.
"""

import ctypes
import ctypes.util
import functools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
import torch
from torch import Tensor

from ds2.text import normalize, split_words
from ds2.utils.errors import InputError

MANDARIN = "sit/cmn-Latn-pinyin"  # reads characters; sit/cmn of espeak-ng 1.51 spells pinyin
PAUSES = ("_", "_:", "_!", "_::")  # espeak-ng's names of silence
SYNCHRONOUS, PHONEME_EVENTS, CHARACTERS, UTF8 = 2, 1, 1, 1
END, WORD, PHONEME = 0, 1, 7  # kinds of events
RATE, PITCH = 1, 3  # parameters


@dataclass(frozen=True)
class Voice:
    """A synthetic voice and its settings."""

    engine: Literal["espeak-ng", "flite"]
    name: str  # espeak-ng: "gmw/en-US+f3", language and variant; flite: "slt"
    words_a_minute: int = 170
    pitch: int = 50  # 0 to 100, espeak-ng only


@dataclass(frozen=True)
class Spoken:
    """(N,) float32 samples, their rate in Hz, and (word, start, end) in seconds of each normalised word.

    Two words may come as one, such as espeak-ng's "of the". `words` is None where the engine does not report them, or
    where the spoken words differ from the text, as with figures. `sounds` are the (phoneme, start) in seconds that
    espeak-ng reports, in its notation; a pause is "".
    """

    samples: Tensor
    sample_rate: int
    words: list[tuple[str, float, float]] | None
    sounds: list[tuple[str, float]] | None = None


def speak(text: str, voice: Voice) -> Spoken:
    """Speaks a text of one sentence or several.

    Raises:
        InputError: the engine is not installed, or has no such voice.
    """
    return _espeak(text, voice) if voice.engine == "espeak-ng" else _flite(text, voice)


def installed(engine: str) -> bool:
    """Whether the program or the library of the engine is on this machine."""
    return bool(ctypes.util.find_library("espeak-ng") if engine == "espeak-ng" else shutil.which(engine))


class _Identity(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]


class _Event(ctypes.Structure):
    """espeak_EVENT of speak_lib.h."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("unique", ctypes.c_uint),
        ("text_position", ctypes.c_int),  # 1 is the first character
        ("length", ctypes.c_int),
        ("milliseconds", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("identity", _Identity),
    ]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class _Espeak:
    """The library, loaded once in a process, and the output of its last call."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("espeak-ng")
        if name is None:
            raise InputError("espeak-ng is not installed: apt-get install espeak-ng")
        self.library = ctypes.CDLL(name)
        self.sample_rate = self.library.espeak_Initialize(SYNCHRONOUS, 0, None, PHONEME_EVENTS)
        self.blocks: list[np.ndarray] = []
        self.events: list[tuple[int, int, int, int, str]] = []  # kind, position, length, sample, phoneme
        self.callback = _CALLBACK(self._receive)
        self.library.espeak_SetSynthCallback(self.callback)

    def say(self, text: str, voice: Voice) -> np.ndarray:
        self.blocks, self.events = [], []
        if self.library.espeak_SetVoiceByName(voice.name.encode()) != 0:
            raise InputError(f"espeak-ng has no voice {voice.name!r}")
        self.library.espeak_SetParameter(RATE, voice.words_a_minute, 0)
        self.library.espeak_SetParameter(PITCH, voice.pitch, 0)
        data = text.encode()
        self.library.espeak_Synth(data, len(data) + 1, 0, CHARACTERS, 0, UTF8, None, None)
        return np.concatenate([np.zeros(0, np.int16), *self.blocks])

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            self.blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        for number in range(1 << 30):
            event = events[number]
            if event.kind == END:
                return 0
            if event.kind in (WORD, PHONEME):
                phoneme = event.identity.string.decode(errors="replace") if event.kind == PHONEME else ""
                self.events.append((event.kind, event.text_position, event.length, event.sample, phoneme))
        return 0


@functools.cache
def _library() -> _Espeak:
    return _Espeak()


def _espeak(text: str, voice: Voice) -> Spoken:
    engine = _library()
    samples = engine.say(text, voice)
    rate = engine.sample_rate
    words = _spoken_words(text, engine.events, rate)
    names = ((event[4].strip("|"), event[3] / rate) for event in engine.events if event[0] == PHONEME)
    sounds = [("" if name in PAUSES else name, start) for name, start in names]
    return Spoken(torch.from_numpy(samples.astype(np.float32) / 32768), rate, words, sounds)


def _spoken_words(
    text: str, events: list[tuple[int, int, int, int, str]], rate: int
) -> list[tuple[str, float, float]] | None:
    """A word begins with its first sound and ends where the next word, or a pause, begins."""
    found: list[tuple[str, float, float]] = []
    places = [index for index, event in enumerate(events) if event[0] == WORD and event[1] > 0]  # 0: the word continues
    for place, following in zip(places, [*places[1:], len(events)], strict=True):
        start = events[place][1] - 1
        end = events[following][1] - 1 if following < len(events) else len(text)  # lengths leave out what follows a '
        sounds = [event for event in events[place + 1 : following] if event[0] == PHONEME]
        spoken = [event for event in sounds if event[4].strip("|") not in PAUSES]
        if not spoken:
            continue
        after = [event[3] for event in events[events.index(spoken[-1]) + 1 :] if event[0] in (WORD, PHONEME)]
        end_sample = after[0] if after else spoken[-1][3]
        found.append((normalize(text[start:end]), spoken[0][3] / rate, end_sample / rate))
    spoken_words = [word for entry, _, _ in found for word in split_words(entry)]
    return found if spoken_words == split_words(normalize(text)) else None


def _flite(text: str, voice: Voice) -> Spoken:
    slowness = 170 / voice.words_a_minute
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        command = ["flite", "-voice", voice.name, "--setf", f"duration_stretch={slowness:.3f}", "-t", text]
        try:
            subprocess.run([*command, "-o", str(path)], check=True, capture_output=True)
        except FileNotFoundError as error:
            raise InputError("flite is not installed: apt-get install flite") from error
        except subprocess.CalledProcessError as error:
            raise InputError(f"flite, voice {voice.name!r}: {error.stderr.decode(errors='replace').strip()}") from error
        samples, rate = soundfile.read(path, dtype="float32")
    return Spoken(torch.from_numpy(samples), rate, None)
