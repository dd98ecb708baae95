"""deploy/compose.yaml: what it names exists, and the server takes its settings."""

from pathlib import Path

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
