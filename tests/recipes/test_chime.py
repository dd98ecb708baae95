"""The recipe of noise keeps the copies that it makes apart."""

import os
import subprocess
from pathlib import Path

from ds2.data.manifest import Utterance, read_manifest, write_manifest

SCRIPT = Path(__file__).parents[2] / "recipes" / "chime" / "run.sh"
# Says what is evaluated, and mixes by copying: which folder a copy lies in is the script's matter alone.
DS2 = """#!/usr/bin/env bash
if [ "$1" = eval ]; then grep -o '"text": "[a-z ]*"' "$2"; else mkdir -p "$5" && cp "$3" "$5/manifest.jsonl"; fi
"""


def run(folder: Path, manifest: Path, *others: Path) -> list[str]:
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command = ["bash", str(folder / "chime" / "run.sh"), "digits", str(manifest), *map(str, others)]
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return result.stdout.splitlines()


def test_corpora_of_the_same_name_have_their_own_copies(tmp_path: Path) -> None:
    for folder in ("bin", "chime", "a", "b", "noise", "rooms"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "ds2").write_text(DS2)
    (tmp_path / "bin" / "ds2").chmod(0o755)
    (tmp_path / "chime" / "run.sh").write_bytes(SCRIPT.read_bytes())
    manifests = [tmp_path / corpus / "test.jsonl" for corpus in "ab"]
    for manifest, text in zip(manifests, ("one", "two"), strict=True):
        write_manifest(manifest, [Utterance(manifest.parent / "a.wav", 1.0, text)])
    for manifest, text in zip(manifests, ("one", "two"), strict=True):
        told = run(tmp_path, manifest, tmp_path / "noise")
        assert told[1::2] == [f'"text": "{text}"'] * 7
        assert told[::2] == ["clean:", "20 dB:", "15 dB:", "10 dB:", "5 dB:", "0 dB:", "room and line:"]
    run(tmp_path, manifests[0], tmp_path / "noise", tmp_path / "rooms")
    copies = sorted((tmp_path / "chime" / "data").iterdir())
    assert len(copies) == 3
    assert {read_manifest(copy / "0" / "manifest.jsonl")[0].text for copy in copies} == {"one", "two"}
