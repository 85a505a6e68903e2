"""The server's TLS port: who gets in, who they are, and what clients that misbehave cost."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.config import BrokerConfig
from kavka.config.zookeeper import zookeeper_tls
from kavka.errors import ConfigError, ConnectionFailed
from kavka.runtime.loop import new_event_loop
from kavka.runtime.zookeeper import zookeeper_secure_port
from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperServer, ZooKeeperServerSettings
from kavka.runtime.zookeeper.zookeeper_tls import ZooKeeperTls, server_certificates
from kavka.zookeeper.client import ClientOptions, ZooKeeperClient
from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import Acl, NoAuth, Permission
from kavka.zookeeper.znode_acls import secure_acl
from tests.kit.certificates import Authority
from tests.unit.zookeeper.memory_disk import MemoryDisk

HOST = "127.0.0.1"
BROKER = Acl(Permission.ALL, "x509", "CN=broker 1,OU=brokers")


class Place:
    """Certificates, and a server with a TLS port alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.authority_file = directory / "authority.pem"
        self.authority_file.write_text(self.authority.certificate)
        self.server_file = self.authority.sign("zookeeper").write(directory / "server.pem")
        self.broker_file = self.sign("broker 1")
        self.server: ZooKeeperServer

    def sign(self, name: str, authority: Authority | None = None) -> Path:
        pairs = [("OU", "brokers"), ("CN", name)]
        return (authority or self.authority).sign(pairs).write(self.directory / f"{name}.pem")

    async def client(self, certificate: Path | None, *, time_ms: int = 10_000) -> ZooKeeperClient:
        texts = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.enabled.protocols": "TLSv1.2",
            "zookeeper.ssl.truststore.location": str(self.authority_file),
        }
        if certificate is not None:
            texts["zookeeper.ssl.keystore.location"] = str(certificate)
        tls = zookeeper_tls(BrokerConfig.from_properties(texts))
        assert tls is not None
        return await ZooKeeperClient.connect(
            ZooKeeperTls(tls).network(),
            f"{HOST}:{self.server.secure_port}/kafka",
            session_timeout_ms=20_000,
            connection_timeout_ms=time_ms,
            rng=random.Random(1),
            options=ClientOptions(acl_of=secure_acl),
        )

    def run(self, scenario: Callable[[Place], Awaitable[None]], *, hosts: int = 60) -> None:
        async def main() -> None:
            embedded = EmbeddedZooKeeper(
                Database.open(MemoryDisk(), "/zk", DatabaseSettings()),
                now_ms=lambda: 1_700_000_000_000,
                rng=random.Random(1),
                tick_ms=1_000,
            )
            await embedded.start(close_former_sessions=False)
            self.server = ZooKeeperServer(
                embedded, settings=ZooKeeperServerSettings(tick_ms=1_000, max_connections_per_host=hosts)
            )
            certificates = server_certificates(str(self.server_file), str(self.authority_file), required=True)
            await self.server.listen_securely(HOST, 0, certificates)
            try:
                async with asyncio.timeout(60):
                    await scenario(self)
            finally:
                await self.server.stop()
                await embedded.stop()

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main())

    def open(self, data: bytes = b"", *, source: str = HOST) -> socket.socket:
        """A connection without TLS that says something."""
        place = (HOST, self.server.secure_port)
        connection = socket.create_connection(place, timeout=60, source_address=(source, 0))
        connection.sendall(data)
        return connection


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("certificates"))


async def in_thread(call: Callable[[], bytes]) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(None, call)


def rest(connection: socket.socket) -> bytes:
    """What the server still says; it ends the connection then."""
    said = b""
    try:
        while piece := connection.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    return said


