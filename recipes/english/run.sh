#!/usr/bin/env bash
# Makes bundles from recordings and texts; a run that was killed continues when the same command is run again.
#     recipes/english/run.sh TEXTS CMUDICT BUNDLE PREPARE-OPTION...
#     recipes/english/run.sh texts cmudict.dict english.safetensors --librispeech librispeech_mini.tar \
#         --common-voice common_voice_en.tar --speechocean762 so762_train.tar --kathleen kathleen.tar --others ljspeech_vctk.tar
# TEXTS holds books.txt.xz and everyday.txt.xz, see lm.sh; the options are those of prepare.py. Trains by train.toml, then by
# longer.toml from there. UNLABELLED=folder adds recordings without a text: the model so far transcribes them and trains on
# by unlabelled.toml, then a wider one by wider.toml and one with gates and biphones by biphones.toml.
# LEGS=longer START=bundle.safetensors trains on from a bundle, RANKS=2 trains with two processes.
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

train() { # LEG [START]: trains by LEG.toml, from a bundle if one is named
    local start=()
    [ -z "${2:-}" ] || start=(--set "start_from='$(realpath "$2")'" --set sortagrad=false)
    local command=(train "$recipe/$1.toml" --output "$runs/$1" "${start[@]}")
    if [ "${RANKS:-1}" -gt 1 ]; then
        torchrun --standalone --nproc-per-node "$RANKS" --no-python ds2 "${command[@]}"
    else
        ds2 "${command[@]}"
    fi
}

# One half of the dev utterances chooses the decoder's weights, the other half measures them.
awk 'FNR % 2 == 0' "$data"/dev-*.jsonl > "$data/tuning.jsonl"
for dev in "$data"/dev-*.jsonl; do
    awk 'FNR % 2' "$dev" > "$data/report-${dev##*/dev-}"
done

assemble() { # WEIGHTS BUNDLE: adds the language model, pronunciations and tuned weights, and what complete.sh adds
    python recipes/speechocean762/halve.py "$1" "$runs/half.safetensors"
    ds2 tune-decoder "$data/tuning.jsonl" --model "$runs/half.safetensors" --lm "$runs/lm/small.lm" \
        --lexicon "$runs/lm_lexicon.txt" --output "$2" --picture "$recipe/decoder.png"
    python "$recipe/neural_lm.py" add "$runs/neural.safetensors" "$2" "$data/tuning.jsonl"
    "$recipe/complete.sh" "$texts" "$data" "$2"
}
label() { # BUNDLE LEG: writes what it hears in the recordings without a text, and sounds without speech, for that leg
    ds2 transcribe "$UNLABELLED" --model "$1" --format json --no-punctuate --skip-existing --output "$data/$2/transcripts" ||
        [ $? = 1 ] # some recordings cannot be read: the others are enough
    python "$recipe/self_label.py" "$data/$2/transcripts" --output "$data/$2" --leave-out "$data"/dev-*.jsonl
}

start=${START:-}
for leg in ${LEGS:-train longer}; do
    train "$leg" "$start"
    start=$runs/$leg/best.safetensors
done
"$recipe/lm.sh" "$texts" "$data" "$runs/lm"
lexicon "$runs/lm_lexicon.txt" "$runs/lm/small.lm"
[ -e "$runs/neural.safetensors" ] || python "$recipe/neural_lm.py" train "$runs/lm/texts" "$runs/neural.safetensors"
for leg in ${UNLABELLED:+unlabelled wider biphones}; do
    teacher=$runs/teacher-$leg.safetensors
    [ -e "$teacher" ] || assemble "$start" "$teacher"
    [ -e "$data/$leg/self.jsonl" ] || label "$teacher" "$leg"
    lexicon "$data/$leg/lexicon.txt" "$data/train.jsonl" "$data/dev.jsonl" "$data/$leg/self.jsonl"
    train "$leg" "$start"
    start=$runs/$leg/best.safetensors
done
assemble "$start" "$bundle"
for report in "$data"/report-*.jsonl; do
    echo "$report:"
    name=$(basename "$report" .jsonl)
    ds2 eval "$report" --model "$bundle" --listing "$runs/$name.txt" --calibration "$runs/$name.png"
done
