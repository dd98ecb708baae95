"""The manifests of Kubernetes, by its own schemas, and that what they name exists."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ds2.serve.config import Limits, ServeConfig, read_serve_config

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
PATCHES = {"overlays/gpu/gpu.yaml"}  # a part of a deployment
EXAMPLES = {"base/secret.example.yaml"}  # which nothing applies
OTHERS = ("ServiceMonitor", "PrometheusRule", "Kustomization")  # are not Kubernetes' own: no schemas come with it
VERSION = "1.31"


def manifests() -> dict[str, dict[str, Any]]:
    return {path.relative_to(FOLDER).as_posix(): yaml.safe_load(path.read_text()) for path in FOLDER.rglob("*.yaml")}


def base(kind: str) -> dict[str, Any]:
    [found] = [each for name, each in manifests().items() if name.startswith("base/") and each["kind"] == kind]
    return found


def container() -> dict[str, Any]:
    [found] = base("Deployment")["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize(
    "name", [name for name, each in manifests().items() if each["kind"] not in OTHERS and name not in PATCHES]
)
def test_a_manifest_is_valid(name: str) -> None:
    kubernetes_validate.validate(manifests()[name], VERSION, strict=True)


def test_a_wrong_manifest_is_found() -> None:
    service = base("Service")
    service["spec"]["prots"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, VERSION, strict=True)


def test_the_gpu_overlay_with_its_deployment_is_valid() -> None:
    """The patch names the deployment and its container, and what it changes fits there."""
    deployment, patch = base("Deployment"), manifests()["overlays/gpu/gpu.yaml"]
    assert patch["metadata"]["name"] == deployment["metadata"]["name"]
    [changed] = patch["spec"]["template"]["spec"]["containers"]
    assert changed["name"] == container()["name"]
    deployment["spec"]["template"]["spec"]["containers"] = [container() | changed]
    kubernetes_validate.validate(deployment, VERSION, strict=True)


def test_every_file_is_applied() -> None:
    applied = set()
    for name, each in manifests().items():
        if each["kind"] == "Kustomization":
            here = FOLDER / Path(name).parent
            files = [*each.get("resources", []), *(patch["path"] for patch in each.get("patches", []))]
            applied |= {(here / file).resolve().relative_to(FOLDER).as_posix() for file in files}
    files = {name for name, each in manifests().items() if each["kind"] != "Kustomization" and "jobs/" not in name}
    assert applied - {"base"} == files - EXAMPLES


def test_all_select_the_pods_of_the_deployment() -> None:
    labels = base("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert base("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert base("Service")["spec"]["selector"] == labels
    assert base("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert base("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    assert base("ServiceMonitor")["spec"]["selector"]["matchLabels"] == base("Service")["metadata"]["labels"]


def configuration() -> ServeConfig:
    return read_serve_config(None, {}, base("ConfigMap")["data"])


def test_the_server_takes_the_configuration_and_the_keys() -> None:
    secret = manifests()["base/secret.example.yaml"]["stringData"]
    config = read_serve_config(None, {}, base("ConfigMap")["data"] | {key: secret[key] for key in secret if "_" in key})
    assert (config.host, len(config.api_keys)) == ("0.0.0.0", 1)


def test_a_pod_is_given_the_time_of_its_drain() -> None:
    sleep = int(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = base("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > sleep + configuration().limits.drain_seconds
    probe = container()["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= Limits().load_timeout_seconds


def test_pods_are_added_before_one_is_full() -> None:
    [metric] = base("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "ds2_streams_open"
    assert int(metric["pods"]["target"]["averageValue"]) < configuration().limits.streams
