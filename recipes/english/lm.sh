#!/usr/bin/env bash
# The English language models, from texts and manifests; goes on where it was stopped, and ends with the perplexities.
#     recipes/english/lm.sh TEXTS MANIFESTS OUTPUT
# TEXTS holds books.txt.xz and everyday.txt.xz with the .tsv of each, MANIFESTS train.jsonl and dev-*.jsonl of prepare.py.
# OUTPUT gets small.lm, for the bundle and the search, and large.lm, for --rescore.
set -euo pipefail
texts=${1:?name the folder of books.txt.xz and everyday.txt.xz}
manifests=${2:?name the folder of train.jsonl and dev-*.jsonl}
output=${3:?name the folder to write into}
recipe=$(dirname "$0")
mkdir -p "$output/parts"

[ -e "$output/texts/books.txt" ] ||
    python "$recipe/lm_texts.py" --books "$texts/books.txt.xz" --everyday "$texts/everyday.txt.xz" \
        --train "$manifests/train.jsonl" --dev "$manifests"/dev-*.jsonl --output "$output/texts"
dev=$output/texts/dev/all.txt
[ -e "$output/words.txt" ] || ds2 lm vocabulary "$output"/texts/*.txt --dev "$dev" --size 100000 -o "$output/words.txt"

for text in "$output"/texts/*.txt; do # with counts that stand pruning, see LM.md
    part=$output/parts/$(basename "$text" .txt).lm
    prune="0 0 0 1"
    [ "$(basename "$text")" != books.txt ] || prune="0 0 1 1"
    # shellcheck disable=SC2086
    [ -e "$part" ] || ds2 lm build "$text" -o "$part" --order 4 --prune $prune --words "$output/words.txt" --no-continuation
done
[ -e "$output/mixed.lm" ] || ds2 lm mix "$output"/parts/*.lm --dev "$dev" -o "$output/mixed.lm"
[ -e "$output/small.arpa.gz" ] || ds2 lm prune "$output/mixed.lm" --ngrams 3000000 -o "$output/small.arpa.gz"
[ -e "$output/small.lm" ] || ds2 lm compile "$output/small.arpa.gz" -o "$output/small.lm" --quantize
[ -e "$output/large.lm" ] || ds2 lm compile "$output/mixed.lm" -o "$output/large.lm" --quantize

for model in small large; do
    for text in "$output"/texts/dev/*.txt; do
        echo "$model, $(basename "$text" .txt): $(ds2 lm score "$output/$model.lm" "$text")"
    done
done
