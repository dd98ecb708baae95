"""Code around all routes: refuses requests that no route may see, gives ids to all, adds security headers."""

import re
from collections.abc import Callable
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds2.serve.admission import Refused
from ds2.serve.logs import REQUEST

REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests for which `check` raises Refused, with the answer of `refused`, and closes their connections."""

    def __init__(
        self,
        app: ASGIApp,
        check: Callable[[HTTPConnection], None],
        refused: Callable[[HTTPConnection, Exception], Response],
    ):
        self.app, self.check, self.refused = app, check, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        app = self.app
        if scope["type"] in ("http", "websocket"):
            connection = HTTPConnection(scope)
            try:
                self.check(connection)
            except Refused as refusal:
                answer = self.refused(connection, refusal)
                answer.headers["connection"] = "close"
                app = answer
        await app(scope, receive, send)


class SecurityHeaders:
    """Adds the headers with which a browser allows the page only what it needs."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, with the headers added that the answer lacks."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = Headers(raw=message["headers"])
                added = [
                    (name.encode(), text.encode()) for name, text in SECURITY_HEADERS.items() if name not in present
                ]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self.app(scope, receive, sending)


class RequestIds:
    """Gives each request an id, its `X-Request-ID` or a new one, for the log and the header of the answer."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request = given if REQUEST_ID.fullmatch(given) else uuid4().hex
        REQUEST.set(request)  # in the task of this request alone

        async def sending(message: Message) -> None:
            if message["type"] in STARTS:
                message = {**message, "headers": [*message.get("headers", []), (b"x-request-id", request.encode())]}
            await send(message)

        await self.app(scope, receive, sending)
