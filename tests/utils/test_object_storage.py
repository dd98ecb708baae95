"""Corpora in object storage, on real servers of this machine: S3 by moto, and HTTP whose connections break."""

import contextlib
import http.server
import importlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from helpers.training import assert_same_weights, wait_for

from ds2.audio.tensors import read_audio
from ds2.cli.main import main
from ds2.data.columnar import durations
from ds2.data.corpus_sampling import SamplingConfig
from ds2.data.dataset import SpeechDataset
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.prefetch import AHEAD, PrefetchingSampler
from ds2.data.sampler import Share, SortaGradSampler, Sources
from ds2.data.shards import ShardConfig, shards_of, write_shards
from ds2.text import Tokenizer
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.trainer import Trainer
from ds2.utils import object_storage, storage_cache
from ds2.utils.config import load_config
from ds2.utils.errors import InputError
from ds2.utils.object_storage import StorageError, fetched, mirrored, url_of

pytest.importorskip("s3fs", reason="needs the extra remote")
pytest.importorskip("moto", reason="needs moto, of the extra dev")

SECOND = ShardConfig(hours=1 / 3600)
PATIENCE = 120  # seconds


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of S3."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while not answers(port):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(PATIENCE)


def test_a_storage_whose_package_is_missing_names_the_extra(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.implementations.http", None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, "https", raising=False)
    with pytest.raises(StorageError, match=r"example\.org/a\.wav: .* '\.\[remote\]'"):
        fetched("https://example.org/a.wav")


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DS2_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(object_storage, "WAITS", (0.01, 0.01, 0.01))
    return tmp_path / "cache"


@pytest.fixture
def bucket(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], str]]:
    """bucket(folder): the URL of a folder that was copied to S3; the bucket is emptied after the test."""
    import s3fs

    variables = {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in {**variables, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # connections to the server of an earlier run of this module
    storage = s3fs.S3FileSystem(skip_instance_cache=True)
    storage.mkdir("corpora")

    def copy(folder: Path) -> str:
        storage.put(f"{folder}/", f"corpora/{folder.name}/", recursive=True)
        return f"s3://corpora/{folder.name}"

    yield copy
    storage.rm("corpora", recursive=True)


@pytest.fixture
def corpus(spoken_digits: Callable[[int], Path], bucket: Callable[[Path], str], tmp_path: Path) -> str:
    """The URL of a folder of a dozen shards."""
    write_shards(list(read_manifest(spoken_digits(30))), tmp_path / "shards", SECOND)
    return bucket(tmp_path / "shards")


def shards_in(cache: Path) -> set[str]:
    return {path.name for path in cache.rglob("*.tar")}


def test_paths_of_the_mirror_are_urls(cache: Path) -> None:
    for url in ("s3://bucket/a/b.tar", "gs://bucket/c.flac", "https://host:80/d.tar"):
        assert url_of(mirrored(url)) == url
        assert mirrored(Path(url)) == mirrored(url)
        assert mirrored(url).is_relative_to(cache)
    assert mirrored("a/b.wav") == Path("a/b.wav")
    assert url_of("/a/b.wav") is None
    assert url_of(cache / "s3" / ".." / ".." / "b.wav") is None
    with pytest.raises(InputError, match=r"must not hold \.\."):
        mirrored("s3://bucket/../../../etc/passwd")
    with pytest.raises(InputError, match="NUL"):
        mirrored("s3://bucket/a\0.wav")
    assert mirrored(f"s3://bucket/{'a' * 200}") == cache / "s3" / "bucket" / ("a" * 200)
    with pytest.raises(InputError, match="longer than 200 bytes"):
        mirrored(f"s3://bucket/{'é' * 101}/a.wav")


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "memory://a.wav",
        "reference://x::spec.json",
        "s3://bucket/a.zip::zip://b.wav",
        "https://host/a::b",
        "github://owner:name@main/a.wav",
        "local://etc/passwd",
    ],
)
def test_only_object_storage_is_read(url: str, cache: Path, tmp_path: Path) -> None:
    """fsspec knows protocols that chain, unpack without limit, or reach hosts within a network."""
    with pytest.raises(InputError, match="not a URL of s3, gs, https"):
        read_audio(Path(url))
    with pytest.raises(InputError, match="not a URL of s3, gs, https"):
        read_manifest(mirrored(url))
    assert not cache.exists() or not any(path.is_file() for path in cache.rglob("*"))


