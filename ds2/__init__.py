"""ds2: end-to-end speech recognition in the manner of Deep Speech 2.

    import ds2
    ds2.load().transcribe("call.wav").text

Shape letters, used in every docstring: B utterances, N samples, T frames, F frequency bins, C channels, V outputs
(blank included, index 0), L labels, H hidden units.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.transcript import Transcript

__version__ = "0.1.0"


def load(path: "str | Path" = "digits", device: str = "auto") -> "Recognizer":
    """A Recognizer of the model bundle at `path`, or of that name in the package.

    Heavy imports wait until here, so that `import ds2` costs nothing.
    """
    from ds2.recognition.recognizer import Recognizer

    return Recognizer.load(path, device)


def transcribe(audio: "str | Path") -> "Transcript":
    """Transcribes one audio file with the bundled model; keep `load()`'s Recognizer to transcribe many."""
    return load().transcribe(audio)
