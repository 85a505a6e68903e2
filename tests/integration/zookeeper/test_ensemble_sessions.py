"""Sessions with a real ensemble of three that loses members: killed, silent, all of it, and back."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from kavka.config import BrokerConfig
from kavka.config.zookeeper import zookeeper_tls
from kavka.errors import ConnectionFailed
from kavka.network import Network
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.zookeeper.zookeeper_tls import ZooKeeperTls
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.port import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    CreateMode,
    Event,
    EventType,
    NodeExists,
    Operation,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetData,
    WatchEvent,
)
from tests.apache_kafka import PeerMissing
from tests.kit.certificates import Authority
from tests.kit.switched_network import Mode, SwitchedNetwork
from tests.kit.zookeeper_ensemble import Secured, ZooKeeperEnsemble

pytestmark = pytest.mark.kafka

SESSION_MS = 6_000
CONNECTED = SessionEvent(SessionState.CONNECTED)
DISCONNECTED = SessionEvent(SessionState.DISCONNECTED)
EXPIRED = SessionEvent(SessionState.EXPIRED)
_roots = itertools.count()
T = TypeVar("T")


class Members(ZooKeeperEnsemble):
    """An ensemble whose clients use TLS, or not."""

    def __init__(self, directory: Path, tls: ZooKeeperTls | None, secured: Secured | None) -> None:
        super().__init__(directory, secured=secured)
        self._tls = tls

    @property
    def client_address(self) -> str:
        """As the client's connect string wants it."""
        return self.connect_string if self._tls is None else self.secure_connect_string

    def network(self) -> Network:
        return SocketNetwork() if self._tls is None else self._tls.network()

    def switched(self) -> SwitchedNetwork:
        return SwitchedNetwork(self.network())


@pytest.fixture(scope="module", params=["plaintext", pytest.param("tls", marks=pytest.mark.thorough)])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    directory = tmp_path_factory.mktemp("ensemble")
    tls = secured = None
    if request.param == "tls":
        authority = Authority()
        authority_file = directory / "authority.pem"
        authority_file.write_text(authority.certificate)
        certificate = authority.sign("member").write(directory / "member.pem")
        secured = Secured(certificate, authority_file)
        settings = zookeeper_tls(
            BrokerConfig.from_properties(
                {
                    "zookeeper.ssl.client.enable": "true",
                    "zookeeper.ssl.keystore.location": str(certificate),
                    "zookeeper.ssl.truststore.location": str(authority_file),
                }
            )
        )
        assert settings is not None
        tls = ZooKeeperTls(settings)
    try:
        ensemble = Members(directory, tls, secured)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with ensemble:
        yield ensemble


@pytest.fixture
def ensemble(shared: Members) -> Members:
    """Whole, whatever the test before did to it."""
    shared.resume()
    shared.start()
    shared.wait_until_serving()
    shared.wait_for_leader()
    return shared


class Watcher:
    """What a session hears, and waiting for it."""

    def __init__(self, session: ZooKeeperClient) -> None:
        self.heard: list[Event] = []
        self._changed = asyncio.Event()
        session.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        self.heard.append(event)
        self._changed.set()

    async def until_watched(self) -> None:
        """Waits until a watch was told."""
        while not self.watched:
            self._changed.clear()
            await self._changed.wait()

    async def until(self, *events: Event) -> None:
        """Waits until these were heard, in this order, others between them or not."""
        while True:
            left = iter(self.heard)
            if all(event in left for event in events):
                return
            self._changed.clear()
            await self._changed.wait()

    @property
    def watched(self) -> list[tuple[EventType, str]]:
        return [(event.type, event.path) for event in self.heard if isinstance(event, WatchEvent)]


Open = Callable[..., Awaitable[ZooKeeperClient]]


@asynccontextmanager
async def sessions(ensemble: Members) -> AsyncIterator[Open]:
    """Opens sessions in a chroot of the test's own, and closes them."""
    chroot = f"/test-{next(_roots)}"
    opened: list[ZooKeeperClient] = []

    async def open_one(network: SwitchedNetwork | None = None, *, timeout_ms: int = SESSION_MS) -> ZooKeeperClient:
        opened.append(
            await ZooKeeperClient.connect(
                network or ensemble.network(),
                ensemble.client_address + chroot,
                session_timeout_ms=timeout_ms,
                connection_timeout_ms=20_000,
                rng=random.Random(len(opened)),
            )
        )
        return opened[-1]

    async with asyncio.timeout(90):
        try:
            yield open_one
        finally:
            for session in opened:
                await session.close()


