"""The routes of `ds2 serve`: the page, live streams, uploads, health, metrics."""

import asyncio
import logging
import time
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from ds2.serve.admission import Admission, Refused
from ds2.serve.config import ServeConfig
from ds2.serve.middleware import Guard, RequestIds, SecurityHeaders
from ds2.serve.models import Models
from ds2.serve.openai_messages import error_body
from ds2.serve.openai_routes import Transcriptions, refusal_of
from ds2.serve.prometheus import Metrics
from ds2.serve.websocket_session import LATER, POLICY, VoskSession, Waiting

log = logging.getLogger("ds2.serve")
FILES = ("cues.js", "docs.js", "openapi.json", "page.css", "page.js", "transcript.js", "upload.js", "worklet.js")
PAGE = {"": "index.html", "docs": "docs.html", **{name: name for name in FILES}}
MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
}
REFUSALS = {LATER: "busy", POLICY: "limits"}  # close codes that the metrics count among the refusals


class Application:
    """The state that the routes share."""

    def __init__(self, config: ServeConfig, model: Path):
        """`model` is the default; `config.models` are served beside it.

        Raises:
            InputError: two models have the same name.
        """
        self.config, self.models = config, Models([model, *config.models])
        self.metrics = Metrics()
        self.admission = Admission(config, self.metrics)
        self.sessions: set[VoskSession] = set()
        self.waiting = Waiting(config.limits.waiting_bytes, config.limits.streams)
        self.transcriptions = Transcriptions(self.models, config.limits)

    async def start(self) -> None:
        """Starts the model processes and waits until they are ready.

        Raises:
            InputError: a model cannot be loaded, or cannot stream.
        """
        await self.models.start(self.config, self.metrics)

    def stop(self) -> None:
        """Ends the other processes."""
        self.models.stop()
        self.transcriptions.decoders.stop()

    async def drain(self) -> None:
        """Refuses new clients, gives every live stream its final result, and waits until all have left."""
        self.admission.draining = True
        log.info("draining", extra={"facts": {"streams": self.admission.inside}})
        for session in self.sessions:
            session.drain()
        until = time.monotonic() + self.config.limits.drain_seconds
        while self.admission.inside and time.monotonic() < until:
            await asyncio.sleep(0.02)

    def routes(self) -> list[BaseRoute]:
        """All routes: the live WebSocket, the page, OpenAI's endpoints, health and metrics."""
        return [
            WebSocketRoute("/", self.live),
            *(Route(f"/{name}", self.page) for name in PAGE),
            Route("/v1/audio/transcriptions", self.transcribe, methods=["POST"]),
            Route("/v1/models", self.list_models),
            Route("/v1/models/{name}", self.list_models),
            Route("/healthz", self.healthy),
            Route("/readyz", self.ready),
            Route("/metrics", self.measure),
        ]

    async def page(self, request: Request) -> Response:
        """Answers a file of the page."""
        name = PAGE[request.url.path.strip("/")]
        text = (resources.files("ds2.serve") / "page" / name).read_bytes()
        return Response(text, media_type=MEDIA_TYPES[Path(name).suffix])

    async def healthy(self, request: Request) -> Response:
        """The process is alive."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Whether the server takes new streams."""
        if self.admission.draining or not self.models.is_ready:
            return PlainTextResponse("draining\n" if self.admission.draining else "the model is not ready\n", 503)
        return PlainTextResponse("ready\n")

    async def measure(self, request: Request) -> Response:
        """Answers the metrics in the text format of Prometheus."""
        self.admission.check_key(request)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def list_models(self, request: Request) -> Response:
        """The models of this server, in a list or by name."""
        self.admission.check_key(request)
        listing, name = self.models.listing, request.path_params.get("name")
        if name is None:
            return JSONResponse({"object": "list", "data": listing})
        found = [model for model in listing if model["id"] == name]
        if not found:
            raise HTTPException(404, f"the models here are {', '.join(self.models.paths)}")
        return JSONResponse(found[0])

    async def transcribe(self, request: Request) -> ASGIApp:
        """An upload keeps its place until its answer is sent: events are sent while the model still works."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            began = time.monotonic()
            with self.admission.place(request, "upload") as client:
                try:
                    status = await self.transcriptions.answer(request, client, send)
                except (HTTPException, ClientDisconnect) as error:
                    raise refusal_of(error) from error
            log.info("upload", extra={"facts": {"status": status, **_since(began)}})

        return answer

    async def live(self, websocket: WebSocket) -> None:
        """Serves a live stream, or refuses it before the handshake."""
        try:
            with self.admission.place(websocket, "live"):
                await self._session(websocket)
        except Refused as refusal:
            await websocket.send_denial_response(self.refused(websocket, refusal))

    async def _session(self, websocket: WebSocket) -> None:
        offered = websocket.scope.get("subprotocols", [])
        await websocket.accept("ds2" if "ds2" in offered else None)
        session, began = VoskSession(websocket, self.models, self.config.limits, self.waiting), time.monotonic()
        self.sessions.add(session)
        if self.admission.draining:  # the shutdown began during the handshake
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
        """The answer to a refused request."""
        assert isinstance(error, Refused)
        self.metrics.rejected.labels(error.kind).inc()
        log.info("refused", extra={"facts": {"status": error.status, "kind": error.kind}})
        headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        return JSONResponse(error_body(error.status, error.message, error.field), error.status, headers)


def make_app(application: Application) -> ASGIApp:
    """The ASGI application."""

    async def refused(request: Request, error: Exception) -> Response:
        return application.refused(request, error)

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse(error_body(error.status_code, error.detail), error.status_code, error.headers)

    async def failed(request: Request, error: Exception) -> Response:
        return JSONResponse(error_body(500, "the server failed on this request"), 500)

    handlers: dict[Any, Any] = {Refused: refused, HTTPException: unknown, Exception: failed}
    app = Starlette(routes=application.routes(), exception_handlers=handlers)
    guarded: ASGIApp = SecurityHeaders(Guard(app, application.admission.check_request, application.refused))
    if application.config.traces:
        from ds2.serve.traces import Traces

        guarded = Traces(guarded, application.config.traces)
    return RequestIds(guarded)


def _since(began: float) -> dict[str, float]:
    return {"seconds": round(time.monotonic() - began, 3)}
