"""deploy/compose.yaml: what it names exists, and the server takes its settings."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ds2.serve.config import Limits, read_serve_config

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def test_files_that_containers_read_are_there() -> None:
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert volumes
    for volume in volumes:
        assert (DEPLOY / volume.split(":")[0]).exists(), volume


def test_prometheus_may_ask_the_server_by_its_name() -> None:
    """The server refuses host names that it does not know."""
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    [target] = [target for job in scraped for group in job["static_configs"] for target in group["targets"]]
    name, _, port = target.partition(":")
    config = read_serve_config(None, {}, SERVICES[name]["environment"])
    assert (name in config.hosts, int(port)) == (True, config.port)


def test_the_server_has_the_time_of_its_drain_and_only_what_it_needs() -> None:
    server = SERVICES["ds2"]
    assert int(server["stop_grace_period"].removesuffix("s")) > Limits().drain_seconds
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])


def compose() -> list[str]:
    """The plugin of docker, or the program of its own; skips the test without either."""
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("needs docker compose")


def test_compose_takes_the_file_and_refuses_a_wrong_one(tmp_path: Path) -> None:
    def accepted(text: str) -> bool:
        (tmp_path / "compose.yaml").write_text(text)
        command = [*compose(), "--file", str(tmp_path / "compose.yaml"), "config", "--quiet"]
        return subprocess.run(command, capture_output=True).returncode == 0

    text = (DEPLOY / "compose.yaml").read_text()
    assert accepted(text)
    assert not accepted(text.replace("read_only", "only_read"))
