"""A library of kernels runs without numba, for the arguments that it was made for, and only while the sources are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import ds2
from ds2.utils.kernel_library import kinds, traits
from ds2.utils.processor import processor_flags

pytestmark = pytest.mark.long  # they compile

CALLS = """
import numpy
from ds2.ctc.band import required
from ds2.model.native.few_rows import multiply_few_rows
one, result = numpy.ones((3, 5), numpy.float32), numpy.empty((3, 3), numpy.float32)
"""
MAKE = f"""{CALLS}
from ds2.utils.kernel_linker import link, noting_calls
with noting_calls() as calls:
    multiply_few_rows(one, one, result)
    required(numpy.array([1, 1, 2]))
print(link(calls).name)
"""
USE = f"""{CALLS}
multiply_few_rows(one, one, result)
print(required(numpy.array([1, 1, 2])), set(result.ravel().tolist()), "numba" in sys.modules)
"""
WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None"
BOTH = "4 {5.0} "


class Pair(NamedTuple):
    first: Any
    second: Any


class Couple(NamedTuple):
    first: Any
    second: Any


@st.composite
def array_values(draw: st.DrawFn) -> np.ndarray:
    kind = draw(st.sampled_from(["f4", "f8", "i1", "i4", "i8", "u2", "?", [("a", "i8"), ("b", "f4")]]))
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    values = np.zeros(shape, np.dtype(kind))
    values = draw(st.sampled_from([values, values.T, values[::2]]))
    values.flags.writeable = draw(st.booleans())
    return values


SINGLE = array_values() | st.sampled_from(
    [True, 1, 2, 1.5, None, np.int32(1), np.float32(1), np.float64(1), np.int64(1)]
)
VALUES = st.recursive(
    SINGLE, lambda inner: st.tuples(inner, inner) | st.builds(Pair, inner, inner) | st.builds(Couple, inner, inner)
)


@given(VALUES, VALUES)
def test_kinds_differ_where_numbas_types_do(one: Any, other: Any) -> None:
    assert (kinds([one]) == kinds([other])) == (numba.typeof(one) == numba.typeof(other))
    assert traits([one], []) != traits([other], []) or kinds([one]) == kinds([other])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package that has a library."""
    if shutil.which("c++") is None or not (Path(sys.base_prefix) / "include").exists():
        pytest.skip("linking needs a compiler of C++ and Python's headers")
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(Path(ds2.__file__).parent, folder / "ds2", ignore=shutil.ignore_patterns("models", "compiled"))
    made = run(folder, MAKE)
    assert made.stdout.startswith("ds2_kernels-"), made.stderr
    return folder


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DS2_KERNELS": "", "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=folder)


def test_a_linked_kernel_runs_without_numba(package: Path) -> None:
    done = run(package, f"{WITHOUT_NUMBA}\n{USE}")
    assert done.stdout.strip() == f"{BOTH}True", done.stderr  # None stands for it there
    assert run(package, f"import sys\n{USE}").stdout.strip() == f"{BOTH}False"


def test_other_arguments_need_numba(package: Path) -> None:
    """The library has no form for float64."""
    code = f"{CALLS}\nmultiply_few_rows(one.astype('d'), one.astype('d'), result.astype('d')); print('done')"
    assert run(package, code).stdout == "done\n"
    refused = run(package, f"{WITHOUT_NUMBA}\n{code}")
    assert refused.stderr.strip().splitlines()[-1].startswith("ModuleNotFoundError: import of numba")


@pytest.mark.parametrize("damage", ["source", "table", "library", "processor"])
def test_a_library_that_does_not_fit_is_not_used(package: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(package, tmp_path / "copy")
    copy = tmp_path / "copy"
    library = next((copy / "ds2" / "compiled").glob("*.so"))
    if damage == "source":
        with (copy / "ds2" / "ctc" / "symbols.py").open("a") as file:
            file.write("\n")
    elif damage == "table":
        library.with_suffix(".json").write_text("{")
    elif damage == "library":
        library.write_bytes(b"no library")
    code = f"import sys\n{USE}"
    if damage == "processor":
        code = f"from ds2.utils import kernel_library; kernel_library.processor_line = lambda: 'flags: none'\n{code}"
    done = run(copy, code)
    assert done.stdout.strip() == f"{BOTH}True", done.stderr
    assert ("not used" in done.stderr) == (damage in ("table", "library"))


@pytest.mark.parametrize("lacking", ["compiler", "setuptools"])
def test_without_what_it_needs_linking_ends_in_one_line(package: Path, lacking: str) -> None:
    code = "import os, sys; os.environ['PATH'] = '/nowhere'"
    code = code if lacking == "compiler" else "import sys; sys.modules['setuptools'] = None"
    done = run(package, f"{code}\n{MAKE}")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ds2.utils.errors.InputError: ")
    assert last.endswith("a library needs setuptools, compilers of C and C++, and Python's headers (g++, python3-dev)")


def test_a_library_for_many_processors_comes_after_that_of_this_one(package: Path, tmp_path: Path) -> None:
    """A wheel holds one for every processor with AVX2; another name of a processor asks for another library."""
    if "avx2" not in processor_flags():
        pytest.skip("needs a processor with AVX2")
    place = "from ds2.utils.kernel_library import library_place; print(library_place())"
    shutil.copytree(package, tmp_path / "copy")
    [own] = (tmp_path / "copy" / "ds2" / "compiled").glob("*.so")
    wide = own.with_name(own.name.replace(own.name.split(".")[0], "ds2_kernels-x86-64-v3"))
    for suffix in (".so", ".json"):
        shutil.copyfile(own.with_suffix(suffix), wide.with_suffix(suffix))
    assert run(tmp_path / "copy", place).stdout.strip() == str(own)
    own.unlink()
    own.with_suffix(".json").unlink()
    assert run(tmp_path / "copy", place).stdout.strip() == str(wide)
    assert run(tmp_path / "copy", f"{WITHOUT_NUMBA}\n{USE}").stdout.strip() == f"{BOTH}True"
    for variable in ("NUMBA_CPU_NAME", "DS2_KERNELS"):
        named = f"import os; os.environ[{variable!r}] = {'generic' if 'CPU' in variable else 'numba'!r}"
        assert run(tmp_path / "copy", f"{named}\n{place}").stdout.strip() == "None"
    older = "from ds2.utils import kernel_library; kernel_library.processor_line = lambda: 'flags: sse2'"
    assert run(tmp_path / "copy", f"{older}\n{place}").stdout.strip() == "None"


def test_a_copy_with_other_times_is_used(package: Path, tmp_path: Path) -> None:
    """An image's layers, or a copy, may have lost the times of the files; what they hold counts."""
    shutil.copytree(package, tmp_path / "copy", copy_function=shutil.copyfile)
    assert run(tmp_path / "copy", f"{WITHOUT_NUMBA}\n{USE}").stdout.strip() == f"{BOTH}True"
