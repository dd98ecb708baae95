"""Places of which clients hold few: who waits gets one in turn, the client that holds the fewest first."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

LARGEST_PART = 0.75  # of all places that one client may hold; the others find the rest


class Turns:
    """So many places for all clients."""

    def __init__(self, places: int):
        self.places = places
        self.held: Counter[str] = Counter()  # by each client
        self.waiting: list[tuple[str, asyncio.Future[None]]] = []  # in the order of their coming

    @contextlib.asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Holds a place, after it has waited for it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((client, turn))
        self._give()
        try:
            await turn
            yield
        finally:
            if (client, turn) in self.waiting:  # it left before its turn
                self.waiting.remove((client, turn))
            else:
                self.held[client] -= 1
                self.held += Counter()  # without those that hold none
            self._give()

    def _give(self) -> None:
        """Gives the free places to those who wait."""
        most = max(1, int(self.places * LARGEST_PART))
        while self.waiting and self.held.total() < self.places:
            client, turn = min(self.waiting, key=lambda wait: self.held[wait[0]])
            if self.held[client] >= most:
                return
            self.waiting.remove((client, turn))
            self.held[client] += 1
            if not turn.done():
                turn.set_result(None)
