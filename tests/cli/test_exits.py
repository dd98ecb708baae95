"""What is said when a command ends early."""

import pytest

from ds2.cli.exits import stopping_says


def test_who_stops_a_command_is_told_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    for remedy in ("run it again", ""):
        with pytest.raises(KeyboardInterrupt), stopping_says(remedy):
            raise KeyboardInterrupt
    with stopping_says("run it again"):
        pass
    assert capsys.readouterr().err == "ds2: stopped; run it again\n"