async def in_thread(call: Callable[[], T]) -> T:
    """The kit's waits block; sessions must go on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, call)


def test_a_session_survives_the_kill_of_the_member_it_is_connected_to(ensemble: Members) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            session, other = await open_one(), await open_one()
            heard = Watcher(session)
            session_id = session.session_id
            created = await session.create("/e", b"1", mode=CreateMode.EPHEMERAL)
            await session.create("/data")
            await session.get("/data", watch=True)
            await session.exists("/later", watch=True)
            await session.children("/", watch=True)
            member = ensemble.member_of(session_id)
            assert member is not None
            await in_thread(lambda: ensemble.kill(member))
            assert await session.get("/e") == (b"1", created.stat), "the read waits for the next member"
            assert session.session_id == session_id
            assert heard.heard == [DISCONNECTED, CONNECTED]
            assert ensemble.member_of(session_id) not in (None, member)
            await other.create("/later")
            await other.set("/data", b"2")
            await session.sync("/")
            assert heard.watched == [
                (EventType.NODE_CREATED, "/later"),
                (EventType.NODE_CHILDREN_CHANGED, "/"),
                (EventType.NODE_DATA_CHANGED, "/data"),
            ]
            # It is alive for longer than its time-out, not only within it.
            await asyncio.sleep(SESSION_MS / 1000 + 1)
            assert await other.exists("/e") is not None

    asyncio.run(scenario())


def test_writers_go_on_over_the_kill_of_the_leader_and_every_outcome_is_one_of_three(
    ensemble: Members,
) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            writers = [await open_one() for _ in range(3)]
            await writers[0].create("/counters")
            written: dict[int, int] = {}
            unknown = 0
            stopping = asyncio.Event()

            async def write(number: int) -> None:
                """Counts up with a multi and a version check: a write of unknown outcome is looked up, not repeated."""
                nonlocal unknown
                session, path = writers[number], f"/counters/{number}"
                await session.create(path, b"0")
                count = 0
                while not stopping.is_set():
                    try:
                        await session.multi([Check("/counters", 0), SetData(path, b"%d" % (count + 1), count)])
                        count += 1
                    except ConnectionLoss:
                        unknown += 1
                        data, stat = await session.get(path)
                        assert int(data or b"") == stat.version
                        assert stat.version in (count, count + 1), "carried out once or not at all"
                        count = stat.version
                written[number] = count

            writing = [asyncio.ensure_future(write(number)) for number in range(3)]
            await asyncio.sleep(0.5)
            leader = await in_thread(ensemble.leader)
            await in_thread(lambda: ensemble.kill(leader))
            await in_thread(ensemble.wait_for_leader)
            await asyncio.sleep(1.0)
            stopping.set()
            await asyncio.gather(*writing)
            assert ensemble.leader() != leader
            assert unknown > 0, "the leader died with writes in flight"
            for number, count in written.items():
                assert count > 10
                assert (await writers[number].get(f"/counters/{number}"))[0] == b"%d" % count

    asyncio.run(scenario())


def test_changes_that_were_missed_while_the_connection_was_gone_are_told(ensemble: Members) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            network = ensemble.switched()
            session, other = await open_one(network), await open_one()
            for path in ("/data", "/same", "/gone", "/parent"):
                await session.create(path)
                await session.get(path, watch=path != "/parent")
            await session.children("/parent", watch=True)
            assert await session.exists("/made", watch=True) is None
            assert await session.exists("/later", watch=True) is None
            heard = Watcher(session)
            network.mode = Mode.REFUSING
            network.cut()
            await heard.until(DISCONNECTED)
            await other.set("/data", b"new")
            await other.delete("/gone")
            await other.create("/parent/child")
            await other.create("/made")
            network.mode = Mode.SERVING
            await heard.until(DISCONNECTED, CONNECTED)
            await session.sync("/")
            assert sorted(heard.watched) == [
                (EventType.NODE_CREATED, "/made"),
                (EventType.NODE_DELETED, "/gone"),
                (EventType.NODE_DATA_CHANGED, "/data"),
                (EventType.NODE_CHILDREN_CHANGED, "/parent"),
            ]
            await other.create("/later")
            await other.set("/same", b"")
            await session.sync("/")
            assert heard.watched[4:] == [(EventType.NODE_CREATED, "/later"), (EventType.NODE_DATA_CHANGED, "/same")]

    asyncio.run(scenario())


def test_more_watches_than_one_request_holds_come_back(ensemble: Members) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            session, other = await open_one(), await open_one()
            names = [f"{'x' * 200}{number:05}" for number in range(3000)]
            for start in range(0, len(names), 500):
                await session.multi([Create(f"/{name}") for name in names[start : start + 500]])
            await asyncio.gather(*(session.get(f"/{name}", watch=True) for name in names))
            heard = Watcher(session)
            member = ensemble.member_of(session.session_id)
            assert member is not None
            await in_thread(lambda: ensemble.kill(member))
            await heard.until(DISCONNECTED, CONNECTED)
            for start in range(0, len(names), 500):
                await other.multi([SetData(f"/{name}", b"") for name in names[start : start + 500]])
            await session.sync("/")
            assert sorted(heard.watched) == [(EventType.NODE_DATA_CHANGED, f"/{name}") for name in names]

    asyncio.run(scenario())


def test_a_member_that_falls_silent_is_left_and_the_session_goes_on(ensemble: Members) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            session = await open_one()
            heard = Watcher(session)
            created = await session.create("/e", mode=CreateMode.EPHEMERAL)
            member = ensemble.member_of(session.session_id)
            assert member is not None
            ensemble.pause(member)
            assert await session.exists("/e") == created.stat
            # More than once where the member led: its followers serve nobody until they have another leader.
            assert heard.heard == [DISCONNECTED, CONNECTED] * (len(heard.heard) // 2)
            assert created.stat.ephemeral_owner == session.session_id

    asyncio.run(scenario())


def test_a_session_of_which_nothing_is_heard_expires_and_is_told_when_it_comes_back(
    ensemble: Members,
) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            network = ensemble.switched()
            session, other = await open_one(network, timeout_ms=2_000), await open_one()
            heard, others = Watcher(session), Watcher(other)
            await session.create("/e", mode=CreateMode.EPHEMERAL)
            await other.sync("/")
            assert await other.exists("/e", watch=True) is not None
            network.mode = Mode.SILENT
            writing = asyncio.ensure_future(session.set("/e", b"2"))
            await heard.until(DISCONNECTED)
            with pytest.raises(ConnectionLoss):
                await writing
            waiting = asyncio.ensure_future(session.get("/e"))
            await others.until_watched()
            assert others.watched == [(EventType.NODE_DELETED, "/e")]
            assert EXPIRED not in heard.heard, "nobody has said so yet"
            network.mode = Mode.SERVING
            await heard.until(DISCONNECTED, EXPIRED)
            with pytest.raises(SessionExpired):
                await waiting
            with pytest.raises(SessionExpired):
                await session.create("/x")
            former = session.session_id
            assert await session.renew() != former
            again = await session.create("/e", mode=CreateMode.EPHEMERAL)
            assert again.stat.ephemeral_owner == session.session_id

    asyncio.run(scenario())


def test_the_whole_ensemble_goes_and_comes_back_and_the_session_with_it(ensemble: Members) -> None:
    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            session = await open_one(timeout_ms=20_000)
            heard = Watcher(session)
            session_id = session.session_id
            created = await session.create("/e", b"1", mode=CreateMode.EPHEMERAL)
            await session.exists("/later", watch=True)
            await in_thread(ensemble.kill)
            await heard.until(DISCONNECTED)
            reading = asyncio.ensure_future(session.get("/e"))
            writing = asyncio.ensure_future(session.create("/later"))
            with pytest.raises(ConnectionFailed, match="none of the ZooKeeper servers"):
                await ZooKeeperClient.connect(
                    ensemble.network(),
                    ensemble.client_address,
                    session_timeout_ms=SESSION_MS,
                    connection_timeout_ms=1_000,
                    rng=random.Random(1),
                )
            await asyncio.sleep(1)
            assert not reading.done()
            assert not writing.done()
            ensemble.start()
            assert await reading == (b"1", created.stat)
            assert (await writing).path == "/later"
            assert session.session_id == session_id
            assert heard.watched == [(EventType.NODE_CREATED, "/later")]
            assert [event for event in heard.heard if isinstance(event, SessionEvent)][:2] == [DISCONNECTED, CONNECTED]

    asyncio.run(scenario())


def test_one_of_two_wins_a_node_whatever_dies(ensemble: Members) -> None:
    """The shape of every election here: a check of a version and a creation in one multi."""

    async def scenario() -> None:
        async with sessions(ensemble) as open_one:
            rivals = [await open_one() for _ in range(3)]
            await rivals[0].create("/epoch", b"0")
            await rivals[0].sync("/epoch")
            winners: dict[int, list[int]] = {}

            async def run_for(number: int, epoch: int) -> None:
                session = rivals[number]
                operations: list[Operation] = [
                    Create(f"/seat-{epoch}", b"%d" % number, CreateMode.EPHEMERAL),
                    SetData("/epoch", b"%d" % (epoch + 1), epoch),
                ]
                try:
                    await session.multi(operations)
                except (NodeExists, BadVersion):
                    return
                except ConnectionLoss:
                    await session.sync("/epoch")
                    stat = await session.exists(f"/seat-{epoch}")
                    if stat is None or stat.ephemeral_owner != session.session_id:
                        return
                winners.setdefault(epoch, []).append(number)

            for epoch in range(30):
                if epoch == 10:
                    ensemble.kill(ensemble.leader())
                for _ in range(20):
                    await asyncio.gather(*(run_for(number, epoch) for number in range(3)))
                    if epoch in winners:
                        break
            assert {epoch: len(won) for epoch, won in winners.items()} == dict.fromkeys(range(30), 1)
            await rivals[0].sync("/epoch")
            assert (await rivals[0].get("/epoch"))[0] == b"30"

    asyncio.run(scenario())
