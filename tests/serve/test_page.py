"""The page in a real browser that takes a recording for its microphone."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from helpers.browser import Tab, browse, microphone, needs_browser, recorded
from serve.conftest import RunningServer

pytestmark = [needs_browser, pytest.mark.long, pytest.mark.anyio]

# Keeps each buffer of samples that the microphone's worklet passes to the page.
HEARD = """
window.heard = [];
const Worklet = window.AudioWorkletNode;
window.AudioWorkletNode = class extends Worklet {
  constructor(...options) {
    super(...options);
    this.port.addEventListener("message", ({ data }) => heard.push(...data));
  }
};"""


def page(url: str, recording: Path, once: bool = True) -> AbstractAsyncContextManager[Tab]:
    """The server's page, ready, in a browser whose microphone plays a recording, once or again and again."""
    return browse(url, microphone(recording, once), HEARD)


def pictures(name: str, tmp_path: Path) -> Path:
    """Where a screenshot goes: DS2_PICTURES=benchmarks/serve renews those of ds2/serve/README.md."""
    return Path(os.environ.get("DS2_PICTURES", tmp_path)) / f"{name}.png"


def test_soft_writing_can_be_read() -> None:
    """4.5 : 1 at least, by WCAG's measure, in the light and in the dark."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    css = (resources.files("ds2.serve") / "page" / "page.css").read_text()
    pairs = re.findall(r"--paper: #(\w+); --soft: #(\w+)", css)
    assert len(pairs) == 2
    for pair in pairs:
        dark, light = sorted(map(luminance, pair))
        assert (light + 0.05) / (dark + 0.05) >= 4.5


async def files_hold(tab: Tab, text: str) -> None:
    """What the page would save: the text, and times within the recording."""
    await tab.run(
        "window.saved = {}; URL.createObjectURL = (blob) => (window.blob = blob, 'data:,');"
        "HTMLAnchorElement.prototype.click = function () { saved[this.download] = blob.text() }"
    )
    await tab.run("document.querySelectorAll('.save').forEach((button) => button.click())")
    names = json.loads(await tab.run("JSON.stringify(Object.keys(saved))"))
    assert all(re.fullmatch(r"live_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.(txt|srt|json)", name) for name in names)
    txt, srt, values = [await tab.run(f"saved['{name}']") for name in names]
    assert txt.split() == text.split()
    assert re.match(r"1\n00:00:0\d,\d{3} --> 00:00:\d\d,\d{3}\n", srt)
    assert [word["text"] for word in json.loads(values)["words"]] == text.split()
    assert await tab.run("document.getElementById('knows').textContent") == (
        "digits-streaming knows 10 words and no other: eight five four nine one seven six three two zero"
    )
    assert not await tab.run("document.getElementById('figures').open")


async def test_what_is_said_into_the_microphone_stands_on_the_page(
    server: RunningServer, spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    text, samples = next(iter(spoken.items()))
    recording = recorded(tmp_path / "said.wav", samples)
    async with page(server.url, recording) as tab:
        await tab.run("document.getElementById('microphone').click()")
        await tab.until(
            "(document.getElementById('stable').textContent + "
            "document.getElementById('partial').textContent).length > 8"
        )
        await tab.picture(pictures("page_partial", tmp_path))
        await tab.until("document.getElementById('final').textContent")
        await tab.run("document.getElementById('stop').click()")
        await tab.until("document.getElementById('state').textContent === 'done'")
        await tab.until("document.querySelectorAll('#latencies > div:not(.hidden)').length")
        heard = await tab.run("document.getElementById('final').textContent")
        latency = await tab.run("document.getElementById('latency').textContent")
        await tab.picture(pictures("page_final", tmp_path))
        await tab.picture(pictures("page_phone", tmp_path), 360)
        assert await tab.run("document.documentElement.scrollWidth") == 360
        assert heard.split() == text.split()
        assert re.fullmatch(r"\d+ ms", latency)
        await files_hold(tab, text)
        assert tab.complaints == []


def test_a_file_is_uploaded_and_a_click_plays_a_word(
    server: RunningServer, spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """With all its segments and times, over no live stream; the player stops at the end of the word."""
    samples = [part for word in spoken.values() for part in (word, np.zeros(16_000, np.int16))]
    recording = recorded(tmp_path / "file.wav", np.concatenate(samples))
    before = server.metric("ds2_upload_seconds_count")

    async def visit() -> None:
        async with page(server.url, recording) as tab:
            await tab.run("window.WebSocket = null; window.bars = 0")
            watch = "new MutationObserver(() => bars += document.getElementById('progress').value > 0)"
            await tab.run(f"{watch}.observe(document.getElementById('progress'), {{ attributes: true }})")
            await tab.choose(recording)
            await tab.until("document.getElementById('state').textContent === 'done'")
            heard = await tab.run("document.getElementById('final').textContent")
            assert heard.split() == " ".join(spoken).split()
            assert await tab.run("bars") > 1
            assert await tab.run("document.getElementById('progress').hidden")
            await tab.run("window.last = [...document.querySelectorAll('#final .word')].at(-1); last.click()")
            player = "document.getElementById('player')"
            await tab.until(f"!{player}.paused && {player}.currentTime >= Number(last.dataset.start)")
            await tab.until(f"{player}.paused")
            late = await tab.run(f"{player}.currentTime - Number(last.dataset.end)")
            assert 0 <= late < 0.5 < await tab.run(f"{player}.duration - Number(last.dataset.end)")
            await tab.picture(pictures("page_file", tmp_path))
            assert tab.complaints == []

    asyncio.run(visit())
    assert server.metric("ds2_upload_seconds_count") == before + 1


async def test_errors_are_the_sentences_of_the_server(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """Of a bad file, of a wrong key for a file, and for the microphone."""
    server, bad = start("--set", 'api_keys=["good"]'), tmp_path / "notes.wav"
    bad.write_text("no sound")
    silence = recorded(tmp_path / "a.wav", np.zeros(1, np.int16))
    async with page(server.url, silence) as tab:

        async def refused() -> str:
            await tab.until("document.getElementById('state').classList.contains('error')")
            return str(await tab.run("document.getElementById('state').textContent"))

        async def enter(key: str) -> None:
            await tab.run(f"document.getElementById('key').value = '{key}'")

        await enter("bad")
        await tab.choose(bad)
        wrong = await refused()
        assert "key" in wrong
        await tab.run("document.getElementById('microphone').click()")
        await tab.until("!document.getElementById('microphone').disabled")
        assert await refused() == wrong
        await enter("good")
        await tab.choose(bad)
        await tab.until("document.getElementById('state').textContent.startsWith('notes.wav: ')")
        await tab.until("document.getElementById('state').classList.contains('error')")


ASKED_LATER = """
const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wanted) => {
  await new Promise((grant) => (window.grant = grant));
  return (window.media = await real(wanted));
};
0"""


async def test_stop_while_the_microphone_is_asked_for_leaves_it_off(
    start: Callable[..., RunningServer], spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """With a key that a subprotocol cannot hold as it is."""
    server = start("--set", 'api_keys=["a/b=="]')
    recording = recorded(tmp_path / "said.wav", next(iter(spoken.values())))
    async with page(server.url, recording) as tab:
        await tab.run(ASKED_LATER)
        await tab.run("document.getElementById('key').value = 'a/b=='")
        await tab.run("document.getElementById('microphone').click()")
        await tab.until("window.grant")
        await tab.run("document.getElementById('stop').click()")
        await tab.until("document.getElementById('state').textContent === 'done'")
        await tab.run("window.grant()")
        await tab.until("window.media?.getTracks().every((track) => track.readyState === 'ended')")


async def test_a_page_without_its_key_asks_for_figures_once(
    start: Callable[..., RunningServer], tmp_path: Path
) -> None:
    """And again with another key; the browser complains of each refusal, and the server logs it."""
    server = start("--set", 'api_keys=["good"]')
    silence = recorded(tmp_path / "a.wav", np.zeros(1, np.int16))
    async with page(server.url, silence) as tab:

        async def refused(times: int) -> None:
            while len(tab.complaints) < times:
                await tab.run("0")

        async def enter(key: str) -> None:
            field = "document.getElementById('key')"
            await tab.run(f"{field}.value = '{key}'; {field}.dispatchEvent(new Event('change'))")

        await refused(1)
        await tab.run("new Promise((done) => setTimeout(done, 1500))")  # it asks each second where it may
        assert len(tab.complaints) == 1
        await enter("bad")
        await refused(2)
        await enter("good")
        await tab.until("document.getElementById('streams').textContent === '0'")
