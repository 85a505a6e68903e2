"""What every ZooKeeper behind the port does: in this process, kavka's server on a port, a real ensemble of three.

The same tests run on all of them, so a flow that works on one works on the others.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperServer, ZooKeeperServerSettings
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import (
    OPEN_ACL,
    Acl,
    BadArguments,
    BadVersion,
    Check,
    Create,
    CreateMode,
    Delete,
    Event,
    EventType,
    InvalidAcl,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NoWatcher,
    Operation,
    Permission,
    Rejected,
    RequestTooLarge,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetData,
    WatchEvent,
    WatchMode,
    ZooKeeper,
)
from tests.apache_kafka import PeerMissing
from tests.kit.switched_network import Mode, SwitchedNetwork
from tests.kit.zookeeper_ensemble import ZooKeeperEnsemble

TICK_MS = 500
SESSION_MS = 6 * TICK_MS
_numbers = itertools.count()


class Place:
    """A ZooKeeper to open sessions with; `root` is a node of the test's own, which is there and empty."""

    def __init__(self) -> None:
        self.root = f"/contract-{next(_numbers)}"

    async def open(self) -> ZooKeeper:
        raise NotImplementedError

    async def expire(self, session: ZooKeeper) -> None:
        """Has the session expire, so that its owner is told."""
        raise NotImplementedError


class Local(Place):
    def __init__(self, embedded: EmbeddedZooKeeper) -> None:
        super().__init__()
        self._embedded = embedded

    async def open(self) -> LocalZooKeeper:
        return await self._embedded.connect(timeout_ms=SESSION_MS)

    async def expire(self, session: ZooKeeper) -> None:
        await self._embedded.expire(session.session_id)


class Remote(Place):
    """Sessions over a port. They expire as they do in life: nothing is heard of them."""

    def __init__(self, connect_string: str) -> None:
        super().__init__()
        self._connect_string = connect_string
        self._networks: dict[ZooKeeper, SwitchedNetwork] = {}

    async def open(self) -> ZooKeeperClient:
        network = SwitchedNetwork()
        client = await ZooKeeperClient.connect(
            network,
            f"{self._connect_string}/in/a/chroot",
            session_timeout_ms=SESSION_MS,
            connection_timeout_ms=20_000,
            rng=random.Random(1),
        )
        self._networks[client] = network
        return client

    async def expire(self, session: ZooKeeper) -> None:
        network = self._networks[session]
        network.mode = Mode.SILENT
        heard = asyncio.Event()
        undo = session.subscribe(lambda event: heard.set() if event == SessionEvent(SessionState.EXPIRED) else None)
        # Sessions are looked at once a tick: it is gone after the time-out and one tick at most, and some slack.
        await asyncio.sleep((SESSION_MS + 3 * TICK_MS) / 1000)
        network.mode = Mode.SERVING
        network.cut()
        await heard.wait()
        undo()


