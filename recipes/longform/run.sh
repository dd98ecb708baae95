#!/usr/bin/env bash
# Measures the joins of prepare.py's recordings and makes a corpus of its readings.
#     recipes/longform/run.sh FOLDER MODEL      FOLDER: the output of prepare.py
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1 model=$2

[ ! -e "$folder/joins.jsonl" ] || [ -s "$folder/joins.md" ] || {
    python recipes/longform/measure.py "$folder" --model "$model" > "$folder/joins.partial"
    mv "$folder/joins.partial" "$folder/joins.md"
}
[ ! -e "$folder/joins.md" ] || cat "$folder/joins.md"
[ ! -e "$folder/readings" ] || ds2 make-corpus "$folder/readings" --output "$folder/corpus" --model "$model"
