"""Pages in a real browser, by way of its debugging protocol."""

import asyncio
import base64
import itertools
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import websockets

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")
PATIENCE = 90.0  # seconds


class Tab:
    """A page and what it complained of on its console."""

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
        """The value of an expression, or of the promise that it is."""
        answer = await self.ask("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, condition: str) -> Any:
        """Waits for a condition to hold."""
        look = f"const look = () => ({condition}) ? done({condition}) : setTimeout(look, 20)"
        poll = f"new Promise(done => {{ {look}; look() }})"
        try:
            return await asyncio.wait_for(self.run(poll), PATIENCE)
        except TimeoutError:
            pytest.fail(f"{condition} did not come true; the page says {self.complaints}")

    async def choose(self, file: Path) -> None:
        """Chooses a file in the page's input #file."""
        root = (await self.ask("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.ask("DOM.querySelector", nodeId=root, selector="#file"))["nodeId"]
        await self.ask("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    async def picture(self, path: Path, width: int = 900) -> None:
        """A screenshot of the page's content, as wide as the screen."""
        await self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        height = await self.run("document.querySelector('main').getBoundingClientRect().height")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = await self.ask("Page.captureScreenshot", format="png", clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))


@asynccontextmanager
async def browse(url: str, flags: Sequence[str] = (), script: str = "") -> AsyncIterator[Tab]:
    """A new browser with one page, which runs a script of ours before its own."""
    command = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    command += ["--window-size=900,1000", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]
    command += ["--mute-audio", "--autoplay-policy=no-user-gesture-required", *flags]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command += [f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            address = next(found for line in process.stderr if (found := re.search(r"ws://\S+", line)))[0]
            async with websockets.connect(address, max_size=None, compression=None) as root:
                target = (await Tab(root).ask("Target.createTarget", url="about:blank"))["targetId"]
            page = re.sub(r"browser/.*", f"page/{target}", address)
            async with websockets.connect(page, max_size=None, compression=None) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.ask(f"{domain}.enable")
                await tab.ask("Page.addScriptToEvaluateOnNewDocument", source=script)
                await tab.ask("Page.navigate", url=url)
                await tab.until("location.href !== 'about:blank' && document.readyState === 'complete'")
                yield tab
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def look(page: Path, code: str = "document.documentElement.outerHTML") -> tuple[Any, list[str]]:
    """An expression's value in a page on the disk, by default all of the page, and what the page complained of."""

    async def visit() -> tuple[Any, list[str]]:
        async with browse(page.as_uri()) as tab:
            value = await asyncio.wait_for(tab.run(code), PATIENCE)
            return value, tab.complaints

    return asyncio.run(visit())


def microphone(recording: Path, once: bool = True) -> list[str]:
    """The browser's flags for a microphone that plays a recording, once or again and again."""
    source = f"{recording}%noloop" if once else str(recording)
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    return [*flags, f"--use-file-for-fake-audio-capture={source}"]


def recorded(path: Path, samples: np.ndarray, rate: int = 8000) -> Path:
    """A WAV that begins with half a second of silence: a browser's microphone takes a moment."""
    silence = np.zeros(rate // 2, np.int16)
    soundfile.write(path, np.concatenate([silence, samples, silence, silence]), rate)
    return path
