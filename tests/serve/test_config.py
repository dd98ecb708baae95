"""How `ds2 serve` is told things, and how it refuses."""

import socket
from pathlib import Path

import pytest

from ds2.cli import main
from ds2.errors import InputError
from ds2.serve.config import read_serve_config


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
    ],
)
def test_what_is_wrong_is_named(flags: dict[str, str], environment: dict[str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        read_serve_config(None, flags, environment)


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
