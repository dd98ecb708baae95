#!/usr/bin/env bash
# SortaGrad against random order, batch normalisation against none, 3 seeds each: 12 runs, two at a time, then the
# table and the figure. The log of the runs is RUNS/log.txt.
#     recipes/digits/compare.sh [folder of the python and ds2 to use, by default those on PATH]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || PATH="$(cd "$1" && pwd):$PATH"
export OMP_NUM_THREADS=1
runs=recipes/digits/runs/comparison

[ -e recipes/digits/data/strangers.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
mkdir -p "$runs"
for seed in 1 2 3; do
    for sortagrad in true false; do
        for norm in true false; do
            echo "--output $runs/sortagrad=$sortagrad,norm=$norm,seed=$seed" \
                "--set seed=$seed --set sortagrad=$sortagrad --set model.batch_norm=$norm"
        done
    done
done | xargs -P 2 -L 1 ds2 train recipes/digits/comparison.toml >> "$runs/log.txt" 2>&1
python recipes/digits/compare.py "$runs" recipes/digits/comparison.png
