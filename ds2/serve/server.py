"""`ds2 serve`: one port for the page, WebSockets, uploads, health and metrics. The model never runs in this process.

SIGTERM drains: /readyz says no, nobody new comes in, live streams get the final result of what was heard, then it ends.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from ds2.bundle import locate, read_metadata
from ds2.serve.config import ServeConfig
from ds2.serve.gate import Gate, Refused
from ds2.serve.messages import WorkerConfig
from ds2.serve.metrics import Metrics
from ds2.serve.openai import Transcriptions, problem, refusal_of
from ds2.serve.pool import Pool
from ds2.serve.vosk import LATER, POLICY, VoskSession
from ds2.utils.errors import InputError

log = logging.getLogger("ds2.serve")
PAGE = {"": "index.html", "page.js": "page.js", "page.css": "page.css", "worklet.js": "worklet.js"}
REFUSALS = {LATER: "busy", POLICY: "limits"}  # close codes that the metrics count, as they count refused uploads
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Application:
    """What the routes share."""

    def __init__(self, config: ServeConfig, model: Path):
        self.config, self.model = config, model
        self.metrics = Metrics()
        self.gate = Gate(config, self.metrics)
        self.sessions: set[VoskSession] = set()
        self.pool: Pool | None = None
        self.transcriptions: Transcriptions | None = None

    async def start(self) -> None:
        """Starts the model processes and waits for them.

        Raises:
            InputError: the model cannot be loaded, or cannot stream.
        """
        config = self.config
        devices = config.device.split(",") * config.workers
        slots = -(-config.limits.streams // len(devices))
        workers = [
            WorkerConfig(self.model, device, config.decoder, config.precision, slots, config.live, config.dispatch)
            for device in devices
        ]
        self.pool = Pool(workers, self.metrics, self.config.limits.wait, self.config.limits.answer)
        rate = await self.pool.started()
        self.transcriptions = Transcriptions(self.pool, self.config.limits, rate)

    def stop(self) -> None:
        """Ends the model processes."""
        if self.pool is not None:
            self.pool.stop()

    async def drain(self) -> None:
        """Lets nobody in, gives every live stream its final result, and waits until all have gone."""
        self.gate.draining = True
        log.info("draining", extra={"facts": {"streams": self.gate.inside}})
        for session in self.sessions:
            session.drain()
        until = time.monotonic() + self.config.limits.drain
        while self.gate.inside and time.monotonic() < until:
            await asyncio.sleep(0.02)

    def routes(self) -> list[BaseRoute]:
        """Of the whole server."""
        return [
            WebSocketRoute("/", self.live),
            *(Route(f"/{name}", self.page) for name in PAGE),
            Route("/v1/audio/transcriptions", self.transcribe, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name}", self.models),
            Route("/healthz", self.healthy),
            Route("/readyz", self.ready),
            Route("/metrics", self.measure),
        ]

    async def page(self, request: Request) -> Response:
        name = PAGE[request.url.path.strip("/")]
        text = (resources.files("ds2.serve") / "page" / name).read_bytes()
        return Response(text, media_type=KINDS[Path(name).suffix])

    async def healthy(self, request: Request) -> Response:
        """Whether the process lives."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Whether it takes streams."""
        if self.gate.draining or self.pool is None or not self.pool.is_ready:
            return PlainTextResponse("draining\n" if self.gate.draining else "the model is not ready\n", 503)
        return PlainTextResponse("ready\n")

    async def measure(self, request: Request) -> Response:
        self.gate.check_key(request)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        """The one that is served: in a list, or by its name."""
        self.gate.check_key(request)
        model = {"id": self.model.stem, "object": "model", "created": 0, "owned_by": "ds2"}
        name = request.path_params.get("name")
        if name is None:
            return JSONResponse({"object": "list", "data": [model]})
        if name != self.model.stem:
            raise HTTPException(404, f"the model here is {self.model.stem}")
        return JSONResponse(model)

    async def transcribe(self, request: Request) -> ASGIApp:
        """The answer holds its place until it has been sent: events come while the model still works."""
        self.gate.check(request)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            assert self.transcriptions is not None
            began = time.monotonic()
            with self.gate.enter("upload"):
                try:
                    response = await self.transcriptions.answer(request)
                except (HTTPException, ClientDisconnect) as error:
                    raise refusal_of(error) from error
                await response(scope, receive, send)
            log.info("upload", extra={"facts": {"status": response.status_code, **_since(began)}})

        return answer

    async def live(self, websocket: WebSocket) -> None:
        try:
            self.gate.check(websocket)
        except Refused as refusal:
            await websocket.send_denial_response(self.refused(websocket, refusal))
            return
        assert self.pool is not None
        offered = websocket.scope.get("subprotocols", [])
        await websocket.accept("ds2" if "ds2" in offered else None)
        session, began = VoskSession(websocket, self.pool, self.config.limits), time.monotonic()
        with self.gate.enter("live"):
            self.sessions.add(session)
            if self.gate.draining:  # it came in while the server began to go down
                session.drain()
            try:
                over = await session.run()
            finally:
                self.sessions.discard(session)
        if over.code in REFUSALS:
            self.metrics.rejected.labels(REFUSALS[over.code]).inc()
        sound = session.handle.fed if session.handle is not None else 0.0
        facts = {"code": over.code, "reason": over.reason, "sound": round(sound, 2), **_since(began)}
        log.info("stream", extra={"facts": facts})

    def refused(self, connection: HTTPConnection, error: Exception) -> Response:
        """The answer to what is not let in."""
        assert isinstance(error, Refused)
        self.metrics.rejected.labels(error.kind).inc()
        log.info("refused", extra={"facts": {"status": error.status, "kind": error.kind}})
        headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        return JSONResponse(problem(error.status, error.message, error.field), error.status, headers)


