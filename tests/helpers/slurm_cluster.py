"""A cluster of Slurm on this machine: munged, slurmctld, and a slurmd for each of two nodes, each a process."""

import contextlib
import functools
import getpass
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.spark_cluster import free_port
from helpers.waiting import wait_until

ROOT = Path(__file__).parents[2]
DAEMONS = ("munged", "slurmctld", "slurmd")
NODES = ("127.0.0.1", "127.0.0.2")  # names that are addresses, which need no line in /etc/hosts
PATIENCE = 300  # seconds for what Slurm has to do
SETTINGS = """\
ClusterName=ds2
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
PlugStackConfig={folder}/plugstack.conf
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
KillWait={patience}
MessageTimeout=90
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES
PartitionName=urgent Nodes=ALL PriorityTier=2
"""

wait_for_slurm = functools.partial(wait_until, patience=PATIENCE)


class Slurm:
    """Two nodes of one processor each; `folder` holds configuration, logs and state.

    Beside them is `ds2`, which notes its process in rankN.pid.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        sbin = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
        self.environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{sbin}", "PYTHONPATH": str(ROOT)}
        self.environment |= {"SLURM_CONF": str(folder / "slurm.conf"), "OMP_NUM_THREADS": "1"}

    def __enter__(self) -> "Slurm":
        for daemon in DAEMONS:
            if shutil.which(daemon, path=self.environment["PATH"]) is None:
                pytest.skip(f"needs {daemon}, of Debian's packages slurm-wlm and munge")
        self._configure()
        try:
            self._start("munged", *self._munge_options())
            wait_for_slurm((self.folder / "munge.socket").exists)
            self._start("slurmctld", "-D")
            for node in NODES:
                self._start("slurmd", "-D", "-N", node)
            wait_for_slurm(self.idle)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if len(self.processes) > len(NODES):
            for name in ("main", "urgent"):
                self.run("scancel", f"--partition={name}", check=False)
            wait_for_slurm(lambda: self.run("squeue", "--noheader", check=False) == "")
        for process in reversed(self.processes):
            process.terminate()
            process.wait(PATIENCE)

    def run(self, *command: str, check: bool = True) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    def idle(self) -> bool:
        """Whether both nodes are there, and no process of a job is left."""
        return self.run("sinfo", "--partition=main", "--noheader", "--format=%D %t", check=False) == "2 idle"

    def job(self, number: str) -> dict[str, str]:
        """ "JobState": "RUNNING", "Restarts": "1" and others."""
        facts = self.run("scontrol", "--oneliner", "show", "job", number).split()
        return dict(fact.split("=", 1) for fact in facts if "=" in fact)

    @contextlib.contextmanager
    def explained(self, *logs: Path) -> Iterator[None]:
        """Where a test fails, prints what Slurm says of its jobs and nodes, all processes and all logs."""
        try:
            yield
        except BaseException:
            for command in (["scontrol", "show", "job"], ["scontrol", "show", "node"], ["ps", "-ef", "--forest"]):
                print(*command, self.run(*command, check=False), sep="\n")
            for log in (*self.folder.glob("daemon*.log"), *filter(Path.exists, logs)):
                print(log, log.read_text(errors="replace"), sep="\n")
            raise

    def _configure(self) -> None:
        nodes = [f"NodeName={name} NodeHostname={name} Port={free_port()}\n" for name in NODES]
        settings = SETTINGS.format(port=free_port(), user=getpass.getuser(), folder=self.folder, patience=PATIENCE)
        (self.folder / "slurm.conf").write_text("".join(nodes) + settings)
        (self.folder / "plugstack.conf").touch()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(stat.S_IRUSR)
        note = f'echo $$ > "{self.folder}/rank$SLURM_PROCID.pid"'
        (self.folder / "ds2").write_text(f'#!/bin/sh\n{note}\nexec {sys.executable} -m ds2 "$@"\n')
        (self.folder / "ds2").chmod(stat.S_IRWXU)

    def _munge_options(self) -> list[str]:
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return [
            "--foreground",
            "--force",
            *(f"--{option}={self.folder / 'munge'}.{suffix}" for option, suffix in files.items()),
        ]

    def _start(self, *command: str) -> None:
        with (self.folder / f"daemon{len(self.processes)}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=log, stderr=log)
            )
