"""Transcripts as files: txt, json, srt, vtt, tsv, ctm, TextGrid."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from ds2.recognition.confidence import is_doubtful
from ds2.recognition.cues import Cue
from ds2.recognition.format_inputs import Written
from ds2.recognition.words import Word
from ds2.utils.errors import ParameterError, printable


def to_txt(transcript: Written, name: str) -> str:
    """The text as people read it, a line for each segment, "1: ..." where channels are separate; empty where nothing
    was said. Where there are alternatives, a line for each: its probability among them, a tab, its text."""
    if transcript.alternatives:
        probabilities = among_alternatives(transcript.alternatives)
        pairs = zip(transcript.alternatives, probabilities, strict=True)
        return "".join(f"{probability:.4f}\t{each.display}\n" for (each, _), probability in pairs)
    return "\n".join(of_channel(channel, segment.display) for channel, segment in transcript.channel_segments) + "\n"


def to_json(transcript: Written, name: str) -> str:
    """One object on one line.

    Keys: file, text, segments (start, end, text), words (text, start, end, confidence), duration, model; times in
    seconds. Where the bundle has punctuation, text, segments and words have a display form beside them; that of an
    alignment is as the user wrote it. Where channels are separate, segments and words have their channel. An alignment
    also has characters, with the words' keys, the words that are doubtful are marked, and untranscribed are the spans
    (start, end) of speech that the text lacks. Where alternatives were asked for, they are those of the whole
    (score, probability, text), and segment_alternatives those of the segments that were searched one by one (start,
    end, alternatives).
    A recording that does not sound like the model's language has a warning, and so have channels with the same words.
    """
    keys = ("start", "end", "text", "display")
    segments = [{key: getattr(segment, key) for key in keys} for _, segment in transcript.channel_segments]
    values: dict[str, Any] = {"file": printable(name), "text": transcript.text}
    values["words"] = [dict(vars(word)) for word in transcript.words]
    values |= {"duration": round(transcript.duration, 3), "model": transcript.model}
    values["characters"] = [dict(vars(word)) for word in transcript.characters]
    values |= {"segments": segments, "display": transcript.display}
    plain = list(values["characters"])
    if not _has_display(transcript):
        plain += [values, *segments, *values["words"]]
    for each in plain:
        del each["display"]
    if transcript.characters:
        for word, said in zip(values["words"], transcript.words, strict=True):
            word["doubtful"] = is_doubtful(said)
        spans = [{"start": round(start, 3), "end": round(end, 3)} for start, end in transcript.untranscribed]
        values["untranscribed"] = spans
    else:
        del values["characters"]
    if transcript.channels:
        for segment, (channel, _) in zip(segments, transcript.channel_segments, strict=True):
            segment["channel"] = channel
        channels = [channel for channel, segment in transcript.channel_segments for _ in segment.words]
        for word, channel in zip(values["words"], channels, strict=True):
            word["channel"] = channel
    if transcript.warning:
        values["warning"] = transcript.warning
    if transcript.alternatives:
        values["alternatives"] = _scored(transcript.alternatives)
        values["segment_alternatives"] = [
            {"start": round(each.start, 3), "end": round(each.end, 3), "alternatives": _scored(each.alternatives)}
            for each in transcript.segment_alternatives
        ]
    return json.dumps(values, ensure_ascii=False) + "\n"


def _has_display(transcript: Written) -> bool:
    return transcript.punctuated or any(word.display is not None for word in transcript.words)


def _scored(alternatives: "Sequence[tuple[Written, float]]") -> list[dict[str, Any]]:
    """Score, probability and text of each, and its display form where its words have one."""
    return [
        {"score": round(score, 4), "probability": round(probability, 4), "text": each.text}
        | ({"display": each.display} if _has_display(each) else {})
        for (each, score), probability in zip(alternatives, among_alternatives(alternatives), strict=True)
    ]


def among_alternatives(alternatives: "Sequence[tuple[Written, float]]") -> list[float]:
    """The probability of each if one of them is right: the softmax of their scores in nats, best first."""
    weights = [math.exp(score - alternatives[0][1]) for _, score in alternatives]
    total = sum(weights)
    return [weight / total for weight in weights]


def to_srt(transcript: Written, name: str) -> str:
    """SubRip subtitles."""
    cues = []
    for number, (channel, cue) in enumerate(transcript.channel_cues, 1):
        text = cue.written if cue.kind == ".srt" else cue.text
        cues.append(f"{number}\n{_span(cue, ',')}\n{of_channel(channel, text)}\n\n")
    return "".join(cues)


def to_vtt(transcript: Written, name: str) -> str:
    """WebVTT subtitles, with the channel as the voice; &, < and --> are markup there."""
    cues = []
    for channel, cue in transcript.channel_cues:
        escaped = cue.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = cue.written if cue.kind == ".vtt" else escaped
        cues.append(
            f"{cue.before}{_span(cue, '.')}{cue.settings}\n{f'<v channel {channel}>' if channel else ''}{text}\n\n"
        )
    return "WEBVTT\n\n" + "".join(cues)


def to_tsv(transcript: Written, name: str) -> str:
    """A table as Whisper writes it: start and end in milliseconds and the text of each segment, with its channel before
    it where channels are separate."""
    rows = [
        f"{round(1000 * segment.start)}\t{round(1000 * segment.end)}\t{of_channel(channel, segment.display)}\n"
        for channel, segment in transcript.channel_segments
    ]
    return "".join(["start\tend\ttext\n", *rows])


def to_ctm(transcript: Written, name: str) -> str:
    """NIST CTM: file, channel, start, duration, word, confidence; spaces in the file's name become underscores."""
    file = "_".join(printable(name).split())
    return "".join(
        f"{file} {channel} {word.start:.3f} {word.end - word.start:.3f} {word.text} {word.confidence:.4f}\n"
        for channel, part in enumerate(transcript.channels or (transcript,), 1)
        for word in part.words
    )


