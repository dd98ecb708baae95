#!/usr/bin/env bash
# From a corpus to its error rates; a run that was killed continues when the same command is run again.
#     recipes/NAME/run.sh FOLDER [train|full]                 FOLDER holds the corpus
#     recipes/NAME/run.sh --download FOLDER [train|full]      the corpus is downloaded to FOLDER
# The last argument names the configuration, train.toml (small, the default) or full.toml. Each recipe calls this script
# with its name and the splits to measure before these arguments.
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
    [ -e "$data/$split.jsonl" ] || continue # only a part of the corpus may be present
    echo "$split:"
    ds2 eval "$data/$split.jsonl" --model "$run/best.safetensors" --listing "$run/$split.txt"
done
