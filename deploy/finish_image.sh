#!/bin/sh
# The last step of building an image: installs ds2 from this folder, takes away what only developers need (pip, tests,
# symbols for debuggers), and compiles the kernels with what is left.
set -e
/opt/ds2/bin/pip install --no-deps .
/opt/ds2/bin/pip uninstall --yes pip
find /opt/ds2/lib -type d -name tests -prune -exec rm -r {} +
# Not the libraries in folders *.libs: their headers have been rewritten, and strip makes them unreadable.
find /opt/ds2/lib -type f \( -name libllvmlite.so -o -path '*/uvloop/*.so' \) -exec strip --strip-unneeded {} +
/opt/ds2/bin/ds2 warmup
