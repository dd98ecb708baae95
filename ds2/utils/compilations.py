"""How long this process has compiled kernels."""

from dataclasses import dataclass


@dataclass
class Compilations:
    """The seconds until now; the compiler adds to them."""

    seconds: float = 0.0


compilations = Compilations()
