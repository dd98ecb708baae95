#!/usr/bin/env bash
# From text to WER on synthetic speech; every stage continues where it was stopped.
#     recipes/synthetic/run.sh [small | full] [HOURS]       full is for a GPU
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/synthetic size=${1:-small}
case $size in small) config=train.toml hours=${2:-5} ;; full) config=full.toml hours=${2:-100} ;; esac

python "$recipe/prepare.py" --output "$recipe/data/english" --hours "$hours"
ds2 train "$recipe/$config" --output "$recipe/runs/$size"
for part in test test_noisy; do
    ds2 eval "$recipe/data/english/$part.jsonl" --model "$recipe/runs/$size/best.safetensors"
done
