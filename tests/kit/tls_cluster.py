"""Brokers with TLS in this process, with certificates of an authority of their own.

Decides how they are started and stopped. It must not know what a test asks of them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kavka.config import BrokerConfig
from kavka.runtime.cluster import Cluster
from kavka.runtime.loop import new_event_loop, share_files
from kavka.runtime.server import Server
from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperPlace
from tests.kit.certificates import Authority, Signed
from tests.kit.ports import free_port

HOST = "127.0.0.1"
PATIENCE_S = 60
Result = TypeVar("Result")


class TlsCluster:
    """Brokers 1 to `brokers`, each with an SSL listener that asks clients for a certificate, and a PLAINTEXT one.

    Instead of SSL `protocol` may be SASL_SSL. Brokers talk to each other over `inter_broker`. `settings` are laid over
    what is usual here.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 1,
        inter_broker: str = "SSL",
        settings: Mapping[str, str] | None = None,
        protocol: str = "SSL",
    ) -> None:
        self.directory = directory
        self.authority = Authority()
        self.authority_file = directory / "authority.pem"
        self.authority_file.write_text(self.authority.certificate)
        self.ports = {broker_id: free_port() for broker_id in range(1, brokers + 1)}
        self.plain_ports = {broker_id: free_port() for broker_id in self.ports}
        self._inter_broker = inter_broker
        self.protocol = protocol
        self._settings = dict(settings or {})
        self._cluster: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="tls-cluster", daemon=True)
        self._up = threading.Event()
        self._end: asyncio.Event | None = None
        self._failure: BaseException | None = None
        for broker_id in self.ports:
            self.authority.sign([("OU", "brokers"), ("CN", f"broker {broker_id}")]).write(self.key_store(broker_id))

    def key_store(self, broker_id: int = 1) -> Path:
        return self.directory / f"broker-{broker_id}.pem"

    def config(self, broker_id: int) -> BrokerConfig:
        ports, plain = self.ports[broker_id], self.plain_ports[broker_id]
        return BrokerConfig.from_properties(
            {
                "broker.id": str(broker_id),
                "listeners": f"{self.protocol}://{HOST}:{ports},PLAINTEXT://{HOST}:{plain}",
                "security.inter.broker.protocol": self._inter_broker,
                "log.dirs": str(self.directory / f"logs-{broker_id}"),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key_store(broker_id)),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority_file),
                "ssl.client.auth": "requested",
                "offsets.topic.replication.factor": "1",
                **self._settings,
            }
        )

    def client_file(self, name: str) -> Path:
        """Key and certificate of a client with this common name, in one file."""
        path = self.directory / f"client-{name}.pem"
        return path if path.exists() else self.sign(name).write(path)

    def sign(self, name: str, *, days: int = 30) -> Signed:
        return self.authority.sign(name, names=(), days=days)

    def librdkafka(self, name: str | None = None) -> dict[str, Any]:
        """Settings of a client, with a certificate of this name or without one."""
        own: dict[str, Any] = {}
        if name is not None:
            path = str(self.client_file(name))
            own = {"ssl.certificate.location": path, "ssl.key.location": path}
        return {
            "bootstrap.servers": ",".join(f"{HOST}:{port}" for port in self.ports.values()),
            "security.protocol": self.protocol,
            "ssl.ca.location": str(self.authority_file),
            **own,
        }

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """For plain sockets of Python's."""
        context = ssl.create_default_context(cafile=str(self.authority_file))
        if name is not None:
            context.load_cert_chain(self.client_file(name))
        return context

    def connect(self, context: ssl.SSLContext | None = None, *, broker_id: int = 1) -> socket.socket:
        """A connection to the SSL listener; under TLS where there is a context."""
        connected = socket.create_connection((HOST, self.ports[broker_id]), 20)
        return connected if context is None else context.wrap_socket(connected, server_hostname=HOST)

    def on_loop(self, call: Callable[[Server], Result], broker_id: int = 1) -> Result:
        """What `call` gives on the brokers' loop."""
        assert self._loop is not None
        assert self._cluster is not None
        server = self._cluster.servers[broker_id]

        async def asked() -> Result:
            return call(server)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(PATIENCE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(PATIENCE_S), "the brokers did not start in time"
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        loop = self._loop = new_event_loop()
        try:
            loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._up.set()
            loop.close()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        place = ZooKeeperPlace(str(self.directory / "zookeeper"))
        configs = [self.config(broker_id) for broker_id in self.ports]
        self._cluster = Cluster(configs, place, share_files(4096))
        await self._cluster.start()
        self._up.set()
        await self._end.wait()
        await self._cluster.stop()
