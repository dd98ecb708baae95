#!/usr/bin/env bash
# Measures the joins of prepare.py's recordings and curates its readings.
#     recipes/longform/run.sh FOLDER [MODEL]      FOLDER: the output of prepare.py; MODEL: english by default
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?name the output of prepare.py} model=${2:-english}

[ ! -e "$folder/joins.jsonl" ] ||
    python recipes/longform/measure.py "$folder" --model "$model" | tee "$folder/joins.md"
[ ! -e "$folder/readings" ] || ds2 make-corpus "$folder/readings" --output "$folder/corpus" --model "$model"
