"""The port: what kazoo cannot ask for, watches over a reconnect, limits, and clients that misbehave."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.errors import AddressUnavailable
from kavka.runtime.loop import new_event_loop
from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperServer, ZooKeeperServerSettings
from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.decide import jute
from kavka.zookeeper.decide.jute import OpCode, Request
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import OPEN_ACL, EventType
from tests.unit.zookeeper.memory_disk import MemoryDisk

HOST = "127.0.0.1"
TICK_MS = 100


class Client:
    """A connection that says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._xid = 0
        self.events: list[tuple[int, str]] = []
        self.greeted = jute.ConnectAnswer(0, 0, 0, None)
        self.last_zxid = 0

    @classmethod
    async def connect(
        cls, server: ZooKeeperServer, *, session_id: int = 0, password: bytes = bytes(16), seen_zxid: int = 0
    ) -> Client:
        client = cls(*await asyncio.open_connection(HOST, server.port))
        greeting = jute.ConnectRequest(0, seen_zxid, 2000, session_id, password, read_only=False)
        client.writer.write(jute.frame(jute.encode_connect_request(greeting)))
        client.greeted = jute.decode_connect_answer(await client.read())
        return client

    async def read(self) -> bytes:
        """The next frame. Raises IncompleteReadError at the connection's end."""
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(length)

    def send(self, op: int, record: Any) -> int:
        self._xid += 1
        self.writer.write(jute.frame(jute.encode_request(Request(self._xid, op, record))))
        return self._xid

    async def answer(self, op: OpCode) -> tuple[jute.ReplyHeader, Any]:
        """The next reply; watch events before it are collected."""
        while True:
            payload = await self.read()
            if jute.decode_reply_header(payload).xid == jute.WATCH_XID:
                event = jute.decode_event(payload)
                self.events.append((event.kind, event.path))
                continue
            header, record = jute.decode_reply(payload, op)
            self.last_zxid = header.zxid
            return header, record

    async def ask(self, op: OpCode, record: Any) -> tuple[int, Any]:
        xid = self.send(op, record)
        header, answer = await self.answer(op)
        assert header.xid == xid
        return header.error, answer

    async def create(self, path: str, data: bytes = b"", flags: int = 0) -> None:
        error, _ = await self.ask(OpCode.CREATE, jute.CreateRequest(path, data, OPEN_ACL, flags))
        assert error == 0

    async def ended(self) -> bool:
        """Whether the server ends the connection."""
        try:
            while True:
                await asyncio.wait_for(self.read(), 30)
        except (asyncio.IncompleteReadError, ConnectionError):
            return True


Scenario = Callable[[ZooKeeperServer], Awaitable[None]]


def run(scenario: Scenario, **settings: Any) -> None:
    async def main() -> None:
        embedded = EmbeddedZooKeeper(
            Database.open(MemoryDisk(), "/zk", DatabaseSettings(max_request_bytes=10_000)),
            now_ms=lambda: 1_700_000_000_000,
            rng=random.Random(1),
            tick_ms=TICK_MS,
        )
        await embedded.start(close_former_sessions=False)
        server = ZooKeeperServer(embedded, settings=ZooKeeperServerSettings(tick_ms=TICK_MS, **settings))
        await server.listen(HOST, 0)
        try:
            await asyncio.wait_for(scenario(server), 60)
        finally:
            await server.stop()
            await embedded.stop()

    asyncio.run(main())


def test_create2_containers_and_ttl_nodes_answer_with_their_stat() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client = await Client.connect(server)
        for op, record in (
            (OpCode.CREATE2, jute.CreateRequest("/a", b"x", OPEN_ACL, 0)),
            (OpCode.CREATE_CONTAINER, jute.CreateRequest("/c", b"x", OPEN_ACL, 4)),
            (OpCode.CREATE_TTL, jute.CreateTtlRequest("/t", b"x", OPEN_ACL, 5, 1000)),
        ):
            error, created = await client.ask(op, record)
            assert (error, created.path, created.stat.data_length) == (0, record.path, 1)
        assert (await client.ask(OpCode.CREATE, jute.CreateRequest("/x", b"", OPEN_ACL, 5)))[0] == -8
        assert (await client.ask(OpCode.CREATE, jute.CreateRequest("/x", b"", OPEN_ACL, 99)))[0] == -8
        assert (await client.ask(OpCode.CREATE, jute.CreateRequest("/x", b"", (), 0)))[0] == -114

    run(scenario)


