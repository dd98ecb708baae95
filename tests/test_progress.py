"""Progress bars."""

import pytest

from ds2.progress import Progress


def test_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("working", 3, "things") as progress:
        for _ in range(3):
            progress.step()
    assert capfd.readouterr() == ("", "")
