"""A standalone cluster of Spark on this machine: a master and workers of one core each, each a process."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

PATIENCE = 900  # seconds for a process to appear


class Cluster:
    """Processes of a standalone cluster; `folder` holds their logs and the work of executors."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Cluster":
        try:
            self._start("master", "Master", "--port", str(self.port))
            self.start_workers("worker0", "worker1")  # they wait for the master
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(PATIENCE)

    def start_workers(self, *names: str) -> None:
        """Workers of one core each, which are registered when this returns."""
        for name in names:
            folder = ["--work-dir", str(self.folder / name)]
            self._start(name, "Worker", "--cores", "1", "--memory", "1500m", *folder, self.url)
        for name in names:
            self._wait_for(self.folder / f"{name}.log", "Successfully registered with master")

    def kill(self, name: str) -> None:
        """Kills a worker and its executors at once, as a power cut does."""
        processes = subprocess.run(["ps", "-e", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        here = str(self.folder / name)
        for line in processes.splitlines():
            pid, _, command = line.strip().partition(" ")
            if "CoarseGrainedExecutorBackend" in command and here in os.readlink(f"/proc/{pid}/cwd"):
                os.kill(int(pid), signal.SIGKILL)
        self.processes[name].kill()
        self.processes.pop(name).wait(PATIENCE)

    def _start(self, name: str, role: str, *options: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}"]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
        shared = ["--host", "127.0.0.1", "--webui-port", "0"]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*command, *shared, *options], stdout=log, stderr=log, env=environment, cwd=self.folder
            )

    def _wait_for(self, log: Path, line: str) -> None:
        until = time.monotonic() + PATIENCE
        while line not in log.read_text(errors="replace"):
            assert time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
