"""Sentences from three Debian packages for the language model: Jane Austen's novels, WordNet's examples, fortunes.

apt-get download r-cran-janeaustenr wordnet-base fortunes
for package in *.deb; do dpkg-deb -x "$package" FOLDER; done
python recipes/english/texts.py FOLDER > texts.txt
"""

import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from ds2.text import normalize

STRING = re.compile(rb"\x00\x04\x00\x09(.{4})", re.DOTALL)  # R writes this before an ASCII string; the length follows
TITLES = {"Mr.": "mister", "Mrs.": "missus", "Ms.": "miss", "Dr.": "doctor", "St.": "saint"}
ENDS = re.compile(r"[.!?;:][\"')]*\s+|--+|—|[\"“”()]")
SHORTEST, LONGEST = 3, 30  # words


def novels(folder: Path) -> str:
    """The lines of R's data, in which every object is a zlib stream after four bytes."""
    data = (folder / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    lines = []
    while data:
        stream = zlib.decompressobj()
        values, data = stream.decompress(data[4:]), stream.unused_data
        for head in STRING.finditer(values):
            lines.append(values[head.end() : head.end() + int.from_bytes(head[1], "big")].decode("ascii", "replace"))
    return "\n".join(lines)


def examples(folder: Path) -> str:
    files = sorted((folder / "usr/share/wordnet").glob("data.*"))
    quoted = (re.findall(r'"([^"]+)"', file.read_text("latin-1")) for file in files)
    return "\n\n".join(example for found in quoted for example in found)


def fortunes(folder: Path) -> str:
    """The fortunes without their authors."""
    files = sorted((folder / "usr/share/games/fortunes").iterdir())
    texts = [file for file in files if file.suffix == "" and not file.is_symlink() and file.name != "ascii-art"]
    return "\n\n".join(re.sub(r"\n\s+-- .*", "", file.read_text("latin-1")).replace("\n%\n", "\n\n") for file in texts)


def sentences(text: str) -> Iterator[str]:
    """The normalised sentences; those with digits or foreign letters are left out."""
    text = re.sub(r"\[[^\]]*\]|[_*]", "", text)
    text = re.sub(r"\n\s*\n", ". ", text).replace("\n", " ")
    text = re.sub(r"\b(Mr|Mrs|Ms|Dr|St)\.", lambda title: TITLES[title[0]], text)
    for part in ENDS.split(text):
        sentence = "" if re.search(r"\d", part) else normalize(part, "en")
        if re.fullmatch("[a-z' ]+", sentence) and SHORTEST <= len(sentence.split()) <= LONGEST:
            yield sentence


if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = (sentence for read in (novels, examples, fortunes) for sentence in sentences(read(root)))
    print("\n".join(dict.fromkeys(found)))
