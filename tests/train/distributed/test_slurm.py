"""Slurm: its variables by hand; and a cluster of two nodes, whose daemons run on this machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import DIGITS
from helpers.slurm_cluster import PATIENCE, ROOT, Slurm, wait_for_slurm
from helpers.spark_cluster import free_port
from helpers.train_toml import small_toml

from ds2.train.distributed.slurm import first_host, rank_variables

TASK = {
    "SLURM_JOB_ID": "812",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_NODELIST": "node[07-09]",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}
RANK = {"WORLD_SIZE": "6", "RANK": "5", "LOCAL_RANK": "1", "MASTER_ADDR": "node07", "MASTER_PORT": "17203"}


def test_a_task_of_srun_is_a_rank() -> None:
    assert rank_variables(TASK) == RANK
    assert rank_variables({**TASK, "MASTER_ADDR": "fast07", "MASTER_PORT": "5"}) == {
        **RANK,
        "MASTER_ADDR": "fast07",
        "MASTER_PORT": "5",
    }


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": "812", "SLURM_NTASKS": "6", "SLURM_PROCID": "0"},  # the script of sbatch
        {**TASK, "SLURM_STEP_NUM_TASKS": "1"},
        {**TASK, "WORLD_SIZE": "2"},  # torchrun in a task
    ],
)
def test_other_processes_are_none(environment: dict[str, str]) -> None:
    assert rank_variables(environment) == {}


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("node07", "node07"),
        ("gpu-b,gpu-a[3-4]", "gpu-b"),
        ("node[07,09-12],big1", "node07"),
        ("rack[2-3]node[1-4]-ib", "rack2node1-ib"),
        ("127.0.0.[1-2]", "127.0.0.1"),
    ],
)
def test_the_first_host_of_a_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with Slurm(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.toml, and the run `torchrun` of two ranks."""
    folder = tmp_path_factory.mktemp("training")
    rows = [json.loads(line) for line in (DIGITS / "utterances.jsonl").read_text().splitlines()[:12]]
    lines = [{**row, "audio_filepath": str(DIGITS / row["audio_filepath"])} for row in rows]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "train.toml").write_text(small_toml(folder / "manifest.jsonl").replace("epochs = 3", "epochs = 6"))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    train = ["-m", "ds2", "train", str(folder / "train.toml"), "--output", str(folder / "torchrun")]
    subprocess.run([*torchrun, *train], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    return folder


def model(run: Path) -> bytes:
    return (run / "best.safetensors").read_bytes()


@pytest.mark.long
def test_two_tasks_end_in_the_bytes_of_two_ranks_by_torchrun(slurm: Slurm, training: Path) -> None:
    """Also where srun starts a torchrun on each node, which reads no variable of Slurm."""
    srun = ["srun", "--nodes=2", "--ntasks=2"]
    torchrun = ["torchrun", "--nnodes=2", "--nproc-per-node=1", "--local-addr=127.0.0.1", "--no-python"]
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    train = ["ds2", "train", str(training / "train.toml"), "--output"]
    slurm.run(*srun, *train, str(training / "srun"))
    slurm.run(*srun, *torchrun[:-1], *rendezvous, torchrun[-1], *train, str(training / "agents"))
    for run in ("srun", "agents"):
        assert model(training / run) == model(training / "torchrun")


@pytest.mark.long
@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.parametrize("cause", ["urgent job", "signal"])
def test_a_stopped_job_ends_in_the_same_bytes(slurm: Slurm, training: Path, cause: str) -> None:
    """By the script in deploy/slurm: Slurm preempts the job for another, or sends what comes before its time limit."""
    run, log = training / cause, training / f"{cause}.log"
    script = [str(ROOT / "deploy" / "slurm" / "train.sbatch"), str(training / "train.toml"), "--output", str(run)]
    with slurm.explained(log):
        job = slurm.run("sbatch", "--parsable", "--cpus-per-task=1", f"--output={log}", *script)
        wait_for_slurm(lambda: (run / "checkpoint.pt").exists() or slurm.job(job)["JobState"] == "FAILED")
        if cause == "signal":
            slurm.run("scancel", "--signal=TERM", job)
        else:
            _preempt(slurm, job)
        wait_for_slurm(lambda: slurm.job(job)["JobState"] == "PENDING" and slurm.idle())
        # Or it waits for two minutes; Slurm takes credentials of the second in which it ended the job for those of
        # before.
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
        wait_for_slurm(lambda: slurm.job(job)["JobState"] in ("COMPLETED", "FAILED"))
        facts, text = slurm.job(job), log.read_text()
        assert (facts["JobState"], facts["Restarts"]) == ("COMPLETED", "1")
        assert "ds2: stopped in epoch" in text
        assert "resuming at epoch" in text
        assert model(run) == model(training / "torchrun")


def _preempt(slurm: Slurm, job: str) -> None:
    """Starts an urgent job, while a rank stands still so that the training cannot end before."""
    rank = int((slurm.folder / "rank1.pid").read_text())
    os.kill(rank, signal.SIGSTOP)
    urgent = subprocess.Popen(["srun", "--partition=urgent", "--nodes=2", "true"], env=slurm.environment)
    wait_for_slurm(lambda: slurm.job(job)["JobState"] != "RUNNING")
    os.kill(rank, signal.SIGCONT)
    assert urgent.wait(PATIENCE) == 0
