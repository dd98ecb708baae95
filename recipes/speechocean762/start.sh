#!/usr/bin/env bash
# Trains the model that recipes/digits starts from: recipes/digits/start.safetensors, its weights in half precision.
#     recipes/speechocean762/start.sh SPEECHOCEAN762 KATHLEEN     the folders of the two corpora, see prepare.py
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/speechocean762

[ -e "$recipe/data/start/train.jsonl" ] ||
    python "$recipe/prepare.py" --speechocean762 "${1:?name the folder of speechocean762}" \
        --kathleen "${2:?name the folder of Kathleen}" --output "$recipe/data/start" --rate 8000 --without-readers
ds2 train "$recipe/start.toml" --output "$recipe/runs/start_first"
ds2 train "$recipe/start.toml" --output "$recipe/runs/start_second" --set epochs=10 --set optimizer.learning_rate=1.2e-3 \
    --set "start_from='runs/start_first/best.safetensors'"
python "$recipe/halve.py" "$recipe/runs/start_second/best.safetensors" recipes/digits/start.safetensors
