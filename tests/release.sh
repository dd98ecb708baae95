#!/usr/bin/env bash
# Builds the release of this commit twice, under another umask, time zone and locale, and compares every byte.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
python=${DS2_PYTHON:-$root/.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
(umask 022 && TZ=UTC "$python" "$root/deploy/release.py" --output one > one.txt)
(umask 077 && TZ=Asia/Tokyo LC_ALL=C "$python" "$root/deploy/release.py" --output two > two.txt)
diff -r one two
(cd one && sha256sum --check --strict --quiet SHA256SUMS)
size=$(stat --format %s one/*.whl)
[ "$size" -lt 60000000 ] || { echo "the wheel has $size bytes, more than 60 MB"; exit 1; }
echo "1 passed, 0 failed: two releases are equal, the wheel has $((size / 1000000)) MB"
