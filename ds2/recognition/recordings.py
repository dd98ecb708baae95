"""Many recordings at once: which files are meant, where their transcripts go, and what could not be transcribed."""

import fcntl
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from ds2.audio.files import SUFFIXES, probe
from ds2.data.compiled import SUFFIX
from ds2.data.manifest import read_manifest
from ds2.data.utterance import RecordingSpan
from ds2.recognition.channels import transcribe_channels
from ds2.recognition.formats import FORMATS
from ds2.recognition.output_names import STDIN, output_names
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.utils.errors import InputError, ParameterError, printable, some_of
from ds2.utils.files import REPORT, make_folder, read_text, write_lines, write_text
from ds2.utils.own_files import is_own, mark_own, mark_recording

UNREAD = (".wma", ".amr", ".ac3", ".avi")  # sound that ffmpeg converts
NOT_WRITTEN = tuple(".pdf .doc .docx .odt .rtf .html .xml .md .csv .ass .sub .lrc .eaf .lab .png .jsonl".split())
OWN = ("txt", "srt", "vtt")  # formats that people write themselves


def find_audio(arguments: Sequence[str]) -> list[Path]:
    """Files as named, all audio files below a folder but hidden ones (.name), or those that a pattern such as
    `calls/*.wav` matches; sorted.

    Raises:
        InputError: a folder without audio files, or a pattern that matches nothing.
    """
    found: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            if not (inside := audio_below(path)):
                raise InputError(f"{path}: no audio file in this folder; {unread([argument]) or 'name another one'}")
            found += inside
        elif glob.has_magic(argument) and not path.exists():
            matches = _once(sorted(Path(match) for match in glob.glob(argument, recursive=True)))
            if not matches:
                raise InputError(f"{argument}: no file matches this pattern")
            found += [match for match in matches if match.is_file()]
        else:
            found.append(path)
    return found


