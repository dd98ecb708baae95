"""The log as whoever runs the server gets it, from processes of their own."""

import json
import subprocess
import sys

import pytest

MANY = """
import logging, sys
from ds2.serve.logs import log_to_stderr
log_to_stderr()
for number in range(int(sys.argv[1])):
    logging.getLogger("ds2.serve").info("refused", extra={"facts": {"number": number}})
print("done", flush=True)
"""


def python(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_all_lines_are_there_at_the_end() -> None:
    _, errors = python(MANY, "5000").communicate(timeout=60)
    assert [json.loads(line)["number"] for line in errors.splitlines()] == list(range(5000))


@pytest.mark.parametrize("lines", ["2000", "20000"])
def test_a_process_ends_though_nobody_reads_its_log(lines: str) -> None:
    """The pipe is full, and with it, in the second case, what may wait."""
    with python(MANY, lines) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        try:
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()


def test_a_line_that_cannot_be_written_does_not_end_the_log() -> None:
    program = """
import logging
from ds2.serve.logs import log_to_stderr
log_to_stderr()
logging.warning("%d", "no number")
logging.warning("next")
"""
    _, errors = python(program).communicate(timeout=60)
    assert [json.loads(line)["event"] for line in errors.splitlines()] == ["next"]


def test_model_processes_log_as_the_server_does() -> None:
    program = """
import logging
from ds2.serve import model_process, model_worker
model_worker.serve_model = lambda *arguments: logging.getLogger("ds2.serve").info("hello")
model_process.run_worker(None, None)
"""
    _, errors = python(program).communicate(timeout=60)
    assert json.loads(errors)["event"] == "hello"
