"""Code around all routes: refuses requests that no route may see, and adds security headers to responses."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds2.serve.gate import Refused

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
