"""The tutorial on Spark: its cells print what stands on the page."""

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "spark.md"


def test_the_cells_of_the_page_print_what_it_says(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of the page is that of the test, which runs already."""
    monkeypatch.setenv("DS2", str(ROOT))
    monkeypatch.chdir(tmp_path)
    cells = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(cells) > 5
    names: dict[str, object] = {}
    for code, expected in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == expected
