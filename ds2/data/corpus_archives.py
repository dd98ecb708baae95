"""Archives of a corpus: downloads that resume, are checked, and unpacked once."""

import http.client
import lzma
import os
import tarfile
import urllib.error
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ds2.data.https_files import NOTHING_FOLLOWS, receive
from ds2.data.verified_download import digest_of
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder, read_text, to_disk, write_text

DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)


@dataclass(frozen=True)
class Archive:
    """A file that the makers of a corpus publish."""

    url: str
    checksum: str = ""  # "md5:..." or "sha256:..."; empty: that of the first download, which is kept beside the file

    @property
    def name(self) -> str:
        """The file name: the URL's whole path, since the archives of many corpora are called master.tar.gz."""
        return urllib.parse.urlsplit(self.url).path.strip("/").replace("/", "_")


def fetch_all(archives: Iterable[Archive], folder: Path) -> None:
    """Downloads, checks and unpacks archives into `folder`; what was done before is not done again."""
    make_folder(folder)
    for archive in archives:
        if not _done_mark(folder, archive.name).exists():
            unpack_once(fetch(archive, folder), folder)


def fetch(archive: Archive, folder: Path) -> Path:
    """Downloads into `folder`, from where an earlier try stopped; returns the file.

    Raises:
        InputError: it cannot be fetched, or its checksum is wrong or has changed; then the file is removed.
    """
    path, partial = folder / archive.name, folder / f"{archive.name}.part"
    if not path.exists():
        try:
            _download(archive, partial)
        except (OSError, http.client.HTTPException) as error:
            raise InputError(
                f"{archive.url}: cannot be downloaded ({error}); run it again to resume, or download it to {path}"
            ) from error
        to_disk(partial)
        partial.rename(path)
    if archive.checksum:
        _compare(path, archive.checksum, "download it again")
    else:
        _trust_the_first(path)
    return path


def unpack_once(path: Path, folder: Path) -> None:
    """Unpacks an archive, unless it has been unpacked into `folder` before."""
    done = _done_mark(folder, path.name)
    if not done.exists():
        extract_archive(path, folder)
        os.sync()  # after a power cut the mark must not be there without the files
        done.touch()


def extract_archive(path: Path, folder: Path) -> None:
    """Unpacks a tar (of any compression) or a zip; nothing is written outside `folder`.

    Raises:
        InputError: damaged, or neither a tar nor a zip.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
        else:
            with tarfile.open(path) as archive:
                _extract(archive, folder)
    except DAMAGED as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); remove it and download it again") from error


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:  # Python 3.11.0 to 3.11.3, Debian 12's among them
        archive.extractall(folder, _plain_members(archive, folder.resolve()))


def _plain_members(archive: tarfile.TarFile, folder: Path) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if not (member.isfile() or member.isdir()) or not (folder / member.name).resolve().is_relative_to(folder):
            raise tarfile.TarError(f"{member.name} is a link or lies outside of the archive's folder")
        yield member


def _done_mark(folder: Path, name: str) -> Path:
    """The empty file that marks an archive as unpacked to its end."""
    return folder / f".{name}.done"


def _download(archive: Archive, partial: Path) -> None:
    with partial.open("ab") as file:
        try:
            receive(archive.url, file, archive.name)
        except urllib.error.HTTPError as error:
            if error.code != NOTHING_FOLLOWS or not file.tell():
                raise


def _trust_the_first(path: Path) -> None:
    """Keeps the checksum of a file whose makers publish none; a later download must be the same."""
    record = path.with_name(f"{path.name}.sha256")
    if record.exists():
        _compare(path, read_text(record).strip(), f"if the makers have changed it and you trust them, remove {record}")
        return
    write_text(record, _checksum(path, "sha256") + "\n")


def _compare(path: Path, checksum: str, advice: str) -> None:
    kind = "md5" if checksum.startswith("md5:") else "sha256"
    if _checksum(path, kind) != checksum:
        path.unlink()
        raise InputError(f"{path}: its checksum is not {checksum:.80}; removed, {advice}")


def _checksum(path: Path, kind: str) -> str:
    return f"{kind}:{digest_of(path, kind)}"
