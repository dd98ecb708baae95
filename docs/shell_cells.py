"""Cells that begin with %%bash, in the pages: their output comes whole, and a failed command ends the page."""

import subprocess

from IPython.core.magic import register_cell_magic


@register_cell_magic
def bash(_: str, cell: str) -> None:
    """Runs the cell in bash and prints what it says."""
    done = subprocess.run(
        ["bash", "-euc", cell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, end="")
    done.check_returncode()
