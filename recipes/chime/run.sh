#!/usr/bin/env bash
# Error rates of a model at falling signal-to-noise ratios, and down a telephone line in a reverberant room.
#     recipes/chime/run.sh MODEL MANIFEST NOISE [ROOMS]     bundle, test set, folders of noise and of impulse responses
set -euo pipefail
model=${1:?name a bundle} manifest=${2:?name a manifest} noise=${3:?name a folder of noise} rooms=${4:-}
data=$(dirname "$0")/data/$(basename "$manifest" .jsonl)

report() {
    echo "$1:"
    ds2 eval "$2" --model "$model"
}

report clean "$manifest"
for snr in 20 15 10 5 0; do
    [ -e "$data/$snr/manifest.jsonl" ] ||
        ds2 data mix "$manifest" --output "$data/$snr" --noise "$noise" --snr $snr $snr --layers 1 2
    report "$snr dB" "$data/$snr/manifest.jsonl"
done
[ -e "$data/line/manifest.jsonl" ] ||
    ds2 data mix "$manifest" --output "$data/line" --share 0 --line-share 1 ${rooms:+--rooms "$rooms"} \
        --set reverberation_share=1.0
report "room and line" "$data/line/manifest.jsonl"
