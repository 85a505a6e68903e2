"""RegistryServer: a registry on its port, for as long as it is wanted.

Decides when it is called ready: when the topic is read to its end and the port accepts. Must not know paths.

I1  `on_ready` is called once. Before it nothing is answered: a registry that has not read its topic would say that
    there are no schemas.
I2  While nothing is asked of it, it reads what other registries write every FOLLOW_S; brokers that are away are tried
    again, and what is known is served meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.security import SaslSettings, TlsSettings
from kavka.client.settings import ClientSettings
from kavka.logger import Logger
from kavka.runtime.client_network import client_network
from kavka.runtime.http_deadlines import TimedHttp
from kavka.runtime.loop import new_event_loop
from kavka.runtime.ports import listen_or_elsewhere
from kavka.runtime.server_tls import ServerTls, ServerTlsSettings
from kavka.schema_registry.access import Access, LocalOnly
from kavka.schema_registry.app import create_app
from kavka.schema_registry.refusal import RegistryRefusal
from kavka.schema_registry.registry import Registry
from kavka.schema_registry.topic import DEFAULT_TOPIC, SchemasTopic

if TYPE_CHECKING:
    from starlette.applications import Starlette

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8081
FOLLOW_S: Final = 1.0
STOP_S: Final = 2
MAX_CONNECTIONS: Final = 1_000
BACKLOG: Final = 128
PATIENCE_MS: Final = 10_000
"""How long brokers may be away before a request, or the start, fails for it."""
CONNECT_MS: Final = 3_000
NO_LOGIN: Final = LocalOnly()
logger = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """bootstrap: brokers, as HOST:PORT,HOST:PORT. sasl, tls: how these are reached. certificate: of https."""

    bootstrap: str
    sasl: SaslSettings | None = None
    tls: TlsSettings | None = None
    topic: str = DEFAULT_TOPIC
    certificate: ServerTlsSettings | None = None
    access: Access = NO_LOGIN


def bind(host: str, port: int, *, elsewhere: bool = False) -> socket.socket:
    """A socket that listens there; with `elsewhere` on any port where that one is taken. Raises AddressUnavailable."""
    return listen_or_elsewhere(host.strip("[]"), port, elsewhere=elsewhere, backlog=BACKLOG, what="the schema registry")


def serve(
    settings: RegistrySettings, bound: socket.socket, *, on_ready: Callable[[int], None], while_input: bool = False
) -> None:
    """Serves until a signal comes, or with `while_input` until standard input ends. on_ready: is told how many subjects
    there are.

    Raises KavkaError where the topic cannot be read or used, ConfigError for certificates and topics that cannot be.
    """
    certificate = None if settings.certificate is None else ServerTls(settings.certificate)

    async def run() -> None:
        async with running(settings) as registry:
            app = settings.access.guarded(create_app(registry))
            config = _configuration(app)
            if certificate is not None:
                config.load()
                config.ssl = certificate.context
            server = _Server(config, lambda: on_ready(len(registry.state.subjects())))
            if while_input:
                _end_with_input(server)
            watch = None if certificate is None else asyncio.create_task(certificate.watch(), name="certificate")
            await server.serve(sockets=[bound])
            if watch is not None:
                watch.cancel()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run())


@asynccontextmanager
async def running(settings: RegistrySettings) -> AsyncIterator[Registry]:
    """A registry whose topic is read to its end, and followed."""
    wanted = ClientSettings(
        client_id="kavka-schema-registry",
        api_timeout_ms=PATIENCE_MS,
        connect_timeout_ms=CONNECT_MS,
        gives_up_early=True,
        sasl=settings.sasl,
    )
    async with Cluster(client_network(settings.tls), parse_bootstrap(settings.bootstrap), wanted) as cluster:
        topic = SchemasTopic(cluster, settings.topic)
        try:
            await topic.open()
            follower = asyncio.create_task(_follow(topic), name="schemas topic")
            try:
                yield Registry(topic)
            finally:
                follower.cancel()
                with suppress(asyncio.CancelledError):
                    await follower
        finally:
            await topic.close()


async def _follow(topic: SchemasTopic) -> None:
    """Reads what others write (I2)."""
    is_away = False
    while True:
        await asyncio.sleep(FOLLOW_S)
        try:
            await topic.catch_up()
        except RegistryRefusal as problem:
            if not is_away:
                logger.warning(
                    "schemas topic out of reach", topic=topic.name, why=problem.message, next="it is tried again"
                )
            is_away = True
        else:
            if is_away:
                logger.info("schemas topic in reach again", topic=topic.name)
            is_away = False


def _configuration(app: Starlette | Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=TimedHttp,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=bool(os.environ.get("FORWARDED_ALLOW_IPS")),
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
    )


class _Server(uvicorn.Server):
    """Tells when it accepts."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready()


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
