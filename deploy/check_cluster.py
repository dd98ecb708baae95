"""What a cluster makes of the manifests: deploys an overlay, tries it, and takes it away; exits with 1 if it fails.

    python deploy/check_cluster.py IMAGE [cpu|keda|gpu]

By the current context of kubectl, in a namespace of its own. The nodes have the image or can pull it, and the cluster
provides volumes. What it does not offer is named and left out, such as the resources of the Prometheus operator.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml
from check_image import RECORDING, TEXT, headers, live, stopped_under_streams, upload

MANIFESTS = Path(__file__).parent / "kubernetes"
NAMESPACE = "ds2-check"
KEY = "a-key-for-this-check-alone"
SECONDS = 180  # for pods to become ready
OLDER = {"policy/v1": "policy/v1beta1", "autoscaling/v2": "autoscaling/v2beta2"}  # with the same fields


def kubectl(*arguments: str, given: str | bytes | None = None) -> str:
    command = ["kubectl", "--namespace", NAMESPACE, *arguments]
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run(command, input=data, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode().strip()}")
    return done.stdout.decode().strip()


def manifests(image: str, overlay: str) -> list[dict[str, Any]]:
    """Those of the overlay that this cluster knows, for the image, with a small model on a small node."""
    offered = set(kubectl("api-versions").split())
    known = []
    for manifest in yaml.safe_load_all(kubectl("kustomize", str(MANIFESTS / "overlays" / overlay))):
        version = manifest["apiVersion"]
        if version not in offered and OLDER.get(version) in offered:
            manifest["apiVersion"] = OLDER[version]
        if manifest["apiVersion"] not in offered:
            print(f"left out: {manifest['kind']}, as this cluster does not offer {version}", flush=True)
            continue
        if manifest["kind"] == "ConfigMap":
            manifest["data"]["DS2_SERVE_MODEL"] = "digits-streaming"
        if manifest["kind"] == "Deployment":
            of_image(manifest, image)
        known.append(manifest)
    return known


def of_image(manifest: dict[str, Any], image: str) -> None:
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    container["resources"]["requests"]["cpu"] = "100m"
    container["resources"]["limits"].pop("nvidia.com/gpu", None)  # PyTorch takes the processor then


@contextlib.contextmanager
def namespace() -> Iterator[None]:
    kubectl("create", "namespace", NAMESPACE)
    try:
        yield
    finally:
        kubectl("delete", "namespace", NAMESPACE)


@contextlib.contextmanager
def deployed(image: str, overlay: str) -> Iterator[None]:
    with namespace():
        keys = [f"--from-literal=DS2_SERVE_API_KEYS={json.dumps([KEY])}", f"--from-literal=metrics-key={KEY}"]
        kubectl("create", "secret", "generic", "ds2", *keys)
        kubectl("apply", "--filename", "-", given=yaml.safe_dump_all(manifests(image, overlay)))
        kubectl("rollout", "status", "deployment/ds2", f"--timeout={SECONDS}s")
        yield


@contextlib.contextmanager
def forwarded(to: str, port: int = 2700) -> Iterator[int]:
    """A port of this machine that leads to a pod or a service."""
    command = ["kubectl", "--namespace", NAMESPACE, "port-forward", to, f":{port}"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            if found is None:
                errors.seek(0)
                raise RuntimeError(errors.read().decode())
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()


def pods() -> list[str]:
    """Those of the server that do not leave."""
    found = json.loads(kubectl("get", "pods", "--selector", "app.kubernetes.io/name=ds2", "--output", "json"))["items"]
    return [f"pod/{each['metadata']['name']}" for each in found if "deletionTimestamp" not in each["metadata"]]


def fails(*arguments: str) -> bool:
    try:
        kubectl(*arguments)
    except RuntimeError:
        return True
    return False


def check_service() -> dict[str, bool]:
    with forwarded("service/ds2", 80) as port:
        url = f"http://127.0.0.1:{port}"
        metrics = httpx.get(f"{url}/metrics", headers=headers(KEY))
        return {
            "without a key: 401": httpx.get(f"{url}/v1/models").status_code == 401,
            "upload": TEXT in upload(port, key=KEY).lower(),
            "live stream": " ".join(asyncio.run(live(port=port, key=KEY))) == TEXT,
            "metrics": "ds2_streams_open" in metrics.text,
        }


def check_rights() -> dict[str, bool]:
    pod = pods()[0]
    return {
        "runs as 65532": kubectl("exec", pod, "--", "id", "-u") == "65532",
        "its root is read-only": fails("exec", pod, "--", "touch", "/opt/ds2/a"),
        "it has no token of the cluster": fails("exec", pod, "--", "ls", "/var/run/secrets/kubernetes.io"),
    }


def finals(end: Callable[[str], object]) -> bool:
    """Whether streams of the first pod get their results when `end(pod)` ends it."""
    pod = pods()[0]
    with forwarded(pod) as port:
        return asyncio.run(stopped_under_streams(lambda: end(pod), port=port, key=KEY)) == [TEXT] * 5


def evict(pod: str) -> None:
    """As a drain of its node does."""
    name = pod.partition("/")[2]
    version = "policy/v1" if "policy/v1" in kubectl("api-versions").split() else "policy/v1beta1"
    eviction = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
    kubectl("create", "--raw", path, "--filename", "-", given=json.dumps(eviction))


def check_leaving() -> dict[str, bool]:
    """Pods leave one by one, and give their live streams the final results first."""
    both_may_go = True

    def evict_both(pod: str) -> None:
        nonlocal both_may_go
        [other] = set(pods()) - {pod}
        evict(pod)
        try:
            evict(other)
        except RuntimeError as refusal:
            both_may_go = "disruption budget" not in str(refusal)

    evicted = finals(evict_both)
    kubectl("rollout", "status", "deployment/ds2", f"--timeout={SECONDS}s")
    restarted = finals(lambda pod: kubectl("rollout", "restart", "deployment/ds2"))
    kubectl("rollout", "status", "deployment/ds2", f"--timeout={SECONDS}s")
    return {
        "finals at an eviction": evicted,
        "a second eviction waits for the first": not both_may_go,
        "finals in a rolling restart": restarted,
    }


def check_job(image: str) -> dict[str, bool]:
    """jobs/transcribe.yaml with a volume of the cluster."""
    claim_volume("ReadWriteOnce", "100Mi")
    job = yaml.safe_load((MANIFESTS / "jobs" / "transcribe.yaml").read_text())
    of_image(job, image)
    job["spec"]["template"]["spec"]["containers"][0]["args"] += ["--model", "digits"]
    in_a_pod(job, "mkdir -p /data/recordings && cat > /data/recordings/a.opus", RECORDING.read_bytes())
    kubectl("apply", "--filename", "-", given=yaml.safe_dump(job))
    kubectl("wait", "--for=condition=complete", "job/ds2-transcribe", f"--timeout={SECONDS}s")
    return {"the job transcribes": TEXT in in_a_pod(job, "cat /data/transcripts/a.json")}


def claim_volume(mode: str, size: str) -> None:
    """The volume of the jobs."""
    claim = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "ds2-data"}, "spec": claim}
    kubectl("apply", "--filename", "-", given=yaml.safe_dump(volume))


def in_a_pod(job: dict[str, Any], command: str, given: bytes = b"") -> str:
    """What a command says that runs as the job would run, with its volumes."""
    specification = json.loads(json.dumps(job["spec"]["template"]["spec"]))
    [container] = specification["containers"]
    del container["args"]
    container |= {"name": "shell", "command": ["sh", "-c", command], "stdin": True, "stdinOnce": True}
    overrides = json.dumps({"spec": specification})
    options = ["--rm", "--stdin", "--quiet", "--restart=Never", f"--image={container['image']}"]
    return kubectl("run", "shell", *options, f"--overrides={overrides}", given=given)


def check(image: str, overlay: str = "cpu") -> Iterator[tuple[str, bool]]:
    with deployed(image, overlay):
        yield "two pods are ready", len(pods()) == 2
        for results in (check_service, check_rights, check_leaving):
            yield from results().items()
        yield from check_job(image).items()


def report(results: Iterable[tuple[str, bool]]) -> int:
    """Prints the results as they come -> the exit status."""
    failed = 0
    for name, passed in results:
        print(f"{'ok' if passed else 'FAILED':6} {name}", flush=True)
        failed += not passed
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(report(check(*sys.argv[1:3])))
