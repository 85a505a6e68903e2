"""ZooKeeperClient: the ZooKeeper port over ZooKeeper's wire protocol, to kavka's own server or a real ensemble.

Decides which requests an operation of the port becomes, what an answer means, and how paths look from within a chroot.
The session behind it, its connections and their ends are client_session.py's.

    operation              request                   without an answer
    get, exists, children  getData, exists,          asked again on the next connection, as long as the session lives
    get_acl, sync          getChildren, getACL, sync
    get_many               getData; multiRead where  the same
                           they are more than
                           SINGLE_READS
    add_watch              addWatch                  asked again: to add a watch twice is to add it once
    create                 create2, createContainer, ConnectionLoss
                           createTTL
    set, delete, set_acl,  setData, delete, setACL,  ConnectionLoss
    multi                  multi
    remove_watches         removeWatches             done: the connection's watches went with it

Beyond the port's invariants:
I1  Between a disconnection and the server's word on the session nothing fails that was not sent: it waits. So a caller
    may wait as long as ZooKeeper is away.
I2  After the session came back, whoever holds a watch that stays (add_watch) must read again: ZooKeeper tells what
    one-shot watches missed, not what the others did. `SessionEvent(CONNECTED)` is the sign; it comes before the events
    that were missed.

A creation within a multi is answered without its stat by some servers (3.8.0). What of it does not follow from the
request is then read behind the multi; where the node is gone by then its zxids and times are 0.

Not supported: setACL within a multi (ZooKeeper has none), read-only servers. TLS is the Network's affair. Servers
before 3.9 do not say of which transaction an event is; `WatchEvent.zxid` is -1 then. ZooKeeper 3.5 is the oldest
that knows all requests but addWatch and multiRead (3.6); for want of the latter each node is read by itself.

Source: ZooKeeper's client (org.apache.zookeeper.ZooKeeper), Kafka's ZooKeeperClient and KafkaZkClient (chroot made).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from kavka.errors import ConnectionFailed, InvariantViolation
from kavka.network import Network
from kavka.zookeeper.client_session import (
    ClientSession,
    ClientSettings,
    OnAnswer,
    OnLoss,
    Phase,
    ZooKeeperLogin,
    error_of,
)
from kavka.zookeeper.decide.client_watches import WatchTable
from kavka.zookeeper.decide.connect_string import ConnectString, parse_connect_string
from kavka.zookeeper.decide.jute import (
    OK,
    RUNTIME_INCONSISTENCY,
    AclAnswer,
    AnswerRecord,
    CreatedAnswer,
    CreateRequest,
    CreateTtlRequest,
    DataAnswer,
    ErrorAnswer,
    MultiAnswer,
    MultiRequest,
    NumberAnswer,
    OpCode,
    PathAnswer,
    PathRequest,
    PathsAnswer,
    RequestRecord,
    SetAclRequest,
    SetDataRequest,
    StatAnswer,
    VersionedPathRequest,
    WatchedPathRequest,
    WatchRequest,
)
from kavka.zookeeper.decide.path import validate_path
from kavka.zookeeper.decide.watches import WatchKind
from kavka.zookeeper.port import (
    ANY_VERSION,
    AclList,
    BadArguments,
    Check,
    ConnectionLoss,
    Create,
    Created,
    CreateMode,
    Delete,
    Event,
    Listener,
    NodeExists,
    NoNode,
    NoWatcher,
    Operation,
    OperationResult,
    Rejected,
    SessionExpired,
    SessionListeners,
    SetAcl,
    SetData,
    Stat,
    Unimplemented,
    WatchEvent,
    WatchMode,
)
from kavka.zookeeper.znode_acls import open_acl

DEFAULT_MAX_IN_FLIGHT: Final = 10
"""Kafka's zookeeper.max.in.flight.requests."""
PIPELINED_READS: Final = 1_000
"""`get_many` has no more nodes than this in the session's queue at a time."""
SINGLE_READS: Final = 100
"""So many nodes `get_many` reads one by one: more of them go into multiReads, which take a quarter of the time."""
READS_IN_ONE: Final = 32
"""Nodes in one multiRead. Each has up to a megabyte (jute.maxbuffer), and MAX_ANSWER_BYTES is twice as much."""

_SEQUENTIAL = frozenset(
    {CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL}
)
_TTL = frozenset({CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL})