Scenario = Callable[[Place], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    try:
        members = ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"), tick_ms=TICK_MS)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with members:
        yield members


@pytest.fixture(params=["local", "wire", pytest.param("ensemble", marks=pytest.mark.kafka)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a scenario with a place of its own."""

    async def in_place(scenario: Scenario, place: Place) -> None:
        async with asyncio.timeout(60):
            session = await place.open()
            await session.create(place.root)
            await scenario(place)
            await session.close()

    async def embedded(scenario: Scenario) -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path / "zk"), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(
            database, now_ms=lambda: time.time_ns() // 1_000_000, rng=random.Random(1), tick_ms=TICK_MS
        )
        await server.start(close_former_sessions=True)
        if request.param == "local":
            await in_place(scenario, Local(server))
        else:
            wire = ZooKeeperServer(server, settings=ZooKeeperServerSettings(tick_ms=TICK_MS))
            await wire.listen("127.0.0.1", 0)
            await in_place(scenario, Remote(f"127.0.0.1:{wire.port}"))
            await wire.stop()
        await server.stop()

    def runner(scenario: Scenario) -> None:
        if request.param == "ensemble":
            members: ZooKeeperEnsemble = request.getfixturevalue("ensemble")
            asyncio.run(in_place(scenario, Remote(members.connect_string)))
        else:
            asyncio.run(embedded(scenario))

    return runner


def hear(session: ZooKeeper) -> list[Event]:
    heard: list[Event] = []
    session.subscribe(heard.append)
    return heard


def watched(heard: list[Event]) -> list[tuple[EventType, str]]:
    return [(event.type, event.path) for event in heard if isinstance(event, WatchEvent)]


# ------------------------------------------------------------------------------------------------------- operations


def test_nodes_are_made_read_written_and_deleted(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, a = await place.open(), f"{place.root}/a"
        created = await session.create(a, b"1")
        assert (created.path, created.stat.version, created.stat.data_length) == (a, 0, 1)
        assert created.stat.ephemeral_owner == 0
        assert await session.get(a) == (b"1", created.stat)
        assert await session.exists(a) == created.stat
        stat = await session.set(a, b"22", version=0)
        assert (stat.version, stat.data_length, stat.czxid) == (1, 2, created.stat.czxid)
        assert stat.mzxid > created.stat.mzxid
        assert await session.get(a) == (b"22", stat)
        for data in (None, b"", bytes(range(256)) * 1000):
            await session.set(a, data)
            assert (await session.get(a))[0] == data
        for name in ("c", "b", "é€"):
            await session.create(f"{a}/{name}")
        assert await session.children(a) == ["b", "c", "é€"]
        assert await session.children(f"{a}/b") == []
        await session.delete(f"{a}/b", version=0)
        assert await session.exists(f"{a}/b") is None
        await session.sync(a)

    run(scenario)


def test_kinds_of_nodes(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, root = await place.open(), place.root
        for number in range(3):
            created = await session.create(f"{root}/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
            assert created.path == f"{root}/n-{number:010}"
        ephemeral = await session.create(f"{root}/e", mode=CreateMode.EPHEMERAL)
        assert ephemeral.stat.ephemeral_owner == session.session_id
        numbered = await session.create(f"{root}/e-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        assert numbered.path == f"{root}/e-0000000004"
        assert (await session.create(f"{root}/c", mode=CreateMode.CONTAINER)).path == f"{root}/c"
        inside = await session.create(f"{root}/c/", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        assert inside.path == f"{root}/c/0000000000"
        with pytest.raises(NoChildrenForEphemerals):
            await session.create(f"{root}/e/child")

    run(scenario)


def test_refusals_say_why_and_where(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, a = await place.open(), f"{place.root}/a"
        await session.create(a)
        await session.create(f"{a}/child")
        none = f"{place.root}/none"
        refusals: list[tuple[type[Rejected], str, Callable[[], Awaitable[object]]]] = [
            (NodeExists, a, lambda: session.create(a)),
            (NoNode, f"{none}/x", lambda: session.create(f"{none}/x")),
            (NoNode, none, lambda: session.get(none)),
            (NoNode, none, lambda: session.children(none)),
            (NoNode, none, lambda: session.get_acl(none)),
            (NoNode, none, lambda: session.set(none, b"")),
            (NoNode, none, lambda: session.set_acl(none, OPEN_ACL)),
            (NoNode, none, lambda: session.delete(none)),
            (BadVersion, a, lambda: session.set(a, b"", version=7)),
            (BadVersion, f"{a}/child", lambda: session.delete(f"{a}/child", version=7)),
            (BadVersion, a, lambda: session.set_acl(a, OPEN_ACL, version=7)),
            (NotEmpty, a, lambda: session.delete(a)),
            (InvalidAcl, none, lambda: session.create(none, acl=())),
            (InvalidAcl, none, lambda: session.create(none, acl=(Acl(31, "nonsense", "x"),))),
            (NoWatcher, a, lambda: session.remove_watches(a)),
            (RequestTooLarge, none, lambda: session.create(none, bytes(1 << 20))),
            (BadArguments, "relative", lambda: session.create("relative")),
            (BadArguments, f"{a}/", lambda: session.get(f"{a}/")),
            (BadArguments, f"{a}/../b", lambda: session.delete(f"{a}/../b")),
        ]
        for kind, path, refused in refusals:
            with pytest.raises(kind) as error:
                await refused()
            assert (error.value.path, error.value.operation_index) == (path, -1)
        assert await session.exists(none) is None

    run(scenario)


def test_access_lists(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, a = await place.open(), f"{place.root}/a"
        read_only = (Acl(Permission.READ | Permission.ADMIN, "world", "anyone"),)
        await session.create(a, b"1", acl=read_only)
        assert (await session.get_acl(a))[0] == read_only
        with pytest.raises(NoAuth):
            await session.set(a, b"2")
        with pytest.raises(NoAuth):
            await session.create(f"{a}/child")
        assert (await session.set_acl(a, OPEN_ACL, version=0)).aversion == 1
        await _set_when_permitted(session, a, b"2")
        acl, stat = await session.get_acl(a)
        assert (acl, stat.aversion, stat.version) == (OPEN_ACL, 1, 1)

    run(scenario)


async def _set_when_permitted(session: ZooKeeper, path: str, data: bytes) -> None:
    """An ensemble's leader may judge by the list as it was before a change that one of its followers has told of: its
    record of changes under way keeps the old list (PrepRequestProcessor)."""
    async with asyncio.timeout(10):
        while True:
            try:
                await session.set(path, data)
                return
            except NoAuth:
                await asyncio.sleep(0.02)


def test_many_nodes_are_read_in_the_order_asked(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, root = await place.open(), place.root
        await session.multi([Create(f"{root}/{number}", str(number).encode()) for number in range(0, 2400, 2)])
        found = await session.get_many([f"{root}/{number}" for number in range(2400)])
        assert [node and node[0] for node in found] == [
            None if number % 2 else str(number).encode() for number in range(2400)
        ]
        assert await session.get_many([]) == []

    run(scenario)


def test_a_multi_is_carried_out_whole_or_not_at_all(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, a = await place.open(), f"{place.root}/a"
        results = await session.multi(
            [
                Create(a, b"1"),
                Check(a, 0),
                SetData(a, b"2", 0),
                Create(f"{a}/n-", None, CreateMode.PERSISTENT_SEQUENTIAL),
                Create(f"{a}/e", b"", CreateMode.EPHEMERAL),
                Create(f"{a}/gone"),
                Delete(f"{a}/gone"),
            ]
        )
        paths = [getattr(result, "path", None) for result in results]
        assert paths == [a, None, None, f"{a}/n-0000000000", f"{a}/e", f"{a}/gone", None]
        assert getattr(results[2], "version", None) == 1
        assert results[1] is None
        assert results[6] is None
        _, stat = await session.get(a)
        assert (stat.version, stat.num_children, stat.cversion) == (1, 2, 4)
        refusals: list[tuple[list[Operation], type[Rejected], int]] = [
            ([SetData(a, b"3"), Create(f"{a}/x"), Check(a, 1)], BadVersion, 2),
            ([Create(f"{a}/x"), Create(f"{a}/x")], NodeExists, 1),
            ([Delete(f"{a}/none"), Create(f"{a}/x")], NoNode, 0),
            ([Create(f"{a}/x"), Create("no path")], BadArguments, 1),
        ]
        for operations, kind, index in refusals:
            with pytest.raises(kind) as refused:
                await session.multi(operations)
            assert refused.value.operation_index == index
            assert refused.value.path == operations[index].path
        assert await session.children(a) == ["e", "n-0000000000"]
        assert (await session.get(a))[0] == b"2"
        assert await session.multi([]) == []

    run(scenario)


def test_a_session_sees_what_was_committed_before_it_asked_for_a_sync(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other, a = await place.open(), await place.open(), f"{place.root}/a"
        await other.create(a, b"0")
        for number in range(1, 20):
            await other.set(a, str(number).encode())
            await session.sync(a)
            assert (await session.get(a))[0] == str(number).encode()

    run(scenario)


def test_requests_of_a_session_are_answered_in_their_order(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, a = await place.open(), f"{place.root}/a"
        await session.create(a)
        answered: list[int] = []

        async def ask(number: int) -> None:
            if number % 5 == 0:
                await session.set(a, str(number).encode())
            else:
                data, _ = await session.get(a)
                assert int(data or b"-1") == number - number % 5, "it sees its own writes, and none too early"
            answered.append(number)

        await asyncio.gather(*(ask(number) for number in range(200)))
        assert answered == list(range(200))

    run(scenario)


# ---------------------------------------------------------------------------------------------------------- watches


def test_one_shot_watches_tell_the_next_change_and_no_other(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other, root = await place.open(), await place.open(), place.root
        heard = hear(session)
        await session.create(f"{root}/a")
        await session.create(f"{root}/b")
        await session.get(f"{root}/a", watch=True)
        await session.exists(f"{root}/b", watch=True)
        await session.exists(f"{root}/new", watch=True)
        await session.children(root, watch=True)
        with pytest.raises(NoNode):
            await session.get(f"{root}/late", watch=True)
        for _ in range(2):
            await other.set(f"{root}/a", b"")
            await other.delete(f"{root}/b")
            await other.create(f"{root}/new")
            await other.create(f"{root}/late")
            await other.create(f"{root}/b")
            await other.delete(f"{root}/new")
            await other.delete(f"{root}/late")
        await session.sync(root)
        assert watched(heard) == [
            (EventType.NODE_DATA_CHANGED, f"{root}/a"),
            (EventType.NODE_DELETED, f"{root}/b"),
            (EventType.NODE_CHILDREN_CHANGED, root),
            (EventType.NODE_CREATED, f"{root}/new"),
        ]

    run(scenario)


def test_the_deletion_of_a_node_is_told_once_to_whoever_watches_it_and_its_children(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other, a = await place.open(), await place.open(), f"{place.root}/a"
        heard = hear(session)
        await session.create(a)
        await session.get(a, watch=True)
        await session.children(a, watch=True)
        await other.delete(a)
        await session.sync(place.root)
        assert watched(heard) == [(EventType.NODE_DELETED, a)]

    run(scenario)


def test_watches_that_stay(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other = await place.open(), await place.open()
        a, b = f"{place.root}/a", f"{place.root}/b"
        heard = hear(session)
        await session.add_watch(a, WatchMode.PERSISTENT)
        await session.add_watch(b, WatchMode.PERSISTENT_RECURSIVE)
        for path in (a, f"{a}/x", f"{a}/x/y", b, f"{b}/x", f"{b}/x/y"):
            await other.create(path)
        await other.set(a, b"")
        await other.set(f"{b}/x/y", b"")
        await other.delete(f"{a}/x/y")
        await other.delete(f"{a}/x")
        await session.sync(place.root)
        assert watched(heard) == [
            (EventType.NODE_CREATED, a),
            (EventType.NODE_CHILDREN_CHANGED, a),
            (EventType.NODE_CREATED, b),
            (EventType.NODE_CREATED, f"{b}/x"),
            (EventType.NODE_CREATED, f"{b}/x/y"),
            (EventType.NODE_DATA_CHANGED, a),
            (EventType.NODE_DATA_CHANGED, f"{b}/x/y"),
            (EventType.NODE_CHILDREN_CHANGED, a),
        ]
        heard.clear()
        await session.remove_watches(a)
        await session.remove_watches(b)
        await other.set(a, b"")
        await other.set(b, b"")
        await session.sync(place.root)
        assert heard == []

    run(scenario)


def test_an_event_is_told_before_its_change_can_be_read(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other, a = await place.open(), await place.open(), f"{place.root}/a"
        await other.create(a, b"0")
        told = 0

        def count(event: Event) -> None:
            nonlocal told
            told += isinstance(event, WatchEvent)

        session.subscribe(count)
        await session.get(a, watch=True)

        async def write() -> None:
            for number in range(1, 30):
                await other.set(a, str(number).encode())

        async def look() -> None:
            """Every reading that shows a change comes behind the event for the watch that the one before left."""
            seen, changes = 0, 0
            while seen < 29:
                data, _ = await session.get(a, watch=True)
                if int(data or b"") > seen:
                    seen = int(data or b"")
                    changes += 1
                    assert told >= changes

        await asyncio.gather(write(), look())

    run(scenario)


def test_every_listener_hears_of_everything_until_it_leaves(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, root = await place.open(), place.root
        order: list[tuple[str, str]] = []

        def listener(name: str) -> Callable[[Event], None]:
            return lambda event: order.append((name, event.path)) if isinstance(event, WatchEvent) else None

        undo = session.subscribe(listener("first"))
        session.subscribe(listener("second"))
        await session.add_watch(root, WatchMode.PERSISTENT_RECURSIVE)
        await session.multi([Create(f"{root}/a"), Create(f"{root}/b")])
        await session.sync(root)
        assert order == [(name, f"{root}/{path}") for path in "ab" for name in ("first", "second")]
        undo()
        undo()
        order.clear()
        await session.delete(f"{root}/a")
        await session.sync(root)
        assert order == [("second", f"{root}/a")]

    run(scenario)


# --------------------------------------------------------------------------------------------------------- sessions


def test_ephemeral_nodes_go_with_their_session(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other, e = await place.open(), await place.open(), f"{place.root}/e"
        heard = hear(other)
        await session.create(e, mode=CreateMode.EPHEMERAL)
        await other.sync(e)
        assert await other.exists(e, watch=True) is not None
        await session.close()
        await session.close()
        await other.sync(e)
        assert await other.exists(e) is None
        assert watched(heard) == [(EventType.NODE_DELETED, e)]
        for attempt in (session.get(e), session.create(e), session.renew(), session.multi([Create(e)])):
            with pytest.raises(SessionExpired):
                await attempt

    run(scenario)


def test_an_expired_session_is_told_and_the_next_one_has_nothing_of_it(run: Run) -> None:
    async def scenario(place: Place) -> None:
        session, other, root = await place.open(), await place.open(), place.root
        await session.create(f"{root}/e", mode=CreateMode.EPHEMERAL)
        await session.exists(f"{root}/n", watch=True)
        await session.add_watch(root, WatchMode.PERSISTENT)
        heard = hear(session)
        former = session.session_id
        assert await session.renew() == former, "it is alive"
        await place.expire(session)
        states = [event.state for event in heard if isinstance(event, SessionEvent)]
        assert states[-1] is SessionState.EXPIRED
        for attempt in (session.get(root), session.create(f"{root}/x"), session.get_many([root])):
            with pytest.raises(SessionExpired):
                await attempt
        heard.clear()
        renewed = await session.renew()
        assert renewed == session.session_id != former
        assert heard == [] or heard == [SessionEvent(SessionState.CONNECTED)]
        assert await session.exists(f"{root}/e") is None
        await other.create(f"{root}/n")
        await session.sync(root)
        assert heard == [SessionEvent(SessionState.CONNECTED)]
        again = await session.create(f"{root}/e", mode=CreateMode.EPHEMERAL)
        assert again.stat.ephemeral_owner == renewed

    run(scenario)
