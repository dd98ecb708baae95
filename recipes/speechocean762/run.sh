#!/usr/bin/env bash
# Trains the model that recipes/digits starts from: recipes/digits/start.safetensors, its weights in half precision.
#     recipes/speechocean762/run.sh SPEECHOCEAN762 KATHLEEN      the folders of the two corpora, see prepare.py
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/speechocean762

[ -e "$recipe/data/dev.jsonl" ] ||
    python "$recipe/prepare.py" --speechocean762 "$1" --kathleen "$2" --output "$recipe/data"
ds2 train "$recipe/train.toml" --output "$recipe/runs/first"
ds2 train "$recipe/train.toml" --output "$recipe/runs/second" --set epochs=10 --set optimizer.learning_rate=1.2e-3 \
    --set "start_from='runs/first/best.safetensors'"
python "$recipe/halve.py" "$recipe/runs/second/best.safetensors" recipes/digits/start.safetensors
