"""Attacks a parser of ds2's own with inputs that coverage guides (atheris: libFuzzer for Python).

    pip install atheris
    PYTHONPATH=tests python -m fuzz.coverage manifest --minutes 10

The valid inputs of a kind come first; what covers new lines of the parser is changed further. An input after which
anything but an InputError is raised is kept, and ends the run with a report; the exit code is 0 only without one.
"""

import argparse
import contextlib
import importlib
import shutil
import sys
import tempfile
from pathlib import Path

PARSERS = {  # kind: module of tests/fuzz, its attribute, and what of ds2 is instrumented
    "manifest": ("texts", "MANIFEST", ["ds2.data.manifest", "ds2.data.utterance"]),
    "config": ("texts", "CONFIG", ["ds2.utils.config"]),
    "arpa": ("models", "ARPA", ["ds2.lm.arpa"]),
    "bundle": ("models", "BUNDLE", ["ds2.bundle", "ds2.model_record", "ds2.recognition.decoding"]),
    "webm": ("containers", "KIND", ["ds2.audio"]),
    "ebml": ("ebml", "KIND", ["ds2.audio"]),
    "boxes": ("boxes", "KIND", ["ds2.audio"]),
}
KERNELS = "lm.checks", "decoder.search", "decoder.nbest", "decoder.lexicon"  # numba cannot compile what is instrumented
LARGEST = 1 << 16  # bytes of an input


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=PARSERS)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--into", type=Path, default=Path("runs/fuzz"), help="folder for what went wrong")
    options = parser.parse_args()
    import atheris

    for name in KERNELS:
        importlib.import_module(f"ds2.{name}")
    module, attribute, instrumented = PARSERS[options.kind]
    with atheris.instrument_imports(include=instrumented):
        kind = getattr(importlib.import_module(f"fuzz.{module}"), attribute)
    from ds2.utils.errors import InputError

    options.into.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    corpus, place = folder / "corpus", folder / "input"
    corpus.mkdir()
    seeds = kind.seeds()
    for number, files in enumerate(seeds):
        (corpus / f"{number}").write_bytes(next(iter(files.values())))
    name = next(iter(seeds[0]))

    def enter(data: bytes) -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / name).write_bytes(data)
        with contextlib.suppress(InputError):
            kind.enter(place / name)

    limits = (
        f"-max_total_time={round(60 * options.minutes)}",
        f"-max_len={LARGEST}",
        "-rss_limit_mb=4096",
        "-timeout=30",
    )
    kept = f"-artifact_prefix={options.into}/{options.kind}-"
    atheris.Setup([sys.argv[0], *limits, kept, "-print_final_stats=1", str(corpus)], enter)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
