"""Adds a protocol to the server: a WebSocket that takes 16-bit sound at 8 kHz and answers each finished text, no JSON.

An empty message ends the sound. Within ds2 the session would be a module of `ds2/serve`, and its route one of
`Application.routes`.
"""

import asyncio
import socket
from pathlib import Path

import soundfile
import uvicorn
import websockets
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from ds2.serve.application import Application, make_app
from ds2.serve.config import ServeConfig
from ds2.serve.messages import StreamConfig
from ds2.utils.model_names import locate

READ = Path(__file__).parents[1] / "recipes" / "digits" / "audio" / "fsdd_theo_test.flac"


class PlainApplication(Application):
    """Also serves /plain."""

    def routes(self) -> list[BaseRoute]:
        return [WebSocketRoute("/plain", self.plain), *super().routes()]

    async def plain(self, websocket: WebSocket) -> None:
        """A stream from its first message to its last text."""
        with self.admission.place(websocket, "live"):  # a full server refuses; this counts as a stream until its end
            await websocket.accept()
            handle = self.models.pools[self.models.find("")].open(StreamConfig(8000))
            try:
                while data := await websocket.receive_bytes():
                    handle.feed(data)
                handle.end()
                while not handle.ends and handle.failed is None:
                    await handle.change()
                for final in handle.finals:
                    await websocket.send_text(final.transcript.text)
            finally:
                handle.close()
            await websocket.close()


async def client(port: int) -> None:
    sound, _ = soundfile.read(READ, 8000 * 4, dtype="int16")
    async with websockets.connect(f"ws://127.0.0.1:{port}/plain") as connection:
        await connection.send(sound.tobytes())
        await connection.send(b"")
        async for text in connection:
            print("final:", text)


async def serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    application = PlainApplication(ServeConfig(), locate("digits-streaming"))
    server = uvicorn.Server(uvicorn.Config(make_app(application), log_level="warning"))
    try:
        await application.start()
        serving = asyncio.create_task(server.serve([listener]))
        await client(listener.getsockname()[1])  # the listener queues it until the server accepts
        server.should_exit = True
        await serving
    finally:
        application.stop()


def main() -> None:
    asyncio.run(serve())


if __name__ == "__main__":
    main()
