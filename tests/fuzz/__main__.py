"""Attacks ds2 with hostile files and clients, and prints a table; the exit code is 1 where something went wrong.

    PYTHONPATH=tests python -m fuzz --minutes 60
    PYTHONPATH=tests python -m fuzz --kinds audio bundle --first 1234 --inputs 500

The inputs of a number are the same each time. Those with which something went wrong are kept, with a report.
"""

import argparse
import itertools
import random
import time
from pathlib import Path

from fuzz.kinds import KINDS
from fuzz.pool import fuzz, table


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--inputs", type=int, help="of each kind; without it as many as there is time for")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--first", type=int, default=random.randrange(10**9), help="number of the first input")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--into", type=Path, default=Path("runs/fuzz"), help="folder for what went wrong")
    options = parser.parse_args()
    last = None if options.inputs is None else options.first + options.inputs
    numbers = itertools.takewhile(lambda number: number != last, itertools.count(options.first))
    print(f"inputs from number {options.first} on", flush=True)
    until = time.monotonic() + 60 * options.minutes
    verdict = fuzz("fuzz.kinds", options.kinds, numbers, options.into, processes=options.processes, until=until)
    for finding in verdict.findings:
        print(f"{finding.folder}: {finding.outcome}: {finding.report.strip().splitlines()[-1][:200]}")
    print(table(verdict))
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
