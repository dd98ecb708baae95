"""The exported page in a real browser: its text is that of `ds2 transcribe`, decoded greedily."""

import asyncio
import functools
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from serve.test_page import BROWSER, browse, written

from ds2.data.sound import read_sound
from ds2.export.package import export
from ds2.export.web import runtime_files
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError

RECORDING = Path(__file__).parents[2] / "recipes" / "digits" / "audio" / "so762_000260033.opus"
with_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
with_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module", params=["digits-streaming", "digits"], ids=["live", "whole"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The name of a model, and the address of its page."""
    folder = tmp_path_factory.mktemp("page")
    export(request.param, folder, "web", "int8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield request.param, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def sound(tmp_path: Path) -> Path:
    samples, _ = read_sound(RECORDING, 8000)
    return written(tmp_path / "said.wav", (samples * 32767).astype(np.int16))


def transcribed(model: str, source: Path | np.ndarray) -> str:
    recognizer = Recognizer.load(model, "cpu", DecoderOptions(beam=0))
    return recognizer.transcribe(source, None if isinstance(source, Path) else 8000).text


@with_browser
@with_npm
def test_a_file_has_the_text_of_ds2_transcribe(page: tuple[str, str], tmp_path: Path) -> None:
    (model, url), recording = page, sound(tmp_path)

    async def visit() -> None:
        async with browse(url, recording, tmp_path / "profile") as tab:
            await tab.until("document.getElementById('state').textContent === 'ready'")
            root = (await tab.ask("DOM.getDocument"))["root"]["nodeId"]
            node = (await tab.ask("DOM.querySelector", nodeId=root, selector="#file"))["nodeId"]
            await tab.ask("DOM.setFileInputFiles", nodeId=node, files=[str(recording)])
            await tab.until("document.getElementById('state').textContent === 'done'")
            assert await tab.run("document.getElementById('final').textContent") == transcribed(model, recording)
            assert tab.complaints == []

    asyncio.run(visit())


@with_browser
@with_npm
def test_the_microphone_has_the_text_of_ds2_transcribe(page: tuple[str, str], tmp_path: Path) -> None:
    """The text of the samples that came: a busy browser's microphone drops some. Live, words show before the end."""
    (model, url), recording = page, sound(tmp_path)

    async def visit() -> None:
        async with browse(url, recording, tmp_path / "profile", once=False) as tab:
            await tab.until("document.getElementById('state').textContent === 'ready'")
            await tab.run("document.getElementById('microphone').click()")
            await tab.until("heard.length > 5 * 8000")
            if model == "digits-streaming":
                await tab.until("document.getElementById('partial').textContent")
            samples = await tab.run("document.getElementById('stop').click(); heard.slice()")
            await tab.until("document.getElementById('state').textContent === 'done'")
            text = await tab.run("document.getElementById('final').textContent")
            assert text
            assert text == transcribed(model, np.array(samples, np.float32))
            assert tab.complaints == []

    asyncio.run(visit())


def test_npm_that_is_missing_or_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm is not installed"):
        runtime_files()
    (tmp_path / "npm").write_text("#!/bin/sh\necho offline >&2\nexit 1\n")
    (tmp_path / "npm").chmod(0o755)
    with pytest.raises(InputError, match=r"npm cannot fetch onnxruntime-web@.*: offline"):
        runtime_files()
