"""Downloads: resumed where they broke off, checked, unpacked once. The server is a real one, on this machine."""

import hashlib
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
from data.conftest import FileServer

from ds2.data.corpus_archives import Archive, extract_archive, fetch, fetch_all
from ds2.utils.errors import InputError

CONTENT = bytes(range(256)) * 1000


def archive(server: FileServer, checksum: str = "", content: bytes = CONTENT) -> Archive:
    (server.folder / "corpus.bin").write_bytes(content)
    return Archive(f"{server.url}/corpus.bin", checksum)


def ranges(server: FileServer) -> list[str | None]:
    return [wanted for _, wanted in server.asked]


def test_goes_on_where_it_broke_off(tmp_path: Path, server: FileServer) -> None:
    server.cuts = [100_000]
    good = archive(server, f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")
    with pytest.raises(InputError, match="run it again to resume"):
        fetch(good, tmp_path)
    assert fetch(good, tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=100000-"]
    fetch(good, tmp_path)
    assert len(server.asked) == 2  # it is there


@pytest.mark.parametrize("target", ["http://example.org/x", "http://10.0.0.1/x", "ftp://example.org/x"])
def test_a_redirection_from_https_leads_to_no_http(tmp_path: Path, server: FileServer, target: str) -> None:
    """The server of this machine stands for one of https."""
    server.redirects["/corpus.bin"] = target
    with pytest.raises(InputError, match=r"not https|is not allowed"):
        fetch(archive(server), tmp_path)
    with pytest.raises(InputError, match="not https"):
        fetch(Archive("http://example.org/corpus.bin"), tmp_path)


def test_a_download_that_is_complete_is_not_repeated(tmp_path: Path, server: FileServer) -> None:
    """It was killed after the last byte: the server has nothing behind it."""
    (tmp_path / "corpus.bin.part").write_bytes(CONTENT)
    assert fetch(archive(server), tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [f"bytes={len(CONTENT)}-"]


def test_what_fails_its_checksum_is_removed(tmp_path: Path, server: FileServer) -> None:
    with pytest.raises(InputError, match=r"corpus\.bin: its checksum is not md5:0; removed"):
        fetch(archive(server, "md5:0"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_published_checksum_a_later_download_must_be_the_same(tmp_path: Path, server: FileServer) -> None:
    path = fetch(archive(server), tmp_path)
    path.unlink()
    assert fetch(archive(server), tmp_path).read_bytes() == CONTENT
    path.unlink()
    with pytest.raises(
        InputError, match=rf"corpus\.bin: its checksum is not sha256:\w{{64}}; removed, if .* {path}\.sha256"
    ):
        fetch(archive(server, content=CONTENT[::-1]), tmp_path)
    assert not path.exists()
    (tmp_path / "corpus.bin.sha256").unlink()
    assert fetch(archive(server, content=CONTENT[::-1]), tmp_path).read_bytes() == CONTENT[::-1]


def test_archives_of_one_name_lie_side_by_side() -> None:
    pages = [f"https://example.org/voice-{name}/archive/master.tar.gz" for name in ("a", "b")]
    assert [Archive(page).name for page in pages] == ["voice-a_archive_master.tar.gz", "voice-b_archive_master.tar.gz"]


def test_answer_in_pieces_that_breaks_off_is_told_in_one_line(tmp_path: Path, server: FileServer) -> None:
    server.chunked = True
    with pytest.raises(InputError, match="cannot be downloaded"):
        fetch(archive(server), tmp_path)


def test_unreachable_server_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be downloaded"):
        fetch(Archive("http://127.0.0.1:9/x.tar"), tmp_path)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_archives_are_unpacked_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.txt").write_text("hello")
    target = tmp_path / "corpus"
    target.mkdir()
    if name.endswith("zip"):
        with zipfile.ZipFile(target / name, "w") as archive:
            archive.write(tmp_path / "x.txt", "in/x.txt")
    else:
        with tarfile.open(target / name, "w:gz") as archive:
            archive.add(tmp_path / "x.txt", "in/x.txt")
    fetch_all([Archive(f"http://127.0.0.1:9/{name}")], target)  # fetched by hand: nothing is asked of the server
    assert (target / "in" / "x.txt").read_text() == "hello"
    (target / "in" / "x.txt").unlink()
    fetch_all([Archive(f"http://127.0.0.1:9/{name}")], target)
    assert not (target / "in" / "x.txt").exists()


@pytest.mark.parametrize("filters", [True, False])
def test_archives_write_nothing_outside_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: bool
) -> None:
    """Without filters, too, as Python 3.11.2 is."""
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "x.txt").write_text("evil")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "x.txt", "../outside.txt")
    (tmp_path / "in").mkdir()
    with pytest.raises(InputError, match="cannot be unpacked"):
        extract_archive(tmp_path / "a.tar", tmp_path / "in")
    assert not (tmp_path / "outside.txt").exists()
    (tmp_path / "b.tar").write_text("no tar")
    with pytest.raises(InputError, match="cannot be unpacked"):
        extract_archive(tmp_path / "b.tar", tmp_path / "in")


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_archives_damaged_in_the_middle_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x.bin").write_bytes(random.Random(0).randbytes(100_000))
    with tarfile.open(tmp_path / "a.tar", f"w:{kind}") as archive:
        archive.add(tmp_path / "x.bin", "x.bin")
    data = bytearray((tmp_path / "a.tar").read_bytes())
    data[40_000:80_000] = b"\xff" * 40_000
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.tar: cannot be unpacked"):
        extract_archive(tmp_path / "a.tar", tmp_path / "in")
