#!/usr/bin/env bash
# From a corpus to its error rates; killed at any point and started again, it goes on where it was.
#     recipes/NAME/run.sh FOLDER [train|full]                 FOLDER holds the corpus
#     recipes/NAME/run.sh --download FOLDER [train|full]      it is to be downloaded there
# The second argument names the configuration, train.toml (small, the default) or full.toml. Called by each recipe with
# its name and the splits to be measured before these arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=recipes/$1 splits=$2
shift 2
where=--source
if [ "${1:-}" = --download ]; then
    where=--download
    shift
fi
folder=${1:?name the folder of the corpus} config=${2:-train}
data=$recipe/data run=$recipe/runs/$config

[ -e "$data/train.jsonl" ] || python "$recipe/prepare.py" $where "$folder" --output "$data"
ds2 train "$recipe/$config.toml" --output "$run"
for split in $splits; do
    [ -e "$data/$split.jsonl" ] || continue # a corpus may be there in parts
    echo "$split:"
    ds2 eval "$data/$split.jsonl" --model "$run/best.safetensors" --listing "$run/$split.txt"
done
