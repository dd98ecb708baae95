#!/usr/bin/env bash
# Prepares, trains and measures; killed and started again, it goes on where it was.
#     recipes/digits/run.sh [folder of the python and ds2 to use, by default those on PATH]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || PATH="$(cd "$1" && pwd):$PATH"
data=recipes/digits/data
runs=recipes/digits/runs/bundled

[ -e "$data/strangers.jsonl" ] || python recipes/digits/prepare.py --output "$data"
ds2 train recipes/digits/train.toml --output "$runs"
for split in test strangers; do
    echo "$split:"
    ds2 eval "$data/$split.jsonl" --model "$runs/best.safetensors" --listing "$runs/$split.txt"
done
