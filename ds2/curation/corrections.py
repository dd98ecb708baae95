"""Segments that a person has checked: kept with the text that is right, whatever the filter thinks of them.

Where that text is another one, `extra` has the `given` text, to which the cost, the frames and the odds belong, and the
times of no words: nobody has aligned the right ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ds2.curation.filter import FilterReport
from ds2.data.utterance import Utterance
from ds2.text import normalize, split_words


def with_corrections(
    judged: Sequence[Utterance], report: FilterReport, checked: Mapping[str, str] | None
) -> tuple[list[Utterance], FilterReport]:
    """The judged segments with the texts of those that were checked, by `id`, and the report of how many are kept.

    A checked segment in which nothing is said is left out.
    """
    if not checked:
        return list(judged), report
    found = [_corrected(each, checked[each.extra["id"]]) if each.extra["id"] in checked else each for each in judged]
    kept = [each for each in found if each.extra["kept"]]
    seconds = sum(each.duration for each in kept) / sum(each.duration for each in found)
    right = sum(each.extra["id"] in checked for each in kept)
    return found, replace(report, kept=len(kept) / len(found), kept_seconds=seconds, checked=right)


def _corrected(utterance: Utterance, text: str) -> Utterance:
    true = normalize(text)
    if not true or split_words(true) == split_words(normalize(utterance.text)):
        return replace(utterance, extra=utterance.extra | {"kept": bool(true)})
    return replace(utterance, text=true, extra=utterance.extra | {"kept": True, "given": utterance.text, "words": []})


def as_given(utterance: Utterance) -> Utterance:
    """The segment with the text that was given, where a person has corrected it."""
    return replace(utterance, text=utterance.extra.get("given", utterance.text))