AnswerT = TypeVar("AnswerT")
Found: TypeAlias = tuple[bytes | None, Stat] | None
"""A node's data and stat; None: there is none."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """`max_in_flight` is zookeeper.max.in.flight.requests. Nodes that are created without an access control list get
    that of `acl_of` for their path below the chroot. `login`: each connection begins with it."""

    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT
    acl_of: Callable[[str], AclList] = open_acl
    login: ZooKeeperLogin | None = None


USUAL_OPTIONS: Final = ClientOptions()


class ZooKeeperClient:
    """One session; made by `connect`."""

    def __init__(
        self,
        network: Network,
        servers: ConnectString,
        settings: ClientSettings,
        rng: random.Random,
        options: ClientOptions,
    ) -> None:
        """For `connect` only."""
        self._acl_of = options.acl_of
        self._session = ClientSession(network, servers.servers, settings, rng, self._on_event)
        self._chroot = servers.chroot
        self._listeners = SessionListeners()
        self._renewing = asyncio.Lock()
        self._reads_many: bool | None = None
        """Whether the servers know multiRead; None while none was asked."""

    @classmethod
    async def connect(
        cls,
        network: Network,
        connect_string: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        rng: random.Random,
        options: ClientOptions = USUAL_OPTIONS,
    ) -> ZooKeeperClient:
        """Begins a session with one of the servers, tried in random order, and makes the chroot where it is missing.

        Raises ConfigError for a malformed connect string, and ConnectionFailed if there is no session within
        `connection_timeout_ms`.
        """
        settings = ClientSettings(session_timeout_ms, connection_timeout_ms, options.max_in_flight, options.login)
        client = cls(network, parse_connect_string(connect_string), settings, rng, options)
        try:
            await client._session.open()
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await client._make_chroot()
        except TimeoutError as error:
            await client.close()
            raise ConnectionFailed(f"ZooKeeper at {connect_string} does not answer") from error
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def session_id(self) -> int:
        return self._session.session_id

    # ---------------------------------------------------------------------------------------------------- reads

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        return _data_of(await self._get(path, watch=watch))

    def _get(self, path: str, *, watch: bool) -> asyncio.Future[AnswerRecord | None]:
        full = self._full(path)
        noted = self._noting(full, WatchTable.DATA) if watch else None
        return self._session.send(OpCode.GET_DATA, WatchedPathRequest(full, watch), path, OnLoss.REPEAT, noted)

    async def get_many(self, paths: Sequence[str]) -> list[Found]:
        found: list[Found] = []
        for start in range(0, len(paths), PIPELINED_READS):
            some = paths[start : start + PIPELINED_READS]
            in_parts = len(paths) > SINGLE_READS and await self._knows_multi_read(some[:READS_IN_ONE])
            found += await (self._get_in_parts(some) if in_parts else self._get_each(some))
        return found

    async def _get_each(self, paths: Sequence[str]) -> list[Found]:
        found: list[Found] = []
        asked = [self._get(path, watch=False) for path in paths]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, NoNode):
                found.append(None)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(_data_of(answer))
        return found

    async def _knows_multi_read(self, paths: Sequence[str]) -> bool:
        """Whether the servers do. One that does not ends the connection, so that is asked once, with one request."""
        if self._reads_many is None:
            try:
                await self._multi_read(paths)
                self._reads_many = True
            except Unimplemented:
                self._reads_many = False
        return self._reads_many

    async def _get_in_parts(self, paths: Sequence[str]) -> list[Found]:
        starts = range(0, len(paths), READS_IN_ONE)
        asked = [self._multi_read(paths[start : start + READS_IN_ONE]) for start in starts]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        if any(isinstance(answer, Unimplemented) for answer in answers):
            self._reads_many = False  # The session went on at another server, which is older.
            return await self._get_each(paths)
        found: list[Found] = []
        for start, answer in zip(starts, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            parts = _expect(MultiAnswer, answer).parts
            for path, (_, part) in zip(paths[start : start + READS_IN_ONE], parts, strict=True):
                if not isinstance(part, ErrorAnswer):
                    found.append(_data_of(part))
                elif part.error == NoNode.code:
                    found.append(None)
                else:
                    raise error_of(part.error, path)
        return found

    def _multi_read(self, paths: Sequence[str]) -> asyncio.Future[AnswerRecord | None]:
        parts = tuple([(OpCode.GET_DATA, WatchedPathRequest(self._full(path), False)) for path in paths])
        return self._session.send(OpCode.MULTI_READ, MultiRequest(parts), paths[0], OnLoss.REPEAT)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        full = self._full(path)
        noted = self._noting(full, WatchTable.DATA, or_else=WatchTable.EXIST) if watch else None
        try:
            answer = await self._read(OpCode.EXISTS, WatchedPathRequest(full, watch), path, noted)
        except NoNode:
            return None
        return _expect(StatAnswer, answer).stat

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        full = self._full(path)
        noted = self._noting(full, WatchTable.CHILD) if watch else None
        answer = await self._read(OpCode.GET_CHILDREN, WatchedPathRequest(full, watch), path, noted)
        return sorted(_expect(PathsAnswer, answer).paths)

    async def get_acl(self, path: str) -> tuple[AclList, Stat]:
        answer = _expect(AclAnswer, await self._read(OpCode.GET_ACL, PathRequest(self._full(path)), path))
        return answer.acl, answer.stat

    async def sync(self, path: str) -> None:
        await self._read(OpCode.SYNC, PathRequest(self._full(path)), path)

    # --------------------------------------------------------------------------------------------------- writes

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: AclList | None = None,
        ttl_ms: int = 0,
    ) -> Created:
        created = _expect(CreatedAnswer, await self._write(Create(path, data, mode, acl, ttl_ms)))
        return Created(self._relative(created.path), created.stat)

    async def set(self, path: str, data: bytes | None, *, version: int = ANY_VERSION) -> Stat:
        return _expect(StatAnswer, await self._write(SetData(path, data, version))).stat

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._write(Delete(path, version))

    async def set_acl(self, path: str, acl: AclList, *, version: int = ANY_VERSION) -> Stat:
        record = SetAclRequest(self._full(path), acl, version)
        return _expect(StatAnswer, await self._session.ask(OpCode.SET_ACL, record, path, OnLoss.UNKNOWN)).stat

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        request = MultiRequest(tuple([self._part(index, each) for index, each in enumerate(operations)]))
        first = operations[0].path if operations else ""
        answer = _expect(MultiAnswer, await self._session.ask(OpCode.MULTI, request, first, OnLoss.UNKNOWN))
        for index, (_, part) in enumerate(answer.parts):
            if isinstance(part, ErrorAnswer) and part.error not in (OK, RUNTIME_INCONSISTENCY):
                raise _at(index, error_of(part.error, operations[index].path))
        if len(answer.parts) != len(operations) or any(isinstance(part, ErrorAnswer) for _, part in answer.parts):
            raise ConnectionLoss(f"MULTI {first}: {len(operations)} operations, results {answer.parts}")
        results = [self._result(part) for _, part in answer.parts]
        for index, (_, part) in enumerate(answer.parts):
            if isinstance(part, PathAnswer):
                results[index] = await self._read_created(operations[index], self._relative(part.path))
        return results

    async def _read_created(self, operation: Operation, path: str) -> Created:
        stat = await self.exists(path)
        data = operation.data if isinstance(operation, Create) else None
        czxid, ctime, owner = (stat.czxid, stat.ctime, stat.ephemeral_owner) if stat is not None else (0, 0, 0)
        return Created(path, Stat(czxid, czxid, ctime, ctime, 0, 0, 0, owner, len(data or b""), 0, czxid))

    async def _write(self, operation: Operation) -> AnswerRecord | None:
        op, record = self._request(operation)
        return await self._session.ask(op, record, operation.path, OnLoss.UNKNOWN)

    def _part(self, index: int, operation: Operation) -> tuple[OpCode, RequestRecord]:
        try:
            return self._request(operation)
        except BadArguments as refused:
            raise _at(index, refused) from None

    def _request(self, operation: Operation) -> tuple[OpCode, RequestRecord]:
        match operation:
            case Create(path, data, mode, wanted, ttl_ms):
                acl = self._acl_of(path) if wanted is None else wanted
                full = self._full(path, sequential=mode in _SEQUENTIAL)
                if mode in _TTL:
                    return OpCode.CREATE_TTL, CreateTtlRequest(full, data, acl, mode, ttl_ms)
                op = OpCode.CREATE_CONTAINER if mode is CreateMode.CONTAINER else OpCode.CREATE2
                return op, CreateRequest(full, data, acl, mode)
            case SetData(path, data, version):
                return OpCode.SET_DATA, SetDataRequest(self._full(path), data, version)
            case Delete(path, version):
                return OpCode.DELETE, VersionedPathRequest(self._full(path), version)
            case Check(path, version):
                return OpCode.CHECK, VersionedPathRequest(self._full(path), version)
            case SetAcl(path):
                raise BadArguments(path, "ZooKeeper has no setACL within a multi")

    def _result(self, answer: AnswerRecord | None) -> OperationResult:
        if isinstance(answer, CreatedAnswer):
            return Created(self._relative(answer.path), answer.stat)
        return answer.stat if isinstance(answer, StatAnswer) else None

    # -------------------------------------------------------------------------------------------------- session

    async def add_watch(self, path: str, mode: WatchMode) -> None:
        full = self._full(path)

        def note(error: int, answer: AnswerRecord | None) -> None:
            if error == OK and isinstance(answer, NumberAnswer) and answer.number == OK:
                self._session.watches.added(full, mode)

        answer = _expect(NumberAnswer, await self._read(OpCode.ADD_WATCH, WatchRequest(full, mode), path, note))
        if answer.number != OK:
            raise error_of(answer.number, path)

    async def remove_watches(self, path: str) -> None:
        full = self._full(path)

        def note(error: int, answer: AnswerRecord | None) -> None:
            if error in (OK, NoWatcher.code):
                self._session.watches.remove(full)

        await self._session.ask(OpCode.REMOVE_WATCHES, WatchRequest(full, WatchKind.ANY), path, OnLoss.DONE, note)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.subscribe(listener)

    async def renew(self) -> int:
        """As the port says. Raises ConnectionLoss if no server begins a session within the connection's time-out: the
        session is as expired as before, and `renew` may be called again."""
        async with self._renewing:
            if self._session.phase is Phase.CLOSED:
                raise SessionExpired(detail="the session was closed")
            if self._session.phase is Phase.EXPIRED:
                try:
                    await self._session.open()
                except ConnectionFailed as failure:
                    raise ConnectionLoss(str(failure)) from failure
            return self._session.session_id

    async def close(self) -> None:
        await self._session.close()

    def _on_event(self, event: Event) -> None:
        if self._session.phase is Phase.CLOSED:
            return
        if isinstance(event, WatchEvent) and self._chroot:
            event = event._replace(path=self._relative(event.path))
        self._listeners.on_event(event)

    # ---------------------------------------------------------------------------------------------------- inside

    async def _read(
        self, op: OpCode, record: RequestRecord, path: str, on_answer: OnAnswer | None = None
    ) -> AnswerRecord | None:
        return await self._session.ask(op, record, path, OnLoss.REPEAT, on_answer)

    def _noting(self, full: str, table: WatchTable, *, or_else: WatchTable | None = None) -> OnAnswer:
        """Takes note of the watch that a read left: in `table` if it found the node, in `or_else` if not."""

        def note(error: int, answer: AnswerRecord | None) -> None:
            if error == OK:
                self._session.watches.left(table, full)
            elif error == NoNode.code and or_else is not None:
                self._session.watches.left(or_else, full)

        return note

    def _full(self, path: str, *, sequential: bool = False) -> str:
        """The server's path. Raises BadArguments."""
        validate_path(f"{path}1" if sequential else path)
        if not self._chroot:
            return path
        return self._chroot + path if path != "/" or sequential else self._chroot

    def _relative(self, full: str) -> str:
        """The path as seen from the chroot."""
        if full == self._chroot:
            return "/"
        return full.removeprefix(self._chroot)

    async def _make_chroot(self) -> None:
        chroot, self._chroot = self._chroot, ""
        while chroot and await self.exists(chroot) is None:
            above = ""
            for name in chroot[1:].split("/"):
                above += f"/{name}"
                try:
                    await self.create(above)
                except (NodeExists, ConnectionLoss):
                    pass  # Somebody else made it, or that is seen when it is looked for again.
        self._chroot = chroot


def _data_of(answer: AnswerRecord | None) -> tuple[bytes | None, Stat]:
    found = _expect(DataAnswer, answer)
    return found.data, found.stat


def _expect(kind: type[AnswerT], answer: AnswerRecord | None) -> AnswerT:
    """The answer, which was read as the op's kind."""
    if not isinstance(answer, kind):
        raise InvariantViolation(f"expected a {kind.__name__}, found {answer}")
    return answer


def _at(index: int, error: Any) -> Any:
    """Out of a multi."""
    if isinstance(error, Rejected):
        error.operation_index = index
    return error
