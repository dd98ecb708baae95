#!/usr/bin/env bash
# Error rates of a model at falling signal-to-noise ratios, and down a telephone line in a reverberant room.
#     recipes/chime/run.sh MODEL MANIFEST NOISE [ROOMS]     bundle, test set, folders of noise and of impulse responses
set -euo pipefail
model=${1:?name a bundle} manifest=${2:?name a manifest} noise=${3:?name a folder of noise} rooms=${4:-}
sources=$(realpath -e "$manifest" "$noise" ${rooms:+"$rooms"} | sha256sum)  # of other sources there are other copies
data=$(dirname "$0")/data/$(basename "$manifest" .jsonl)-${sources:0:8}

report() {
    echo "$1:"
    ds2 eval "$2" --model "$model"
}

mix() {  # FOLDER OPTIONS...: the copy in data/FOLDER, unless it is there and the manifest has not changed since
    [ "$data/$1/manifest.jsonl" -nt "$manifest" ] || ds2 data mix "$manifest" --output "$data/$1" "${@:2}"
}

report clean "$manifest"
for snr in 20 15 10 5 0; do
    mix $snr --noise "$noise" --snr $snr $snr --layers 1 2
    report "$snr dB" "$data/$snr/manifest.jsonl"
done
mix line --noise-probability 0 --channel-probability 1 ${rooms:+--impulse-responses "$rooms"} --set reverberation_probability=1.0
report "room and line" "$data/line/manifest.jsonl"
