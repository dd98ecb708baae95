#!/usr/bin/env bash
# Installs a wheel or an sdist into an empty environment, and transcribes with it from another folder; a wheel also into
# one without torch, where NumPy and numba transcribe; with compilers there also without numba, by a library of kernels.
# A wheel that brings such a library: its search is not compiled, and digits need no numba.
#     tests/package.sh dist/ds2_speech-0.2.0-py3-none-any.whl
set -euo pipefail
package=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [[ "$package" == *-manylinux_*.whl ]]; then
    cd "$folder"
    python3 -m venv slim
    slim/bin/pip install --quiet --no-deps "$package"
    slim/bin/pip install --quiet --constraint "$root/constraints.txt" --requirement "$root/native-engine.txt"
    slim/bin/ds2 transcribe "$root"/recipes/english/audio/*.opus > text.txt
    compiled=$(find slim -name "search.search_frames*.nbi" -o -name "search.search-*.nbi")
    [ -z "$compiled" ] || { echo "compiled in spite of the library: $compiled"; exit 1; }
    slim/bin/pip uninstall --quiet --yes numba llvmlite
    text=$(slim/bin/ds2 transcribe "$root/recipes/digits/audio/so762_000260033.opus" --model digits)
    [ "$text" = "three one seven nine" ] || { echo "unexpected transcript by the wheel's kernels: $text"; exit 1; }
    echo "1 passed, 0 failed: $(basename "$package")"
    exit
fi
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --constraint "$root/constraints.txt" "$package"
cd "$folder"
text=$(venv/bin/ds2 transcribe "$root/recipes/digits/audio/so762_000260033.opus" --model digits)
[ "$text" = "three one seven nine" ] || { echo "unexpected transcript: $text"; exit 1; }
venv/bin/python - <<'PYTHON'
from importlib.resources import files

for name in ("csrc/ctc.cu", "csrc/viterbi.cu", "csrc/small_gemm.cu", "py.typed", "serve/page/index.html"):
    assert files("ds2").joinpath(name).is_file(), f"{name} is missing from the package"
PYTHON
if [[ "$package" == *.whl ]]; then
    python3 -m venv "$folder/slim"
    slim/bin/pip install --quiet --no-deps "$package"
    slim/bin/pip install --quiet --constraint "$root/constraints.txt" --requirement "$root/native-engine.txt"
    if compgen -G "slim/lib/python3*/site-packages/torch" > /dev/null; then
        echo "torch is installed in spite of --no-deps"
        exit 1
    fi
    text=$(slim/bin/ds2 transcribe "$root/recipes/digits/audio/so762_000260033.opus" --model digits)
    [ "$text" = "three one seven nine" ] || { echo "unexpected transcript without torch: $text"; exit 1; }
    if command -v c++ > /dev/null && [ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then
        slim/bin/pip install --quiet setuptools
        slim/bin/ds2 warmup --library > warmup.txt
        expected=$(DS2_KERNELS=numba slim/bin/ds2 transcribe "$root/recipes/digits/audio/so762_000260033.opus" --format json)
        slim/bin/pip uninstall --quiet --yes numba llvmlite
        text=$(slim/bin/ds2 transcribe "$root/recipes/digits/audio/so762_000260033.opus" --format json)
        [ "$text" = "$expected" ] || { echo "unexpected transcript without numba: $text"; exit 1; }
        slim/bin/ds2 warmup > warmup.txt
        echo "$text" | slim/bin/python -c "import json, sys; print(json.load(sys.stdin)['text'])" > text.txt
        slim/bin/ds2 align "$root/recipes/digits/audio/so762_000260033.opus" text.txt --format json > aligned.json
    else
        echo "skipped: a library of kernels needs a compiler of C++ and Python's headers"
    fi
fi
echo "1 passed, 0 failed: $(basename "$package")"
