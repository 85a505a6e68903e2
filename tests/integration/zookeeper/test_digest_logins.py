"""Logins with DIGEST-MD5: kavka's client and server, and clients that do not know the password or do not ask."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import structlog

from kavka.errors import ConnectionFailed
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperServer, ZooKeeperServerSettings
from kavka.security.digest_md5 import DigestClient, DigestLogin
from kavka.security.secret import Secret
from kavka.zookeeper.client import ClientOptions, ZooKeeperClient
from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.decide import jute
from kavka.zookeeper.decide.jute import OpCode, PathRequest, Request, TokenRequest, WatchedPathRequest
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import Acl, NoAuth, Permission
from kavka.zookeeper.znode_acls import secure_acl
from tests.kit.switched_network import SwitchedNetwork
from tests.unit.zookeeper.memory_disk import MemoryDisk

HOST = "127.0.0.1"
USERS = {"kafka": Secret("secret"), "other": Secret("too")}
CANARY = "canary-password"
AUTH_FAILED, LOGIN_REQUIRED = -115, -124
Scenario = Callable[[ZooKeeperServer], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        embedded = EmbeddedZooKeeper(
            Database.open(MemoryDisk(), "/zk", DatabaseSettings()),
            now_ms=lambda: 1_700_000_000_000,
            rng=random.Random(1),
            tick_ms=1_000,
        )
        await embedded.start(close_former_sessions=False)
        server = ZooKeeperServer(embedded, settings=ZooKeeperServerSettings(tick_ms=1_000, users=USERS))
        await server.listen(HOST, 0)
        try:
            async with asyncio.timeout(60):
                await scenario(server)
        finally:
            await server.stop()
            await embedded.stop()

    asyncio.run(main())


async def connect(
    server: ZooKeeperServer, name: str, password: str, *, network: SwitchedNetwork | None = None, time_ms: int = 10_000
) -> ZooKeeperClient:
    login = DigestLogin(name, Secret(password), lambda: random.randbytes(20).hex())
    return await ZooKeeperClient.connect(
        network or SocketNetwork(),
        f"{HOST}:{server.port}/kafka",
        session_timeout_ms=10_000,
        connection_timeout_ms=time_ms,
        rng=random.Random(1),
        options=ClientOptions(acl_of=secure_acl, login=login),
    )


async def ask(server: ZooKeeperServer, *requests: tuple[int, object]) -> list[int]:
    """The error codes of a client that begins a session and asks; then the connection has ended if the last says so."""
    reader, writer = await asyncio.open_connection(HOST, server.port)

    async def read() -> bytes:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(length)

    greeting = jute.ConnectRequest(0, 0, 10_000, 0, bytes(16), read_only=False)
    writer.write(jute.frame(jute.encode_connect_request(greeting)))
    await read()
    codes = []
    for xid, (op, record) in enumerate(requests, 1):
        writer.write(jute.frame(jute.encode_request(Request(xid, op, record))))  # type: ignore[arg-type]
        codes.append(jute.decode_reply_header(await read()).error)
    if codes[-1] in (AUTH_FAILED, LOGIN_REQUIRED):
        assert await reader.read() == b"", "the connection ends"
    writer.close()
    return codes


def test_a_client_is_who_it_logs_in_as_also_on_the_next_connection() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        network = SwitchedNetwork()
        client, other = await connect(server, "kafka", "secret", network=network), await connect(server, "other", "too")
        await client.create("/config")
        await client.create("/config/users", b"1")
        assert (await client.get_acl("/config/users"))[0] == (Acl(Permission.ALL, "sasl", "kafka"),)
        with pytest.raises(NoAuth):
            await other.get("/config/users")
        session_id = client.session_id
        network.cut()
        assert (await client.get("/config/users"))[0] == b"1"
        assert client.session_id == session_id
        await client.close()
        await other.close()

    run(scenario)


@pytest.mark.parametrize(("name", "password"), [("kafka", CANARY), (CANARY, "secret")])
def test_a_wrong_password_gets_nowhere_and_stands_in_no_log(name: str, password: str) -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        with pytest.raises(ConnectionFailed, match="the login of user"):
            await connect(server, name, password, time_ms=500)
        assert server.embedded.database.tree.descendant_count("/") == 3, "nothing but what is there at the start"

    with structlog.testing.capture_logs() as lines:
        run(scenario)
    said = [line for line in lines if line["log_level"] != "debug"]
    failed = [line for line in said if line["event"] == "ZooKeeper login failed"]
    assert len(failed) == 1, "not for each attempt"
    assert not [line for line in said if CANARY in str(line) and line not in failed]
    assert not [line for line in lines if password == CANARY and CANARY in str(line)]


def test_whoever_does_not_log_in_reads_and_writes_nothing() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        get = (OpCode.GET_DATA, WatchedPathRequest("/", watch=False))
        assert await ask(server, get) == [LOGIN_REQUIRED]
        assert await ask(server, (OpCode.GET_ACL, PathRequest("/"))) == [LOGIN_REQUIRED]
        # Anybody may call himself what he wants with the scheme digest: that is no login.
        assert await ask(server, (OpCode.AUTH, jute.AuthRequest(0, "digest", b"kafka:x")), get) == [0, LOGIN_REQUIRED]
        assert await ask(server, (OpCode.SASL, TokenRequest(b"")), get) == [0, LOGIN_REQUIRED]

    run(scenario)


def test_damaged_messages_end_the_connection_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    stolen = DigestClient("kafka", USERS["kafka"], "c").respond(b'nonce="old",realm="zk-sasl-md5",algorithm=md5-sess')

    async def scenario(server: ZooKeeperServer) -> None:
        begin = (OpCode.SASL, TokenRequest(b""))
        for token in (b"x", stolen, b"\xff" * 100, b'username="kafka",' * 500, b"," * 3000):
            assert await ask(server, begin, (OpCode.SASL, TokenRequest(token))) == [0, AUTH_FAILED]
            assert await ask(server, (OpCode.SASL, TokenRequest(token))) == [AUTH_FAILED], "without a challenge"
        for _ in range(10):
            await ask(server, begin, (OpCode.SASL, TokenRequest(b"x")))
        client = await connect(server, "kafka", "secret")
        await client.close()

    run(scenario)
    assert capsys.readouterr().out.count("login failed") <= 10, "a few lines of each kind in a minute"


def test_the_nonce_is_another_one_each_time() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        logins = server.logins(HOST)
        assert logins is not None
        assert len({logins.new_nonce() for _ in range(100)}) == 100

    run(partial(scenario))
