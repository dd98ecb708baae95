#!/usr/bin/env bash
# From raw recordings to ds2/models/english.safetensors, some two hours on 2 CPU cores; goes on where it was stopped.
#     recipes/english/run.sh SPEECHOCEAN762 KATHLEEN      folders of the two corpora, see ../speechocean762/prepare.py
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/english runs=recipes/english/runs
real=$recipe/data/real spoken=$recipe/data/synthetic

[ -e "$real/dev.jsonl" ] ||
    python recipes/speechocean762/prepare.py --speechocean762 "$1" --kathleen "$2" --output "$real"
[ -e recipes/digits/data/small.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
ds2 data sample recipes/digits/data/small.jsonl --hours 0.2 -o "$recipe/data/digits.jsonl"
[ -e "$spoken/train.jsonl" ] || python recipes/synthetic/prepare.py --output "$spoken" --hours 5.5
ds2 data sample "$spoken/train.jsonl" --hours 1.2 -o "$recipe/data/spoken.jsonl"

ds2 train "$recipe/train.toml" --output "$runs/synthetic" --set epochs=3 --set sortagrad=true \
    --set "data.train=['data/synthetic/train.jsonl']" --set "data.dev='data/synthetic/dev.jsonl'" \
    --set optimizer.learning_rate=2e-3
ds2 train "$recipe/train.toml" --output "$runs/english" --set "start_from='runs/synthetic/best.safetensors'"
python recipes/speechocean762/halve.py "$runs/english/best.safetensors" "$runs/half.safetensors"

python "$recipe/sentences.py" "$real/train.jsonl" recipes/synthetic/english.txt > "$runs/sentences.txt"
ds2 lm build "$runs/sentences.txt" -o "$runs/lm.arpa.gz" --order 3 --prune 0 0 1
ds2 tune-decoder "$real/dev.jsonl" --model "$runs/half.safetensors" --lm "$runs/lm.arpa.gz" --closed \
    --output ds2/models/english.safetensors --picture "$recipe/decoder.png"