def test_a_manifest_in_a_bucket_is_one_like_any_other(corpus: str, cache: Path, tmp_path: Path) -> None:
    """A shard is fetched when it is read first, not before; what is written names URLs."""
    local, there = read_manifest(tmp_path / "shards" / "manifest.jsonl"), read_manifest(f"{corpus}/manifest.jsonl")
    assert [each.text for each in there] == [each.text for each in local]
    assert not shards_in(cache)
    for one, other in zip(local[:3], there[:3], strict=True):
        assert read_audio(one.audio_path)[0].equal(read_audio(other.audio_path)[0])
    assert len(shards_in(cache)) <= 3
    for name in ("again.jsonl", "again.arrow"):
        write_manifest(tmp_path / name, there)
        assert b"s3://corpora/shards/shard-000000.tar/" in (tmp_path / name).read_bytes()
        assert [each.audio_path for each in read_manifest(tmp_path / name)] == [each.audio_path for each in there]
        assert shards_of(read_manifest(tmp_path / name))[1] == shards_of(there)[1]
    assert main(["data", "compile", f"{corpus}/manifest.jsonl", "-o", str(tmp_path / "c.arrow")]) == 0
    assert list(read_manifest(tmp_path / "c.arrow")) == list(there)


def test_a_file_that_changed_in_the_bucket_is_fetched_again(
    bucket: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for text in ("one", "two", "two"):
        (folder / "a.txt").write_text(text)
        url = bucket(folder)
        monkeypatch.setattr(object_storage, "_current", set())  # as in another process
        assert fetched(f"{url}/a.txt").read_text() == text


def test_the_cache_keeps_its_size(corpus: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard that was used longest ago makes room; it is fetched again when it is read."""
    there = read_manifest(f"{corpus}/manifest.jsonl")
    archives = [archive for archive in shards_of(there)[1] if archive]
    fetched(archives[0]), fetched(archives[1]), fetched(archives[2])
    for age, archive in zip((100, 300, 200), archives[:3], strict=True):
        os.utime(archive, (time.time() - age, archive.stat().st_mtime))
    filled = sum(path.stat().st_size for path in cache.rglob("[!.]*") if path.is_file())
    to_come = (tmp_path / "shards" / archives[3].name).stat().st_size
    monkeypatch.setenv("DS2_CACHE_GB", str((filled + to_come - 1) / 1e9))
    fetched(archives[3])
    assert shards_in(cache) == {archives[number].name for number in (0, 2, 3)}
    assert read_audio(next(each.audio_path for each in there if each.audio_path.parent == archives[1]))[1] == 8000


def test_a_file_that_another_process_is_about_to_use_is_not_removed(
    corpus: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = [archive for archive in shards_of(read_manifest(f"{corpus}/manifest.jsonl"))[1] if archive]
    fetched(archives[0]), fetched(archives[1])
    for age, archive in zip((300, 200), archives[:2], strict=True):
        os.utime(archive, (time.time() - age, archive.stat().st_mtime))
    monkeypatch.setenv("DS2_CACHE_GB", str((archives[0].stat().st_size + archives[1].stat().st_size) / 1e9))
    with storage_cache.locked_record(archives[0]):
        fetched(archives[2])
    assert shards_in(cache) == {archives[0].name, archives[2].name}


def test_processes_that_share_a_cache_that_is_too_small_all_read_on(corpus: str, cache: Path) -> None:
    """Each removes what the others have just read, for none of it counts as in use."""
    there = read_manifest(f"{corpus}/manifest.jsonl")
    size = max(fetched(archive).stat().st_size for archive in shards_of(there)[1] if archive)
    program = f"""
import random
from ds2.data.manifest import read_manifest
from ds2.data.shards import shards_of
from ds2.utils import object_storage, storage_cache
storage_cache.IN_USE = -1.0
archives = [archive for archive in shards_of(read_manifest("{corpus}/manifest.jsonl"))[1] if archive]
for archive in random.choices(archives, k=40):
    object_storage._current.clear()
    object_storage.fetched(archive)
"""
    environment = {**os.environ, "DS2_CACHE_GB": str(2.5 * size / 1e9)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors


@pytest.mark.parametrize("size", ["many", "nan", "-1", "0", "inf"])
def test_a_size_of_the_cache_that_is_none_ends_in_one_line(
    size: str, corpus: str, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DS2_CACHE_GB", size)
    assert main(["info", f"{corpus}/manifest.jsonl"]) == 2
    assert f"DS2_CACHE_GB: {size}: expected a number of gigabytes above 0" in capsys.readouterr().err


def test_ranks_read_shards_of_their_own_which_are_fetched_ahead(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[set[int]]] = []  # shards, by rank and epoch
    for rank in range(2):
        monkeypatch.setenv("DS2_CACHE", str(tmp_path / f"rank{rank}"))
        there = read_manifest(f"{corpus}/manifest.jsonl")
        shards, archives = shards_of(there)
        sampler = SortaGradSampler(
            durations(there), 4, 1, None, Share(rank, 2), SamplingConfig(open_shards=4), Sources((), shards)
        )
        read.append([])
        for epoch in range(2):
            sampler.begin(epoch)
            own = sorted({int(shards[index]) for keys in sampler for _, index in keys})
            assert own == sorted(shard for _, shard in sampler.first_uses(sampler.remaining()))
            read[rank].append(set(own))
        minibatches = iter(PrefetchingSampler(sampler, archives))
        next(minibatches)
        until = time.monotonic() + PATIENCE
        while len(shards_in(tmp_path / f"rank{rank}")) < AHEAD:  # though nothing was read
            assert time.monotonic() < until
            time.sleep(0.05)
        minibatches.close()  # type: ignore[attr-defined]
        names = {archive.name for number, archive in enumerate(archives) if number in own and archive}
        assert shards_in(tmp_path / f"rank{rank}") <= names
    assert not read[0][0] & read[1][0]
    assert read[0][0] == read[0][1]
    assert read[0][0] | read[1][0] == set(range(len(archives)))


@pytest.mark.long
def test_a_training_killed_within_a_shard_resumes_to_the_same_weights(corpus: str, cache: Path, tmp_path: Path) -> None:
    """It is killed in the second epoch, and its mirror is lost. The same shards on a disk give the same weights."""
    toml = """
epochs = 3
batch_size = 4
checkpoint_minutes = 1e-6
[data]
train = ["SOURCE/manifest.jsonl"]
dev = "SOURCE/manifest.jsonl"
[sampling]
open_shards = 3
[model]
hidden = 16
recurrent_layers = 1
dropout = 0.1
convolutions = [{channels = 4, kernel = [11, 5], stride = [2, 2]}]
[model.frontend]
sample_rate = 8000
"""

    for name, source in (("disk", str(tmp_path / "shards")), ("bucket", corpus)):
        (tmp_path / f"{name}.toml").write_text(toml.replace("SOURCE", source))
    Trainer(load_config(TrainConfig, tmp_path / "disk.toml"), tmp_path / "disk").run()
    command = [sys.executable, "-m", "ds2", "train", f"{tmp_path}/bucket.toml", "--output", str(tmp_path / "bucket")]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    killed = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(tmp_path / "bucket" / "metrics.jsonl", killed)  # of the first epoch
    time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    progress = load_checkpoint(tmp_path / "bucket" / "checkpoint.pt")["state"]
    assert progress["epoch"] < 3
    assert len(shards_in(cache)) > 3
    shutil.rmtree(cache)
    Trainer(load_config(TrainConfig, tmp_path / "bucket.toml"), tmp_path / "bucket").run()
    assert_same_weights(tmp_path / "disk", tmp_path / "bucket")


def test_missing_objects_skip_utterances_and_name_the_object(corpus: str) -> None:
    import s3fs

    there = read_manifest(f"{corpus}/manifest.jsonl")
    s3fs.S3FileSystem(skip_instance_cache=True).rm("corpora/shards/shard-000000.tar")
    with pytest.raises(InputError, match=r"^s3://corpora/shards/shard-000000\.tar: the storage has no such file$"):
        fetched(f"{corpus}/shard-000000.tar")
    gone = next(index for index, each in enumerate(there) if each.audio_path.parent.name == "shard-000000.tar")
    item = SpeechDataset(there, Tokenizer.from_texts(each.text for each in there), 8000)[0, gone]
    assert str(item) == "s3://corpora/shards/shard-000000.tar: the storage has no such file"
    with pytest.raises(InputError, match=r"^s3://none/m\.jsonl: the storage has no such"):
        read_manifest("s3://none/m.jsonl")


def test_wrong_credentials_end_in_one_line(
    corpus: str, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where they come from a process that loads data, which passes its traceback on."""

    def check_from_now_on(actions: bytes) -> None:
        request = urllib.request.Request(f"{server}/moto-api/reset-auth", actions, {"Content-Type": "text/plain"})
        urllib.request.urlopen(request).close()

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    check_from_now_on(b"0")
    try:
        assert main(["data", "stats", f"{corpus}/manifest.jsonl"]) == 2
    finally:
        check_from_now_on(b"inf")
    line = capsys.readouterr().err
    assert re.fullmatch(r"ds2: s3://corpora/shards/manifest\.jsonl: cannot be read \(.+\)\n", line)
    error = StorageError(f"Caught StorageError in worker 0.\nTraceback:\n  x\nds2.data.remote.StorageError: {line}")
    assert f"{error}\n" == line


def test_a_broken_connection_is_tried_again(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "PROTOCOLS", ("http",))
    monkeypatch.setenv("DS2_PRIVATE_NETWORKS", "127.0.0.1/32")
    data = bytes(range(256)) * 4000
    broken = iter([True, True])

    class Server(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(data[: 1000 if self.path == "/gone" or next(broken, False) else None])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert fetched(f"{url}/a.tar").read_bytes() == data
            with pytest.raises(StorageError, match=rf"^{url}/gone: cannot be read in 4 tries \(.+\); run it again$"):
                fetched(f"{url}/gone")
            assert not mirrored(f"{url}/gone").exists()
        finally:
            server.shutdown()
    with pytest.raises(StorageError, match="cannot be read in 4 tries"):
        fetched(f"{url}/b.tar")


def test_a_file_without_end_does_not_outgrow_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says nothing of its length; what was fetched of it is gone."""
    monkeypatch.setattr(object_storage, "PROTOCOLS", ("http",))
    monkeypatch.setenv("DS2_PRIVATE_NETWORKS", "127.0.0.1/32")
    monkeypatch.setenv("DS2_CACHE_GB", "0.01")
    sent: list[int] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                while self.command == "GET" and len(sent) < 64:
                    self.wfile.write(bytes(1 << 20))
                    sent.append(1 << 20)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with pytest.raises(
                StorageError, match=r"a\.tar: cannot be read \(larger than the 0\.01 GB of the mirror; DS2_CACHE_GB"
            ):
                fetched(f"http://127.0.0.1:{server.server_port}/a.tar")
        finally:
            server.shutdown()
    assert not list(cache.rglob("*.tar"))


def test_a_clock_that_was_set_back_keeps_no_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their last use lies in the future then, and they are in nobody's use."""
    old = cache / "s3" / "corpora" / "old.tar"
    old.parent.mkdir(parents=True)
    old.write_bytes(bytes(1000))
    os.utime(old, (time.time() + 3600, time.time()))
    monkeypatch.setenv("DS2_CACHE_GB", "1e-6")
    storage_cache.make_room(500)
    assert not old.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[0:0:0:0:0:ffff:127.0.0.1]"])
def test_a_url_does_not_lead_into_a_private_network(host: str, cache: Path) -> None:
    """Neither by an address nor by a name: nobody connects."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://{host}:{listener.getsockname()[1]}/a.wav"
        with pytest.raises(StorageError, match=r"a\.wav: .* is an address of a private network; DS2_PRIVATE_NETWORKS"):
            fetched(url)
        listener.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_redirection_does_not_lead_into_a_private_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 is allowed here, and stands for a public host; 127.0.0.2 is behind it."""
    monkeypatch.setattr(object_storage, "PROTOCOLS", ("http",))
    monkeypatch.setenv("DS2_PRIVATE_NETWORKS", "10.0.0.0/8, 127.0.0.1/32")
    asked: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.connection.getsockname()[0])
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.2:{server.server_port}/secret")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with pytest.raises(StorageError, match=r"a\.wav: 127\.0\.0\.2 is an address of a private network"):
                fetched(f"http://127.0.0.1:{server.server_port}/a.wav")
        finally:
            server.shutdown()
    assert set(asked) == {"127.0.0.1"}
