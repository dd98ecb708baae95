#!/bin/sh
# The last step of building an image: takes away what only developers need (tests, headers, symbols for debuggers,
# encoders), and runs the kernels with what is left, which compiles them unless a library holds them. Python's own compiled
# files have the hash of a source instead of its time, so that the same sources give the same image.
set -e
cd /opt/ds2/lib/python3*/site-packages
find . -type d -name tests -prune -exec rm -r {} +
for package in av ds2 llvmlite numba numpy onnx uvloop; do
    [ -d "$package" ] || continue
    find "$package" -type f \( -name '*.a' -o -name '*.cc' -o -name '*.h' \
        -o -name '*.hpp' -o -name '*.pxd' -o -name '*.pyi' \) -delete
    # Not the libraries in folders *.libs: their headers have been rewritten, and strip makes them unreadable.
    find "$package" -name '*.so' -exec strip --strip-unneeded {} +
done
# Models as test data; what converts other people's models; for programs in C, what Python's module holds as well.
rm -rf onnx/backend/test onnxruntime/transformers onnxruntime/capi/libonnxruntime.so.*
# rich colours source code by it, in all languages; Python is enough.
find pygments/lexers -type f -not -name '__init__*' -not -name '_mapping*' -not -name 'python*' -delete
python3 /usr/local/lib/without_encoders.py av.libs
rm -rf ds2/*/__pycache__/*.nb[ic] ds2/*/*/__pycache__/*.nb[ic]
/opt/ds2/bin/ds2 warmup
# Not what torch tests newer versions of Python with (py312_intrinsics.py).
/opt/ds2/bin/python -m compileall -q -f -x '/py3[0-9]*_' --invalidation-mode unchecked-hash /opt/ds2/lib
