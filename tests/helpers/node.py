"""The modules of the exported page and of the server's, run in Node."""

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

NODE = shutil.which("node")
with_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")


def in_node(script: str, cases: list[Any], folder: Path, package: str = "ds2.export") -> Any:
    """What a script prints as JSON; it finds the modules of the package's page in PAGE and the cases in `cases`."""
    file, page = folder / "cases.json", resources.files(package) / "page"
    file.write_text(json.dumps(cases))
    head = f'import {{ readFileSync }} from "node:fs";\nconst cases = JSON.parse(readFileSync("{file}"));\n'
    (folder / "run.mjs").write_text(head + script.replace("PAGE", str(page)))
    done = subprocess.run([str(NODE), folder / "run.mjs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
