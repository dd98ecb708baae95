"""deploy/nginx.conf and deploy/Caddyfile with the real nginx and Caddy before a real server."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from serve.conftest import DIGITS, RunningServer
from websockets.sync.client import connect

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "speech.example.org"
RECORDING = DIGITS / "so762_000260033.opus"


@pytest.fixture(scope="module")
def proxied(start: Callable[..., RunningServer]) -> RunningServer:
    """Configured as the first lines of the proxies' files say."""
    return start("--set", f'hosts=["{NAME}"]', "--set", 'trusted_proxies=["127.0.0.1"]')


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of NAME, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    pair = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}"]
    command += ["-addext", f"subjectAltName=DNS:{NAME}", "-out", str(pair[0]), "-keyout", str(pair[1])]
    subprocess.run(command, check=True, capture_output=True)
    return pair


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def nginx(folder: Path, port: int, behind: int, certificate: tuple[Path, Path]) -> list[str]:
    """The command that runs deploy/nginx.conf on `port`."""
    site = (DEPLOY / "nginx.conf").read_text()
    site = site.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace(
        "127.0.0.1:2700", f"127.0.0.1:{behind}"
    )
    site = site.replace(f"/etc/ssl/{NAME}.pem", str(certificate[0]))
    site = site.replace(f"/etc/ssl/private/{NAME}.key", str(certificate[1]))
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    http = f"http {{\naccess_log off;\n{paths}{site}}}\n"
    main = f"user root;\ndaemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(main + http)
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def caddy(folder: Path, port: int, behind: int, certificate: tuple[Path, Path]) -> list[str]:
    """The command that runs deploy/Caddyfile on `port`."""
    site = (DEPLOY / "Caddyfile").read_text().replace("127.0.0.1:2700", f"127.0.0.1:{behind}")
    tls = f"{NAME}:{port} {{\n\ttls {certificate[0]} {certificate[1]}\n"
    site = site.replace(f"{NAME} {{\n", tls, 1)
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@pytest.fixture(
    params=[
        pytest.param(proxy, id=proxy.__name__, marks=pytest.mark.skipif(
            shutil.which(proxy.__name__) is None, reason=f"needs Debian's package {package}"))
        for proxy, package in ((nginx, "nginx-light"), (caddy, "caddy"))
    ]
)  # fmt: skip
def port(
    request: pytest.FixtureRequest, tmp_path: Path, proxied: RunningServer, certificate: tuple[Path, Path]
) -> Iterator[int]:
    """The port of a running proxy."""
    port = free_port()
    command = request.param(tmp_path, port, proxied.port, certificate)
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={"HOME": str(tmp_path), "PATH": "/usr/sbin:/usr/bin"}
        )
    try:
        while process.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 10).close()
                break
            time.sleep(0.05)
        else:
            pytest.fail((tmp_path / "log").read_text())
        yield port
    finally:
        process.terminate()
        process.wait()


def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


def test_uploads_pass_and_metrics_do_not(port: int, certificate: tuple[Path, Path]) -> None:
    options = {"headers": {"host": NAME}, "extensions": {"sni_hostname": NAME}}
    with httpx.Client(verify=trusting(certificate), base_url=f"https://127.0.0.1:{port}", timeout=100) as client:
        files = {"file": (RECORDING.name, RECORDING.read_bytes())}
        answer = client.post("/v1/audio/transcriptions", files=files, data={"model": "digits-streaming"}, **options)
        assert answer.json()["text"].lower() == "three one seven nine"
        assert client.get("/metrics", **options).status_code == 403
        assert client.get("/readyz", **options).text == "ready\n"


def test_a_live_stream_passes(port: int, certificate: tuple[Path, Path], spoken: dict[str, np.ndarray]) -> None:
    reference, samples = next(iter(spoken.items()))
    plain = socket.create_connection(("127.0.0.1", port), 10)
    with connect(f"wss://{NAME}:{port}", sock=plain, ssl=trusting(certificate), server_hostname=NAME) as live:
        live.send(samples.tobytes())
        live.send('{"eof": 1}')
        replies = [json.loads(reply) for reply in live]
    assert " ".join(reply["text"] for reply in replies if reply.get("text")) == reference
