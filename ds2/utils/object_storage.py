"""Files in object storage, such as s3://bucket/corpus/manifest.jsonl, by fsspec.

A folder of this machine mirrors the storage, so that a path is a path everywhere else:

    s3://bucket/corpus/shard-000000.tar  <->  CACHE/s3/bucket/corpus/shard-000000.tar

A file is fetched whole when it is first read; those that were used longest ago make room for it. CACHE is `DS2_CACHE`,
by default ~/.cache/ds2/remote, and holds up to `DS2_CACHE_GB`, by default 100.

An https URL leads to public addresses alone, by its name and by every redirection: a manifest of a stranger must not
ask the machines of this network. `DS2_PRIVATE_NETWORKS`, such as "10.1.0.0/16,fd00::/8", names others that it may.
"""

import hashlib
import ipaddress
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ds2.utils.errors import InputError, WorkerError
from ds2.utils.extras import install_line
from ds2.utils.files import atomic_write, make_folder
from ds2.utils.storage_cache import GB, cache_limit, locked_record, make_room, mark_used, mirror_folder

if TYPE_CHECKING:
    import aiohttp
    from fsspec.callbacks import Callback

SCHEME = re.compile(r"([a-z][a-z0-9]+):/+")  # Path makes s3:/bucket of s3://bucket
PROTOCOLS = ("s3", "gs", "https")  # fsspec has others, which unpack archives, run programs or read this machine
WAITS = (0.5, 2.0, 8.0)  # seconds before another try, after one that failed
LONGEST_NAME = 200  # bytes: the names of a version and of a file that is being fetched are longer

Result = TypeVar("Result")
_current: set[Path] = set()  # files that this process has compared with the storage


class StorageError(WorkerError):
    """A storage that cannot be read, whatever the file."""


def mirrored(path: str | Path) -> Path:
    """Where the file of a URL lies on this machine after it was fetched; the path of any other file.

    Raises:
        InputError: the URL leads out of its storage, or cannot be a path here.
    """
    if (scheme := SCHEME.match(str(path))) is None:
        return Path(path)
    inside = PurePosixPath(str(path)[scheme.end() :])
    if ".." in inside.parts or "\0" in str(path):
        raise InputError(f"{path}: a URL must not hold .. or NUL")
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in inside.parts):
        raise InputError(f"{path}: a name between two slashes is longer than {LONGEST_NAME} bytes")
    return mirror_folder() / scheme[1] / inside


def url_of(path: str | Path) -> str | None:
    """The URL of a file in the mirror; None for any other file."""
    root = os.path.join(mirror_folder(), "")
    if not str(path).startswith(root) or not (inside := os.path.normpath(path)).startswith(root):
        return None
    scheme, _, key = inside.removeprefix(root).partition("/")
    return f"{scheme}://{key}" if key else None


def fetched(path: str | Path) -> Path:
    """A file on this machine; that of a URL, or of a path in the mirror, is fetched unless it is here and unchanged.

    Each process asks the storage once for each file whether it has changed.

    Raises:
        InputError: the storage has no such file, or the URL has another protocol than PROTOCOLS or holds a second URL.
        StorageError: no connection after several tries, no permission, or no package for such a storage.
    """
    path = mirrored(path)
    url = url_of(path)
    if url is None:
        return path
    if "::" in url or url.partition(":")[0] not in PROTOCOLS:
        raise InputError(f"{url}: not a URL of {', '.join(PROTOCOLS)}; fetch the file by other means")
    make_folder(path.parent)
    with locked_record(path) as record:
        if path not in _current or not path.exists():
            _update(path, url, record)
            _current.add(path)
        mark_used(path)
    return path


def _update(path: Path, url: str, record: IO[str]) -> None:
    """Fetches a file whose record is locked, unless it is here in the version of the storage."""
    about = _tried(url, lambda storage, key: storage.info(key))
    version = hashlib.sha256(str(sorted(map(str, about.items()))).encode()).hexdigest()
    if path.exists() and record.read() == version:
        return
    size = about["size"] or 0
    make_room(size)
    with atomic_write(path) as partial:
        _tried(url, lambda storage, key: storage.get_file(key, str(partial), callback=_bound()))
        if partial.stat().st_size < size:
            raise StorageError(f"{url}: broke off after {partial.stat().st_size} of {size} bytes; run it again")
    record.truncate(0)
    record.write(version)


def _bound() -> "Callback":
    """Ends a transfer that outgrows the mirror: a server need not say how much it sends, nor send what it said."""
    from fsspec.callbacks import Callback

    def check(size: int | None, value: int, **_: Any) -> None:
        if value > (most := cache_limit()):
            raise InputError(f"larger than the {most / GB:g} GB of the mirror; DS2_CACHE_GB allows more")

    return Callback(hooks={"bound": check})


def _tried(url: str, work: Callable[[Any, str], Result]) -> Result:
    """What `work` does with the storage and the file's key in it; a try that fails is repeated."""
    import fsspec

    options = {"get_client": _public_client} if url.startswith("http") else {}
    for wait in (*WAITS, None):
        try:
            return work(*fsspec.url_to_fs(url, **options))
        except ImportError as error:
            raise StorageError(f"{url}: {_error_line(error)}; {install_line('remote')}") from error
        except (PermissionError, ValueError) as error:
            raise StorageError(f"{url}: cannot be read ({_error_line(error)})") from error
        except Exception as error:  # every storage has errors of its own
            cause = error.__cause__ or error
            if isinstance(cause, InputError):
                raise StorageError(f"{url}: {cause}") from error
            if isinstance(error, FileNotFoundError) and not type(cause).__module__.startswith("aiohttp"):
                raise InputError(f"{url}: the storage has no such file") from error
            if wait is None:  # fsspec calls a server that does not answer a missing file, too
                tries = len(WAITS) + 1
                raise StorageError(
                    f"{url}: cannot be read in {tries} tries ({_error_line(cause)}); run it again"
                ) from error
        time.sleep(wait)
    raise AssertionError("the last try returns or raises")


async def _public_client(**options: Any) -> "aiohttp.ClientSession":
    import aiohttp

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=_public_socket), **options)


def _public_socket(address: tuple[Any, ...]) -> socket.socket:
    """The socket for a connection to an address, behind the resolution of names and redirections.

    Raises:
        InputError: the address is not public, and not of a network that is allowed.
    """
    family, kind, protocol, _, (host, *_) = address
    here = ipaddress.ip_address(host)
    here = getattr(here, "ipv4_mapped", None) or here
    if not here.is_global and not any(here in network for network in _private_networks()):
        raise InputError(
            f"{here} is an address of a private network; DS2_PRIVATE_NETWORKS names those that are allowed"
        )
    return socket.socket(family, kind, protocol)


def _private_networks() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    names = os.environ.get("DS2_PRIVATE_NETWORKS", "")
    try:
        return [ipaddress.ip_network(name.strip()) for name in names.split(",") if name.strip()]
    except ValueError as error:
        raise InputError(f"DS2_PRIVATE_NETWORKS: {error}; name networks such as 10.1.0.0/16") from error


def _error_line(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
