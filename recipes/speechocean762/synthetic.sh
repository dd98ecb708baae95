#!/usr/bin/env bash
# The model that read English starts from: five hours of synthetic speech, 25 minutes on a CPU core, and 10 to speak it.
#     recipes/speechocean762/synthetic.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/speechocean762
spoken=$PWD/recipes/synthetic/data/english

python recipes/synthetic/prepare.py --output "$spoken" --hours 5.5
ds2 train "$recipe/train.toml" --output "$recipe/runs/synthetic" --set epochs=3 \
    --set "data.train=['$spoken/train.jsonl']" --set "data.dev='$spoken/dev.jsonl'"