def to_textgrid(transcript: Written, name: str) -> str:
    """Praat's TextGrid: a tier of words for each channel, and of an alignment one of characters; the silence between
    them as empty intervals."""
    tiers = {f"channel {number}": part.words for number, part in enumerate(transcript.channels, 1)}
    tiers = tiers or {"words": transcript.words}
    if transcript.characters:
        tiers["characters"] = transcript.characters
    end = max([transcript.duration, *(word.end for word in transcript.words)])
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {end}"]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (tier, words) in enumerate(tiers.items(), 1):
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{tier}"']
        between = "" if tier == "characters" else " "
        lines += ["        xmin = 0", f"        xmax = {end}", *_intervals(words, end, between)]
    return "\n".join(lines) + "\n"


def _intervals(words: Sequence[Word], end: float, between: str) -> list[str]:
    """The lines of a tier's intervals, which fill it from 0 to `end`.

    Praat has none without a length: a word without one shares the interval of the word before it, or of what follows,
    with `between` between them.
    """
    intervals: list[tuple[float, float, str]] = []
    at, waiting = 0.0, list[str]()
    for word in words:
        start = max(at, word.start)
        if start > at:
            intervals.append((at, start, between.join(waiting)))
            waiting = []
        at = max(start, word.end)
        waiting.append(word.text)
        if at == start and intervals and intervals[-1][2]:
            intervals[-1] = (*intervals[-1][:2], between.join([intervals[-1][2], *waiting]))
            waiting = []
        elif at > start:
            intervals.append((start, at, between.join(waiting)))
            waiting = []
    if waiting and at == end and intervals:
        at = intervals.pop()[0]  # a silence, or it would have taken them
    if at < end or not intervals:
        intervals.append((at, end, between.join(waiting)))
    lines = [f"        intervals: size = {len(intervals)}"]
    for number, (start, stop, text) in enumerate(intervals, 1):
        quoted = text.replace('"', '""')
        lines += [f"        intervals [{number}]:", f"            xmin = {start}", f"            xmax = {stop}"]
        lines += [f'            text = "{quoted}"']
    return lines


FORMATS: dict[str, Callable[[Written, str], str]] = {
    "txt": to_txt,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
    "tsv": to_tsv,
    "ctm": to_ctm,
    "TextGrid": to_textgrid,
}
SEVERAL_TEXTS = ("txt", "json")  # formats that hold alternatives
ONE_A_FILE = ("srt", "vtt", "tsv", "TextGrid")  # formats that cannot hold several recordings one after another


def choose_formats(names: str, known: Sequence[str] = tuple(FORMATS)) -> list[str]:
    """ "srt,textgrid" -> ["srt", "TextGrid"]: names in any case, separated by commas; "all" means all that are known.

    Raises:
        ParameterError: a name that is not known.
    """
    if names.strip().lower() == "all":
        return list(known)
    by_lower = {name.lower(): name for name in known}
    asked = [name.strip() for name in names.split(",")]
    if unknown := [name for name in asked if name.lower() not in by_lower]:
        raise ParameterError("format", f"unknown format {unknown[0]!r}; choose from {', '.join(known)} or all")
    return list(dict.fromkeys(by_lower[name.lower()] for name in asked))


def of_channel(channel: int, text: str) -> str:
    """The text of a channel, "1: ..."; 0 stands for channels that were not separated."""
    return f"{channel}: {text}" if channel else text


def _span(cue: Cue, point: str) -> str:
    return f"{_clock(cue.start, point)} --> {_clock(cue.end, point)}"


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"
