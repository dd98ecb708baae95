#!/usr/bin/env bash
# Builds the English language models from texts and manifests, and prints their perplexities; continues after a stop.
#     recipes/english/lm.sh TEXTS MANIFESTS OUTPUT
#     BOOKS=gutenberg/txt LEAVE_OUT=leave_out.txt recipes/english/lm.sh TEXTS MANIFESTS OUTPUT
# TEXTS holds books.txt.xz and everyday.txt.xz with the .tsv of each, MANIFESTS train.jsonl and dev-*.jsonl of prepare.py.
# BOOKS adds a folder of plain texts, one for each book, without those that LEAVE_OUT names: see lm_texts.py and LM.md.
# OUTPUT gets small.lm, for the bundle and the search, and large.lm, for --rescore.
set -euo pipefail
texts=${1:?name the folder of books.txt.xz and everyday.txt.xz}
manifests=${2:?name the folder of train.jsonl and dev-*.jsonl}
output=${3:?name the folder to write into}
recipe=$(dirname "$0")
mkdir -p "$output/parts" "$output/counts"

collection=()
[ -z "${BOOKS:-}" ] || collection+=(--collection "$BOOKS")
[ -z "${LEAVE_OUT:-}" ] || collection+=(--leave-out "$LEAVE_OUT")
[ -e "$output/texts/wordnet.txt" ] ||
    python "$recipe/lm_texts.py" --books "$texts/books.txt.xz" --everyday "$texts/everyday.txt.xz" "${collection[@]}" \
        --train "$manifests/train.jsonl" --dev "$manifests"/dev-*.jsonl --output "$output/texts"
dev=$output/texts/dev/all.txt
[ -e "$output/words.txt" ] || ds2 lm vocabulary "$output"/texts/*.txt --dev "$dev" --size 100000 -o "$output/words.txt"

for text in "$output"/texts/*.txt; do
    name=$(basename "$text" .txt) prune="0 0 0 1" counted=$text
    if [ "$name" = books ] && [ -n "${BOOKS:-}" ]; then
        # Contexts are as frequent in a quarter of so many sentences as in all.
        prune="0 0 2 3" counted=$output/quarter.txt
        [ -e "$counted" ] || awk 'NR % 4 == 1' "$text" > "$counted"
    elif [ "$name" = books ]; then
        prune="0 0 1 1"
    fi
    # shellcheck disable=SC2086
    [ -e "$output/parts/$name.lm" ] ||
        ds2 lm build "$text" -o "$output/parts/$name.lm" --words "$output/words.txt" --order 4 --prune $prune --memory 4000
    # The longest context has three words.
    [ -e "$output/counts/$name.lm" ] ||
        ds2 lm build "$counted" -o "$output/counts/$name.lm" --words "$output/words.txt" --order 3 --no-continuation \
            --prune 0 0 "$([ "$name" = books ] && echo 1 || echo 0)"
done
for kind in parts counts; do
    [ -e "$output/$kind.lm" ] || ds2 lm mix "$output/$kind"/*.lm --dev "$dev" -o "$output/$kind.lm"
done
[ -e "$output/small.arpa.gz" ] ||
    ds2 lm prune "$output/parts.lm" --histories "$output/counts.lm" --ngrams 7000000 -o "$output/small.arpa.gz"
[ -e "$output/small.lm" ] || ds2 lm compile "$output/small.arpa.gz" -o "$output/small.lm" --quantize
[ -e "$output/large.lm" ] || ds2 lm compile "$output/parts.lm" -o "$output/large.lm" --quantize

for model in small large; do
    for text in "$output"/texts/dev/*.txt; do
        echo "$model, $(basename "$text" .txt): $(ds2 lm score "$output/$model.lm" "$text")"
    done
done
