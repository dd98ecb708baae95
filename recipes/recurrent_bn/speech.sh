#!/usr/bin/env bash
# LSTM and BN-LSTM on connected digits, in minibatches of 32, three seeds, two runs at a time: an hour on 2 CPU cores.
#     recipes/recurrent_bn/speech.sh RESULTS
set -euo pipefail
results="$(realpath -m "$1")"
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1

[ -e recipes/digits/data/strangers.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
mkdir -p "$results"
for seed in 1 2 3; do
    for both in true false; do
        for cell in lstm bn-lstm; do
            [ $both = true ] && task=speech || task=speech-forward
            echo --output "$results/$task.$cell.$seed" --set "seed=$seed" --set epochs=16 --set batch_size=32 \
                --set "model.cell=$cell" --set model.hidden=80 --set "model.bidirectional=$both"
        done
    done
done | xargs -P 2 -L 1 ds2 train recipes/ablations/base.toml >> "$results/speech.log" 2>&1
