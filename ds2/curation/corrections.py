"""Segments that a person has checked: kept with the text that is right, whatever the filter thinks of them."""

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
    return found, replace(report, kept=len(kept) / len(found), kept_seconds=seconds)


def _corrected(utterance: Utterance, text: str) -> Utterance:
    true = normalize(text)
    if split_words(true) == split_words(normalize(utterance.text)):
        true = utterance.text
    return replace(utterance, text=true or utterance.text, extra=utterance.extra | {"kept": bool(true)})
