#!/usr/bin/env bash
# Adds what is fitted last to a bundle with its decoder: punctuation, then the confidence of words and what is no speech.
#     recipes/english/complete.sh TEXTS MANIFESTS BUNDLE
# TEXTS holds books.txt.xz and everyday.txt.xz, MANIFESTS dev-*.jsonl of prepare.py. PUNCTUATION=file.safetensors takes a
# tagger that is trained already, NOISE=folder recordings without speech. Run it again whenever the model or its decoder
# has changed.
set -euo pipefail
texts=${1:?name the folder of the texts} manifests=${2:?name the folder of dev-*.jsonl} bundle=${3:?name the bundle}
recipe=$(dirname "$0")
punctuation=${PUNCTUATION:-$manifests/punctuation.safetensors}

[ -e "$punctuation" ] || python "$recipe/punctuation.py" train "$punctuation" \
    --books "$texts/books.txt.xz" --everyday "$texts/everyday.txt.xz"
python "$recipe/punctuation.py" add "$punctuation" "$bundle"
ds2 calibrate "$manifests"/dev-{librispeech,common-voice,speechocean762}.jsonl --model "$bundle" \
    ${NOISE:+--noise "$NOISE"}
