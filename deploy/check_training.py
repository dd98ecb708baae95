"""What a cluster makes of the jobs that train: runs them on its processors, kills a pod of each, and takes all away.

    python deploy/check_training.py IMAGE POSTGRES

IMAGE is one of the target cuda, POSTGRES one of PostgreSQL, such as postgres:17. As in check_cluster.py the namespace
is a new one; where the cluster has several nodes, they share the volume. A cluster older than Kubernetes 1.28 has no
such Indexed Jobs and gets their pods one by one.
"""

import io
import json
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from check_cluster import MANIFESTS, claim_volume, in_a_pod, kubectl, namespace, report

RECORDINGS = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
SPEAKERS = {"train": ("george", "jackson"), "dev": ("theo",)}
SECONDS = 900  # for a job
INDEX = "batch.kubernetes.io/job-completion-index"
UNPACK = "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall('/data')"
EPOCHS = 8
TRAINING = f"""
epochs = {EPOCHS}
batch_size = 8
[data]
train = ["train.jsonl"]
dev = "dev.jsonl"
workers = 1
[model]
convolutions = [{{channels = 8, kernel = [21, 9], stride = [2, 3]}}]
recurrent_layers = 1
hidden = 64
[model.frontend]
sample_rate = 8000
"""
TRIALS = 6
STUDY = f"""
config = "train.toml"
trials = {TRIALS}
devices = ["cpu"]
storage = "postgresql+psycopg://postgres@postgres/postgres"
[space]
"optimizer.learning_rate" = {{low = 5e-4, high = 1e-2, log = true}}
"""


