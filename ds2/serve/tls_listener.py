"""Connections in the handshake of TLS, which no protocol sees before it has ended."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from ds2.serve.uvicorn_connections import HttpConnection, Settings

FULL_SECONDS = 0.1  # between two tries to accept a connection when there is no descriptor for it


class TlsListener:
    """Accepts connections and does their handshakes; silent ones make room when descriptors run out."""

    def __init__(self, listening: socket.socket, settings: Settings, make: Callable[[], HttpConnection]):
        """Begins to accept; `make` gives the protocol of a connection whose handshake has ended."""
        self.listening, self.settings, self.make = listening, settings, make
        self.loop = asyncio.get_running_loop()
        self.handshakes: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        listening.listen(settings.backlog)
        self.accepting = self.loop.create_task(self._accept())

    def close(self) -> None:
        """Accepts no more; handshakes that have not ended are cut off."""
        for task in (self.accepting, *self.handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Waits until it no longer accepts connections and all handshakes have ended."""
        await asyncio.gather(self.accepting, *self.handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                client, _ = await self.loop.sock_accept(self.listening)
            except OSError:  # no descriptor, or a client that has left
                self.settings.make_room()
                await asyncio.sleep(FULL_SECONDS)
                continue
            task = self.loop.create_task(self._shake(client))
            self.handshakes.add(task)
            task.add_done_callback(self.handshakes.discard)
            if self.settings.is_full(client.fileno()):
                self.settings.make_room()
            await asyncio.sleep(0)  # between two connections of a flood the others have their turn

    async def _shake(self, client: socket.socket) -> None:
        self.settings.handshakes[client] = None
        try:
            with contextlib.suppress(OSError):  # also errors of TLS and the deadline: the transport closes itself
                await self.loop.connect_accepted_socket(
                    self.make, client, ssl=self.settings.ssl, ssl_handshake_timeout=self.settings.request_timeout
                )
        finally:
            self.settings.handshakes.pop(client, None)
