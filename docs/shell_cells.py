"""Cells that begin with %%bash, in the pages: their output comes whole, and a failed command ends the page."""

import os
import subprocess

from IPython.core.magic import register_cell_magic


@register_cell_magic
def bash(_: str, cell: str) -> None:
    """Runs the cell in bash and prints what it says; the folder of the checkout is $DS2, as in the cell."""
    own = {name: value for name, value in os.environ.items() if name != "MATPLOTLIBRC"}  # ds2 draws as it always does
    done = subprocess.run(
        ["bash", "-euc", cell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=own
    )
    print(done.stdout.replace(os.environ["DS2"], "$DS2"), end="")
    done.check_returncode()
