"""Files that only the host of the repository reads: they are valid, and what they name exists."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds2.utils.version import VERSION

ROOT = Path(__file__).parents[2]
HOSTED = sorted((ROOT / ".github").rglob("*.yml"))
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
STEPS = [(job, step) for job, each in WORKFLOW["jobs"].items() for step in each["steps"]]


@pytest.mark.parametrize("path", HOSTED, ids=lambda path: path.name)
def test_a_file_is_a_mapping_of_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_what_a_workflow_runs_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    images = set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE))
    runs = "\n".join(step["run"] for _, step in STEPS if "run" in step)
    made = set(re.findall(r"\bmake ([a-z-]+)", runs))
    assert {"lint", "test", "package"} == made <= targets
    assert set(WORKFLOW["jobs"]["image"]["strategy"]["matrix"]["target"]) <= images
    named = re.findall(r"(?:deploy|tests)/[\w/]+\.\w+", runs)
    assert named
    assert all((ROOT / file).exists() for file in named)


def test_every_script_of_the_workflow_is_understood_by_bash() -> None:
    for _, step in STEPS:
        if "run" in step:
            script = re.sub(r"\$\{\{.*?\}\}", "x", step["run"])
            assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_only_publishing_may_write_and_only_for_a_tag_after_all_else() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    jobs = WORKFLOW["jobs"]
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert all("secrets." not in str(step) for _, step in STEPS)


def test_text_from_outside_reaches_a_script_as_a_variable_only() -> None:
    """An expression within a script would run what a branch or a title says."""
    assert [job for job, step in STEPS if "${{" in step.get("run", "")] == []


def test_one_version_and_one_place() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == VERSION
    assert (ROOT / "CHANGELOG.md").read_text().partition("\n## ")[2].startswith(VERSION)
    assert f"ARG VERSION={VERSION}" in (ROOT / "deploy" / "Dockerfile").read_text()
    assert citation["license"] == project["license"]
    assert all(url.startswith(citation["repository-code"]) for url in project["urls"].values())
