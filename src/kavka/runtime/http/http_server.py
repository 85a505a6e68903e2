"""An ASGI application on its port, for as long as it is wanted: the console's, or the schema registry's.

Decides how it is served, when it is called ready, and what ends it. Must not know the application.

    I1  `on_ready` is called once, when the port accepts
    I2  an answer that is under way when the server stops holds it up for `STOP_S` at most
    I3  nobody is believed about X-Forwarded-For unless FORWARDED_ALLOW_IPS names proxies. uvicorn would else believe
        each process of this host, which could then dodge a login throttle and forge an audit log's addresses
    I4  who sends more requests than are taken fills no log
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import uvicorn

from kavka.runtime.http.entrance import Entrance
from kavka.runtime.http.http_deadlines import MOST_CONNECTIONS, TimedHttp

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from kavka.runtime.tls.server_tls import ServerTls

STOP_S: Final = 2
MAX_CONNECTIONS: Final = 1_000
BACKLOG: Final = 128
AGAIN_S: Final = 60.0
"""Until the log says once more that there are too many requests."""


async def serve_application(
    config: uvicorn.Config,
    bound: socket.socket,
    *,
    tls: ServerTls | None,
    on_ready: Callable[[], None],
    on_stopping: Callable[[], None] = lambda: None,
    while_input: bool = False,
) -> None:
    """Serves until a signal comes, or with `while_input` until standard input ends."""
    if tls is not None:
        config.load()
        config.ssl = tls.context  # So that it calls the scheme https.
    entrance = None if tls is None else Entrance(bound, tls.context, MOST_CONNECTIONS)
    server = _Server(config, on_ready, on_stopping, entrance)
    if while_input:
        _end_with_input(server)
    watch = None if tls is None else asyncio.create_task(tls.watch(), name="certificate")
    await server.serve(sockets=[bound] if entrance is None else [])
    if watch is not None:
        watch.cancel()


def configuration(app: ASGIApp | Any, *, lifespan: Literal["auto", "off"] = "auto") -> uvicorn.Config:
    """How the application is served."""
    logging.getLogger("uvicorn.error").addFilter(_seldom)
    return uvicorn.Config(
        app,
        http=TimedHttp,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan=lifespan,
        proxy_headers=bool(os.environ.get("FORWARDED_ALLOW_IPS")),
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
    )


class _Seldom(logging.Filter):
    """Lets a line through that uvicorn writes for each request that it refuses, once in `AGAIN_S`."""

    def __init__(self) -> None:
        super().__init__()
        self._not_before_s = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("Exceeded concurrency limit"):
            return True
        now_s = time.monotonic()
        if now_s < self._not_before_s:
            return False
        self._not_before_s = now_s + AGAIN_S
        return True


_seldom: Final = _Seldom()


class _Server(uvicorn.Server):
    """Tells when it accepts, and when it is about to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        on_stopping: Callable[[], None],
        entrance: Entrance | None,
    ) -> None:
        super().__init__(config)
        self._entrance = entrance
        self._on_ready = on_ready
        self._on_stopping = on_stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        if self._entrance is not None:
            await self._entrance.close()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            if self._entrance is not None:
                self._entrance.open(self._protocol, lambda: len(self.server_state.connections))
            self._on_ready()

    def _protocol(self) -> asyncio.Protocol:
        return TimedHttp(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def _end_with_input(server: uvicorn.Server) -> None:
    """Ends the server with standard input: a pipe whose other end closes with the process that holds it."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def on_readable() -> None:
        try:
            ended = not os.read(descriptor, 1024)
        except OSError:
            ended = True
        if ended:
            loop.remove_reader(descriptor)
            server.should_exit = True

    loop.add_reader(descriptor, on_readable)
