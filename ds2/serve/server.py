"""`ds2 serve`: one port for the page, WebSockets, uploads, health and metrics. The model runs in other processes.

At SIGTERM the server drains: /readyz fails, new clients are refused, live streams get the final result of their sound
so far; then it ends.
"""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable
from contextvars import Context
from types import FrameType
from typing import Any

import uvicorn

from ds2.bundle import read_record
from ds2.recognition.engine import ONNX_SUFFIX
from ds2.serve.application import Application, make_app
from ds2.serve.config import ServeConfig
from ds2.serve.systemd import READY, STOPPING, keep_alive, notify
from ds2.serve.tls_listener import TlsListener
from ds2.serve.uvicorn_connections import HttpConnection, Settings
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.model_names import DEFAULT_MODEL, locate

log = logging.getLogger("ds2.serve")


class Server(uvicorn.Server):
    """Drains at the first signal; the second one ends it at once."""

    application: Application
    config: Settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn, whose handshakes of TLS would have a minute, and nothing would count them."""
        self.servers = []
        await self.lifespan.startup()
        loop, config = asyncio.get_running_loop(), self.config
        config.connections = self.server_state.connections

        def connection() -> HttpConnection:
            return HttpConnection(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        for sock in sockets or ():
            if config.ssl is None:
                server: Any = await loop.create_server(connection, sock=sock, backlog=config.backlog)
            else:
                server = TlsListener(sock, config, connection)
            self.servers.append(server)
        self.started = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to drain at the first signal, and ends at the second."""
        if self.application.admission.draining:
            super().handle_exit(sig, frame)
            return
        if not self.started:
            self.should_exit = True
            return
        self.application.admission.draining = True
        # A signal interrupts any task; what it begins belongs to no request.
        asyncio.get_running_loop().call_soon_threadsafe(self._begin_drain, context=Context())

    def _begin_drain(self) -> None:
        self.drained = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        notify(STOPPING)
        await self.application.drain()
        self.should_exit = True


def run(config: ServeConfig, on_listening: Callable[[str], object]) -> int:
    """Serves until a signal ends it; returns the exit code.

    `on_listening` gets the page's address before the model is loaded: a browser that comes so early waits for the page.

    Raises:
        InputError: the model cannot be loaded or cannot stream, the port is taken, a certificate cannot be read.
    """
    model = config.model or locate(DEFAULT_MODEL)
    for path in (model, *config.models):
        if path.suffix != ONNX_SUFFIX:  # which onnxruntime checks
            read_record(path)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(Application(config, model), on_listening))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop if it is installed: twice as fast as that of asyncio."""
    with contextlib.suppress(ModuleNotFoundError):
        import uvloop

        return uvloop.new_event_loop
    return None


async def _serve(application: Application, on_listening: Callable[[str], object]) -> None:
    config = application.config
    settings = _settings(application)
    listening = _listening_socket(config, settings.backlog)
    on_listening(_url(listening, config).replace("//0.0.0.0:", "//127.0.0.1:"))
    try:
        _load_application(settings)  # finds a bad certificate before the model is loaded
        if not await _started(application):
            return
        server = Server(settings)
        server.application = application
        log.info("ready", extra={"facts": {"url": _url(listening, config), "models": list(application.models.paths)}})
        warn_if_exposed(config)
        await _serve_until_signal(server, listening)
    finally:
        listening.close()
        application.stop()


async def _serve_until_signal(server: Server, listening: socket.socket) -> None:
    notify(READY)
    watchdog = asyncio.create_task(keep_alive())
    try:
        await server.serve([listening])
    finally:
        watchdog.cancel()


async def _started(application: Application) -> bool:
    """Starts the application; False if SIGTERM came before it was ready."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    starting, stopping = asyncio.create_task(application.start()), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            log.info("stopped before the model was ready")
            return False
        await starting  # raises its exception
        return True
    finally:
        starting.cancel()
        stopping.cancel()
        loop.remove_signal_handler(signal.SIGTERM)


def _settings(application: Application) -> Settings:
    config = application.config
    return Settings(
        make_app(application),
        request_timeout=config.limits.request_timeout_seconds,
        host=config.host,
        port=config.port,
        ws_max_size=config.limits.message_bytes,
        ws_per_message_deflate=False,
        ssl_certfile=config.certificate,
        ssl_keyfile=config.certificate_key,
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=list(config.trusted_proxies),
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=2,
    )


def warn_if_exposed(config: ServeConfig) -> None:
    """Other machines can reach an address that is not a loopback address."""
    with contextlib.suppress(ValueError):
        if config.host == "localhost" or ipaddress.ip_address(config.host).is_loopback:
            return
    facts = {"facts": {"host": config.host}}
    if not config.api_keys:
        log.warning("everybody who reaches this address can use the server; set api_keys", extra=facts)
    if config.certificate is None:
        log.warning("connections are not encrypted; set certificate and certificate_key", extra=facts)


def _load_application(settings: Settings) -> None:
    try:
        settings.load()
    except OSError as error:  # ssl.SSLError is one
        raise InputError(f"{settings.ssl_certfile}: cannot be used for TLS ({error})") from error


def _listening_socket(config: ServeConfig, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        socket.getaddrinfo(config.host or None, 0)  # ValueError: no host can have this name
        listening = socket.create_server((config.host, config.port), family=family, backlog=backlog)
        _drop_who_does_not_read(listening, config.limits.idle_seconds)
        return listening
    except (OSError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ParameterError(
                "port", f"{config.port} is in use on {config.host}; name another one, or 0 for any that is free"
            ) from error
        raise InputError(f"{config.host}:{config.port}: cannot listen here ({error})") from error


def _drop_who_does_not_read(listening: socket.socket, seconds: float) -> None:
    """Has the system end connections whose clients take nothing of an answer for so long.

    A closed connection would wait until its last byte is taken. Accepted connections inherit the option.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * min(seconds, 86_400)))


def _url(listening: socket.socket, config: ServeConfig) -> str:
    host, port = listening.getsockname()[:2]
    scheme = "http" if config.certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
