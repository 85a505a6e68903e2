"""The embedded ZooKeeper server without its wire protocol, and the ZooKeeper port served by it in this process.

`EmbeddedZooKeeper` is the flow around a `Database`: group commit, delivery in order, session expiry. `LocalZooKeeper`
is one session of it, for a broker in the same process; a listener for ZooKeeper's wire protocol drives the same server
through `submit`, `read`, `attach` and `touch`.

A write changes the tree at once, which decides its result; then its transaction waits for the next group commit. The
tree is therefore ahead of the disk, so everything that could show it waits too, in one queue (the outbox), in order:

    1. A writes x; the tree has it, the frame is being synced.
    2. B reads x. If B were answered now and the power failed, B would have seen what never was.
    3. B's answer stands in the outbox behind A's transaction and leaves after it is durable.

Invariants:
I1  What leaves the outbox is durable (as `SyncPolicy` says), and leaves in the order in which it entered.
I2  Answers and watch events reach the event loop's ready queue in outbox order, so a session runs on with an answer
    before or after an event exactly as the tree decided it.
I3  After a failure of the disk nothing is answered but ConnectionLoss: outcome unknown.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from kavka.errors import InvariantViolation, StorageError
from kavka.zookeeper.database import Database, SyncPolicy
from kavka.zookeeper.decide.tree import Applied, Transaction
from kavka.zookeeper.decide.watches import Notification
from kavka.zookeeper.port import (
    ANY_VERSION,
    AclList,
    ConnectionLoss,
    Create,
    Created,
    CreateMode,
    Delete,
    Event,
    Listener,
    NoNode,
    Operation,
    OperationResult,
    Rejected,
    SessionEvent,
    SessionExpired,
    SessionListeners,
    SessionState,
    SetAcl,
    SetData,
    Stat,
    WatchMode,
)

T = TypeVar("T")
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a blocking call elsewhere (a worker thread) and returns when it is done; raises what it raised."""

PASSWORD_BYTES: Final = 16
DEFAULT_SESSION_TIMEOUT_MS: Final = 18_000
"""Kafka's zookeeper.session.timeout.ms."""
DEFAULT_TICK_MS: Final = 2_000
"""ZooKeeper's tickTime: how often sessions are looked at, and so how late an expiry may be noticed."""


async def run_inline(call: Callable[[], None]) -> None:
    """A `RunBlocking` that blocks the loop: for tests, and for disks in memory."""
    call()


@dataclass(slots=True)
class _Answer:
    """An answer on its way out: `waiter` goes on when the tree as of `zxid` is durable."""

    zxid: int
    waiter: asyncio.Future[None]
    released: bool = False


@dataclass(slots=True)
class _Delivery:
    """An event on its way out to a session."""

    zxid: int
    session_id: int
    event: Event