def test_queries_that_came_with_3_6_and_3_7() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client = await Client.connect(server)
        await client.create("/a", b"1")
        await client.create("/a/e", b"2", flags=1)
        assert await client.ask(OpCode.GET_EPHEMERALS, jute.PathRequest("/a")) == (0, jute.PathsAnswer(("/a/e",)))
        assert await client.ask(OpCode.GET_ALL_CHILDREN_NUMBER, jute.PathRequest("/a")) == (0, jute.NumberAnswer(1))
        assert await client.ask(OpCode.WHO_AM_I, jute.EmptyRequest()) == (0, jute.IdentitiesAnswer((("ip", HOST),)))
        reads = jute.MultiRequest(
            (
                (OpCode.GET_DATA, jute.WatchedPathRequest("/a", False)),
                (OpCode.GET_DATA, jute.WatchedPathRequest("/none", False)),
                (OpCode.GET_CHILDREN, jute.WatchedPathRequest("/a", False)),
            )
        )
        error, answer = await client.ask(OpCode.MULTI_READ, reads)
        assert error == 0
        (_, data), (_, failure), (_, names) = answer.parts
        assert (data.data, failure, names) == (b"1", jute.ErrorAnswer(-101), jute.PathsAnswer(("e",)))

    run(scenario)


def test_watches_that_stay_until_they_are_removed() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client = await Client.connect(server)
        assert await client.ask(OpCode.ADD_WATCH, jute.WatchRequest("/a", 1)) == (0, jute.NumberAnswer(0))
        assert await client.ask(OpCode.CHECK_WATCHES, jute.WatchRequest("/a", 5)) == (0, None)
        await client.create("/a")
        await client.create("/a/b")
        assert client.events == [(EventType.NODE_CREATED, "/a"), (EventType.NODE_CREATED, "/a/b")]
        assert await client.ask(OpCode.REMOVE_WATCHES, jute.WatchRequest("/a", 3)) == (0, None)
        assert (await client.ask(OpCode.REMOVE_WATCHES, jute.WatchRequest("/a", 3)))[0] == -121
        assert (await client.ask(OpCode.ADD_WATCH, jute.WatchRequest("/a", 9)))[0] == -8

    run(scenario)


def test_a_client_that_comes_back_hears_what_it_missed_and_arms_the_rest() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        first, other = await Client.connect(server), await Client.connect(server)
        for path in ("/data", "/same", "/gone", "/parent"):
            await first.create(path)
        seen = first.last_zxid
        first.writer.transport.abort()
        await other.ask(OpCode.SET_DATA, jute.SetDataRequest("/data", b"new", -1))
        await other.ask(OpCode.DELETE, jute.VersionedPathRequest("/gone", -1))
        await other.create("/parent/child")
        await other.create("/made")
        greeted = first.greeted
        assert greeted.password is not None
        again = await Client.connect(server, session_id=greeted.session_id, password=greeted.password, seen_zxid=seen)
        assert (again.greeted.session_id, again.greeted.password) == (greeted.session_id, greeted.password)
        watches = jute.SetWatches2Request(
            seen, ("/data", "/same", "/gone"), ("/made", "/later"), ("/parent",), ("/lasting",), ()
        )
        assert await again.ask(OpCode.SET_WATCHES2, watches) == (0, None)
        assert again.events == [
            (EventType.NODE_DATA_CHANGED, "/data"),
            (EventType.NODE_DELETED, "/gone"),
            (EventType.NODE_CREATED, "/made"),
            (EventType.NODE_CHILDREN_CHANGED, "/parent"),
        ]
        again.events.clear()
        await again.create("/later")
        await again.create("/lasting")
        await again.ask(OpCode.SET_DATA, jute.SetDataRequest("/same", b"", -1))
        assert again.events == [
            (EventType.NODE_CREATED, "/later"),
            (EventType.NODE_CREATED, "/lasting"),
            (EventType.NODE_DATA_CHANGED, "/same"),
        ]

    run(scenario)


def test_a_wrong_password_and_a_session_that_never_was_are_expired() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        first = await Client.connect(server)
        for session_id in (first.greeted.session_id, 12345):
            refused = await Client.connect(server, session_id=session_id, password=b"x" * 16)
            assert (refused.greeted.timeout_ms, refused.greeted.session_id) == (0, 0)
            assert await refused.ended()
        assert (await first.ask(OpCode.PING, jute.EmptyRequest()))[0] == 0

    run(scenario)


def test_a_client_that_has_seen_more_than_this_server_is_sent_away() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await Client.connect(server, seen_zxid=1000)

    run(scenario)


def test_a_closed_session_takes_its_ephemeral_nodes_and_its_connection_along() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        first, other = await Client.connect(server), await Client.connect(server)
        await first.create("/e", flags=1)
        assert (await first.ask(OpCode.CLOSE_SESSION, jute.EmptyRequest()))[0] == 0
        assert await first.ended()
        assert (await other.ask(OpCode.EXISTS, jute.WatchedPathRequest("/e", False)))[0] == -101

    run(scenario)


