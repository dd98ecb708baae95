"""The documentation site: `make docs` builds it into build/site, and executes every cell of its pages."""

import os
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
os.environ["DS2"] = str(FOLDER.parent)  # in the cells of the pages: the checkout
os.environ["MATPLOTLIBRC"] = str(FOLDER / "style")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two pages at a time, each with a core: more threads only wait
# The kernels of the pages warn that they listen on this machine's own address, unencrypted.
KERNELS = FOLDER.parent / "build" / "ipython"
(KERNELS / "profile_default").mkdir(parents=True, exist_ok=True)
(KERNELS / "profile_default" / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
os.environ["IPYTHONDIR"] = str(KERNELS)
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

import jupyter_client  # noqa: E402
import pages  # noqa: E402

import ds2  # noqa: E402


class KernelByFiles(jupyter_client.AsyncKernelManager):
    """Talks to its kernel by sockets in files: of two that start at a time, both could choose the same port."""

    def _transport_default(self) -> str:
        return "ipc"

    def _ip_default(self) -> str:  # the files' path, to which a number is added for each socket
        return f"{tempfile.gettempdir()}/kernel-{uuid.uuid4().hex}"


jupyter_client.AsyncKernelManager = KernelByFiles  # what executes the pages asks for it by this name

project = "ds2"
author = "the developers of ds2"
copyright = "the developers of ds2, Apache-2.0"
release = version = ds2.__version__
extensions = ["myst_nb", "sphinx_copybutton", "mathml"]
exclude_patterns = ["README.md"]
language = "en"
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # the types in signatures are named without their modules
suppress_warnings = ["ref.python"]  # a type in a signature may be one of several of its name

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"ds2 {release}"
html_static_path = ["style"]
html_css_files = ["ds2.css"]
html_show_sphinx = False
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True  # what a page writes is gone after it
nb_execution_raise_on_error = True
nb_execution_timeout = 1200
copybutton_prompt_text = "$ "


def add_link_to_notebook(_: Any, page: str, source: list[str]) -> None:
    """At the end of a page that is executed."""
    if "file_format: mystnb" in source[0]:
        name = Path(page).name
        source[0] += f'\n\n<a href="{name}.ipynb" download>This page as a notebook</a>, for a Jupyter that was started '
        source[0] += "with the folder of the checkout as `DS2` in its environment.\n"


def deal_pages(_app: Any, _env: Any, pages: list[str]) -> None:
    """Among the chunks that are read at a time, so that none has all tutorials, which are slow."""
    pages[:] = [page for first in range(4) for page in sorted(pages)[first::4]]


def copy_notebooks(app: Any, error: Exception | None) -> None:
    """Puts each page's notebook, with its outputs, beside the page."""
    executed = Path(app.outdir).with_name("jupyter_execute")
    for page in sorted(app.env.found_docs) if error is None else ():
        if "file_format: mystnb" in Path(app.env.doc2path(page)).read_text():
            shutil.copy(executed / f"{page}.ipynb", Path(app.outdir) / f"{page}.ipynb")


def setup(app: Any) -> None:
    """Writes the pages of the reference before Sphinx reads them, and gives the cells their `%%bash`."""
    app.connect("env-before-read-docs", deal_pages)
    app.connect("source-read", add_link_to_notebook)
    app.connect("build-finished", copy_notebooks)
    startup = FOLDER.parent / "build" / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "shell_cells.py", startup)
    os.environ["IPYTHONDIR"] = str(startup.parents[1])
    pages.write_reference(FOLDER / "reference")
