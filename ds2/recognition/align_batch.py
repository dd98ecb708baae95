"""Alignment of many recordings: which transcript belongs to which, and where the results go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ds2.audio.files import SUFFIXES as AUDIO_SUFFIXES
from ds2.data.utterance import RecordingSpan
from ds2.recognition.align import AlignedRecording, align
from ds2.recognition.given_subtitles import SUBTITLES, SubtitleCue, read_subtitles, retimed, spoken_text
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.recordings import OutputFolder, find_audio
from ds2.utils.errors import InputError
from ds2.utils.files import read_text

SUFFIXES = (".txt", ".lab")  # of a transcript; Montreal Forced Aligner's corpora have .lab


@dataclass(frozen=True)
class AlignmentJob:
    """A recording and its transcript, None where there is none beside it."""

    audio: Path
    text: Path | None


def find_alignment_jobs(audio: Path, text: Path | None) -> list[AlignmentJob]:
    """A recording with its transcript, or all those of a folder.

    The transcript of calls/one.wav is calls/one.txt or calls/one.lab, or one.txt in the folder `text`, which may also
    hold subtitles, one.srt or one.vtt.

    Raises:
        InputError: a text and a recording in each other's place, no such recording, a folder without any, or one of
            recordings with one text.
    """
    if audio.suffix.lower() in SUFFIXES or (text is not None and text.suffix.lower() in AUDIO_SUFFIXES):
        wrong = f"{audio} is a text" if audio.suffix.lower() in SUFFIXES else f"{text} is a recording"
        raise InputError(f"{wrong}; name the recording first, then its text")
    if not audio.exists():
        raise InputError(f"{audio}: no such recording, nor a folder of them")
    if not audio.is_dir():
        return [AlignmentJob(audio, _beside(audio, audio.parent, text) if text is None or text.is_dir() else text)]
    if text is not None and not text.is_dir():
        raise InputError(f"{text}: {audio} is a folder, which needs a folder of transcripts; name it, or none")
    return [AlignmentJob(path, _beside(path, audio, text)) for path in find_audio([str(audio)])]


def _beside(audio: Path, root: Path, folder: Path | None) -> Path | None:
    """Where the transcript of a recording below `root` is: beside it, or at the same place below `folder`."""
    # Subtitles beside a recording may be those that ds2 wrote.
    place, suffixes = (audio, SUFFIXES) if folder is None else (folder / audio.relative_to(root), SUFFIXES + SUBTITLES)
    return next((path for suffix in suffixes if (path := place.with_suffix(suffix)).exists()), None)


def _read_transcript(pair: AlignmentJob) -> tuple[str, list[SubtitleCue]]:
    """The text, and the cues that it consists of, if it does."""
    if pair.text is None:
        names = " or ".join(pair.audio.with_suffix(suffix).name for suffix in SUFFIXES)
        raise InputError(f"{pair.audio}: no transcript for it: no {names}")
    text = read_text(pair.text)
    if (suffix := pair.text.suffix.lower()) not in SUBTITLES:
        return text, []
    cues = read_subtitles(text, suffix)
    return spoken_text(cues), cues


def align_all(
    recognizer: Recognizer,
    pairs: list[AlignmentJob],
    output: OutputFolder,
    skip: bool = False,
    language: str | None = None,
    on_audio: Callable[[float], object] = lambda seconds: None,
) -> Iterator[tuple[AlignmentJob, AlignedRecording | InputError]]:
    """Aligns the recordings, in their order, and writes each at once; a bad one yields its error and the rest go on.

    The errors of several are also in failed.txt. `skip`, `language` and `on_audio` are those of `align`.
    """
    failed = []
    for pair in pairs:
        try:
            text, cues = _read_transcript(pair)
            aligned = align(recognizer, pair.audio, text, skip, language, on_audio)
        except InputError as error:
            failed.append(str(error))
            yield pair, error
            continue
        if cues:
            aligned = replace(aligned, transcript=retimed(cues, aligned))
        output.write(RecordingSpan(pair.audio), aligned.transcript)
        yield pair, aligned
    if len(pairs) > 1:
        output.report(failed)