class SafeHeaders:
    """Adds the headers that keep a browser from doing more than the page needs."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = Headers(raw=message["headers"])
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in present]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self.app(scope, receive, sending)


def make_app(application: Application) -> ASGIApp:
    """The ASGI application."""

    async def refused(request: Request, error: Exception) -> Response:
        return application.refused(request, error)

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse(problem(error.status_code, error.detail), error.status_code, error.headers)

    async def failed(request: Request, error: Exception) -> Response:
        return JSONResponse(problem(500, "the server failed on this request"), 500)

    handlers: dict[Any, Any] = {Refused: refused, HTTPException: unknown, Exception: failed}
    return SafeHeaders(Starlette(routes=application.routes(), exception_handlers=handlers))


class Server(uvicorn.Server):
    """Drains at the first signal; a second one ends it at once."""

    application: Application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.application.gate.draining or not self.started:
            super().handle_exit(sig, frame)
            return
        self.application.gate.draining = True
        loop = asyncio.get_running_loop()
        loop.call_soon_threadsafe(lambda: setattr(self, "drained", loop.create_task(self._drain())))

    async def _drain(self) -> None:
        await self.application.drain()
        self.should_exit = True


def run(config: ServeConfig) -> int:
    """Serves until a signal ends it; the exit code.

    Raises:
        InputError: the model cannot be loaded or cannot stream, the port is taken, a certificate cannot be read.
    """
    model = config.model or locate("digits-streaming")
    read_metadata(model)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(Application(config, model)))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: twice as fast as asyncio's own."""
    with contextlib.suppress(ModuleNotFoundError):
        import uvloop

        return uvloop.new_event_loop
    return None


async def _serve(application: Application) -> None:
    config = application.config
    listening = _listen(config)
    settings = uvicorn.Config(
        make_app(application),
        host=config.host,
        port=config.port,
        ws="websockets-sansio",
        ws_max_size=config.limits.message,
        ws_per_message_deflate=False,
        ssl_certfile=config.certificate,
        ssl_keyfile=config.certificate_key,
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    try:
        _load(settings)  # a bad certificate is found before the model is loaded
        await application.start()
        server = Server(settings)
        server.application = application
        log.info("ready", extra={"facts": {"url": _url(listening, config), "model": application.model.name}})
        await server.serve([listening])
    finally:
        listening.close()
        application.stop()


def _load(settings: uvicorn.Config) -> None:
    try:
        settings.load()
    except OSError as error:  # ssl.SSLError is one
        raise InputError(f"{settings.ssl_certfile}: cannot be used for TLS ({error})") from error


def _listen(config: ServeConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise InputError(f"{config.host}:{config.port}: cannot listen here ({error})") from error


def _url(listening: socket.socket, config: ServeConfig) -> str:
    host, port = listening.getsockname()[:2]
    scheme = "http" if config.certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _since(began: float) -> dict[str, float]:
    return {"seconds": round(time.monotonic() - began, 3)}
