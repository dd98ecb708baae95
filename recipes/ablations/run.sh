#!/usr/bin/env bash
# All runs of ablations.py, two at a time, then the table and the figure: about 50 minutes on 2 CPU cores. The log of the
# runs is recipes/ablations/runs/log.txt.
#     recipes/ablations/run.sh [folder of the python and ds2 to use, by default those on PATH]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || PATH="$(cd "$1" && pwd):$PATH"
export OMP_NUM_THREADS=1
runs=recipes/ablations/runs

[ -e recipes/digits/data/strangers.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
mkdir -p "$runs"
python recipes/ablations/ablations.py commands "$runs" |
    xargs -P 2 -L 1 ds2 train recipes/ablations/base.toml >> "$runs/log.txt" 2>&1
python recipes/ablations/ablations.py table "$runs" recipes/ablations/ablations.png
