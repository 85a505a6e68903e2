"""RegistryServer: a registry on its port, for as long as it is wanted.

Decides when it is called ready: when the topic is read to its end and the port accepts. Must not know paths.

I1  `on_ready` is called once. Before it nothing is answered: a registry that has not read its topic would say that
    there are no schemas.
I2  While nothing is asked of it, it reads what other registries write every FOLLOW_S; brokers that are away are tried
    again, and what is known is served meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.security import SaslSettings, TlsSettings
from kavka.client.settings import ClientSettings
from kavka.logger import Logger
from kavka.runtime.http.http_server import BACKLOG, configuration, serve_application
from kavka.runtime.loop import new_event_loop
from kavka.runtime.network.client_network import client_network
from kavka.runtime.network.ports import listen_or_elsewhere
from kavka.runtime.tls.server_tls import ServerTls, ServerTlsSettings
from kavka.schema_registry.access import Access, LocalOnly
from kavka.schema_registry.app import create_app
from kavka.schema_registry.refusal import RegistryRefusal
from kavka.schema_registry.registry import Registry
from kavka.schema_registry.topic import DEFAULT_TOPIC, SchemasTopic

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8081
FOLLOW_S: Final = 1.0
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
            await serve_application(
                configuration(app, lifespan="off"),
                bound,
                tls=certificate,
                on_ready=lambda: on_ready(len(registry.state.subjects())),
                while_input=while_input,
            )

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
