"""The embedded server: what is answered when, and in which order."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest

from kavka.errors import StorageError
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import (
    OPEN_ACL,
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    CreateMode,
    Event,
    EventType,
    NodeExists,
    NoNode,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetData,
    WatchEvent,
    WatchMode,
)
from tests.unit.zookeeper.memory_disk import MemoryDisk
from tests.unit.zookeeper.tree_support import NOW_MS

DIRECTORY = "/zk"


class SlowDisk:
    """Lets syncs through when told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self.held = False

    async def run_blocking(self, call: Callable[[], None]) -> None:
        if not self.held:
            call()
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((call, done))
        await done

    def let_one_through(self) -> None:
        call, done = self.waiting.pop(0)
        try:
            call()
        except StorageError as failure:
            done.set_exception(failure)
        else:
            done.set_result(None)


class Fixture:
    def __init__(self, disk: MemoryDisk | None = None, settings: DatabaseSettings | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.slow = SlowDisk()
        self.failures: list[StorageError] = []
        self.now_ms = NOW_MS
        self.server = EmbeddedZooKeeper(
            Database.open(self.disk, DIRECTORY, settings),
            now_ms=lambda: self.now_ms,
            rng=random.Random(1),
            run_blocking=self.slow.run_blocking,
            tick_ms=10,
            on_failure=self.failures.append,
        )

    async def start(self) -> LocalZooKeeper:
        await self.server.start(close_former_sessions=True)
        return await self.server.connect()


def run(scenario: Callable[[Fixture, LocalZooKeeper], Awaitable[None]], fixture: Fixture | None = None) -> None:
    async def main() -> None:
        used = fixture or Fixture()
        zookeeper = await used.start()
        await scenario(used, zookeeper)
        await used.server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_every_operation_of_the_port() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        created = await zookeeper.create("/a", b"1")
        assert (created.path, created.stat.version) == ("/a", 0)
        assert await zookeeper.get("/a") == (b"1", created.stat)
        assert (await zookeeper.set("/a", b"2", version=0)).version == 1
        with pytest.raises(BadVersion) as refused:
            await zookeeper.set("/a", b"3", version=0)
        assert refused.value.operation_index == -1
        results = await zookeeper.multi([Check("/a", 1), Create("/a/b"), SetData("/a", None)])
        assert results[0] is None
        assert await zookeeper.children("/a") == ["b"]
        with pytest.raises(NodeExists) as refused_multi:
            await zookeeper.multi([Check("/a", 2), Create("/a/b")])
        assert refused_multi.value.operation_index == 1
        found = await zookeeper.get_many(["/a", "/none", "/a/b"])
        assert [None if node is None else node[0] for node in found] == [None, None, None]
        assert [node is None for node in found] == [False, True, False]
        assert (await zookeeper.set_acl("/a", OPEN_ACL)).aversion == 1
        assert (await zookeeper.get_acl("/a"))[0] == OPEN_ACL
        await zookeeper.delete("/a/b")
        assert await zookeeper.exists("/a/b") is None
        with pytest.raises(NoNode):
            await zookeeper.get("/a/b")
        await zookeeper.sync("/")

    run(scenario)


def test_nothing_is_seen_by_anybody_before_it_is_durable() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        other = await fixture.server.connect()
        events: list[Event] = []
        other.subscribe(events.append)
        await other.exists("/a", watch=True)
        fixture.slow.held = True
        writing = asyncio.ensure_future(zookeeper.create("/a"))
        await turns()
        reading = asyncio.ensure_future(other.exists("/a"))
        refusing = asyncio.ensure_future(other.create("/a"))
        await turns()
        assert not writing.done()
        assert not reading.done()
        assert not refusing.done(), "even that the node exists would tell of a write that may be lost"
        assert events == []
        fixture.slow.let_one_through()
        await turns()
        assert writing.done()
        assert reading.done()
        with pytest.raises(NodeExists):
            await refusing
        assert [event.path for event in events if isinstance(event, WatchEvent)] == ["/a"]
        fixture.slow.held = False

    run(scenario)


def test_writes_that_come_during_a_sync_share_the_next_one() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        fixture.slow.held = True
        before = fixture.disk.appends
        first = asyncio.ensure_future(zookeeper.create("/first"))
        await turns()
        others = [asyncio.ensure_future(zookeeper.create(f"/n{number}")) for number in range(50)]
        await turns()
        fixture.slow.let_one_through()
        await turns()
        assert first.done()
        assert not others[0].done()
        fixture.slow.let_one_through()
        await asyncio.gather(*others)
        assert fixture.disk.appends == before + 2
        fixture.slow.held = False

    run(scenario)


def test_a_watch_event_comes_before_the_state_that_raised_it_can_be_read() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        history: list[str] = []
        zookeeper.subscribe(
            lambda event: history.append(f"event {event.path}" if isinstance(event, WatchEvent) else "")
        )
        for name in ("a", "b"):
            await zookeeper.exists(f"/{name}", watch=True)
            await zookeeper.create(f"/{name}")
            history.append(f"created {name}")
            await zookeeper.get(f"/{name}")
            history.append(f"read {name}")
        assert history == ["event /a", "created a", "read a", "event /b", "created b", "read b"]

    run(scenario)


@pytest.mark.parametrize("policy", list(SyncPolicy))
def test_another_session_reads_a_change_only_after_its_event(policy: SyncPolicy) -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        other = await fixture.server.connect()
        told: list[str] = []
        other.subscribe(lambda event: told.append(event.path) if isinstance(event, WatchEvent) else None)

        async def look() -> None:
            for _ in range(20):
                if await other.exists("/a") is not None:
                    assert told == ["/a"]
                    return
                await asyncio.sleep(0)
            raise AssertionError("never seen")

        await other.exists("/a", watch=True)
        looking = asyncio.ensure_future(look())
        await zookeeper.create("/a")
        await looking

    run(scenario, Fixture(settings=DatabaseSettings(sync=policy)))


def test_a_read_between_durability_and_delivery_waits_for_the_event() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        other = await fixture.server.connect()
        told: list[Event] = []
        other.subscribe(told.append)
        await other.exists("/a", watch=True)
        now: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def look() -> None:
            await now
            assert await other.exists("/a") is not None
            assert len(told) == 1

        looking = asyncio.ensure_future(look())
        fixture.slow.held = True
        writing = asyncio.ensure_future(zookeeper.create("/a"))
        await turns()
        # Both wake in one round of the loop: first the commit, which lets the event out, then at once the reader.
        fixture.slow.let_one_through()
        now.set_result(None)
        await asyncio.gather(looking, writing)
        fixture.slow.held = False

    run(scenario)


def test_events_of_one_multi_come_in_its_order_to_every_listener() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        seen: list[tuple[int, EventType, str]] = []
        undo = [
            zookeeper.subscribe(
                lambda event, number=number: (  # type: ignore[misc]
                    seen.append((number, event.type, event.path)) if isinstance(event, WatchEvent) else None
                )
            )
            for number in range(2)
        ]
        await zookeeper.add_watch("/", WatchMode.PERSISTENT_RECURSIVE)
        await zookeeper.multi([Create("/a"), SetData("/a", b""), Create("/a/b")])
        expected = [
            (EventType.NODE_CREATED, "/a"),
            (EventType.NODE_DATA_CHANGED, "/a"),
            (EventType.NODE_CREATED, "/a/b"),
        ]
        assert seen == [(number, *event) for event in expected for number in range(2)]
        undo[0]()
        seen.clear()
        await zookeeper.delete("/a/b")
        assert seen == [(1, EventType.NODE_DELETED, "/a/b")]
        await zookeeper.remove_watches("/")
        await zookeeper.delete("/a")
        assert len(seen) == 1

    run(scenario)


def test_an_expired_session_is_told_and_can_be_renewed() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        states: list[SessionState] = []
        zookeeper.subscribe(lambda event: states.append(event.state) if isinstance(event, SessionEvent) else None)
        await zookeeper.create("/e", mode=CreateMode.EPHEMERAL)
        old = zookeeper.session_id
        assert await zookeeper.renew() == old, "it is alive"
        await fixture.server.expire(old)
        assert states == [SessionState.EXPIRED]
        with pytest.raises(SessionExpired):
            await zookeeper.get("/")
        assert await zookeeper.renew() != old
        assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
        assert await zookeeper.exists("/e") is None

    run(scenario)


def test_closing_ends_ephemeral_nodes_and_the_session_for_good() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        other = await fixture.server.connect()
        await other.create("/e", mode=CreateMode.EPHEMERAL)
        await other.close()
        await other.close()
        assert await zookeeper.exists("/e") is None
        with pytest.raises(SessionExpired):
            await other.get("/")
        with pytest.raises(SessionExpired):
            await other.renew()

    run(scenario)


def test_a_new_process_ends_the_sessions_of_the_one_before() -> None:
    first, second = Fixture(), []

    async def before(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        await zookeeper.create("/e", mode=CreateMode.EPHEMERAL)
        await zookeeper.create("/p")
        second.append(Fixture(fixture.disk.copy()))

    async def after(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        assert await zookeeper.exists("/e") is None
        assert await zookeeper.exists("/p") is not None

    run(before, first)
    run(after, second[0])


def test_sessions_that_are_not_heard_of_expire_and_local_ones_do_not() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        heard: list[Event] = []
        told = asyncio.Event()

        def hear(event: Event) -> None:
            heard.append(event)
            told.set()

        remote, _ = await fixture.server.open_session(30, local=False)
        fixture.server.attach(remote, hear)
        short = await fixture.server.connect(timeout_ms=30)
        await told.wait()
        assert heard == [SessionEvent(SessionState.EXPIRED)]
        await asyncio.sleep(0.06)
        await short.get("/")

    run(scenario)


def test_a_server_that_stood_still_itself_puts_sessions_off_by_as_much() -> None:
    """As a stopped process does, or a machine that gives it no processor: the pings lie unread in the sockets."""

    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        remote, _ = await fixture.server.open_session(150, local=False)
        sessions = fixture.server.database.tree.sessions
        await asyncio.sleep(0.03)
        time.sleep(0.5)  # noqa: ASYNC251  # the whole loop stands still
        await asyncio.sleep(0.02)
        assert remote in sessions
        await asyncio.sleep(0.4)
        assert remote not in sessions

    run(scenario)


def test_empty_containers_disappear() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        await zookeeper.create("/c", mode=CreateMode.CONTAINER)
        await zookeeper.create("/c/x")
        await zookeeper.delete("/c/x")
        gone = asyncio.Event()
        zookeeper.subscribe(lambda event: gone.set())
        if await zookeeper.exists("/c", watch=True) is not None:
            await gone.wait()
        assert await zookeeper.exists("/c") is None

    run(scenario)


@pytest.mark.parametrize("call", ["append", "sync"])
def test_when_the_disk_fails_outcomes_are_unknown_and_the_host_is_told(call: str) -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        states: list[Event] = []
        zookeeper.subscribe(states.append)
        fixture.disk.fail_on = {call}
        writing = [asyncio.ensure_future(zookeeper.create(f"/{name}")) for name in "ab"]
        for write in writing:
            with pytest.raises(ConnectionLoss):
                await write
        assert len(fixture.failures) == 1
        assert states == [SessionEvent(SessionState.DISCONNECTED)]
        for operation in (zookeeper.create("/c"), zookeeper.get("/")):
            with pytest.raises(ConnectionLoss):
                await operation

    run(scenario)


def test_snapshots_are_made_under_load_and_a_restart_finds_the_rest() -> None:
    disk = MemoryDisk()
    settings = DatabaseSettings(snapshot_transactions=20)

    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        for batch in range(5):
            await asyncio.gather(*(zookeeper.create(f"/n{batch}-{number}") for number in range(20)))

    run(scenario, Fixture(disk, settings))
    assert len([name for name in disk.names() if name.startswith("snapshot")]) == 3

    async def after(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        assert len(await zookeeper.children("/")) == 101

    run(after, Fixture(disk.copy(), settings))


def test_a_stopped_server_answers_connection_loss() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        states: list[Event] = []
        zookeeper.subscribe(states.append)
        await fixture.server.stop()
        assert states == [SessionEvent(SessionState.DISCONNECTED)]
        with pytest.raises(ConnectionLoss):
            await zookeeper.get("/")

    run(scenario)


def test_a_cancelled_write_still_happens() -> None:
    async def scenario(fixture: Fixture, zookeeper: LocalZooKeeper) -> None:
        fixture.slow.held = True
        writing = asyncio.ensure_future(zookeeper.create("/a"))
        await turns()
        writing.cancel()
        fixture.slow.held = False
        fixture.slow.let_one_through()
        await turns()
        assert await zookeeper.exists("/a") is not None

    run(scenario)


def test_answers_leave_in_the_order_of_their_questions_whatever_waits_for_the_disk() -> None:
    async def scenario() -> None:
        fixture = Fixture()
        zookeeper = await fixture.start()
        await zookeeper.create("/a")
        answered: list[int] = []

        async def ask(number: int) -> None:
            if number % 5 == 0:
                await zookeeper.set("/a", b"")
            else:
                await zookeeper.get("/a")
            answered.append(number)

        tasks = []
        for number in range(300):
            tasks.append(asyncio.get_running_loop().create_task(ask(number)))
            if number % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.wait(tasks)
        assert answered == list(range(300))
        await fixture.server.stop()

    asyncio.run(scenario())
