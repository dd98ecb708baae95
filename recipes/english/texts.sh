#!/usr/bin/env bash
# Writes recipes/english/data/texts.txt, from which the language model is estimated together with the transcripts: texts
# from Debian packages if there is an apt-get, otherwise only WordNet's sentences of recipes/synthetic.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=recipes/english/data
[ ! -e "$data/texts.txt" ] || exit 0
mkdir -p "$data/packages"
if command -v apt-get > /dev/null; then
    (cd "$data/packages" && apt-get download r-cran-janeaustenr wordnet-base fortunes)
    for package in "$data"/packages/*.deb; do dpkg-deb -x "$package" "$data/packages"; done
    python recipes/english/texts.py "$data/packages" > "$data/texts.part"
else
    cp recipes/synthetic/english.txt "$data/texts.part"
fi
mv "$data/texts.part" "$data/texts.txt"
