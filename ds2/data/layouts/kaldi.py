"""Kaldi's data directories: wav.scp, text, utt2spk, and segments where recordings hold many utterances."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ds2.data.corpus_rows import Row, read_table
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder

AUDIO = re.compile(r"\.(wav|flac|mp3|ogg|opus|sph|wv1|wv2|aiff?|au)$", re.IGNORECASE)
ONE_CHANNEL = re.compile(r"\bsph2pipe\s(.*\s)?-c\s|\sremix\s")  # `-c 1` of sox mixes all channels, as we do
# Kaldi runs what ends in |, and reads parts of files: a.ark:12, a.ark[0:9].
UNFIT_PATH = re.compile(r"^\s|[\s|\]]$|:\d+$")


def read(source: Path, _: Path) -> Iterator[Row]:
    """The utterances of a directory; paths in wav.scp are relative to the working directory, or else to this one.

    A command in wav.scp (`flac -dcs FILE |`) is taken for the one audio file that it names: nothing is executed.

    Raises:
        InputError: a table is missing, or names what another does not have; a command picks a channel.
    """
    recordings = {key: _audio(value, source, key) for key, value in _required(source / "wav.scp").items()}
    texts, speakers = _required(source / "text"), _optional(source / "utt2spk")
    segments = _optional(source / "segments")
    genders, languages = _optional(source / "spk2gender"), _optional(source / "utt2lang")
    for key, text in texts.items():
        recording, offset, duration = _kaldi_segment(segments, key, source) if segments else (key, None, None)
        if recording not in recordings:
            raise InputError(f"{source}: {key:.60} is in no recording of wav.scp")
        speaker = speakers.get(key)
        speaker = None if speaker == key else speaker  # Kaldi's way to say that it is unknown
        extra = {"id": key} | ({"gender": genders[speaker]} if speaker in genders else {})
        place = f"{source / 'text'}: {key:.60}"
        yield Row(recordings[recording], text, speaker, languages.get(key), offset, duration, extra, place)


def write(target: Path, utterances: Sequence[Utterance]) -> None:
    """wav.scp, text, utt2spk, spk2utt, utt2dur, and segments where utterances are spans of recordings; sorted."""
    make_folder(target)
    keys = [_kaldi_id(utterance, number) for number, utterance in enumerate(utterances)]
    if len(set(keys)) < len(keys):
        raise InputError(f"{target}: two utterances have the same id; remove the field id from the manifest")
    who = _kaldi_speakers(utterances)
    pairs = sorted(zip(keys, utterances, strict=True), key=lambda pair: pair[0].encode())
    spans = any(utterance.offset is not None for _, utterance in pairs)
    names = {utterance.audio_path: f"rec-{at:07}" for at, (_, utterance) in enumerate(pairs)}
    speakers: dict[str, list[str]] = {}
    for key, utterance in pairs:
        speakers.setdefault(who.get(utterance.speaker, key), []).append(key)
    tables = {
        "text": {key: " ".join(utterance.text.split()) for key, utterance in pairs},
        "utt2spk": {key: who.get(utterance.speaker, key) for key, utterance in pairs},
        "spk2utt": {speaker: " ".join(own) for speaker, own in speakers.items()},
        "utt2dur": {key: f"{utterance.duration:.4f}" for key, utterance in pairs},
        "wav.scp": {names[u.audio_path] if spans else key: str(u.audio_path) for key, u in pairs},
    }
    if spans:
        tables["segments"] = {
            key: f"{names[u.audio_path]} {u.offset or 0.0:.4f} {(u.offset or 0.0) + u.duration:.4f}" for key, u in pairs
        }
    for name, values in tables.items():
        _write_table(target / name, values)


def lost_in_kaldi(utterances: Sequence[Utterance]) -> set[str]:
    """The other keys for which the directory has no table."""
    return {key for each in utterances for key in each.extra if key != "id"} | {
        "lang" for each in utterances if each.lang
    }


def unfit_for_kaldi(utterance: Utterance) -> str:
    """A line on why wav.scp cannot name the recording of an utterance; empty where it can."""
    path = str(utterance.audio_path)
    if len(path.splitlines()) == 1 and not UNFIT_PATH.search(path):
        return ""
    return f"{utterance.place}: {path!r} is no plain file to Kaldi; rename it"


def _kaldi_speakers(utterances: Sequence[Utterance]) -> dict[str | None, str]:
    """The speakers' names without white space, which ends a name in Kaldi's tables.

    Raises:
        InputError: two speakers have the same name then.
    """
    names: dict[str | None, str] = {each.speaker: _one_word(each.speaker) for each in utterances if each.speaker}
    both, count = next(iter(Counter(names.values()).most_common(1)), ("", 0))
    if count > 1:
        place = next(each.place for each in utterances if names.get(each.speaker) == both)
        raise InputError(f"{place}: two speakers are both {both:.60} without white space; rename one")
    return names


def _kaldi_id(utterance: Utterance, number: int) -> str:
    """The utterance's id, or a new one that begins with its speaker, as Kaldi's sorting requires."""
    name = utterance.extra.get("id") or f"{utterance.speaker or 'utt'}-{number:07}"
    return _one_word(str(name))


def _one_word(name: str) -> str:
    return re.sub(r"\s", "_", name)


def _write_table(path: Path, values: Mapping[str, str]) -> None:
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
        for key in sorted(values, key=str.encode):
            file.write(f"{key} {values[key]}\n")


def _required(path: Path) -> dict[str, str]:
    if path.is_fifo():  # which would be waited for without end
        raise InputError(f"{path}: is a pipe, not a file")
    return read_table(path)


def _optional(path: Path) -> dict[str, str]:
    return read_table(path) if path.is_file() else {}


def _kaldi_segment(segments: Mapping[str, str], key: str, source: Path) -> tuple[str, float, float]:
    try:
        recording, start, end = segments[key].split()
        return recording, float(start), float(end) - float(start)
    except (KeyError, ValueError) as error:
        raise InputError(f"{source / 'segments'}: no line `{key:.60} RECORDING START END`") from error


def _audio(value: str, source: Path, key: str) -> Path:
    try:
        words = shlex.split(value.rstrip("| ")) if value.endswith("|") else [value]
    except ValueError as error:  # a quotation mark that is not closed
        raise InputError(f"{source / 'wav.scp'}: {key:.60}: not a command in {value!r:.80} ({error})") from error
    files = [word for word in words if AUDIO.search(word)]
    if len(files) != 1:
        raise InputError(
            f"{source / 'wav.scp'}: {key:.60}: names {len(files)} audio files in {value!r:.80}; unpack it first"
        )
    if value.endswith("|") and ONE_CHANNEL.search(value):
        raise InputError(f"{source / 'wav.scp'}: {key:.60}: picks a channel in {value!r:.80}; unpack it first")
    path = Path(files[0])
    return path if os.path.exists(path) else source / path  # False for a name that is too long
