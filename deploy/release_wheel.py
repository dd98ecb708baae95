"""The wheel with the library of kernels, for this Python on x86-64 with AVX2: its search is not compiled at first use.

The other wheel is for every Python and processor; pip prefers this one where it fits.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

KERNELS = "x86-64-v3"  # processors with AVX2
LINK = "from ds2.recognition.warm_up import link_library; print(*link_library(), sep='\\n')"
OLDEST_GLIBC = 17  # the minor version that Python's own wheels for Linux ask for at least


def can_link() -> bool:
    """Whether this machine can make the library: Linux on x86-64 with a compiler of C++ and Python's headers."""
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return sysconfig.get_platform() == "linux-x86_64" and shutil.which("c++") is not None and headers.is_file()


def add_kernels(wheel: Path, seconds: int) -> None:
    """Writes a second wheel beside one for every processor, with the library, files of one time."""
    with tempfile.TemporaryDirectory() as folder:
        wheel_tool("unpack", "--dest", folder, str(wheel))
        [root] = Path(folder).iterdir()
        for path in [root, *root.rglob("*")]:
            os.utime(path, (seconds, seconds))  # the library knows its sources by their times
        library = link(root)
        for cache in list(root.rglob("__pycache__")):
            shutil.rmtree(cache)
        python = str(sys.implementation.cache_tag).replace("cpython-", "cp")
        platform = f"manylinux_2_{newest_glibc(library)}_x86_64"
        [about] = root.glob("*.dist-info/WHEEL")
        text = about.read_text().replace("Tag: py3-none-any", f"Tag: {python}-{python}-{platform}")
        about.write_text(text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
        wheel_tool("pack", "--dest-dir", str(wheel.parent), str(root), SOURCE_DATE_EPOCH=str(seconds))


def link(root: Path) -> Path:
    """Makes the library in an unpacked wheel, whose package this process of Python then uses."""
    with tempfile.TemporaryDirectory() as empty:
        places = {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": empty, "XDG_CACHE_HOME": empty}
        fixed = {"PYTHONHASHSEED": "0", "NUMBA_CPU_NAME": KERNELS, "NUMBA_CPU_FEATURES": ""}
        made = subprocess.run(
            [sys.executable, "-c", LINK], cwd=empty, env={**os.environ, **places, **fixed}, check=True,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    library = Path(made.stdout.split("\n")[-2])
    assert library.is_relative_to(root), library
    # The number of a build comes from the names of temporary files, too.
    subprocess.run(["strip", "--strip-unneeded", "--remove-section=.note.gnu.build-id", str(library)], check=True)
    for path in (library, library.with_suffix(".json")):
        path.chmod(0o644)  # whatever the umask
    return library


def newest_glibc(library: Path) -> int:
    """The minor version of glibc 2 that the library needs."""
    return max([OLDEST_GLIBC, *(int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes()))])


def wheel_tool(*arguments: str, **variables: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "wheel", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
