"""What deploy/test.sh asks of Prometheus before two containers: it scrapes both, and every query has an answer."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import websockets
import yaml
from check_image import PORT, docker, live, started, upload

DEPLOY = Path(__file__).parent
PORTS = (PORT, PORT + 1)
PROMETHEUS = f"127.0.0.1:{PORT + 2}"
SECONDS = 120  # for all queries to have an answer


def rules() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "kubernetes" / "base" / "alerts.yaml").read_text())["spec"]


def queries() -> list[str]:
    """Those of the dashboard, and of the alerts without their thresholds."""
    panels = json.loads((DEPLOY / "grafana" / "ds2.json").read_text())["panels"]
    shown = [target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel["targets"]]
    alerts = [rule["expr"] for group in rules()["groups"] for rule in group["rules"]]
    return [*shown, *(re.split(r" (?:==|>|<) ", expression)[0] for expression in alerts)]


@contextlib.contextmanager
def prometheus() -> Any:
    """Prometheus with the configuration of compose.yaml, before the containers, once a second, and the alerts."""
    configuration = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = ["rules.yml"]
    [job] = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in PORTS]}]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rules.yml").write_text(yaml.safe_dump(rules()))
        Path(folder, "prometheus.yml").write_text(yaml.safe_dump(configuration))
        command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"]
        process = subprocess.Popen([*command, f"--web.listen-address={PROMETHEUS}"], cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def ask(path: str, **parameters: str) -> Any:
    answer = httpx.get(f"http://{PROMETHEUS}/api/v1/{path}", params=parameters, timeout=30).json()
    if answer["status"] != "success":
        raise ValueError(f"{parameters}: {answer['error']}")
    return answer["data"]


async def fill(port: int) -> None:
    """A stream, an upload, and a stream that finds no place."""
    await live(port=port)
    await asyncio.to_thread(upload, port)
    url = f"ws://127.0.0.1:{port}"
    with contextlib.suppress(websockets.InvalidStatus):  # an earlier stream may still hold its place
        async with websockets.connect(url), websockets.connect(url):
            await live(port=port)


def unanswered() -> list[str]:
    """Queries without a number so far."""
    with contextlib.suppress(httpx.TransportError):  # it does not listen yet
        if len(ask("query", query='up{job="ds2"} == 1')["result"]) == len(PORTS):
            return [query for query in queries() if not ask("query", query=query)["result"]]
    return queries()


def check(image: str) -> bool:
    with contextlib.ExitStack() as stack:
        for port in PORTS:
            container, _ = started(image, "digits-streaming", port, DS2_SERVE_LIMITS__STREAMS="2")
            stack.callback(docker, "rm", "--force", container)
        stack.enter_context(prometheus())
        until = time.monotonic() + SECONDS
        while (missing := unanswered()) and time.monotonic() < until:
            for port in PORTS:
                asyncio.run(fill(port))
        broken = [
            rule["name"] for group in ask("rules")["groups"] for rule in group["rules"] if rule["health"] == "err"
        ]
    for query in missing:
        print(f"no answer to {query}")
    passed = not missing and not broken
    print(
        f"{'ok' if passed else 'FAILED':6} Prometheus scrapes two containers, and {len(queries())} queries have answers"
    )
    return passed


if __name__ == "__main__":
    sys.exit(not check(sys.argv[1]))