def hello() -> bytes:
    """A client's first TLS message."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_a_client_is_who_its_certificate_says(place: Place) -> None:
    async def scenario(place: Place) -> None:
        broker, other = await place.client(place.broker_file), await place.client(place.sign("broker 2"))
        await broker.create("/config")
        await broker.create("/config/users", b"secret")
        await broker.create("/large", b"x" * 200_000)
        assert await broker.get_many(["/large"] * 20) == [await broker.get("/large")] * 20
        assert (await broker.get_acl("/config/users"))[0] == (BROKER,)
        assert (await broker.get_acl("/config"))[0] == (BROKER, Acl(Permission.READ, "world", "anyone"))
        with pytest.raises(NoAuth):
            await other.get("/config/users")
        with pytest.raises(NoAuth):
            await other.set("/config", b"2")
        assert (await other.get("/config"))[0] is None
        await broker.close()
        await other.close()

    place.run(scenario)


def test_whoever_shows_no_certificate_or_one_of_another_authority_does_not_get_in(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    strangers = (None, place.sign("stranger", Authority("another authority")))

    async def scenario(place: Place) -> None:
        for certificate in strangers:
            with pytest.raises(ConnectionFailed):
                await place.client(certificate, time_ms=700)
        assert place.server.connection_count == 0
        await (await place.client(place.broker_file)).close()

    place.run(scenario)
    said = capsys.readouterr().out
    assert "the client showed no certificate" in said
    assert "cannot be verified" in said


def test_garbage_plaintext_and_half_a_hello_are_refused_and_others_are_served(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(place: Place) -> None:
        broker = await place.client(place.broker_file)
        greeting = bytes.fromhex("0000002d") + bytes(45)
        for data in (greeting, b"srvr\n\n", b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\xff" * 70_000):
            connection = place.open(data)
            answer = await in_thread(lambda connection=connection: rest(connection))  # type: ignore[misc]
            assert len(answer) <= 7, "an alert at most, and nothing in clear"
        half = [place.open(hello()[:100]) for _ in range(20)]
        await broker.create("/n")
        for connection in half:
            connection.close()
        assert await broker.get("/n")
        await broker.close()

    place.run(scenario)
    said = capsys.readouterr().out
    assert "does the client have zookeeper.ssl.client.enable=true" in said
    assert said.count("TLS handshake failed") <= 10, "a few lines of each kind in a minute"


def test_handshakes_that_do_not_go_on_count_as_connections_of_their_host(place: Place) -> None:
    async def scenario(place: Place) -> None:
        half = [place.open() for _ in range(4)]
        late = place.open()
        assert await in_thread(lambda: rest(late)) == b"", "refused before a handshake began"
        for connection in half:
            connection.close()
        while True:  # Until the server has heard of it.
            try:
                client = await place.client(place.broker_file, time_ms=1_000)
                break
            except ConnectionFailed:
                continue
        await client.close()

    place.run(scenario, hosts=4)


@pytest.mark.parametrize("addresses", [1, 8], ids=["of one address", "of many addresses"])
def test_half_open_handshakes_keep_nobody_else_out(
    place: Place, addresses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places are taken, more wait, and none of them goes on: a broker comes in all the same, from elsewhere."""
    monkeypatch.setattr(zookeeper_secure_port, "MOST_HANDSHAKES", 8)
    monkeypatch.setattr(zookeeper_secure_port, "HANDSHAKE_S", 600.0)

    async def scenario(place: Place) -> None:
        half = [place.open(hello()[:100], source=f"127.0.1.{1 + number % addresses}") for number in range(16)]
        client = await place.client(place.broker_file)
        await client.create("/n")
        for connection in half:
            connection.close()
        await client.close()

    place.run(scenario)


@pytest.mark.thorough
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=10), st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_bytes_come_the_port_goes_on(place: Place, pieces: list[bytes], begins_well: bool) -> None:
    async def scenario(place: Place) -> None:
        broken = [place.open((hello() if begins_well else b"") + piece) for piece in pieces]
        client = await place.client(place.broker_file)
        await client.create("/n")
        await client.close()
        for connection in broken:
            connection.close()

    place.run(scenario)


def test_new_certificates_serve_new_connections_and_bad_ones_change_nothing(place: Place) -> None:
    before = place.server_file.read_text()

    async def scenario(place: Place) -> None:
        place.server_file.write_text("half a file")
        await (await place.client(place.broker_file)).close()
        other = Authority("of another time")
        other.sign("zookeeper").write(place.server_file)
        with pytest.raises(ConnectionFailed, match="cannot be verified"):
            await place.client(place.broker_file, time_ms=700)

    try:
        place.run(scenario)
    finally:
        place.server_file.write_text(before)


def test_certificates_that_cannot_be_used_keep_the_port_shut(tmp_path: Path) -> None:
    for certificate in ("/nowhere.pem", str(tmp_path)):
        with pytest.raises(ConfigError):
            server_certificates(certificate, certificate, required=True)
