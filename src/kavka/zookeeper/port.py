"""The ZooKeeper port: ZooKeeper's own operations, grouped by what it means when they fail.

Flows (registration, controller, topic administration, ISR changes) are given a `ZooKeeper` and nothing else of it. It
is served in this process by `local.LocalZooKeeper` over the durable tree, and in the simulator by a tree with faults.

A write has three outcomes, and code that handles two of them is wrong:

    committed    the call returned
    rejected     it raised a `Rejected`: nothing was changed, and the reason says which condition did not hold
    unknown      it raised an `OutcomeUnknown`: the server may or may not have carried it out; read before acting again

A read that raises `OutcomeUnknown` has simply not been answered and may be repeated.

    ZooKeeperError (errors.py)
    ├── Rejected
    │   ├── NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals
    │   ├── BadArguments, InvalidAcl, NoAuth, RequestTooLarge, NoWatcher
    │   └── SessionExpired    the session is gone, and with it its ephemeral nodes and watches
    └── OutcomeUnknown
        └── ConnectionLoss

Invariants that every implementation keeps:
I1  A `multi` is carried out whole or not at all.
I2  A session sees its own writes, and changes in zxid order.
I3  A watch event reaches the listeners before the session can read the state that raised it, in zxid order.
I4  Nothing is visible to anybody before it is as durable as the server promises.

Source: ZooKeeper's programmer's guide and its org.apache.zookeeper.KeeperException for the numbers of the errors; the
grouping by failure after patroni's dcs module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from kavka.errors import ZooKeeperError

ANY_VERSION = -1
"""As the expected version of a write: whatever the version is."""

MAX_REQUEST_BYTES = 1024 * 1024 - 1
"""ZooKeeper's jute.maxbuffer: a request (a node's data, or a whole multi) that is longer is refused."""


# ---------------------------------------------------------------------------------------------------------- errors


class Rejected(ZooKeeperError):
    """ZooKeeper refused; nothing was changed.

    `code` is ZooKeeper's number for the error, `path` the node concerned. Out of a `multi`, `operation_index` is the
    position of the operation that failed, else -1.
    """

    code: ClassVar[int] = -1
    reason: ClassVar[str] = "refused"

    def __init__(self, path: str = "", detail: str = "") -> None:
        super().__init__(f"{path}: {self.reason}{': ' + detail if detail else ''}")
        self.path = path
        self.operation_index = -1


class BadArguments(Rejected):
    """A malformed path, or a value out of range."""

    code = -8
    reason = "bad arguments"


class NoNode(Rejected):
    """The node, or the parent of a node to be created, does not exist."""

    code = -101
    reason = "no node"


class NoAuth(Rejected):
    """The node's access control list does not let this session do that."""

    code = -102
    reason = "not permitted"


class BadVersion(Rejected):
    """The node's version is not the expected one: somebody else wrote it."""

    code = -103
    reason = "bad version"


class NoChildrenForEphemerals(Rejected):
    """An ephemeral node cannot be a parent."""

    code = -108
    reason = "ephemeral nodes have no children"


class NodeExists(Rejected):
    """The node to be created is there already."""

    code = -110
    reason = "node exists"


class NotEmpty(Rejected):
    """A node that has children cannot be deleted."""

    code = -111
    reason = "node has children"


class SessionExpired(Rejected):
    """The session is closed or expired. Its ephemeral nodes and watches are gone; `ZooKeeper.renew` begins another."""

    code = -112
    reason = "session expired"


class InvalidAcl(Rejected):
    """An access control list that is empty or names an unknown scheme."""

    code = -114
    reason = "invalid access control list"


class NoWatcher(Rejected):
    """There is no such watch to remove."""

    code = -121
    reason = "no such watch"


class Unimplemented(Rejected):
    """The server is too old for this kind of request."""

    code = -6
    reason = "the server does not know this request"


class RequestTooLarge(Rejected):
    """The request is longer than `MAX_REQUEST_BYTES`: a server would cut the connection, so it is refused before."""

    code = -8
    reason = "request too large"


class OutcomeUnknown(ZooKeeperError):
    """Whether the request was carried out cannot be told."""

    code: ClassVar[int] = -7


class ConnectionLoss(OutcomeUnknown):
    """The connection broke, or the server failed, before the answer came."""

    code = -4


# ---------------------------------------------------------------------------------------------------------- values


class CreateMode(IntEnum):
    """Kinds of nodes, with ZooKeeper's numbers."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


class Permission(IntEnum):
    """Bits of an access control entry."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Acl(NamedTuple):
    """One entry of an access control list."""

    permissions: int
    scheme: str
    id: str


AclList: TypeAlias = tuple[Acl, ...]
OPEN_ACL: AclList = (Acl(Permission.ALL, "world", "anyone"),)


