#!/usr/bin/env bash
# The runs of tables of ablations.py, two at a time, then the tables and the figure. On 2 idle CPU cores choices takes
# about 50 minutes. The log of the runs is recipes/ablations/runs/log.txt.
#     recipes/ablations/run.sh [TABLE...]          # choices, depth, size, noise, speakers; by default all
#     BIN=.venv/bin recipes/ablations/run.sh       # the folder of python and ds2, by default those on PATH
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -z "${BIN:-}" ] || PATH="$(cd "$BIN" && pwd):$PATH"
export OMP_NUM_THREADS=1
runs=recipes/ablations/runs data=recipes/digits/data
[ $# -gt 0 ] || set -- choices depth size noise speakers

[ -e $data/strangers.jsonl ] || python recipes/digits/prepare.py --output $data
[ -e $data/noisy/manifest.jsonl ] || ds2 data mix $data/dev.jsonl --output $data/noisy --sample-rate 8000 --snr 5 20
[ -e $data/speakers ] || python recipes/ablations/ablations.py manifests
mkdir -p "$runs"
for table; do
    python recipes/ablations/ablations.py commands "$table" $runs |
        xargs -P 2 -L 1 ds2 train recipes/ablations/base.toml >> "$runs/log.txt" 2>&1
done
for table; do
    echo "$table"
    python recipes/ablations/ablations.py table "$table" $runs "$runs/$table.png"
done
