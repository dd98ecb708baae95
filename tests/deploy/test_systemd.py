"""The unit of systemd, checked by systemd's own tools."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ds2.serve.config import Limits

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "ds2.service"

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def setting(name: str) -> str:
    [value] = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return value


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)


def test_the_unit_is_valid(tmp_path: Path) -> None:
    """With a command that exists on this machine, systemd finds nothing to say."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/ds2/bin/ds2", "/usr/bin/env"))
    done = analyze("verify", str(unit))
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Type=notify", "Type=notifies"))
    assert "notifies" in analyze("verify", str(unit)).stderr


def test_the_service_has_few_rights() -> None:
    """systemd's own measure: 0 is locked up, 10 is exposed; below 2.5 stands OK."""
    done = analyze("security", "--offline=true", "--threshold=25", str(UNIT))
    assert done.returncode == 0, done.stdout


def test_systemd_waits_for_the_drain_and_for_the_model() -> None:
    limits = Limits()
    assert int(setting("TimeoutStopSec")) > limits.drain_seconds
    assert int(setting("TimeoutStartSec")) > limits.load_timeout_seconds
    assert int(setting("LimitNOFILE")) >= 2 * limits.streams + 100
