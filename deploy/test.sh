#!/usr/bin/env bash
# Builds an image, runs it read-only without rights, transcribes over both protocols, stops it under live streams.
#     deploy/test.sh onnx
# Variables: BASE, the base image; BUILD, further arguments of docker build; DS2_PYTHON, a Python with ds2's extra serve.
set -euo pipefail
target=${1:-onnx}
root=$(realpath "$(dirname "$0")/..")
python=${DS2_PYTHON:-$root/.venv/bin/python}
skip() { echo "skipped: $1"; exit 0; }

docker info > /dev/null 2>&1 || skip "no docker daemon answers"
[ "$target" != cuda ] || command -v nvidia-smi > /dev/null || skip "the image cuda is tested on a machine with a GPU"
"$python" -c "import httpx, websockets" 2> /dev/null || skip "$python lacks httpx or websockets: run make test once"

cd "$root"
# shellcheck disable=SC2086
DOCKER_BUILDKIT=1 docker build --network host --file deploy/Dockerfile --target "$target" --tag "ds2:$target" \
    --build-arg BASE="${BASE:-debian:bookworm-slim}" --build-arg REVISION="$(git rev-parse HEAD)" ${BUILD:-} .
echo "size: $(docker image inspect --format '{{.Size}}' "ds2:$target" | awk '{printf "%.0f MB", $1 / 1e6}')"
exec "$python" deploy/check_image.py "ds2:$target"