class Stat(NamedTuple):
    """A node's metadata. Times are milliseconds since 1970.

    `ephemeral_owner` is the owning session's id, 0 where the node is not ephemeral.
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Create(NamedTuple):
    """Creates a node; the result is its `Created`. `ttl_ms` counts only in the TTL modes.

    Without an `acl` the session has one for each path; unless it was opened with others, that is the open one.
    """

    path: str
    data: bytes | None = None
    mode: CreateMode = CreateMode.PERSISTENT
    acl: AclList | None = None
    ttl_ms: int = 0


class Delete(NamedTuple):
    """Deletes a node that has no children; the result is None."""

    path: str
    version: int = ANY_VERSION


class SetData(NamedTuple):
    """Replaces a node's data; the result is its new `Stat`."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Requires that a node exists and has this version; the result is None."""

    path: str
    version: int


class SetAcl(NamedTuple):
    """Replaces a node's access control list; `version` is compared with aversion. The result is its new `Stat`."""

    path: str
    acl: AclList
    version: int = ANY_VERSION


Operation: TypeAlias = Create | Delete | SetData | Check | SetAcl


_OPERATION_OVERHEAD_BYTES = 60
"""What an operation costs in a request beside its path and data: its header, lengths, version or open access list."""


def request_size_bytes(operation: Operation) -> int:
    """At least the bytes that an operation takes in a request, to be held against `MAX_REQUEST_BYTES`."""
    data = operation.data if isinstance(operation, (Create, SetData)) else None
    return _OPERATION_OVERHEAD_BYTES + len(operation.path) + (len(data) if data is not None else 0)


class Created(NamedTuple):
    """A new node: its path (with the number, where it is sequential) and its stat."""

    path: str
    stat: Stat


OperationResult: TypeAlias = Created | Stat | None


class EventType(IntEnum):
    """What happened to a watched node, with ZooKeeper's numbers."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


class WatchEvent(NamedTuple):
    """A watched node changed. One-shot watches are gone with it: read again, watching, to see the next change."""

    type: EventType
    path: str
    zxid: int


class SessionState(Enum):
    """How the session stands with the server."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"


class SessionEvent(NamedTuple):
    """The session's state changed."""

    state: SessionState


Event: TypeAlias = WatchEvent | SessionEvent
Listener: TypeAlias = Callable[[Event], None]


class SessionListeners:
    """Who hears of the events of one session, in the order in which they subscribed. Both implementations have one."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` for every event from now on, until what is returned is called."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def on_event(self, event: Event) -> None:
        """A listener may subscribe or unsubscribe meanwhile: that counts from the next event on."""
        for listener in tuple(self._listeners):
            listener(event)


class WatchMode(IntEnum):
    """Watches that stay until they are removed."""

    PERSISTENT = 0
    """Every change of the node and of the set of its children."""
    PERSISTENT_RECURSIVE = 1
    """Creation, deletion and change of data of the node and of all below it."""


# ------------------------------------------------------------------------------------------------------------ port


class ZooKeeper(Protocol):
    """One session with ZooKeeper."""

    @property
    def session_id(self) -> int:
        """The present session; another one after `renew`."""
        ...

    # Reads: what raises OutcomeUnknown may be repeated. With watch=True a one-shot watch is left behind.

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        """A node's data and stat. Raises NoNode, and leaves no watch then."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes | None, Stat] | None]:
        """Data and stat of many nodes, None for each that does not exist; in many requests, so not one snapshot."""
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """A node's stat, or None. The watch is left in either case, and reports the creation too."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names of a node's children, sorted. Raises NoNode, and leaves no watch then."""
        ...

    async def get_acl(self, path: str) -> tuple[AclList, Stat]: ...

    async def sync(self, path: str) -> None:
        """Returns when reads of this session see all that was committed before the call."""
        ...

    # Writes: committed, rejected or unknown.

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: AclList | None = None,
        ttl_ms: int = 0,
    ) -> Created:
        """Creates a node. Raises NodeExists, NoNode (no parent), NoChildrenForEphemerals."""
        ...

    async def set(self, path: str, data: bytes | None, *, version: int = ANY_VERSION) -> Stat:
        """Replaces a node's data, if its version is `version`. Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        """Deletes a node, if its version is `version`. Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def set_acl(self, path: str, acl: AclList, *, version: int = ANY_VERSION) -> Stat: ...

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All operations, in order, or none. Raises what the first failing one raises, with its operation_index."""
        ...

    # The session's own state: cannot have an unknown outcome that matters.

    async def add_watch(self, path: str, mode: WatchMode) -> None:
        """Leaves a watch that stays; the node need not exist."""
        ...

    async def remove_watches(self, path: str) -> None:
        """Removes all of this session's watches on `path`. Raises NoWatcher where there is none."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Every event of this session, and of those that follow it, goes to `listener`, in order; returns the undoing.

        Listeners are called one after another on the event loop, in the order of their subscription; they must not
        block and must not raise.
        """
        ...

    async def renew(self) -> int:
        """Begins another session after this one expired: no watches, no ephemeral nodes. Returns its id."""
        ...

    async def close(self) -> None:
        """Ends the session; its ephemeral nodes are deleted at once. Closing twice does nothing."""
        ...
