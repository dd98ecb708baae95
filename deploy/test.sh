#!/usr/bin/env bash
# Builds an image, runs it read-only without rights, transcribes over both protocols, stops it under live streams, and
# lets Prometheus read two containers. Says what it skips and why.
#     deploy/test.sh cpu
# Variables: BASE, the base image; BUILD, further arguments of docker build; DS2_PYTHON, a Python with ds2's extra dev.
set -euo pipefail
target=${1:-cpu}
root=$(realpath "$(dirname "$0")/..")
python=${DS2_PYTHON:-$root/.venv/bin/python}
skip() { echo "skipped: $1"; exit 0; }
megabytes() { awk '{printf "%.0f MB", $1 / 1e6}'; }

docker info > /dev/null 2>&1 || skip "no docker daemon answers"
[ "$target" != cuda ] || command -v nvidia-smi > /dev/null || skip "the image cuda is tested on a machine with a GPU"
"$python" -c "import httpx, soundfile, websockets, yaml" 2> /dev/null \
    || skip "$python lacks httpx, soundfile, websockets or yaml: run make test once"

cd "$root"
# shellcheck disable=SC2086
DOCKER_BUILDKIT=1 docker build --network host --file deploy/Dockerfile --target "$target" --tag "ds2:$target" \
    --build-arg BASE="${BASE:-debian:bookworm-slim}" --build-arg REVISION="$(git rev-parse HEAD)" ${BUILD:-} .
echo "size: $(docker image inspect --format '{{.Size}}' "ds2:$target" | megabytes) on the disk," \
    "$(docker save "ds2:$target" | gzip --fast | wc --bytes | megabytes) to pull"
"$python" deploy/check_image.py "ds2:$target"
command -v prometheus > /dev/null || skip "Prometheus before two containers: needs Debian's package prometheus"
"$python" deploy/check_prometheus.py "ds2:$target"
