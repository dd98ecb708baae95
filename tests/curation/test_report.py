"""The report opens in a browser, from the disk, without errors, and what one can do there works."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import look, needs_browser
from helpers.readings import read_digits

from ds2.curation.filter import FilterConfig
from ds2.curation.make import CurationConfig, make_corpus
from ds2.curation.report import clock, outline
from ds2.curation.segment import SegmentConfig


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on two recordings with faulty texts, one with a name that needs quoting, and a failure."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in ("a.wav", "b & <c> #1 100%.wav"):
        reading = read_digits(folder / "raw" / name, 1, lines=10)
        lines = reading.text.splitlines()
        lines[::6] = lines[3::6]
        (folder / "raw" / name).with_suffix(".txt").write_text("\n".join(lines))
    shutil.copy(folder / "raw" / "a.wav", folder / "raw" / "no_text.wav")
    config = CurationConfig(model="digits", segment=SegmentConfig(mean=3.0), filter=FilterConfig(keep=0.7))
    make_corpus(folder / "raw", folder / "out", config)
    return folder / "out" / "report"


def found(page: Path, *code: str) -> Any:
    """An expression's value in a page of which the console is silent, by default all of the page."""
    value, complaints = look(page, *code)
    assert complaints == []
    return value


@pytest.mark.long
@needs_browser
def test_every_page_opens_without_errors_and_without_the_network(report: Path) -> None:
    pages = sorted(report.glob("*.html"))
    assert [page.name for page in pages] == ["check.html", "index.html", "recording-1.html", "recording-2.html"]
    for page in pages:
        dom = found(page)
        assert "seven" in dom
        assert not re.search(r'(?:src|href)="(?:https?:)?//', dom)
    assert "no transcript no_text.txt" in found(report / "index.html")
    assert "b &amp; &lt;c&gt; #1 100%.wav" in found(report / "index.html")


@pytest.mark.long
@needs_browser
def test_a_script_in_a_page_is_not_run(report: Path) -> None:
    """A text that came through the escaping would do nothing."""
    copy = report / "inline.html"
    inline = "<script>document.title = 'run';</script><img src='no' onerror='document.title = `run`'></body>"
    copy.write_text((report / "check.html").read_text().replace("</body>", inline))
    title, complaints = look(copy, "document.title")
    assert title == "Check segments"
    assert complaints != []
    copy.unlink()


@pytest.mark.long
@needs_browser
def test_pictures_and_sound_of_every_segment_load(report: Path) -> None:
    code = """(() => {
        const images = [...document.images], sounds = [...document.querySelectorAll('audio')];
        for (const image of images) image.loading = 'eager';
        const heard = sounds.map((sound) => new Promise((done) => {
            sound.addEventListener('loadedmetadata', () => done(sound.duration > 1));
            sound.addEventListener('error', () => done(false)); sound.preload = 'metadata'; sound.load(); }));
        return Promise.all(
            [...images.map((image) => image.decode().then(() => image.naturalWidth === 720)), ...heard]);
    })()"""
    for name in ("recording-1.html", "recording-2.html"):
        fine = found(report / name, code)
        assert len(fine) > 10
        assert all(fine)


@pytest.mark.long
@needs_browser
def test_segments_are_sorted_and_hidden_at_will(report: Path) -> None:
    code = """(() => {
        const choose = (id, value) => { const list = document.getElementById(id); list.value = value;
            list.dispatchEvent(new Event('change')); };
        choose('order', 'odds'); choose('show', 'rejected');
        const cards = [...document.querySelectorAll('.cards > .segment')];
        const odds = cards.map((card) => +card.dataset.odds);
        const seen = cards.filter((card) => !card.hidden);
        return [odds.every((value, at) => !at || value <= odds[at - 1]),
            seen.length > 0 && seen.length < cards.length, seen.every((card) => card.matches('.rejected'))];
    })()"""
    assert found(report / "recording-1.html", code) == [True, True, True]


@pytest.mark.long
@needs_browser
def test_what_is_checked_can_be_saved(report: Path) -> None:
    code = """new Promise((done) => {
        const text = document.querySelector('textarea');
        text.value = 'nine "nine"'; text.dispatchEvent(new Event('input'));
        URL.createObjectURL = (blob) => { done(blob.text()); return 'data:,'; };
        HTMLAnchorElement.prototype.click = () => {};  // no download: a headless browser would wait for its end
        document.getElementById('save').click();
    })"""
    rows = found(report / "check.html", code).splitlines()
    first = json.loads((report.parent / "to_check.jsonl").read_text().splitlines()[0])
    assert [json.loads(row) for row in rows] == [{"id": first["id"], "text": 'nine "nine"'}]


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 61.25, 3723.4)] == ["0:00.0", "1:01.2", "1:02:03.4"]


def test_the_outline_stays_within_its_row() -> None:
    numbers = [float(number) for number in re.findall(r"-?[0-9.]+", outline([-100.0, -30.0, 10.0], 5.0))]
    assert numbers[::2] == [0, 5, 10, 10, 5, 0]
    assert all(0 <= height <= 40 for height in numbers[1::2])
    assert outline([], 1.0) == ""
