#!/usr/bin/env bash
# Prepares the data, trains two models in parallel, averages and measures them; a run that was killed continues when the
# same command is run again.
#     recipes/digits/run.sh [folder of the python and ds2 to use, by default those on PATH]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || PATH="$(cd "$1" && pwd):$PATH"
export OMP_NUM_THREADS=1
data=recipes/digits/data
runs=recipes/digits/runs

[ -e "$data/strangers.jsonl" ] || python recipes/digits/prepare.py --output "$data"
printf '%s\n' 1 2 | xargs -P 2 -I {} \
    ds2 train recipes/digits/train.toml --output "$runs/seed{}" --set seed={} --set data.workers=0
ds2 average "$runs"/seed{1,2}/best.safetensors --output "$runs/digits.safetensors"
ds2 calibrate "$data/dev.jsonl" --model "$runs/digits.safetensors"
for split in test strangers; do
    echo "$split:"
    ds2 eval "$data/$split.jsonl" --model "$runs/digits.safetensors" --listing "$runs/$split.txt"
done
