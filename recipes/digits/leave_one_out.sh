#!/usr/bin/env bash
# Leave one speaker out: for each FSDD speaker a model trained without that speaker and tested on all of the speaker's
# recordings. Two trainings at a time.
#     recipes/digits/leave_one_out.sh [folder of the python and ds2 to use, by default those on PATH]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || PATH="$(cd "$1" && pwd):$PATH"
export OMP_NUM_THREADS=1

one() {
    data=recipes/digits/data/without_$1
    run=recipes/digits/runs/without_$1
    [ -e "$data/strangers.jsonl" ] || python recipes/digits/prepare.py --output "$data" --hold-out "$1" > /dev/null
    ds2 train recipes/digits/train.toml --output "$run" --set data.workers=0 --set epochs=3 \
        --set "data.train=['data/without_$1/train.jsonl']" --set "data.dev='data/without_$1/dev.jsonl'" > "$run.log" 2>&1
    echo "$1: $(ds2 eval "$data/test.jsonl" --model "$run/best.safetensors" | head -n 1)"
}
export -f one
mkdir -p recipes/digits/runs
printf '%s\n' george jackson lucas nicolas theo yweweler | xargs -P 2 -I {} bash -ec "one {}"
