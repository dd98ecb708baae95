"""Transcripts by others, people or programs, of the utterances of a manifest: by another model, or from a file.

    theirs.jsonl, .arrow   a manifest: the same audio, their text or pred_text, as NeMo calls it
    theirs.txt, .tsv       lines NAME<TAB>TEXT, as `ds2 transcribe` prints them; lines of one name go together
    theirs.json            {"NAME": "TEXT", ...}
    theirs/                a folder of transcripts in JSON by `ds2 transcribe` or `ds2 spark transcribe`

NAME is the file, and :START-END behind it where utterances are spans of one. The folder may be another one: of the path
only as much is compared as tells the utterances apart.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from ds2.data.compiled import SUFFIX
from ds2.data.layouts.transcripts import read_transcripts
from ds2.data.manifest import read_manifest
from ds2.data.utterance import RecordingSpan, Utterance
from ds2.recognition.evaluate import Evaluation, comparable_letters, evaluate
from ds2.recognition.readings import transcript_form
from ds2.recognition.recognizer import Recognizer
from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines, read_text

MANIFESTS = (".jsonl", SUFFIX)
LISTINGS = (".txt", ".tsv")
TEXTS = (*MANIFESTS, *LISTINGS, ".json")  # suffixes of files of texts; anything else is a model
MAKE = "(ds2 transcribe prints such lines of several recordings, without an output folder)"
CHANNEL = re.compile(r"\d+: ")  # before the text of each, where they are separate
Other = Recognizer | Mapping[RecordingSpan, str]


def open_other(name: str, utterances: Sequence[Utterance], device: str) -> Other:
    """Loads a model, or reads the texts of a file.

    Raises:
        InputError: see `read_other_texts` and `Recognizer.load`.
    """
    if Path(name).suffix not in TEXTS and not Path(name).is_dir():
        return Recognizer.load(name, device)
    return read_other_texts(Path(name), utterances)


def comparable_texts(other: Other, result: Evaluation, tokenizer: Tokenizer, language: str | None) -> list[str]:
    """Its text of each utterance that was evaluated, in the form of the references there; see `transcript_form`.

    Raises:
        InputError: the model cannot read one of them.
    """
    form, letters = transcript_form(language), comparable_letters(tokenizer)
    plain = map(tokenizer.without_accents, texts_of(other, result.utterances))
    return [letters(form(text, reference)) for text, reference in zip(plain, result.references, strict=True)]


def texts_of(other: Other, utterances: Sequence[Utterance]) -> list[str]:
    """Its text of each utterance, as it stands there.

    Raises:
        InputError: the model cannot read one of them.
    """
    if isinstance(other, Mapping):
        return [other[utterance.span] for utterance in utterances]
    result = evaluate(other, utterances)
    if result.skipped:
        raise InputError(result.skipped[0])
    return result.hypotheses


def read_other_texts(path: Path, utterances: Sequence[Utterance]) -> dict[RecordingSpan, str]:
    """The text of each utterance; an empty one is a text, too. Of a single one the file may hold nothing else.

    Raises:
        InputError: the file is something else, or lacks an utterance.
    """
    if len(utterances) == 1 and path.suffix in LISTINGS and "\t" not in (text := read_text(path)):
        return {utterances[0].span: " ".join(text.split())}
    names = [PurePath(str(utterance.span)).parts for utterance in utterances]
    depths = range(1, 1 + max(map(len, names), default=1))
    depth = next((depth for depth in depths if len({name[-depth:] for name in names}) == len(names)), 0)
    if not depth:
        twice, _ = Counter(map(str, (utterance.span for utterance in utterances))).most_common(1)[0]
        raise InputError(f"{path}: two utterances are called {twice}: they begin and end within 0.01 s of each other")
    texts: dict[tuple[str, ...], list[str]] = {}
    for name, text in _named_texts(path):
        texts.setdefault(PurePath(name).parts[-depth:], []).append(text)
    missing = [utterance for utterance, name in zip(utterances, names, strict=True) if name[-depth:] not in texts]
    if missing:
        lacking = f"{len(missing)} of {len(names)} utterances lack one; names are those of files, with their endings"
        if path.suffix in MANIFESTS:
            lacking += "; one of parts does not fit whole recordings: name the folder of JSON that ds2 transcribe wrote"
        raise InputError(f"{path}: no transcript of {missing[0].span}; {lacking}")
    joined = (" ".join(texts[name[-depth:]]) for name in names)
    return {utterance.span: text for utterance, text in zip(utterances, joined, strict=True)}


def foreign_marks(texts: Iterable[str], references: Iterable[str]) -> str:
    """The characters of others' texts that no reference has, such as "., ?", unless they are letters."""
    marks = set("".join(texts)) - set("".join(references))
    return " ".join(sorted(mark for mark in marks if not mark.isalnum() and not mark.isspace()))


def _named_texts(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        yield from _folder_texts(path)
    elif path.suffix in MANIFESTS:
        for utterance in read_manifest(path):
            yield str(utterance.span), str(utterance.extra.get("pred_text", utterance.text))
    elif path.suffix in LISTINGS:
        for number, line in numbered_lines(path):
            name, tab, text = line.partition("\t")
            if not tab:
                raise InputError(f"{path}:{number}: no tab between the name of the recording and its text {MAKE}")
            if "\t" in text or CHANNEL.match(text):
                raise InputError(f"{path}:{number}: alternatives, or separate channels; one text of each is compared")
            yield name, text.strip()
    else:
        yield from _json_texts(path)


def _folder_texts(folder: Path) -> Iterator[tuple[str, str]]:
    files = sorted(folder.rglob("*.json"))
    if not files:
        raise InputError(f"{folder}: has no transcripts in the format json of ds2 transcribe")
    for transcript in itertools.chain.from_iterable(map(read_transcripts, files)):
        if not transcript.error:
            yield transcript.file, transcript.text


def _json_texts(path: Path) -> Iterator[tuple[str, str]]:
    try:
        texts = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error!s:.200})") from error
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise InputError(f'{path}: not a JSON object of names and texts, such as {{"a.wav": "two five"}}')
    yield from texts.items()
