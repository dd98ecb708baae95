"""The page in a real browser that takes a recording for its microphone."""

import asyncio
import base64
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import websockets
from serve.conftest import RunningServer

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")


class Tab:
    """A page, by way of the browser's debugging protocol."""

    def __init__(self, socket: websockets.ClientConnection):
        self.socket, self.numbers = socket, itertools.count()
        self.complaints: list[str] = []

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        await self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(await self.socket.recv())
            level = answer.get("params", {}).get("entry", {}).get("level")
            if answer.get("method") == "Runtime.exceptionThrown" or level in ("error", "warning"):
                self.complaints.append(json.dumps(answer["params"]))
            if answer.get("id") == number:
                return answer["result"]

    async def run(self, code: str) -> Any:
        answer = await self.ask("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, condition: str) -> Any:
        """Waits, by the browser's own frames, for a condition to hold."""
        look = f"const look = () => ({condition}) ? done({condition}) : setTimeout(look, 20)"
        poll = f"new Promise(done => {{ {look}; look() }})"
        try:
            return await asyncio.wait_for(self.run(poll), 90)
        except TimeoutError:
            pytest.fail(f"{condition} did not come true; the page says {self.complaints}")

    async def picture(self, path: Path, width: int = 900) -> None:
        """A screenshot of the page's content, as wide as the screen."""
        await self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        height = await self.run("document.querySelector('main').getBoundingClientRect().height")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = await self.ask("Page.captureScreenshot", format="png", clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))


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