def test_a_silent_session_expires_and_its_connection_ends() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        first = await Client.connect(server)
        assert first.greeted.timeout_ms == 2000
        await server.embedded.expire(first.greeted.session_id)
        assert await first.ended()

    run(scenario)


def test_a_thousand_requests_at_once_are_answered_in_order() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client = await Client.connect(server)
        await client.create("/a")
        sent = []
        for number in range(1000):
            if number % 4 == 0:
                sent.append((client.send(OpCode.SET_DATA, jute.SetDataRequest("/a", b"%d" % number, -1)), True))
            else:
                sent.append((client.send(OpCode.GET_DATA, jute.WatchedPathRequest("/a", False)), False))
        last = b""
        for number, (xid, write) in enumerate(sent):
            header, answer = await client.answer(OpCode.SET_DATA if write else OpCode.GET_DATA)
            assert header.xid == xid
            last = b"%d" % number if write else last
            assert write or answer.data == last

    run(scenario, max_requests_in_flight=10)


def test_an_unknown_op_is_unimplemented_and_a_wrong_credential_ends_the_connection() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client = await Client.connect(server)
        client.send(999, None)
        header, _ = await client.answer(OpCode.PING)
        assert header.error == jute.UNIMPLEMENTED
        assert (await client.ask(OpCode.AUTH, jute.AuthRequest(0, "sasl", b"x")))[0] == jute.AUTH_FAILED
        assert await client.ended()

    run(scenario)


@pytest.mark.parametrize(
    "garbage", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", jute.frame(struct.pack(">iii", 1, 4, 99)), b"\0\0\0\x02ab"]
)
def test_garbage_ends_the_connection_and_nothing_else(garbage: bytes) -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client, other = await Client.connect(server), await Client.connect(server)
        client.writer.write(garbage)
        assert await client.ended()
        assert (await other.ask(OpCode.PING, jute.EmptyRequest()))[0] == 0
        assert client.greeted.session_id in server.embedded.database.tree.sessions

    run(scenario)


def test_a_request_longer_than_jute_maxbuffer_ends_the_connection() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client = await Client.connect(server)
        client.send(OpCode.CREATE, jute.CreateRequest("/a", bytes(10_000), OPEN_ACL, 0))
        assert await client.ended()
        other = await Client.connect(server)
        assert (await other.ask(OpCode.EXISTS, jute.WatchedPathRequest("/a", False)))[0] == -101

    run(scenario)


def test_one_host_gets_no_more_connections_than_the_limit() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        clients = [await Client.connect(server) for _ in range(2)]
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await Client.connect(server)
        assert (await clients[1].ask(OpCode.PING, jute.EmptyRequest()))[0] == 0

    run(scenario, max_connections_per_host=2)


def test_who_does_not_greet_is_sent_away() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(b"\0\0")
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()

    run(scenario, greeting_ms=50)


def test_who_does_not_read_is_cut_off() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        client, other = await Client.connect(server), await Client.connect(server)
        await other.create("/a", bytes(9_000))
        await client.ask(OpCode.ADD_WATCH, jute.WatchRequest("/", 1))
        for _ in range(2000):
            client.send(OpCode.GET_DATA, jute.WatchedPathRequest("/a", False))
        while server.connection_count > 1:  # noqa: ASYNC110 - nobody is told of a connection's end
            await asyncio.sleep(0.01)
        assert (await other.ask(OpCode.PING, jute.EmptyRequest()))[0] == 0

    run(scenario, max_unread_bytes=50_000)


def test_a_port_that_is_taken_is_told() -> None:
    async def scenario(server: ZooKeeperServer) -> None:
        with pytest.raises(AddressUnavailable, match="cannot listen on"):
            await ZooKeeperServer(server.embedded).listen(HOST, server.port)

    run(scenario)


def test_a_port_that_closes_while_a_session_begins_leaves_no_error_and_no_owner() -> None:
    """The session is opened on the disk; its connection is gone when that is done. It has its time-out to come back."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        disk = asyncio.Event()
        asked = asyncio.Event()

        async def slow(work: Callable[[], None]) -> None:
            asked.set()
            await disk.wait()
            work()

        embedded = EmbeddedZooKeeper(
            Database.open(MemoryDisk(), "/zk", DatabaseSettings()),
            now_ms=lambda: 1_700_000_000_000,
            rng=random.Random(1),
            run_blocking=slow,
            tick_ms=TICK_MS,
        )
        await embedded.start(close_former_sessions=False)
        server = ZooKeeperServer(embedded, settings=ZooKeeperServerSettings(tick_ms=TICK_MS))
        await server.listen(HOST, 0)
        beginning = asyncio.create_task(Client.connect(server))
        await asyncio.wait_for(asked.wait(), 10)
        await server.stop()
        disk.set()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(beginning, 10)
        while server.connection_count:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0)
        assert len(embedded.database.tree.sessions) == 1
        await embedded.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
    assert complaints == []
