"""How `ds2 serve` is configured, and which values it refuses."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serve.conftest import RunningServer

from ds2.cli.main import main
from ds2.serve.config import read_serve_config
from ds2.utils.errors import InputError
from ds2.utils.model_names import locate


def test_a_file_then_the_environment_then_flags(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('port = 1\nhost = "0.0.0.0"\nworkers = 2\n[limits]\nstreams = 5\nidle_seconds = 1.5\n')
    environment = {"DS2_SERVE_PORT": "2", "DS2_SERVE_LIMITS__STREAMS": "6", "OTHER": "x", "DS2_SERVE_WORKERS": "3"}
    config = read_serve_config(path, {"workers": "4"}, environment)
    assert (config.host, config.port, config.workers) == ("0.0.0.0", 2, 4)
    assert (config.limits.streams, config.limits.idle_seconds) == (6, 1.5)


@pytest.mark.parametrize(
    ("flags", "environment", "word"),
    [
        ({"prot": "1"}, {}, "prot"),
        ({}, {"DS2_SERVE_LIMITS__STRAEMS": "1"}, "straems"),
        ({"port": "many"}, {}, "port"),
        ({"port": "70000"}, {}, "70000"),
        ({"dispatch.policy": "lazy"}, {}, "policy"),
        ({"certificate": "cert.pem"}, {}, "certificate_key"),
        ({"limits.streams_per_minute": "0"}, {}, r"limits\.streams_per_minute"),
        ({"limits.streams": "-3"}, {}, r"limits\.streams"),
        ({"limits.streams": "1000000000000"}, {}, r"limits\.streams"),
        ({"workers": "1000000000000"}, {}, "workers"),
        ({"limits.idle_seconds": "nan"}, {}, r"limits\.idle_seconds"),
        ({"limits.drain_seconds": "-1.0"}, {}, r"limits\.drain_seconds"),
        ({"dispatch.batch_streams": "0"}, {}, r"dispatch\.batch_streams"),
        ({"live.chunk_frames": "0"}, {}, r"live\.chunk_frames"),
        ({"api_keys": '["", "secret"]'}, {}, "api_keys"),
        ({"api_keys": '[" secret"]'}, {}, "api_keys"),
        ({"traces": '"collector:4318"'}, {}, "traces"),
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


def test_zero_is_accepted_where_it_makes_sense() -> None:
    flags = {"limits.drain_seconds": "0", "live.partial_interval_seconds": "0.0"}
    assert read_serve_config(None, flags, {}).limits.drain_seconds == 0


FORMER_KEYS = """
keys = ["secret"]
[limits]
backlog = 1.0
idle = 2.0
duration = 3.0
message = 4
upload = 5
upload_duration = 6.0
rate = 7
wait = 8.0
answer = 9.0
drain = 10.0
[live]
partial_every = 0.2
pause = 0.7
long_utterance = 21.0
short_pause = 0.3
[dispatch]
batch = 8
bound = 9
"""


def test_the_keys_of_version_0_1_are_accepted_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(FORMER_KEYS)
    config = read_serve_config(path, {}, {})
    assert config.api_keys == ("secret",)
    renamed = "backlog_seconds idle_seconds stream_seconds message_bytes upload_bytes upload_audio_seconds".split()
    renamed += "streams_per_minute max_queue_seconds worker_timeout_seconds drain_seconds".split()
    assert [getattr(config.limits, name) for name in renamed] == [1.0, 2.0, 3.0, 4, 5, 6.0, 7, 8.0, 9.0, 10.0]
    assert list(vars(config.live).values())[2:6] == [0.2, 0.7, 21.0, 0.3]
    assert list(vars(config.dispatch).values()) == [8, 9]
    assert len(caplog.records) == 17
    assert any("limits.rate is now called limits.streams_per_minute" in record.message for record in caplog.records)


def test_former_variables_are_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    environment = {"DS2_SERVE_KEYS": '["secret"]', "DS2_SERVE_LIMITS__RATE": "5"}
    config = read_serve_config(None, {"limits.wait": "3.0"}, environment)
    assert config.api_keys == ("secret",)
    assert (config.limits.streams_per_minute, config.limits.max_queue_seconds) == (5, 3.0)
    assert len(caplog.records) == 3


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
    assert f"--port: {port} is in use on 127.0.0.1; name another one" in capsys.readouterr().err


def test_a_certificate_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cert.pem"
    path.write_text("no certificate")
    flags = ["--set", f'certificate="{path}"', "--set", f'certificate_key="{path}"']
    assert main(["serve", "--port", "0", *flags]) == 2
    assert "TLS" in capsys.readouterr().err
