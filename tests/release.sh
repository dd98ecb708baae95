#!/usr/bin/env bash
# Builds the release of this commit again, under another umask, time zone and locale, and compares every byte but those of
# images, which docker builds only once.
#     tests/release.sh dist
set -euo pipefail
first=$(realpath "${1:?name the folder that make release has written}")
root=$(realpath "$(dirname "$0")/..")
python=${DS2_PYTHON:-$root/.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
(umask 077 && TZ=Asia/Tokyo LC_ALL=C "$python" "$root/deploy/release.py" --output again > again.txt)
diff -r --exclude "*.tgz" --exclude SHA256SUMS "$first" again
diff <(grep -v "\.tgz$" "$first/SHA256SUMS") again/SHA256SUMS
(cd "$first" && sha256sum --check --strict --quiet SHA256SUMS)
for wheel in "$first"/*.whl; do
    size=$(stat --format %s "$wheel")
    [ "$size" -lt 60000000 ] || { echo "$wheel has $size bytes, more than 60 MB"; exit 1; }
done
echo "1 passed, 0 failed: two releases are equal, the largest wheel has $((size / 1000000)) MB"