@asynccontextmanager
async def browse(url: str, microphone: Path, profile: Path, once: bool = True) -> AsyncIterator[Tab]:
    """A new browser with one page; its microphone plays a recording, once or again and again."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--window-size=900,1000"]
    flags += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--disable-dev-shm-usage"]
    source = f"{microphone}%noloop" if once else str(microphone)
    flags += [f"--use-file-for-fake-audio-capture={source}", f"--user-data-dir={profile}", "--mute-audio"]
    flags += ["--no-first-run", "--disable-extensions", "--autoplay-policy=no-user-gesture-required"]
    process = subprocess.Popen([str(BROWSER), *flags, "about:blank"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = next(found for line in process.stderr if (found := re.search(r"ws://\S+", line)))[0]
        async with websockets.connect(address, max_size=None, compression=None) as root:
            browser = Tab(root)
            target = (await browser.ask("Target.createTarget", url="about:blank"))["targetId"]
        page = re.sub(r"browser/.*", f"page/{target}", address)
        async with websockets.connect(page, max_size=None, compression=None) as socket:
            tab = Tab(socket)
            for domain in ("Page", "Runtime", "Log"):
                await tab.ask(f"{domain}.enable")
            await tab.ask("Page.addScriptToEvaluateOnNewDocument", source=HEARD)
            await tab.ask("Page.navigate", url=url)
            await tab.until("document.readyState === 'complete' && document.getElementById('microphone')?.onclick")
            yield tab
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def written(path: Path, samples: np.ndarray, rate: int = 8000) -> Path:
    """A WAV that begins with half a second of silence: a browser's microphone takes a moment."""
    silence = np.zeros(rate // 2, np.int16)
    soundfile.write(path, np.concatenate([silence, samples, silence, silence]), rate)
    return path


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
    names = ("transcript.txt", "transcript.srt", "transcript.json")
    txt, srt, values = [await tab.run(f"saved['{name}']") for name in names]
    assert txt.split() == text.split()
    assert re.match(r"1\n00:00:0\d,\d{3} --> 00:00:\d\d,\d{3}\n", srt)
    assert [word["text"] for word in json.loads(values)["words"]] == text.split()
    assert await tab.run("document.getElementById('knows').textContent") == (
        "digits-streaming knows 10 words and no other: eight five four nine one seven six three two zero"
    )
    assert not await tab.run("document.getElementById('figures').open")


def test_what_is_said_into_the_microphone_stands_on_the_page(
    server: RunningServer, spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    text, samples = next(iter(spoken.items()))
    microphone = written(tmp_path / "said.wav", samples)

    async def visit() -> None:
        async with browse(server.url, microphone, tmp_path / "profile") as tab:
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

    asyncio.run(visit())


async def choose(tab: Tab, file: Path) -> None:
    """Chooses a file on the page."""
    root = (await tab.ask("DOM.getDocument"))["root"]["nodeId"]
    node = (await tab.ask("DOM.querySelector", nodeId=root, selector="#file"))["nodeId"]
    await tab.ask("DOM.setFileInputFiles", nodeId=node, files=[str(file)])


def test_a_file_is_uploaded_and_a_click_plays_a_word(
    server: RunningServer, spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """With all its utterances and times, over no live stream; the player stops at the end of the word."""
    samples = [part for piece in spoken.values() for part in (piece, np.zeros(16_000, np.int16))]
    recording = written(tmp_path / "file.wav", np.concatenate(samples))
    before = server.metric("ds2_upload_seconds_count")

    async def visit() -> None:
        async with browse(server.url, recording, tmp_path / "profile") as tab:
            await tab.run("window.WebSocket = null; window.bars = 0")
            watch = "new MutationObserver(() => bars += document.getElementById('progress').value > 0)"
            await tab.run(f"{watch}.observe(document.getElementById('progress'), {{ attributes: true }})")
            await choose(tab, recording)
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


def test_errors_are_the_sentences_of_the_server(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """Of a bad file, of a wrong key for a file, and for the microphone."""
    server, bad = start("--set", 'api_keys=["good"]'), tmp_path / "notes.wav"
    bad.write_text("no sound")
    silence = written(tmp_path / "a.wav", np.zeros(1, np.int16))

    async def visit() -> None:
        async with browse(server.url, silence, tmp_path / "profile") as tab:

            async def refused() -> str:
                await tab.until("document.getElementById('state').classList.contains('error')")
                return str(await tab.run("document.getElementById('state').textContent"))

            async def enter(key: str) -> None:
                await tab.run(f"document.getElementById('key').value = '{key}'")

            await enter("bad")
            await choose(tab, bad)
            wrong = await refused()
            assert "key" in wrong
            await tab.run("document.getElementById('microphone').click()")
            await tab.until("!document.getElementById('microphone').disabled")
            assert await refused() == wrong
            await enter("good")
            await choose(tab, bad)
            await tab.until("document.getElementById('state').textContent.startsWith('notes.wav: ')")
            await tab.until("document.getElementById('state').classList.contains('error')")

    asyncio.run(visit())


ASKED_LATER = """
const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wanted) => {
  await new Promise((grant) => (window.grant = grant));
  return (window.media = await real(wanted));
};
0"""


def test_stop_while_the_microphone_is_asked_for_leaves_it_off(
    start: Callable[..., RunningServer], spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """With a key that a subprotocol cannot hold as it is."""
    server = start("--set", 'api_keys=["a/b=="]')
    microphone = written(tmp_path / "said.wav", next(iter(spoken.values())))

    async def visit() -> None:
        async with browse(server.url, microphone, tmp_path / "profile") as tab:
            await tab.run(ASKED_LATER)
            await tab.run("document.getElementById('key').value = 'a/b=='")
            await tab.run("document.getElementById('microphone').click()")
            await tab.until("window.grant")
            await tab.run("document.getElementById('stop').click()")
            await tab.until("document.getElementById('state').textContent === 'done'")
            await tab.run("window.grant()")
            await tab.until("window.media?.getTracks().every((track) => track.readyState === 'ended')")

    asyncio.run(visit())


def test_a_page_without_its_key_asks_for_figures_once(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """And again with another key; the browser complains of each refusal, and the server logs it."""
    server = start("--set", 'api_keys=["good"]')
    silence = written(tmp_path / "a.wav", np.zeros(1, np.int16))

    async def visit() -> None:
        async with browse(server.url, silence, tmp_path / "profile") as tab:

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

    asyncio.run(asyncio.wait_for(visit(), 60))
