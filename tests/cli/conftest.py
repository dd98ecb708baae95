"""Runs commands in this process."""

from collections.abc import Callable

import pytest
from helpers.commands import Outcome

from ds2.cli.main import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """run(arguments...) -> (exit code, standard output, standard error)."""

    def call(*arguments: object) -> Outcome:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call
