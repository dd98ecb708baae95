#!/usr/bin/env bash
# Makes a bundle from recordings and texts; a run that was killed continues when the same command is run again.
#     recipes/english/run.sh TEXTS CMUDICT BUNDLE PREPARE-OPTION...
#     recipes/english/run.sh texts cmudict.dict english.safetensors --librispeech librispeech_mini.tar \
#         --common-voice common_voice_en.tar --speechocean762 so762_train.tar --kathleen kathleen.tar --others ljspeech_vctk.tar
# TEXTS holds books.txt.xz and everyday.txt.xz, see lm.sh; the options are those of prepare.py. LEGS="train longer" continues
# training by longer.toml, START=bundle.safetensors starts from another model, RANKS=2 trains with two processes.
set -euo pipefail
cd "$(dirname "$0")/../.."
texts=${1:?name the folder of the texts} cmudict=${2:?name the pronouncing dictionary} bundle=${3:?name the bundle to write}
shift 3
recipe=recipes/english
data=$recipe/data runs=$recipe/runs

[ -e "$data/train.jsonl" ] || python "$recipe/prepare.py" --output "$data" "$@"
lexicon() { # OUTPUT SOURCE...: the pronunciations of all words of the sources
    [ -e "$1" ] || { python "$recipe/lexicon.py" "$cmudict" "${@:2}" > "$1.part" && mv "$1.part" "$1"; }
}
lexicon "$data/lexicon.txt" "$data/train.jsonl" "$data/dev.jsonl"

start=()
[ -z "${START:-}" ] || start=(--set "start_from='$(realpath "$START")'" --set sortagrad=false)
for leg in ${LEGS:-train}; do
    train=(train "$recipe/$leg.toml" --output "$runs/$leg" "${start[@]}")
    if [ "${RANKS:-1}" -gt 1 ]; then
        torchrun --standalone --nproc-per-node "$RANKS" --no-python ds2 "${train[@]}"
    else
        ds2 "${train[@]}"
    fi
    start=()
done
python recipes/speechocean762/halve.py "$runs/$leg/best.safetensors" "$runs/half.safetensors"

"$recipe/lm.sh" "$texts" "$data" "$runs/lm"
lexicon "$runs/lm_lexicon.txt" "$runs/lm/small.lm"
ds2 tune-decoder "$data/dev.jsonl" --model "$runs/half.safetensors" --lm "$runs/lm/small.lm" \
    --lexicon "$runs/lm_lexicon.txt" --output "$bundle" --picture "$recipe/decoder.png"
for dev in "$data"/dev-*.jsonl; do
    echo "$dev:"
    ds2 eval "$dev" --model "$bundle" --listing "$runs/$(basename "$dev" .jsonl).txt"
done
