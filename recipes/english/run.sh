#!/usr/bin/env bash
# From raw recordings to ds2/models/english.safetensors; data and trainings go on where they were stopped.
#     recipes/english/run.sh SPEECHOCEAN762 KATHLEEN      the folders of the two corpora, see ../speechocean762/prepare.py
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/english
real=$recipe/data/real

[ -e "$real/train.jsonl" ] ||
    python recipes/speechocean762/prepare.py --speechocean762 "${1:?name the folder of speechocean762}" \
        --kathleen "${2:?name the folder of Kathleen}" --output "$real"
[ -e recipes/digits/data/small.jsonl ] || python recipes/digits/prepare.py --output recipes/digits/data
recipes/speechocean762/synthetic.sh

ds2 train "$recipe/train.toml" --output "$recipe/runs/english"
python recipes/speechocean762/halve.py "$recipe/runs/english/best.safetensors" "$recipe/runs/half.safetensors"

recipes/english/texts.sh
python "$recipe/sentences.py" "$real/train.jsonl" "$recipe/data/texts.txt" > "$recipe/runs/sentences.txt"
ds2 lm build "$recipe/runs/sentences.txt" -o "$recipe/runs/lm.arpa.gz" --order 3 --prune 0 1 1 --vocabulary 40000
ds2 tune-decoder "$real/dev.jsonl" --model "$recipe/runs/half.safetensors" --lm "$recipe/runs/lm.arpa.gz" \
    --output ds2/models/english.safetensors --picture "$recipe/decoder.png"
