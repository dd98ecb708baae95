"""Alerts and dashboard read metrics that the server exports; promtool takes the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from ds2.serve.prometheus import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\bds2_\w+")


def rules() -> dict[str, object]:
    return yaml.safe_load((DEPLOY / "kubernetes" / "base" / "alerts.yaml").read_text())["spec"]


def alerts() -> list[dict[str, Any]]:
    return [rule for group in rules()["groups"] for rule in group["rules"]]  # type: ignore[attr-defined]


def metrics_text() -> bytes:
    metrics = Metrics()
    metrics.opened.labels("live")
    metrics.rejected.labels("busy")
    return metrics.text()


def exported() -> set[str]:
    """Names of time series, as Prometheus sees them."""
    lines = metrics_text().decode().splitlines()
    return {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")}


def test_alerts_read_what_is_exported() -> None:
    used = {name for alert in alerts() for name in NAME.findall(alert["expr"])}
    assert used
    assert used <= exported()


def test_the_dashboard_reads_what_is_exported() -> None:
    panels = json.loads((DEPLOY / "grafana" / "ds2.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    used = [set(NAME.findall(expression)) for expression in expressions]
    assert all(used)
    assert set().union(*used) <= exported()


def test_the_dashboard_has_the_keys_that_grafana_knows() -> None:
    """Grafana's own types read it and write it again; what they do not know is lost."""

    def through_grafana(text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(json.loads(text))))
        return found

    text = (DEPLOY / "grafana" / "ds2.json").read_text()
    assert lost_keys(json.loads(text), through_grafana(text)) == []
    wrong = text.replace('"legendFormat"', '"legendFormatt"').replace('"gridPos"', '"gridPosition"')
    assert "panels.0.gridPosition" in lost_keys(json.loads(wrong), through_grafana(wrong))


def lost_keys(before: Any, after: Any, place: str = "") -> list[str]:
    """The places of `before` that `after` lacks or that have another value there."""
    if isinstance(before, list):
        before, after = (dict(enumerate(each)) if isinstance(each, list) else each for each in (before, after))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [] if before == after else [place]
    return [
        lost
        for key, value in before.items()
        for lost in lost_keys(value, after.get(key), f"{place}.{key}".removeprefix("."))
    ]


def test_the_runbook_has_an_entry_for_every_alert() -> None:
    entries = re.findall(r"^### (Ds2\w+)$", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    assert entries == [alert["alert"] for alert in alerts()]
    links = [alert["annotations"]["runbook_url"].partition("deploy/README.md#")[2] for alert in alerts()]
    assert links == [entry.lower() for entry in entries]


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus"
)


@needs_promtool
def test_metrics_keep_the_conventions_of_prometheus() -> None:
    """Base units, `_total`, a help text for each."""

    def lint(text: bytes) -> tuple[int, bytes]:
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
        return done.returncode, done.stderr

    assert lint(metrics_text()) == (0, b"")
    assert lint(metrics_text().replace(b"ds2_step_seconds", b"ds2_step_milliseconds"))[0] != 0


@needs_promtool
def test_promtool_takes_rules_and_configuration(tmp_path: Path) -> None:
    """A wrong expression is refused."""

    def check(*arguments: str) -> int:
        return subprocess.run(["promtool", "check", *arguments], capture_output=True).returncode

    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump(rules()))
    assert check("rules", str(path)) == 0
    assert check("config", str(DEPLOY / "prometheus" / "prometheus.yml")) == 0
    path.write_text(path.read_text().replace("rate(", "rat("))
    assert check("rules", str(path)) != 0
