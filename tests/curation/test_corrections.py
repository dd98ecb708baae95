"""What a person has checked is right."""

from pathlib import Path

from ds2.curation.classifier import Classifier
from ds2.curation.corrections import as_given, with_corrections
from ds2.curation.filter import FilterReport
from ds2.data.utterance import Utterance

WORDS = [["it", 0.1, 0.3, 0.9]]


def segment(name: str, text: str, kept: bool) -> Utterance:
    return Utterance(Path(f"/{name}.flac"), 2.0, text, extra={"id": name, "kept": kept, "words": WORDS})


def test_checked_segments_have_the_corrected_text() -> None:
    judged = [
        segment("wrong", "it was late", True),
        segment("right", "where is he", False),
        segment("silent", "nobody", True),
        segment("other", "not checked", True),
    ]
    classifier = Classifier((0.0,) * 6, (1.0,) * 6, (0.0,) * 6, 0.0)
    values = (3, 1, 0.0, 0.0, 0.75, 0.75, 0.5, 0.0, 1.0, 0.0, 0.9, classifier, [], [])
    report = FilterReport("checked segments", *values)
    checked = {"wrong": "It was too late.", "right": "Where is he?", "silent": "", "elsewhere": "one"}
    found, changed = with_corrections(judged, report, checked)
    assert [(each.text, each.extra["kept"]) for each in found] == [
        ("it was too late", True),
        ("where is he", True),
        ("nobody", False),
        ("not checked", True),
    ]
    assert (changed.kept, changed.kept_seconds, changed.checked) == (0.75, 0.75, 2)
    assert "all 2 that were checked" in changed.summary
    assert [each.extra.get("given") for each in found] == ["it was late", None, None, None]
    assert [each.extra["words"] for each in found] == [[], WORDS, WORDS, WORDS]
    assert [as_given(each).text for each in found] == [each.text for each in judged]
    assert with_corrections(judged, report, None) == (judged, report)
