#!/usr/bin/env bash
# LSTM and BN-LSTM on connected digits, three seeds, two runs at a time: two hours on 2 CPU cores.
#     recipes/recurrent_bn/speech.sh RESULTS
set -euo pipefail
results="$(realpath -m "$1")"
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1

[ -e recipes/digits/data/strangers.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
mkdir -p "$results"

arguments() { # TASK.NAME SEED CELL BATCH EPOCHS [--set KEY=VALUE]
    echo recipes/ablations/base.toml --output "$results/$1.$2" --set "seed=$2" --set "model.cell=$3" \
        --set "batch_size=$4" --set "epochs=$5" --set model.hidden=80 "${@:6}"
}

for seed in 1 2 3; do
    for cell in lstm bn-lstm bn-lstm-e; do
        arguments "speech.$cell" "$seed" "$cell" 32 16
        arguments "speech-64.$cell" "$seed" "$cell" 64 32
        arguments "speech-forward.$cell" "$seed" "$cell" 32 16 --set model.bidirectional=false
    done
    arguments speech.lstm-plain "$seed" lstm 32 16 --set model.batch_norm=false
done | xargs -P 2 -L 1 ds2 train >> "$results/speech.log" 2>&1

for seed in 1 2 3; do
    for gamma in 0.3 1; do
        echo "$gamma" "$(arguments "speech.bn-lstm-$gamma" "$seed" bn-lstm 32 16)"
    done
done | xargs -P 2 -L 1 python recipes/recurrent_bn/gamma.py >> "$results/speech.log" 2>&1
