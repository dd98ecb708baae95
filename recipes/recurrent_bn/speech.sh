#!/usr/bin/env bash
# LSTM and BN-LSTM on connected digits, in minibatches of 32, three seeds, two runs at a time: 90 minutes on 2 CPU cores.
#     recipes/recurrent_bn/speech.sh RESULTS
set -euo pipefail
results="$(realpath -m "$1")"
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1

[ -e recipes/digits/data/strangers.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
mkdir -p "$results"

arguments() { # TASK.NAME CELL BIDIRECTIONAL SEED
    echo recipes/ablations/base.toml --output "$results/$1.$4" --set "seed=$4" --set epochs=16 --set batch_size=32 \
        --set "model.cell=$2" --set model.hidden=80 --set "model.bidirectional=$3"
}

for seed in 1 2 3; do
    for cell in lstm bn-lstm; do
        arguments "speech.$cell" "$cell" true "$seed"
        arguments "speech-forward.$cell" "$cell" false "$seed"
    done
done | xargs -P 2 -L 1 ds2 train >> "$results/speech.log" 2>&1

for seed in 1 2 3; do
    for gamma in 0.3 1; do
        echo "$gamma" "$(arguments "speech.bn-lstm-$gamma" bn-lstm true "$seed")"
    done
done | xargs -P 2 -L 1 python recipes/recurrent_bn/gamma.py >> "$results/speech.log" 2>&1
