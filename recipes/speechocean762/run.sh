#!/usr/bin/env bash
# From the corpus to its error rates, in some 90 minutes on 2 CPU cores; data and trainings go on where they were stopped.
#     recipes/speechocean762/run.sh SPEECHOCEAN762      the folder of the corpus, see prepare.py
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/speechocean762 runs=recipes/speechocean762/runs

[ -e "$recipe/data/train.jsonl" ] ||
    python "$recipe/prepare.py" --speechocean762 "${1:?name the folder of speechocean762}" --output "$recipe/data"
recipes/speechocean762/synthetic.sh
ds2 train "$recipe/train.toml" --output "$runs/read" --set "start_from='runs/synthetic/best.safetensors'" \
    --set sortagrad=false --set optimizer.learning_rate=1.5e-3

recipes/english/texts.sh
python recipes/english/sentences.py "$recipe/data/train.jsonl" recipes/english/data/texts.txt > "$runs/sentences.txt"
ds2 lm build "$runs/sentences.txt" -o "$runs/lm.arpa.gz" --order 3 --prune 0 1 1 --vocabulary 40000
ds2 tune-decoder "$recipe/data/dev.jsonl" --model "$runs/read/best.safetensors" --lm "$runs/lm.arpa.gz" --closed \
    --output "$runs/tuned.safetensors"
ds2 eval "$recipe/data/dev.jsonl" --model "$runs/tuned.safetensors" --beam 0
ds2 eval "$recipe/data/dev.jsonl" --model "$runs/tuned.safetensors" --listing "$runs/dev.txt"
