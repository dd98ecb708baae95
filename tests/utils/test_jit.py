"""Kernels compile and keep their machine code also where neither the package nor the home can be written."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import ds2
from ds2.utils.kernel_cache import folders_called

pytestmark = pytest.mark.long  # they compile

COMPILE = "import numpy; from ds2.ctc.band import required; print(required(numpy.array([1, 1, 2])))"
NESTED = "from ds2.model.native.few_rows import multiply_few_rows; one = numpy.ones((1, 1), numpy.float32); "
NESTED += "multiply_few_rows(one, one, one)"


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    """A folder that holds the package and can only be read."""
    folder = tmp_path / "read_only"
    ignore = shutil.ignore_patterns("__pycache__", "models")
    shutil.copytree(Path(ds2.__file__).parent, folder / "ds2", ignore=ignore)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder


def compile_there(read_only: Path, temporary: Path, code: str = COMPILE) -> None:
    """Compiles a kernel in a process that may write into `temporary` alone, and checks what it computes."""
    command = [sys.executable, "-B", "-c", code]
    if os.getuid() == 0:  # root may write everywhere, unless it gives that up
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    settings = {"PYTHONPATH": str(read_only), "HOME": str(read_only), "TMPDIR": str(temporary)}
    environment = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(command, env=environment | settings, capture_output=True, text=True, cwd=read_only)
    assert done.stdout.strip() == "4", done.stderr


def kept(temporary: Path) -> dict[Path, int]:
    """Files of machine code and when they were written."""
    return {path: path.stat().st_mtime_ns for path in temporary.rglob("*.nbc")}


def test_machine_code_is_kept_in_a_private_folder(read_only: Path, tmp_path: Path) -> None:
    """The second process finds what the first has compiled."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    compile_there(read_only, temporary)
    first = kept(temporary)
    assert first
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    compile_there(read_only, temporary)
    assert kept(temporary) == first


def test_machine_code_of_a_read_only_package_is_used(tmp_path: Path) -> None:
    """Of a package that root compiled, or of an image: nothing is compiled again, also in folders within rooms."""
    code = f"{COMPILE}; {NESTED}"
    package, temporary = tmp_path / "installed" / "ds2", tmp_path / "temporary"
    shutil.copytree(Path(ds2.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "models"))
    temporary.mkdir()
    compile_there(package.parent, temporary, code)
    compiled = kept(package)
    assert {path.parts[-3] for path in compiled} >= {"ctc", "native"}
    for path in [package.parent, *package.parent.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    compile_there(package.parent, temporary, code)
    links = [path for path in temporary.rglob("*.nbc") if path.is_symlink()]
    assert {link.resolve() for link in links} == set(compiled)
    assert len(kept(temporary)) == len(links)


def test_a_folder_that_others_may_write_is_not_trusted(read_only: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    planted = temporary / f"ds2-numba-{os.getuid()}"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    compile_there(read_only, temporary)
    assert not kept(planted)
    assert kept(temporary)


def test_without_any_folder_kernels_are_compiled_anew(read_only: Path, tmp_path: Path) -> None:
    compile_there(
        read_only,
        tmp_path,
        f"import ds2.utils.kernel_cache; ds2.utils.kernel_cache._temporary_folders = list; {COMPILE}",
    )
    assert not kept(tmp_path)


def test_a_writable_package_keeps_its_own(tmp_path: Path) -> None:
    shutil.copytree(Path(ds2.__file__).parent, tmp_path / "ds2", ignore=shutil.ignore_patterns("__pycache__", "models"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    compile_there(tmp_path, temporary)
    assert not kept(temporary)
    assert kept(tmp_path / "ds2")


def test_a_kernel_is_compiled_anew_when_what_it_calls_in_another_file_changes(tmp_path: Path) -> None:
    """It also guards the private parts of numba's cache that ds2.utils.jit uses."""
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "outer.py").write_text(
        "from ds2.utils.jit import njit\nfrom kernels.inner import inner\n\n@njit()\ndef outer():\n    return inner()\n"
    )

    def run(value: int) -> list[str]:
        source = "from ds2.utils.jit import njit\n\n@njit()\ndef inner():\n    return VALUE\n"
        (package / "inner.py").write_text(source.replace("VALUE", str(value)))
        code = "import sys; from kernels.outer import outer; hits = outer.dispatcher.stats.cache_hits; "
        code += "print(outer(), sum(hits.values()), 'numba.np.linalg' in sys.modules)"
        path = os.pathsep.join([str(tmp_path), *sys.path])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert run(1) == ["1", "0", "True"]
    assert run(1) == ["1", "1", "False"]  # from the cache, without what the compiler needs
    assert run(2) == ["2", "0", "True"]


def test_compiling_is_told_once_and_only_where_it_happens(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = [subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
           for _ in range(2)]  # fmt: skip
    assert run[0].stderr.startswith("compiling ds2's kernels that this needs")  # other commands compile others
    assert "ds2 warmup does it beforehand for all commands" in run[0].stderr
    assert run[0].stderr.count("\n") == 1
    assert run[1].stderr == ""


def test_a_change_in_a_room_that_kernels_call_makes_their_machine_code_old() -> None:
    """The search calls the automaton of the language model; the loss calls neither."""
    package = Path(ds2.__file__).parent
    called = folders_called(package / "decoder")
    assert {package / "lm", package / "decoder", package / "utils"} <= called
    assert package / "lm" not in folders_called(package / "ctc")
