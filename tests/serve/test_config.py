"""How `ds2 serve` is told things, and how it refuses."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serve.conftest import RunningServer

from ds2.bundle import locate
from ds2.cli import main
from ds2.serve.config import read_serve_config
from ds2.utils.errors import InputError


def test_a_file_then_the_environment_then_flags(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('port = 1\nhost = "0.0.0.0"\nworkers = 2\n[limits]\nstreams = 5\nidle = 1.5\n')
    environment = {"DS2_SERVE_PORT": "2", "DS2_SERVE_LIMITS__STREAMS": "6", "OTHER": "x", "DS2_SERVE_WORKERS": "3"}
    config = read_serve_config(path, {"workers": "4"}, environment)
    assert (config.host, config.port, config.workers) == ("0.0.0.0", 2, 4)
    assert (config.limits.streams, config.limits.idle) == (6, 1.5)


@pytest.mark.parametrize(
    ("flags", "environment", "word"),
    [
        ({"prot": "1"}, {}, "prot"),
        ({}, {"DS2_SERVE_LIMITS__STRAEMS": "1"}, "straems"),
        ({"port": "many"}, {}, "port"),
        ({"port": "70000"}, {}, "70000"),
        ({"dispatch.policy": "lazy"}, {}, "eager"),
        ({"certificate": "cert.pem"}, {}, "certificate_key"),
        ({"limits.rate": "0"}, {}, r"limits\.rate"),
        ({"limits.streams": "-3"}, {}, r"limits\.streams"),
        ({"limits.idle": "nan"}, {}, r"limits\.idle"),
        ({"limits.drain": "-1.0"}, {}, r"limits\.drain"),
        ({"dispatch.batch": "0"}, {}, r"dispatch\.batch"),
        ({"live.chunk_frames": "0"}, {}, r"live\.chunk_frames"),
        ({"model": "digits-screaming"}, {}, "digits-screaming"),
    ],
)
def test_what_is_wrong_is_named(flags: dict[str, str], environment: dict[str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        read_serve_config(None, flags, environment)


def test_relative_paths_start_at_the_file_or_else_here(tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text('model = "best.safetensors"\n')
    environment = {"DS2_SERVE_CERTIFICATE": "cert.pem", "DS2_SERVE_CERTIFICATE_KEY": "keys/key.pem"}
    without = read_serve_config(None, {"model": "runs/best.safetensors"}, environment)
    assert without.model == Path("runs/best.safetensors")
    assert (without.certificate, without.certificate_key) == (Path("cert.pem"), Path("keys/key.pem"))
    assert read_serve_config(tmp_path / "serve.toml", {}, {}).model == tmp_path / "best.safetensors"


def test_a_model_of_the_package_goes_by_its_name_everywhere(tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text('model = "digits-streaming"\n')
    for path, environment in ((None, {"DS2_SERVE_MODEL": "digits-streaming"}), (tmp_path / "serve.toml", {})):
        assert read_serve_config(path, {}, environment).model == locate("digits-streaming")


def test_nothing_where_nothing_makes_sense() -> None:
    assert read_serve_config(None, {"limits.drain": "0", "live.partial_every": "0.0"}, {}).limits.drain == 0


def test_an_address_of_the_sixth_version(start: Callable[..., RunningServer]) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no such addresses on this machine")
    server = start("--host", "::1")
    assert server.url.startswith("http://[::1]:")
    assert server.get("/healthz") == "ok\n"


@pytest.mark.parametrize("model", ["missing.safetensors", "bidirectional"])
def test_a_model_that_cannot_be_served_ends_in_one_line(
    model: str, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_bundle if model == "bidirectional" else Path(model)
    assert main(["serve", "--model", str(path), "--port", "0"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert model in line
    assert path.name in line


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"127.0.0.1:{port}: cannot listen" in capsys.readouterr().err


def test_a_certificate_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cert.pem"
    path.write_text("no certificate")
    flags = ["--set", f'certificate="{path}"', "--set", f'certificate_key="{path}"']
    assert main(["serve", "--port", "0", *flags]) == 2
    assert "TLS" in capsys.readouterr().err
