"""Models that are pulled: cut, changed, killed and forbidden downloads, from a real server on this machine."""

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from data.conftest import FileServer

import ds2
from ds2.cli.main import main
from ds2.data import verified_download
from ds2.data.https_files import check_url
from ds2.data.model_index import ModelIndex, pull, read_index, write_index
from ds2.data.verified_download import KnownFile, fetch_known
from ds2.utils.errors import InputError
from ds2.utils.model_names import MODELS, locate

CONTENT = bytes(range(256)) * 4000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of an empty home; no try waits for the next one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DS2_MODELS", raising=False)
    monkeypatch.setattr(verified_download, "WAITS", (0.0, 0.0))
    return tmp_path / "home" / "ds2" / "models"


def published(server: FileServer, content: bytes = CONTENT) -> KnownFile:
    (server.folder / "x.bin").write_bytes(content)
    return KnownFile(f"{server.url}/x.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_download_that_is_cut_goes_on_where_it_broke_off(server: FileServer, tmp_path: Path) -> None:
    server.cuts = [1000, 2000]
    assert fetch_known(published(server), tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert [ranges for _, ranges in server.asked] == [None, "bytes=1000-", "bytes=3000-"]
    assert leftovers(tmp_path) == ["x.bin"]
    assert not fetch_known(published(server), tmp_path / "x.bin")
    assert len(server.asked) == 3  # it is there: the server is not asked


def test_a_download_that_is_cut_too_often_is_resumed_by_the_next_run(server: FileServer, tmp_path: Path) -> None:
    server.cuts = [1000] * 3
    with pytest.raises(InputError, match="run it again to go on behind 3,000 bytes"):
        fetch_known(published(server), tmp_path / "x.bin")
    assert not (tmp_path / "x.bin").exists()
    assert fetch_known(published(server), tmp_path / "x.bin")
    assert server.asked[-1][1] == "bytes=3000-"
    assert (tmp_path / "x.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_sends_all_again(server: FileServer, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [1000]
    fetch_known(published(server), tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"),
    [(CONTENT[::-1], "not the file that the index names"), (CONTENT + b"x", "longer than the 1,024,000 bytes")],
)
def test_a_changed_file_is_refused_and_leaves_nothing(
    server: FileServer, tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        fetch_known(published(server, content), tmp_path / "x.bin")
    assert leftovers(tmp_path) == []


def test_a_changed_file_leaves_the_one_before(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"before")
    with pytest.raises(InputError, match="not the file"):
        fetch_known(published(server, CONTENT[::-1]), tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == b"before"


def test_what_is_shorter_than_the_index_says_is_not_there(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be fetched"):
        fetch_known(published(server, CONTENT[:-1]), tmp_path / "x.bin")
    assert not (tmp_path / "x.bin").exists()


def test_two_at_once_fetch_once(server: FileServer, tmp_path: Path) -> None:
    known, found = published(server), list[bool]()
    threads = [threading.Thread(target=lambda: found.append(fetch_known(known, tmp_path / "x.bin"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False, False, False, True]
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert leftovers(tmp_path) == ["x.bin"]


def test_a_full_disk_is_told_before_anything_is_fetched(server: FileServer, small_disk: Path) -> None:
    with pytest.raises(InputError, match="no room"):
        fetch_known(published(server), small_disk / "x.bin")
    assert server.asked == []


@pytest.mark.parametrize(
    ("url", "came_from"),
    [
        ("http://example.org/x", ""),
        ("ftp://127.0.0.1/x", ""),
        ("file:///etc/passwd", ""),
        ("https:///x", ""),
        ("http://127.0.0.1/x", "https://example.org/models.json"),
        ("https://localhost/x", "https://example.org/models.json"),
    ],
)
def test_urls_that_are_not_allowed(url: str, came_from: str) -> None:
    with pytest.raises(InputError, match=r"not https|leads to this machine"):
        check_url(url, came_from)


def test_urls_that_are_allowed() -> None:
    for url in ("https://example.org/x", "http://localhost:80/x", "http://127.0.0.1/x", "http://[::1]/x"):
        check_url(url)


@pytest.mark.parametrize("target", ["http://example.org/x.bin", "file:///etc/passwd", "ftp://example.org/x"])
def test_redirections_lead_only_where_a_url_may(server: FileServer, tmp_path: Path, target: str) -> None:
    known = published(server)
    server.redirects["/x.bin"] = target
    with pytest.raises(InputError, match=r"not https|is not allowed"):
        fetch_known(known, tmp_path / "x.bin")
    assert not (tmp_path / "x.bin").exists()


def test_an_allowed_redirection_is_followed(server: FileServer, tmp_path: Path) -> None:
    known = published(server)
    server.redirects["/moved.bin"] = f"{server.url}/x.bin"
    assert fetch_known(KnownFile(f"{server.url}/moved.bin", known.size, known.sha256), tmp_path / "x.bin")


@pytest.fixture
def swedish(server: FileServer) -> FileServer:
    """A server with a model, its card and their index."""
    shutil.copy(MODELS / "digits-streaming.safetensors", server.folder / "swedish.safetensors")
    (server.folder / "swedish.md").write_text("A model for tests\n")
    write_index(server.folder)
    return server


def test_a_pulled_model_has_a_name(swedish: FileServer, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="nor the name of one"):
        locate("swedish")
    assert main(["models", "pull", "swedish", "--index", swedish.url]) == 0
    assert capsys.readouterr().out == f"swedish: fetched to {cache}\n"
    assert locate("swedish") == cache / "swedish.safetensors"
    recording = Path(__file__).parents[2] / "recipes" / "digits" / "audio" / "so762_000260033.opus"
    assert ds2.load("swedish").transcribe(recording).text == "three one seven nine"
    assert main(["info", "swedish"]) == 0
    assert "A model for tests" in capsys.readouterr().out
    assert main(["models", "list"]) == 0
    assert "swedish" in capsys.readouterr().out
    assert main(["models", "pull", swedish.url]) == 0
    assert capsys.readouterr().out == f"swedish: already in {cache}\n"


def test_a_model_behind_another_of_its_name_is_said_to_be(
    swedish: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (swedish.folder / "swedish.safetensors").rename(swedish.folder / "english.safetensors")
    write_index(swedish.folder)
    assert main(["models", "pull", str(swedish.folder), "--output", str(tmp_path / "mirror")]) == 0
    told = "ds2: english: another model has this name: --model english takes "
    assert capsys.readouterr().err.startswith(told + str(MODELS / "english.safetensors"))


def test_an_index_shows_what_can_be_pulled(swedish: FileServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--index", f"{swedish.url}/models.json"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["swedish", "1.2", "MB"]


def test_a_folder_needs_no_network(swedish: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a mirror, which DS2_MODELS names and nobody writes to."""
    mirror = tmp_path / "mirror"
    assert main(["models", "pull", str(swedish.folder), "--output", str(mirror)]) == 0
    assert swedish.asked == []
    mirror.chmod(0o555)
    monkeypatch.setenv("DS2_MODELS", str(mirror))
    assert locate("swedish") == mirror / "swedish.safetensors"


def test_a_killed_pull_is_resumed_and_no_half_model_has_a_name(swedish: FileServer, cache: Path) -> None:
    swedish.wait_behind = {"/swedish.safetensors": 300_000}
    process = subprocess.Popen([sys.executable, "-m", "ds2", "models", "pull", swedish.url], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size == 300_000 for path in cache.glob(".swedish.safetensors.*.part")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    with pytest.raises(InputError, match="nor the name of one"):
        locate("swedish")
    swedish.wait_behind.clear()
    assert main(["models", "pull", swedish.url]) == 0
    assert swedish.asked[-2:] == [("/swedish.safetensors", "bytes=300000-"), ("/swedish.md", None)]
    assert locate("swedish").read_bytes() == (MODELS / "digits-streaming.safetensors").read_bytes()


def test_a_model_that_changed_after_the_index_was_made_is_refused(swedish: FileServer, cache: Path) -> None:
    """Nor is its card left behind."""
    data = bytearray((swedish.folder / "swedish.safetensors").read_bytes())
    data[-1] ^= 1
    (swedish.folder / "swedish.safetensors").write_bytes(data)
    with pytest.raises(InputError, match="not the file that the index names"):
        list(pull(read_index(swedish.url), ["swedish"]))
    assert leftovers(cache) == []


def test_a_model_of_the_package_is_not_fetched_again(server: FileServer, cache: Path) -> None:
    shutil.copy(MODELS / "digits.safetensors", server.folder)
    write_index(server.folder)
    assert list(pull(read_index(server.url), ["digits"])) == [(MODELS / "digits.safetensors", False)]
    shutil.copy(MODELS / "digits-streaming.safetensors", server.folder / "digits.safetensors")
    write_index(server.folder)
    with pytest.raises(InputError, match="the package has another model of this name"):
        list(pull(read_index(server.url), ["digits"]))
    assert not cache.exists()


SUM = "0" * 64
ENTRY: dict[str, Any] = {"bundle": {"size": 1, "sha256": SUM}}


@pytest.mark.parametrize(
    "index",
    [
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        json.dumps({"models": {"../x": ENTRY}}).encode(),
        json.dumps({"models": {"a.b": ENTRY}}).encode(),
        json.dumps({"models": {"a": {"bundle": {"size": -1, "sha256": SUM}}}}).encode(),
        json.dumps({"models": {"a": {"bundle": {"size": 1 << 40, "sha256": SUM}}}}).encode(),
        json.dumps({"models": {"a": {"bundle": {"size": 1, "sha256": "0"}}}}).encode(),
    ],
    ids=range(9),
)
def test_a_file_that_is_no_index_is_refused(tmp_path: Path, index: bytes) -> None:
    (tmp_path / "models.json").write_bytes(index)
    with pytest.raises(InputError, match="not an index of models"):
        read_index(str(tmp_path))


def test_an_index_is_read_up_to_its_limit(server: FileServer) -> None:
    (server.folder / "models.json").write_bytes(b" " * (2 << 20))
    with pytest.raises(InputError, match="longer than"):
        read_index(server.url)
    with pytest.raises(InputError, match="cannot read the index"):
        read_index(f"{server.url}/nowhere")


def test_an_index_of_the_network_names_no_url_of_this_machine() -> None:
    models = write_models({"size": 1, "sha256": SUM, "url": "http://127.0.0.1:1/x"})
    with pytest.raises(InputError, match="leads to this machine"):
        ModelIndex("https://example.org/models.json", models).files("a")
    with pytest.raises(InputError, match="not https"):
        ModelIndex(
            "https://example.org/models.json", write_models({"size": 1, "sha256": SUM, "url": "file:///x"})
        ).files("a")


def write_models(bundle: dict[str, Any]) -> Any:
    import msgspec

    from ds2.data.model_index import IndexFormat

    return msgspec.convert({"models": {"a": {"bundle": bundle}}}, IndexFormat).models


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swedish"], "in which index?"),
        (["german", "--index", "."], "no model of"),
        (["./gone"], "cannot read the index"),
    ],
)
def test_what_cannot_be_pulled_is_told_in_one_line(
    swedish: FileServer,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(swedish.folder)
    assert main(["models", "pull", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1


def test_an_index_is_of_bundles(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no bundles"):
        write_index(tmp_path)
    (tmp_path / "a.safetensors").write_text("no bundle")
    with pytest.raises(InputError, match="not a ds2 model bundle"):
        write_index(tmp_path)


def test_what_is_no_model_is_left_out_of_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(MODELS / "digits.safetensors", tmp_path / "swedish.safetensors")
    shutil.copy(MODELS / "digits.safetensors", tmp_path / "my model.v2.safetensors")
    (tmp_path / "half.safetensors").write_text("no bundle")
    assert main(["models", "index", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.out == f"{tmp_path}/models.json: swedish\n"
    damaged, misnamed, count = output.err.splitlines()
    assert "half.safetensors: not a ds2 model bundle" in damaged
    assert "my model.v2.safetensors: the name of a model has letters, digits, - and _ only; rename it" in misnamed
    assert count == "ds2: 2 left out"
    assert list(read_index(str(tmp_path)).models) == ["swedish"]
