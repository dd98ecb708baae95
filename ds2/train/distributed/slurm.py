"""Slurm: the tasks of `srun ds2 train ...` are the ranks of a training."""

import re
from collections.abc import Mapping

FIRST_PORT, PORTS = 16000, 16000  # below those that Linux gives to clients


def rank_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that torchrun would set for this task; none where torchrun has set them, or the task is alone.

    srun alone sets the variables of a step: the script of sbatch, which has those of its job, is one process. Two
    steps on one machine may get the same port: MASTER_PORT, where it is set, is kept, and so is MASTER_ADDR.
    """
    if "WORLD_SIZE" in environment or int(environment.get("SLURM_STEP_NUM_TASKS", "1")) == 1:
        return {}
    step = 100 * int(environment["SLURM_JOB_ID"]) + int(environment["SLURM_STEP_ID"])
    return {
        "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
        "RANK": environment["SLURM_PROCID"],
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "MASTER_ADDR": environment.get("MASTER_ADDR", first_host(environment["SLURM_STEP_NODELIST"])),
        "MASTER_PORT": environment.get("MASTER_PORT", str(FIRST_PORT + step % PORTS)),
    }


def first_host(hosts: str) -> str:
    """ "node[07-09,12],big1" -> "node07": where srun starts rank 0."""
    return re.sub(r"\[(\d+)[^]]*\]", r"\1", hosts).split(",")[0]
