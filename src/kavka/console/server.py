"""ConsoleServer: the application on its port, for as long as it is wanted.

Decides how the port is taken (before anything is opened, so that a port that is taken costs nothing), when the console
is called ready, and what ends it: a signal, or, where it runs beside a cluster, the end of who started it.

    I1  `on_ready` is called once, when the port accepts.
    I2  A page that is open when the console stops holds it up for STOP_S at most.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from kavka.console.app import create_app
from kavka.runtime.http_deadlines import TimedHttp
from kavka.runtime.loop import new_event_loop
from kavka.runtime.ports import listen_or_elsewhere
from kavka.runtime.server_tls import ServerTls

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from kavka.console.settings import ConsoleSettings

COLLECT_AFTER: Final = (50_000, 20, 100)
"""New objects before the collector looks at the youngest, and how many of its rounds make one of the older ones'."""
STOP_S: Final = 2
MAX_CONNECTIONS: Final = 1_000
BACKLOG: Final = 128


def bind(host: str, port: int, *, elsewhere: bool = False) -> socket.socket:
    """A socket that listens there; with `elsewhere` on any port where that one is taken. Raises AddressUnavailable."""
    return listen_or_elsewhere(host.strip("[]"), port, elsewhere=elsewhere, backlog=BACKLOG, what="the console")


def address_of(settings: ConsoleSettings, bound: socket.socket) -> str:
    """What a browser opens."""
    host = settings.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
    shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    return f"{'http' if settings.tls is None else 'https'}://{shown}:{bound.getsockname()[1]}/"


def serve(
    settings: ConsoleSettings, bound: socket.socket, *, on_ready: Callable[[str], None], while_input: bool = False
) -> None:
    """Serves until a signal comes, or with `while_input` until standard input ends.

    Raises ConfigError where nobody could log in; sqlite3.Error and OSError where its files cannot be had.
    """
    tls = None if settings.tls is None else ServerTls(settings.tls)
    app = create_app(settings)
    config = configuration(app)
    if tls is not None:
        config.load()
        config.ssl = tls.context
    server = _Server(config, lambda: on_ready(address_of(settings, bound)), app.state.console.closing)

    async def run() -> None:
        if while_input:
            _end_with_input(server)
        watch = None if tls is None else asyncio.create_task(tls.watch(), name="certificate")
        await server.serve(sockets=[bound])
        if watch is not None:
            watch.cancel()

    # Snapshots of ten thousand partitions are a hundred thousand objects without cycles, which the collector would look
    # through again and again, a third of a second each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run())


def configuration(app: ASGIApp) -> uvicorn.Config:
    """How the application is served.

    Nobody is believed about X-Forwarded-For unless FORWARDED_ALLOW_IPS names proxies. uvicorn would else believe each
    process of this host, which could then dodge the login throttle and forge the audit log's addresses.
    """
    return uvicorn.Config(
        app,
        http=TimedHttp,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(os.environ.get("FORWARDED_ALLOW_IPS")),
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
    )


class _Server(uvicorn.Server):
    """Tells when it accepts, and when it is about to stop."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], closing: asyncio.Event) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._closing = closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready()


def _end_with_input(server: uvicorn.Server) -> None:
    """Ends the server with standard input: a pipe whose other end closes with the process that holds it."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def on_readable(*_: Any) -> None:
        try:
            ended = not os.read(descriptor, 1024)
        except OSError:
            ended = True
        if ended:
            loop.remove_reader(descriptor)
            server.should_exit = True

    loop.add_reader(descriptor, on_readable)
