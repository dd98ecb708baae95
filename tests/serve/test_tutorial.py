"""The client in JavaScript that the tutorial on live streams shows, in a real browser."""

import asyncio
import functools
import re
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers.browser import browse, microphone, needs_browser, recorded
from serve.conftest import DIGITS, RunningServer

from ds2.audio.files import read_audio_array

pytestmark = [needs_browser, pytest.mark.long]
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "live_streams.md"


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """Of a web server that shows this test's folder."""
    files = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory=tmp_path))
    threading.Thread(target=files.serve_forever).start()
    yield f"http://localhost:{files.server_port}"
    files.shutdown()
    files.server_close()


def test_the_page_shows_what_the_microphone_hears(
    start: Callable[..., RunningServer], origin: str, tmp_path: Path
) -> None:
    """The server lets the page in by its origin, as the tutorial starts it."""
    [client] = re.findall(r"cat > client.html <<'END'\n(.*?)^END$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    server = start("--set", f'origins=["{origin}"]')
    (tmp_path / "client.html").write_text(client.replace("27001", str(server.port)))
    samples, _ = read_audio_array(DIGITS / "so762_000050049.opus", 8000)
    speech = recorded(tmp_path / "speech.wav", (samples * 32767).astype("int16"))
    assert asyncio.run(first_result(f"{origin}/client.html", speech)) == "two five eight"


async def first_result(url: str, speech: Path) -> str:
    """The first final result that the page shows after a click on its button."""
    async with browse(url, microphone(speech)) as tab:
        await tab.run("document.querySelector('button').click()")
        return (await tab.until("document.querySelector('pre').textContent")).strip()
