#!/usr/bin/env bash
# Mandarin from a tar of recordings with a manifest and a text; a run that was killed continues when it is run again.
#     recipes/common_voice/mandarin.sh RECORDINGS TEXT START BUNDLE
#     recipes/common_voice/mandarin.sh common_voice_zh.tar mandarin.txt.xz english.safetensors mandarin.safetensors
# START is the bundle that the training starts from; dev and test are whole speakers. RANKS=2 trains with two processes.
set -euo pipefail
cd "$(dirname "$0")/../.."
recordings=${1:?name the recordings} text=${2:?name the text} start=${3:?name a bundle} bundle=${4:?name the bundle to write}
recipe=recipes/common_voice
data=$recipe/data/zh runs=$recipe/runs/mandarin

[ -e "$data/train.jsonl" ] || python "$recipe/prepare.py" --source "$recordings" --output "$data" --language zh-CN
mkdir -p "$runs"
[ -e "$runs/sentences.txt" ] || {
    python "$recipe/mandarin_text.py" "$text" "$data/dev.jsonl" "$data/test.jsonl" > "$runs/sentences.part"
    mv "$runs/sentences.part" "$runs/sentences.txt"
}
[ -e "$runs/characters.lm" ] ||
    ds2 lm build "$runs/sentences.txt" -o "$runs/characters.lm" --characters --order 5 --prune 0 0 1
torchrun --standalone --nproc-per-node "${RANKS:-1}" --no-python ds2 train "$recipe/mandarin.toml" \
    --output "$runs/train" --set "start_from='$(realpath "$start")'"
ds2 tune-decoder "$data/dev.jsonl" --model "$runs/train/best.safetensors" --lm "$runs/characters.lm" --output "$bundle"
for part in dev test; do
    echo "$part:"
    ds2 eval "$data/$part.jsonl" --model "$bundle" --beam 0
    ds2 eval "$data/$part.jsonl" --model "$bundle" --listing "$runs/$part.txt"
done
