#!/usr/bin/env bash
# Makes a Mandarin bundle from recordings and a text; a run that was killed continues when the same command is run again.
#     recipes/mandarin/run.sh TEXT START BUNDLE PREPARE-OPTION...
#     recipes/mandarin/run.sh mandarin.txt.xz english.safetensors mandarin.safetensors \
#         --common-voice common_voice_zh.tar --others aishell_sample.tar
# TEXT is for the language model, START the bundle that training starts from; the options are those of prepare.py. Needs
# pypinyin. RANKS=2 trains with two processes.
set -euo pipefail
cd "$(dirname "$0")/../.."
text=${1:?name the text} start=${2:?name a bundle} bundle=${3:?name the bundle to write}
shift 3
recipe=recipes/mandarin
data=$recipe/data runs=$recipe/runs
mkdir -p "$runs"

[ -e "$data/train.jsonl" ] || python "$recipe/prepare.py" --output "$data" "$@"
[ -e "$runs/sentences.txt" ] || {
    python "$recipe/texts.py" "$text" "$data/dev.jsonl" "$data/test.jsonl" > "$runs/sentences.part"
    mv "$runs/sentences.part" "$runs/sentences.txt"
}
[ -e "$data/lexicon.txt" ] ||
    python "$recipe/pinyin.py" "$runs/sentences.txt" "$data"/{train,dev}.jsonl \
        --lexicon "$data/lexicon.txt" --characters "$data/characters.txt"
[ -e "$runs/characters.lm" ] ||
    ds2 lm build "$runs/sentences.txt" -o "$runs/characters.lm" --characters --order 5 --prune 0 0 1
[ -e "$runs/small.lm" ] || ds2 lm compile "$runs/characters.lm" -o "$runs/small.lm" --quantize
torchrun --standalone --nproc-per-node "${RANKS:-1}" --no-python ds2 train "$recipe/train.toml" \
    --output "$runs/train" --set "start_from='$(realpath "$start")'"
python recipes/speechocean762/halve.py "$runs/train/best.safetensors" "$runs/half.safetensors"
# A third of the dev utterances chooses the decoder's weights: each of some hundred decodings takes seconds.
awk 'NR % 3 == 1' "$data/dev.jsonl" > "$data/tuning.jsonl"
ds2 tune-decoder "$data/tuning.jsonl" --model "$runs/half.safetensors" --lm "$runs/small.lm" \
    --lexicon "$data/lexicon.txt" --output "$bundle"
ds2 calibrate "$data/dev.jsonl" --model "$bundle"
for part in dev test; do
    echo "$part:"
    ds2 eval "$data/$part.jsonl" --model "$bundle" --listing "$runs/$part.txt"
done