class EmbeddedZooKeeper:
    """A ZooKeeper server in this process, on one event loop."""

    def __init__(
        self,
        database: Database,
        *,
        now_ms: Callable[[], int],
        rng: random.Random,
        run_blocking: RunBlocking = run_inline,
        tick_ms: int = DEFAULT_TICK_MS,
        on_failure: Callable[[StorageError], None] | None = None,
    ) -> None:
        """`now_ms` reads the wall clock, in ms since 1970. `on_failure` is told once that the disk failed."""
        self._database = database
        self._tree = database.tree
        self._now_ms = now_ms
        self._rng = rng
        self._run_blocking = run_blocking
        self._tick_ms = tick_ms
        self._on_failure = on_failure
        self._pending: list[Transaction] = []
        self._outbox: deque[_Answer | _Delivery] = deque()
        self._durable_zxid = self._tree.zxid
        self._undelivered = 0
        self._attached: dict[int, Listener] = {}
        self._local_sessions: dict[int, None] = {}
        self._committing: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._failure: StorageError | None = None
        self._stopped = False

    # -------------------------------------------------------------------------------------------------- life

    async def start(self, *, close_former_sessions: bool) -> None:
        """Begins to serve. `close_former_sessions`: the sessions in the database belonged to a process that is gone,
        so their ephemeral nodes go now; otherwise their clients have one time-out to come back."""
        if close_former_sessions:
            for session_id in list(self._tree.sessions):
                self._record(self._tree.close_session(session_id, now_ms=self._now_ms()))
        self._tree.touch_all(monotonic_ms=self._monotonic_ms())
        await self._settled()
        self._ticking = asyncio.get_running_loop().create_task(self._tick())
        self._ticking.add_done_callback(_report_bug)

    async def stop(self) -> None:
        """Commits what is pending and closes the database. Sessions stay in it."""
        if self._stopped:
            return
        self._stopped = True
        if self._ticking is not None:
            self._ticking.cancel()
        while self._committing is not None:
            await asyncio.wait([self._committing])
        for session_id in list(self._attached):
            self._tell(session_id, SessionEvent(SessionState.DISCONNECTED))
        self._database.close()

    async def connect(self, *, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> LocalZooKeeper:
        """A new session for this process. It is alive as long as the process: only `expire` and `close` end it."""
        client = LocalZooKeeper(self, timeout_ms)
        await client.renew()
        return client

    async def expire(self, session_id: int) -> None:
        """Ends a session as if its time were over: its client is told, its ephemeral nodes go."""
        self._end_session(session_id)
        await self._settled()

    # ----------------------------------------------------------------------------------- what a front end drives

    async def open_session(self, timeout_ms: int, *, local: bool) -> tuple[int, bytes]:
        """(id, password) of a new session; `local`: it needs no touch to stay alive."""
        self._require_alive()
        password = self._rng.randbytes(PASSWORD_BYTES)
        session_id, applied = self._tree.open_session(
            timeout_ms, password, now_ms=self._now_ms(), monotonic_ms=self._monotonic_ms()
        )
        if local:
            self._local_sessions[session_id] = None
        self._record(applied)
        await self._settled()
        return session_id, password

    async def close_session(self, session_id: int) -> None:
        """Ends a session at its client's wish. Raises SessionExpired."""
        self._require_alive()
        applied = self._tree.close_session(session_id, now_ms=self._now_ms())
        self._attached.pop(session_id, None)
        self._local_sessions.pop(session_id, None)
        self._record(applied)
        await self._settled()

    def attach(self, session_id: int, deliver: Listener) -> None:
        """Events of the session go to `deliver`, called on the event loop."""
        self._attached[session_id] = deliver

    def detach(self, session_id: int) -> None:
        """The session's connection is gone, and its watches with it, until the next `attach`."""
        self._attached.pop(session_id, None)
        self._tree.disconnect(session_id)

    def resume_session(self, session_id: int, password: bytes) -> int:
        """A client came back on another connection. Returns its time-out; raises SessionExpired, also for a wrong
        password, and ConnectionLoss."""
        self._require_alive()
        return self._tree.resume_session(session_id, password, monotonic_ms=self._monotonic_ms())

    def touch(self, session_id: int) -> None:
        """The session was heard of. Raises SessionExpired."""
        self._tree.touch(session_id, monotonic_ms=self._monotonic_ms())

    async def submit(self, session_id: int, operations: Sequence[Operation]) -> tuple[OperationResult, ...]:
        """Carries out a write and returns its results when it is durable. Raises Rejected, ConnectionLoss."""
        return (await self.write(session_id, operations)).results

    async def write(self, session_id: int, operations: Sequence[Operation]) -> Applied:
        """As `submit`; returns the transaction too."""
        self._require_alive()
        try:
            applied = self._tree.write(session_id, operations, now_ms=self._now_ms())
        except Rejected:
            await self._settled()  # The reason may be a write that is not durable yet.
            raise
        self._record(applied)
        await self._settled()
        return applied

    async def restore_watches(
        self,
        session_id: int,
        *,
        seen_zxid: int,
        data: Sequence[str] = (),
        exist: Sequence[str] = (),
        child: Sequence[str] = (),
    ) -> None:
        """Arms one-shot watches again; what changed meanwhile is delivered before this returns. Raises Rejected,
        ConnectionLoss."""
        self._require_alive()
        try:
            missed = self._tree.restore_watches(
                session_id=session_id, seen_zxid=seen_zxid, data=data, exist=exist, child=child
            )
        except Rejected:
            await self._settled()
            raise
        self._enqueue(missed)
        await self._settled()

    async def read(self, query: Callable[[], T]) -> T:
        """The result of a query of the tree, when all that it shows is durable. Raises Rejected, ConnectionLoss."""
        self._require_alive()
        try:
            result = query()
        except Rejected:
            await self._settled()
            raise
        await self._settled()
        return result

    @property
    def tree_zxid(self) -> int:
        """The last transaction's zxid, durable or not."""
        return self._tree.zxid

    @property
    def database(self) -> Database:
        """For queries inside `read` only."""
        return self._database

    # ------------------------------------------------------------------------------------------------- the outbox

    async def _settled(self) -> None:
        """Returns when the tree as it is now is durable and its events are told. Raises ConnectionLoss."""
        if not self._outbox and not self._undelivered and self._durable_zxid == self._tree.zxid:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        answer = _Answer(self._tree.zxid, waiter)
        self._outbox.append(answer)
        if self._durable_zxid == self._tree.zxid:
            # Not now: to await a waiter that is done already would go on before the events that are on their way.
            loop.call_soon(self._drain)
        try:
            await waiter
        finally:
            # Until here it counts as on its way: else a read of the next moment would find nothing to wait for and
            # be answered before it, on a connection whose answers must leave in order.
            self._undelivered -= answer.released

    def _record(self, applied: Applied) -> None:
        """A transaction waits for the next group commit, its notifications behind it in the outbox."""
        if applied.transaction is None:
            return
        self._pending.append(applied.transaction)
        self._enqueue(applied.notifications)
        if self._committing is None:
            self._committing = asyncio.get_running_loop().create_task(self._commit())
            self._committing.add_done_callback(_report_bug)

    def _enqueue(self, notifications: Sequence[Notification]) -> None:
        zxid = self._tree.zxid
        self._outbox.extend(_Delivery(zxid, session_id, event) for session_id, event in notifications)

    def _drain(self) -> None:
        """Lets out what is durable."""
        loop = asyncio.get_running_loop()
        while self._outbox and self._outbox[0].zxid <= self._durable_zxid:
            entry = self._outbox.popleft()
            if isinstance(entry, _Delivery):
                self._undelivered += 1
                loop.call_soon(self._deliver, entry)
            elif not entry.waiter.done():
                self._undelivered += 1
                entry.released = True
                entry.waiter.set_result(None)

    def _deliver(self, delivery: _Delivery) -> None:
        self._undelivered -= 1
        self._tell(delivery.session_id, delivery.event)

    def _tell(self, session_id: int, event: Event) -> None:
        deliver = self._attached.get(session_id)
        if deliver is not None:
            deliver(event)
        if event == SessionEvent(SessionState.EXPIRED):
            self._attached.pop(session_id, None)

    async def _commit(self) -> None:
        """Group commit: while one frame is synced, the transactions of the next one gather."""
        always = self._database.settings.sync is SyncPolicy.ALWAYS
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                self._database.append(batch)
                # Now the log is where the tree is; during the sync the tree may run ahead again.
                snapshot = self._database.begin_snapshot() if self._database.snapshot_due else None
                if always:
                    await self._run_blocking(self._database.sync)
                self._durable_zxid = batch[-1].zxid
                self._drain()
                if snapshot is not None:
                    await self._run_blocking(snapshot.write)
        except StorageError as error:
            self._fail(error)
        except InvariantViolation as bug:
            # Whoever waits must not wait for ever; the loop's exception handler hears of the bug.
            self._fail(StorageError("zookeeper", str(bug)))
            raise
        finally:
            self._committing = None

    def _fail(self, error: StorageError) -> None:
        self._failure = error
        outbox, self._outbox = self._outbox, deque()
        for entry in outbox:
            if isinstance(entry, _Answer) and not entry.waiter.done():
                entry.waiter.set_exception(ConnectionLoss(f"the embedded ZooKeeper's disk failed: {error}"))
        for session_id in list(self._attached):
            self._tell(session_id, SessionEvent(SessionState.DISCONNECTED))
        if self._on_failure is not None:
            self._on_failure(error)

    def _require_alive(self) -> None:
        if self._failure is not None:
            raise ConnectionLoss(f"the embedded ZooKeeper's disk failed: {self._failure}")
        if self._stopped:
            raise ConnectionLoss("the embedded ZooKeeper is stopped")

    # ----------------------------------------------------------------------------------------------------- timers

    async def _tick(self) -> None:
        while self._failure is None:
            due_ms = self._monotonic_ms() + self._tick_ms
            await asyncio.sleep(self._tick_ms / 1000)
            monotonic_ms = self._monotonic_ms()
            if monotonic_ms - due_ms > self._tick_ms:
                # This process stood still: what sessions sent meanwhile is still to be read.
                self._tree.put_off_deadlines(monotonic_ms - due_ms)
            for session_id in self._local_sessions:
                self._tree.touch(session_id, monotonic_ms=monotonic_ms)
            for session_id in self._tree.overdue_sessions(monotonic_ms=monotonic_ms):
                self._end_session(session_id)
            now_ms = self._now_ms()
            if idle := self._tree.idle_nodes(now_ms=now_ms):
                self._record(self._tree.reap(idle, now_ms=now_ms))

    def _end_session(self, session_id: int) -> None:
        self._require_alive()
        self._local_sessions.pop(session_id, None)
        self._record(self._tree.close_session(session_id, now_ms=self._now_ms()))
        self._outbox.append(_Delivery(self._tree.zxid, session_id, SessionEvent(SessionState.EXPIRED)))

    def _monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def _report_bug(task: asyncio.Task[None]) -> None:
    """A background task must not end with an exception: the host hears of it, and halts."""
    if not task.cancelled() and (bug := task.exception()) is not None:
        task.get_loop().call_exception_handler(
            {"message": "the embedded ZooKeeper failed by a bug", "exception": bug, "task": task}
        )


class LocalZooKeeper:
    """The ZooKeeper port on an `EmbeddedZooKeeper` of this process; made by its `connect`."""

    def __init__(self, server: EmbeddedZooKeeper, timeout_ms: int) -> None:
        self._server = server
        self._tree = server.database.tree
        self._timeout_ms = timeout_ms
        self._session_id = 0
        self._expired = True
        self._closed = False
        self._listeners = SessionListeners()

    @property
    def session_id(self) -> int:
        return self._session_id

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        return await self._server.read(lambda: self._tree.get(path, session_id=self._session_id, watch=watch))

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes | None, Stat] | None]:
        return await self._server.read(lambda: [self._get_or_none(path) for path in paths])

    def _get_or_none(self, path: str) -> tuple[bytes | None, Stat] | None:
        try:
            return self._tree.get(path, session_id=self._session_id)
        except NoNode:
            return None

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return await self._server.read(lambda: self._tree.exists(path, session_id=self._session_id, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        names, _ = await self._server.read(lambda: self._tree.children(path, session_id=self._session_id, watch=watch))
        return names

    async def get_acl(self, path: str) -> tuple[AclList, Stat]:
        return await self._server.read(lambda: self._tree.get_acl(path, session_id=self._session_id))

    async def sync(self, path: str) -> None:
        await self._server.read(lambda: self._tree.exists(path, session_id=self._session_id))

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: AclList | None = None,
        ttl_ms: int = 0,
    ) -> Created:
        result = await self._write(Create(path, data, mode, acl, ttl_ms))
        assert isinstance(result, Created)
        return result

    async def set(self, path: str, data: bytes | None, *, version: int = ANY_VERSION) -> Stat:
        result = await self._write(SetData(path, data, version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._write(Delete(path, version))

    async def set_acl(self, path: str, acl: AclList, *, version: int = ANY_VERSION) -> Stat:
        result = await self._write(SetAcl(path, acl, version))
        assert isinstance(result, Stat)
        return result

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return list(await self._server.submit(self._session_id, operations))

    async def _write(self, operation: Operation) -> OperationResult:
        try:
            return (await self._server.submit(self._session_id, (operation,)))[0]
        except Rejected as rejected:
            rejected.operation_index = -1  # It was no multi.
            raise

    async def add_watch(self, path: str, mode: WatchMode) -> None:
        await self._server.read(lambda: self._tree.add_watch(path, mode, session_id=self._session_id))

    async def remove_watches(self, path: str) -> None:
        await self._server.read(lambda: self._tree.remove_watches(path, session_id=self._session_id))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.subscribe(listener)

    async def renew(self) -> int:
        if self._closed:
            raise SessionExpired(detail="the session was closed")
        if self._expired:
            self._session_id, _ = await self._server.open_session(self._timeout_ms, local=True)
            self._expired = False
            self._server.attach(self._session_id, self._on_event)
            self._on_event(SessionEvent(SessionState.CONNECTED))
        return self._session_id

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._expired:
            self._expired = True
            try:
                await self._server.close_session(self._session_id)
            except SessionExpired:
                pass  # It ended while its owner made up its mind.

    def _on_event(self, event: Event) -> None:
        if event == SessionEvent(SessionState.EXPIRED):
            self._expired = True
        self._listeners.on_event(event)
