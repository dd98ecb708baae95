"""The exported page in a real browser: its text is that of `ds2 transcribe`, or live that of `ds2 listen`."""

import asyncio
import functools
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from helpers.browser import needs_browser, recorded
from serve.test_page import page as browse

from ds2.audio.files import read_audio_array
from ds2.export.options import Weights
from ds2.export.package import export
from ds2.export.web import runtime_files
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
RECORDINGS = [AUDIO / "so762_000260033.opus", AUDIO / "so762_000530030.opus"]
with_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def served(recognizer: Recognizer, folder: Path, weights: Weights) -> Iterator[str]:
    """The address of the page of a model and its search."""
    export(recognizer.name, folder, "web", weights, recognizer.beam)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module", params=[("digits-streaming", None), ("digits", None), ("digits-streaming", 0)], ids=str)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recognizer, str]]:
    """A recogniser, by its closed search or greedy, and the address of its page.

    In float32: int8 changes a letter of one microphone's sound in forty, for a busy browser drops what it likes.
    """
    model, beam = request.param
    recognizer = Recognizer.load(model, "cpu", DecoderOptions(beam=beam))
    with served(recognizer, tmp_path_factory.mktemp("page"), "float32") as url:
        yield recognizer, url


def sound(tmp_path: Path, rate: int = 8000) -> Path:
    """Two recordings with a pause between them."""
    parts = [read_audio_array(recording, rate)[0] for recording in RECORDINGS]
    samples = np.concatenate([parts[0], np.zeros(rate, np.float32), parts[1]])
    return recorded(tmp_path / "said.wav", (samples * 32767).astype(np.int16), rate)


def expected(recognizer: Recognizer, samples: np.ndarray) -> str:
    """The text of (N,) samples at the model's rate, heard as the page hears them."""
    if not recognizer.model.config.streams:
        return recognizer.transcribe(samples, recognizer.sample_rate).text
    stream = recognizer.stream()
    stream.accept(samples, recognizer.sample_rate)
    return " ".join(transcript.text for transcript in stream.finish())


async def shown_for_file(url: str, recording: Path) -> dict[str, str]:
    """What the page shows: `final`, the text; seconds of computing for each of sound: `factor`, and of it `search`."""
    async with browse(url, recording) as tab:
        await tab.until("document.getElementById('state').textContent === 'ready'")
        await tab.choose(recording)
        await tab.until("document.getElementById('state').textContent === 'done'")
        assert tab.complaints == []
        names = ("final", "factor", "search")
        return {name: str(await tab.run(f"document.getElementById('{name}').textContent")) for name in names}


@pytest.mark.long
@needs_browser
@with_npm
def test_a_file_has_our_text(page: tuple[Recognizer, str], tmp_path: Path) -> None:
    (recognizer, url), recording = page, sound(tmp_path)
    shown = asyncio.run(shown_for_file(url, recording))
    assert shown["final"] == expected(recognizer, read_audio_array(recording)[0]) != ""


@pytest.mark.long
@needs_browser
@with_npm
def test_inverted_channels_do_not_cancel_out(page: tuple[Recognizer, str], tmp_path: Path) -> None:
    (recognizer, url), mono, stereo = page, read_audio_array(sound(tmp_path))[0], tmp_path / "stereo.wav"
    soundfile.write(stereo, np.stack([mono, -mono], 1), 8000, "FLOAT")
    shown = asyncio.run(shown_for_file(url, stereo))
    assert shown["final"] == expected(recognizer, mono) != ""


@pytest.mark.long
@needs_browser
@with_npm
def test_english_is_searched_by_phones(tmp_path: Path) -> None:
    """With the bundle's language model of 7.9 million n-grams."""
    recognizer, recording = Recognizer.load("english", "cpu"), sound(tmp_path, 16000)
    with served(recognizer, tmp_path / "page", "float32") as url:
        shown = asyncio.run(shown_for_file(url, recording))
    assert shown["final"] == expected(recognizer, read_audio_array(recording)[0]) != ""


@pytest.mark.long
@needs_browser
@with_npm
def test_the_microphone_has_our_text(page: tuple[Recognizer, str], tmp_path: Path) -> None:
    """The text of the samples that came: a busy browser's microphone drops some. Live, words show before the end."""
    (recognizer, url), recording = page, sound(tmp_path)

    async def visit() -> None:
        async with browse(url, recording, once=False) as tab:
            await tab.until("document.getElementById('state').textContent === 'ready'")
            await tab.run("document.getElementById('microphone').click()")
            await tab.until("heard.length > 7 * 8000")
            if not recognizer.model.config.bidirectional:
                await tab.until("document.getElementById('partial').textContent")
            samples = await tab.run("document.getElementById('stop').click(); heard.slice()")
            await tab.until("document.getElementById('state').textContent === 'done'")
            text = await tab.run("document.getElementById('final').textContent")
            assert text
            assert text == expected(recognizer, np.array(samples, np.float32))
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