def audio_below(folder: Path) -> list[Path]:
    """All audio files below a folder, sorted; not hidden ones, as ._call.wav, which macOS writes on foreign disks."""
    audio = (file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    return sorted(file for file in audio if not any(part.startswith(".") for part in file.relative_to(folder).parts))


def _once(paths: Sequence[Path]) -> list[Path]:
    """The first of the paths to each place in a folder: ** follows a link that leads back up, again and again."""
    places: dict[tuple[Path, str], Path] = {}
    for path in sorted(paths, key=lambda path: len(path.parts)):
        places.setdefault((path.parent.resolve(), path.name), path)
    first = set(places.values())
    return [path for path in paths if path in first]


def find_recordings(arguments: Sequence[str]) -> list[RecordingSpan]:
    """The recordings of files, folders and patterns (see `find_audio`), and the utterances of manifests.

    Raises:
        InputError: nothing is found, a manifest is wrong, or "-" (standard input) is among other files.
    """
    if str(STDIN) in arguments and len(arguments) > 1:
        raise InputError("-: standard input is one recording; name no other files beside it")
    found: list[RecordingSpan] = []
    for argument in arguments:
        if argument.endswith((".jsonl", SUFFIX)):
            found += (utterance.span for utterance in read_manifest(argument))
        else:
            found += map(RecordingSpan, find_audio([argument]))
    return list(dict.fromkeys(found))


def unread(arguments: Sequence[str]) -> str:
    """What to do with files below the folders whose sound is in formats that are not read here; empty without any."""
    inside = (path for argument in map(Path, arguments) if argument.is_dir() for path in argument.rglob("*"))
    found = sorted(path for path in inside if path.suffix.lower() in UNREAD)
    if not found:
        return ""
    remedy = f"convert them first: ffmpeg -i {printable(found[0].name)} {printable(found[0].stem)}.wav"
    return f"not transcribed: {some_of([printable(str(path)) for path in found])}; {remedy}"


def total_seconds(recordings: Sequence[RecordingSpan]) -> float:
    """Seconds of audio, from the headers; files that cannot be read count as none."""
    total = 0.0
    for recording in recordings:
        if recording.duration is not None:
            total += recording.duration
            continue
        try:
            total += probe(recording.path).duration
        except InputError:
            continue
    return total


def output_formats(output: str | None, formats: list[str], usual: list[str], recordings: int) -> list[str]:
    """The formats to write: of a file such as talk.srt that of its suffix.

    Raises:
        ParameterError: the file cannot hold these formats, unless they are the usual ones, or so many recordings; its
            suffix is that of no format, and nothing says that a folder is meant: several recordings, several formats,
            a slash at the end, or the folder itself.
    """
    if output is None or (format := _format_of_file(output)) is None:
        suffix = "" if output is None or Path(output).is_dir() else os.path.splitext(output)[1].lower()
        for_one = recordings == 1 and (formats == usual or len(formats) == 1)
        if suffix in (*NOT_WRITTEN, *SUFFIXES) or (suffix and for_one):
            known = ", ".join(FORMATS)
            raise ParameterError("output", f"{output}: not a format; name a file of {known}, or a folder, such as out/")
        return formats
    if recordings > 1:
        raise ParameterError("output", f"{output}: one file cannot hold {recordings} recordings; name a folder")
    if formats not in (usual, [format]):
        raise ParameterError("output", f"{output}: one file cannot hold {','.join(formats)}; name a folder")
    return [format]


def _format_of_file(output: str) -> str | None:
    """The format that the suffix of a file names; None where `output` is a folder, or will be one (`talk.srt/`)."""
    known = {f".{name.lower()}": name for name in FORMATS}
    return None if Path(output).is_dir() else known.get(os.path.splitext(output)[1].lower())


class OutputFolder:
    """A folder with NAME.FORMAT for each recording and format, and a list of what failed."""

    def __init__(self, folder: Path, formats: Sequence[str], recordings: Sequence[RecordingSpan]):
        self.folder, self.formats = folder, formats
        self.targets = output_names(recordings, folder, formats)
        self.failures: Path | None = folder / REPORT  # the list of them
        self.keeps_existing = False  # writes only files that are not there

    def make(self) -> None:
        """Makes the folder.

        Raises:
            InputError: it cannot be made or written.
        """
        make_folder(self.folder)

    def outputs(self, recordings: Sequence[RecordingSpan]) -> Iterator[Path]:
        """Every file that gets the transcript of one of the recordings."""
        return (path for recording in recordings for path in self.paths(recording).values())

    def missing(self, recordings: Sequence[RecordingSpan]) -> list[RecordingSpan]:
        """The recordings of which an output is missing."""
        return [
            recording for recording in recordings if not all(path.exists() for path in self.paths(recording).values())
        ]

    def check_texts(self, recordings: Sequence[RecordingSpan]) -> None:
        """Refuses to write over a text or subtitles that lie beside their recording: people keep their own there.

        Raises:
            InputError: naming the text.
        """
        for recording in recordings:
            for format, text in self.paths(recording).items():
                if format in OWN and self.is_beside(text, recording.path) and text.exists() and not is_own(text):
                    raise InputError(
                        f"{text}: lies beside its recording and may be your own text; move it away, or write into "
                        "another folder"
                    )

    def is_beside(self, text: Path, recording: Path) -> bool:
        """Whether an output lies beside its recording."""
        return text.parent.resolve() == recording.parent.resolve()

    def replaced(self, recordings: Sequence[RecordingSpan]) -> int:
        """How many of the recordings have outputs already, which will be replaced."""
        return sum(any(path.exists() for path in self.paths(recording).values()) for recording in recordings)

    def write(self, recording: RecordingSpan, transcript: Transcript) -> None:
        """Writes the transcript in every format, each file whole or not at all."""
        for name, path in self.paths(recording).items():
            if self.keeps_existing and path.exists():
                continue
            write_text(path, FORMATS[name](transcript, str(recording)))
            mark_recording(path, recording.path)
            if name in OWN:
                mark_own(path)

    def report(self, failed: Sequence[str]) -> None:
        """Writes a line for each failure to failed.txt; those of other recordings in it stay, without any it goes.

        Several runs may write into the folder at the same time.
        """
        self.make()  # it may have been removed where nothing was written
        path, own = self.folder / REPORT, {printable(str(recording.path)) for recording in self.targets}
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            earlier = read_text(path).splitlines() if path.exists() else []
            write_lines(path, [*(line for line in earlier if not _is_of(line, own)), *failed])
        finally:
            os.close(folder)  # and its lock with it

    def paths(self, recording: RecordingSpan) -> dict[str, Path]:
        """The output of a recording in each format."""
        target = self.targets[recording]
        return {name: target.with_name(f"{target.name}.{name}") for name in self.formats}


class OutputFile(OutputFolder):
    """One file, for the only recording; if that fails, the caller says so."""

    def __init__(self, path: Path, format: str, recordings: Sequence[RecordingSpan]):
        super().__init__(path.parent, [format], recordings)
        self.path, self.failures = path, None

    def report(self, failed: Sequence[str]) -> None:
        """Writes no list of failures."""

    def is_beside(self, text: Path, recording: Path) -> bool:
        """Whether it also has the name of the recording: any other file is named on purpose."""
        return super().is_beside(text, recording) and text.stem in (recording.stem, recording.name)

    def paths(self, recording: RecordingSpan) -> dict[str, Path]:
        """The file by its format, whatever the recording."""
        return {self.formats[0]: self.path}


def make_output(output: str, formats: Sequence[str], recordings: Sequence[RecordingSpan]) -> OutputFolder:
    """The file or the folder for the transcripts, in formats of `output_formats`; `make` makes the folder."""
    if (format := _format_of_file(output)) is not None:
        return OutputFile(Path(output), format, recordings)
    return OutputFolder(Path(output), formats, recordings)


def transcribe_all(
    recognizer: Recognizer,
    recordings: Sequence[RecordingSpan],
    output: OutputFolder | None = None,
    on_audio: Callable[[float], object] = lambda seconds: None,
    separate: bool = False,
) -> Iterator[tuple[RecordingSpan, Transcript | InputError]]:
    """Transcribes the recordings, in their order; a bad one yields its error and the rest go on.

    Args:
        output: gets the transcripts and the list of failures.
        on_audio: called with the seconds of audio that each batch adds.
        separate: transcribes each channel by itself.
    """
    failed = []
    transcribe = partial(transcribe_channels, recognizer) if separate else recognizer.transcribe_files
    for recording, result in transcribe(recordings, on_audio):
        if isinstance(result, InputError):
            failed.append(str(result))
        elif output is not None:
            output.write(recording, result)
        yield recording, result
    if output is not None:
        output.report(failed)


def _is_of(line: str, names: set[str]) -> bool:
    """Whether a line begins with one of the names and a colon; names may hold colons, too."""
    return any(line[: colon.start()] in names for colon in re.finditer(":", line))
