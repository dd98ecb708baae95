"""What the fuzzer attacks: a kind of input, how hostile ones are made, and the public entry that reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

Files = dict[str, bytes]  # an input: name -> content; the first is the one that the entry gets


@dataclass(frozen=True)
class Kind:
    """One row of the table.

    Attributes:
        seeds: gives valid inputs, the same each time.
        make: a hostile input from the valid ones.
        enter: reads an input, given by the path of its first file; may raise InputError and nothing else.
    """

    seeds: Callable[[], list[Files]]
    make: Callable[[Random, list[Files]], Files]
    enter: Callable[[Path], None]
