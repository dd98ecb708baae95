"""Fields of binary formats, drawn from what is usual and, seldom, from what is extreme."""

from random import Random

from fuzz.mutations import NUMBERS


class Fields:
    """Draws the fields of one input.

    Attributes:
        odd: the probability that a field is extreme, or that a part is missing, doubled or displaced; 0: valid.
    """

    def __init__(self, rng: Random, odd: float):
        self.rng, self.odd = rng, odd

    def is_odd(self) -> bool:
        return self.rng.random() < self.odd

    def number(self, *usual: int) -> int:
        return self.rng.choice(NUMBERS if self.is_odd() else usual)

    def big(self, size: int, *usual: int) -> bytes:
        """A field of so many bytes, the most significant first."""
        return (self.number(*usual) % 256**size).to_bytes(size, "big")

    def little(self, size: int, *usual: int) -> bytes:
        return self.big(size, *usual)[::-1]

    def parts(self, *parts: bytes) -> bytes:
        """The parts one after another; seldom one is missing, doubled, empty or in another place."""
        every = list(parts)
        if every and self.is_odd():
            place = self.rng.randrange(len(every))
            part = every.pop(place)
            if self.rng.random() < 0.7:
                every[place:place] = self.rng.choice(([], [part, part], [b""], [part[: len(part) // 2]], [part] * 50))
            else:
                every.insert(self.rng.randrange(len(every) + 1), part)
        return b"".join(every)
