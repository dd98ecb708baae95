"""Transcribing files for a person at a shell: which files, which outputs, what went wrong."""

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ds2.data.audio import SUFFIXES, read_audio_bytes
from ds2.recognition.formats import FORMATS, printable
from ds2.recognition.recognizer import Recognizer, Segment
from ds2.recognition.transcript import Transcript
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder, write_lines

STDIN = Path("-")
UNREAD = (".wma", ".amr", ".avi")  # sound that ffmpeg converts
NAME_BYTES = 200  # of a path in an output's name; file systems allow 255, ending and temporary name included
REPORT = "failed.txt"  # in the output folder: a line for each file without a transcript


@dataclass
class Outcome:
    """How many files were transcribed, and a line for each that was not."""

    done: int = 0
    failed: list[str] = field(default_factory=list)


def find_audio(arguments: Sequence[str]) -> list[Path]:
    """Files as named, and in place of a folder all audio files below it, sorted; "-" is standard input.

    Raises:
        InputError: a folder without audio files, or "-" among other files.
    """
    if "-" in arguments and len(arguments) > 1:
        raise InputError("-: standard input is one recording; name no other files beside it")
    found: list[Path] = []
    for argument in map(Path, arguments):
        if not argument.is_dir():
            found.append(argument)
            continue
        inside = sorted(path for path in argument.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
        if not inside:
            raise InputError(
                f"{argument}: no audio file in this folder ({', '.join(SUFFIXES)}); ffmpeg converts others"
            )
        found += inside
    return found


def count_unread(arguments: Sequence[str]) -> Counter[str]:
    """How many files below the folders hold sound of each kind that is not read here, by their suffix."""
    inside = (path for argument in map(Path, arguments) if argument.is_dir() for path in argument.rglob("*"))
    return Counter(path.suffix.lower() for path in inside if path.suffix.lower() in UNREAD)


def transcribe_to(
    recognizer: Recognizer,
    paths: Sequence[Path],
    formats: Sequence[str],
    output: Path | None,
    on_done: Callable[[], None] = lambda: None,
) -> Outcome:
    """Transcribes all files, into `output` as NAME.FORMAT or, without it, onto standard output.

    A bad file is reported on standard error, and in failed.txt in the output folder; the others go on. Without a bad
    file there is no failed.txt, also not that of an earlier run.

    Raises:
        InputError: the output folder cannot be made or written.
    """
    outcome = Outcome()
    if output is not None:
        make_folder(output)
    targets = _targets(paths, output) if output is not None else {}
    for path, result in _results(recognizer, paths):
        on_done()
        if isinstance(result, InputError):
            outcome.failed.append(printable(str(result)))
            print(f"ds2: {outcome.failed[-1]}", file=sys.stderr)
            continue
        outcome.done += 1
        for name in formats:
            text = FORMATS[name](result, str(path))
            if output is not None:
                _write(targets[path].with_name(f"{targets[path].name}.{name}"), text)
            else:
                print(
                    f"{printable(str(path))}\t{text}" if name == "txt" and len(paths) > 1 else text, end="", flush=True
                )
    if output is not None:
        make_folder(output)
        write_lines(output / REPORT, outcome.failed)
    return outcome


def _results(recognizer: Recognizer, paths: Sequence[Path]) -> Iterator[tuple[Path, Transcript | InputError]]:
    if list(paths) == [STDIN]:
        samples, rate = read_audio_bytes(sys.stdin.buffer.read(), recognizer.sample_rate)
        yield STDIN, recognizer.transcribe(samples, rate)
        return
    for segment, result in recognizer.transcribe_files(map(Segment, paths)):
        yield segment.path, result


def _targets(paths: Sequence[Path], output: Path) -> dict[Path, Path]:
    """Output paths without their format, all distinct: by stem, and where two stems are equal by the whole path."""
    paths = list(dict.fromkeys(paths))
    stems = Counter(_base(path) for path in paths)
    taken, targets = {Path(REPORT).stem}, {}
    for path in paths:
        base = _base(path)
        if stems[base] > 1:
            base = "_".join(part for part in path.parts if part != path.anchor)
        base = printable(base).encode()[-NAME_BYTES:].decode(errors="ignore")
        numbered = (f"{base}_{number}" for number in itertools.count(2))
        name = base if base not in taken else next(name for name in numbered if name not in taken)
        taken.add(name)
        targets[path] = output / name
    return targets


def _base(path: Path) -> str:
    return "stdin" if path == STDIN else path.stem


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")