def data() -> bytes:
    """A tar of the configurations, the manifests and the recordings."""
    files = {each.name: each.read_bytes() for each in RECORDINGS.glob("fsdd_*.flac")}
    rows = [json.loads(line) for line in (RECORDINGS / "utterances.jsonl").read_text().splitlines()]
    texts = {"train.toml": TRAINING, "study.toml": STUDY}
    for part, speakers in SPEAKERS.items():
        chosen = [each for each in rows if each["speaker"] in speakers and each["audio_filepath"] in files]
        texts[f"{part}.jsonl"] = "".join(json.dumps(each) + "\n" for each in chosen)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in (files | {name: text.encode() for name, text in texts.items()}).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def read_job(name: str, image: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A job for small nodes without GPUs, and what its file has beside it."""
    *others, job = yaml.safe_load_all((MANIFESTS / "jobs" / name).read_text())
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    container["resources"] = {"requests": {"cpu": "100m", "memory": "500Mi"}}
    return job, others


class Running:
    """A job, whose pods have indices also where the cluster has no Indexed Jobs."""

    def __init__(self, job: dict[str, Any]):
        self.job, self.name, self.failed = job, job["metadata"]["name"], 0
        self.indices = range(job["spec"].get("completions", 1))
        self.indexed = "completionMode" in job["spec"]
        self.by_hand = self.indexed and "backoffLimitPerIndex" not in kubectl("explain", "job.spec")
        if self.by_hand:
            for index in self.indices:
                self.start(index)
        else:
            kubectl("apply", "--filename", "-", given=yaml.safe_dump(job))

    def start(self, index: int) -> None:
        """A pod as the job would start it."""
        name = f"{self.name}-{index}"
        labels = {"job-name": self.name, INDEX: str(index)}
        specification = {**self.job["spec"]["template"]["spec"], "hostname": name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": specification}
        kubectl("apply", "--filename", "-", given=yaml.safe_dump(pod))

    def pods(self, index: int) -> list[dict[str, Any]]:
        """Those of an index that do not leave."""
        selector = f"job-name={self.name}" + (f",{INDEX}={index}" if self.indexed else "")
        found = json.loads(kubectl("get", "pods", "--selector", selector, "--output", "json"))["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def log(self, index: int) -> str:
        return "".join(kubectl("logs", each["metadata"]["name"]) for each in self.pods(index) if has_begun(each))

    def kill(self, index: int) -> None:
        """A pod dies with its node, and another takes its place."""
        for each in self.pods(index):
            kubectl("delete", "pod", each["metadata"]["name"], "--grace-period=0", "--force")
        if self.by_hand:
            self.start(index)

    def ended(self) -> bool:
        """Whether a pod of each index has ended well; one that has failed is replaced, as the job would.

        Raises:
            RuntimeError: too many have failed.
        """
        phases = {index: [each["status"]["phase"] for each in self.pods(index)] for index in self.indices}
        for index in (index for index, found in phases.items() if self.by_hand and found == ["Failed"]):
            self.failed += 1
            if self.failed > self.job["spec"]["backoffLimitPerIndex"]:
                raise RuntimeError(f"{self.name}: pods have failed: {self.log(index)}")
            self.kill(index)
        return all("Succeeded" in found for found in phases.values())


def has_begun(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] != "Pending"


def until(holds: Callable[[], bool], what: str) -> None:
    last = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > last:
            raise TimeoutError(f"not within {SECONDS} s: {what}")
        time.sleep(1)


def check_single(image: str) -> dict[str, bool]:
    """jobs/train.yaml, whose pod dies after the first epoch."""
    job, _ = read_job("train.yaml", image)
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["args"][-1] = "/data/runs/single"
    running = Running(job)
    until(lambda: "epoch 1:" in running.log(0), "epoch 1")
    running.kill(0)
    until(running.ended, "the end of the training")
    said = running.log(0)
    return {"a pod goes on where another died": "resuming at epoch" in said and f"epoch {EPOCHS}:" in said}


def check_elastic(image: str) -> dict[str, bool]:
    """jobs/train-elastic.yaml: a pod dies after the first epoch, and later the first pod, whom all meet at."""
    job, others = read_job("train-elastic.yaml", image)
    kubectl("apply", "--filename", "-", given=yaml.safe_dump_all(others))
    running, said = Running(job), ""
    for epoch, index in ((1, 3), (3, 0)):
        until(lambda epoch=epoch: f"epoch {epoch}:" in running.log(0) or running.ended(), f"epoch {epoch}")
        said += running.log(0)
        running.kill(index)
    until(running.ended, "the end of the training")
    said += running.log(0)
    return {
        "four pods train together": "epoch 1:" in said,
        "they go on when one of them dies, and when the first dies": said.count("resuming at epoch") == 2,
        "the training ends": f"epoch {EPOCHS}:" in said,
    }


def deploy_postgres(image: str) -> None:
    """A database for the length of the check."""
    labels = {"app": "postgres"}
    container = {"name": "postgres", "image": image, "env": [{"name": "POSTGRES_PASSWORD", "value": "secret"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "postgres", "labels": labels},
           "spec": {"containers": [container]}}  # fmt: skip
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "postgres"},
               "spec": {"selector": labels, "ports": [{"port": 5432}]}}  # fmt: skip
    kubectl("apply", "--filename", "-", given=yaml.safe_dump_all([pod, service]))
    kubectl("create", "secret", "generic", "ds2-postgres", "--from-literal=password=secret")
    kubectl("wait", "--for=condition=Ready", "pod/postgres", f"--timeout={SECONDS}s")
    until(lambda: "ready to accept connections" in kubectl("logs", "postgres"), "the database")


def check_search(image: str) -> dict[str, bool]:
    """jobs/tune.yaml, one of whose pods dies while it trains."""
    job, _ = read_job("tune.yaml", image)
    running = Running(job)
    logs = "cat /data/runs/study/trial_00?/log.txt || true"
    until(lambda: "epoch 1:" in in_a_pod(job, logs), "a trial")
    running.kill(0)
    until(running.ended, "the end of the search")
    rows = in_a_pod(job, "cat /data/runs/study/results.md").splitlines()
    ended = [row for row in rows if " complete " in row or " pruned " in row]
    return {"four pods share six trials, all of which end though a pod died": len(ended) == TRIALS}


def check(image: str, postgres: str) -> Iterator[tuple[str, bool]]:
    with namespace():
        claim_volume("ReadWriteMany", "1Gi")
        in_a_pod(read_job("train.yaml", image)[0], f'python -c "{UNPACK}"', data())
        yield from check_single(image).items()
        yield from check_elastic(image).items()
        deploy_postgres(postgres)
        yield from check_search(image).items()


if __name__ == "__main__":
    sys.exit(report(check(*sys.argv[1:3])))
