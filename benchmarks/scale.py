"""Time and memory of manifests by their size: compile, open, the order of an epoch, the first minibatch, a resume, ...

    python benchmarks/scale.py --sizes 10000 100000 1000000 --output benchmarks/scale

Each step runs in a process of its own, which reports its time and its peak of memory, beyond what the imports take; the
pages of the mapped file, which all processes share, do not count. The audio is not touched.
"""

import argparse
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ds2.utils.files import atomic_write, make_folder

BATCH = 64
WORDS = "the of and to in is that it was for on are as with his they at be this from".split()


def write_lines(path: Path, size: int) -> None:
    """A manifest of synthetic utterances of 1 to 16 seconds, 7 words each."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for first in range(0, size, 10_000):
            seconds = rng.uniform(1, 16, 10_000).round(2).tolist()
            words = rng.integers(0, len(WORDS), (10_000, 7))
            for number in range(first, min(first + 10_000, size)):
                text = " ".join(WORDS[word] for word in words[number - first])
                audio = f"audio/{number // 1000:06}/{number:09}.flac"
                line = f'"duration": {seconds[number - first]}, "text": "{text}", "speaker": "s{number % 997}"'
                file.write(f'{{"audio_filepath": "{audio}", {line}}}\n')


def compile_lines(lines: Path) -> None:
    from ds2.data.compiled import compile_manifest

    compile_manifest(lines, lines.with_suffix(".arrow"))


def open_compiled(lines: Path) -> None:
    from ds2.data.manifest import read_manifest

    assert read_manifest(lines.with_suffix(".arrow"))[0].text


def read_lines(lines: Path) -> None:
    from ds2.data.manifest import read_manifest

    read_manifest(lines)


def sampler_of(lines: Path) -> Any:
    from ds2.data.columnar import durations
    from ds2.data.manifest import read_manifest
    from ds2.data.sampler import SortaGradSampler

    return SortaGradSampler(durations(read_manifest(lines.with_suffix(".arrow"))), BATCH, seed=1)


def order(lines: Path) -> None:
    """Of the second epoch, which is random."""
    sampler_of(lines).batches(1)


def first_minibatch(lines: Path) -> None:
    """From opening to the utterances of the first minibatch of an epoch: a worker's or a rank's start."""
    from ds2.data.manifest import read_manifest

    sampler, utterances = sampler_of(lines), read_manifest(lines.with_suffix(".arrow"))
    sampler.begin(1)
    assert len([utterances[index].text for _, index in next(iter(sampler))]) == BATCH


def resume(lines: Path) -> None:
    """The same, at the middle of the epoch."""
    sampler = sampler_of(lines)
    sampler.begin(1, start=len(sampler) // 2)
    next(iter(sampler))


def alphabet(lines: Path) -> None:
    from ds2.data.columnar import values
    from ds2.data.manifest import read_manifest
    from ds2.text import Tokenizer

    Tokenizer.from_texts(values(read_manifest(lines.with_suffix(".arrow")), "text"))


def statistics(lines: Path) -> None:
    from ds2.data.manifest import read_manifest, summary

    assert summary(read_manifest(lines.with_suffix(".arrow"))).hours > 0


def split_by_speaker(lines: Path) -> None:
    from ds2.data.manifest import read_manifest
    from ds2.data.split import split

    assert len(split(read_manifest(lines.with_suffix(".arrow")), {"dev": 0.01, "test": 0.01})["dev"])


def leaks(lines: Path) -> None:
    """What `ds2 data validate` compares between the training set and a test set of a thousand utterances."""
    from ds2.data.manifest import read_manifest
    from ds2.data.validate import leaks

    utterances = read_manifest(lines.with_suffix(".arrow"))
    assert any(leaks({"train": utterances, "test": utterances[:1000]}))


STEPS: dict[str, Callable[[Path], None]] = {
    "compile": compile_lines,
    "open": open_compiled,
    "order of an epoch": order,
    "first minibatch": first_minibatch,
    "resume in mid-epoch": resume,
    "alphabet": alphabet,
    "statistics": statistics,
    "split by speaker": split_by_speaker,
    "leaks": leaks,
    "read JSON Lines": read_lines,
}


def own_megabytes() -> float:
    """Memory of this process that no file backs."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def measured(step: str, lines: Path) -> tuple[float, float]:
    """Seconds of CPU, and MB of peak memory."""
    import ds2.data.manifest
    import ds2.data.sampler  # noqa: F401

    before, peak, done = own_megabytes(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak.append(max(peak.pop(), own_megabytes()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.process_time()
    STEPS[step](lines)
    seconds = time.process_time() - began
    done.set()
    watcher.join()
    return seconds, max(0.0, peak[0] - before)


def measure(sizes: list[int], folder: Path) -> Iterator[dict[str, Any]]:
    for size in sizes:
        lines = folder / f"{size}.jsonl"
        write_lines(lines, size)
        for step in STEPS:
            if step == "read JSON Lines" and size > 1_000_000:
                continue  # one object for each utterance: what compiling is for
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, megabytes = pool.apply(measured, (step, lines))
            print(f"{size:>10} {step:20} {seconds:8.2f} s {megabytes:8.0f} MB", flush=True)
            yield {"size": size, "step": step, "seconds": seconds, "megabytes": megabytes}
        lines.unlink()
        lines.with_suffix(".arrow").unlink()


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Cost against size on logarithmic axes: straight lines of slope 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, key, unit in ((left, "seconds", "seconds of CPU"), (right, "megabytes", "MB of memory")):
        for step in STEPS:
            points = [(row["size"], max(row[key], 1e-3)) for row in rows if row["step"] == step]
            axes.loglog(*zip(*points, strict=True), marker="o", label=step)
        axes.set(xlabel="utterances", ylabel=unit)
        axes.grid(alpha=0.3)
    left.legend(fontsize=7)
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/scale"))
    arguments = parser.parse_args()
    make_folder(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measure(arguments.sizes, Path(folder)))
    (arguments.output / "scale.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, arguments.output / "scale.png")


if __name__ == "__main__":
    main()
