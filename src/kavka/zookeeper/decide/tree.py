"""The znode tree: sessions, nodes, versions. Decides what every ZooKeeper operation does.

One znode is `node`'s, who watches what is `watches`', and who may do what is `access_control`'s. The tree knows no
clock, disk, connection or random source: times and passwords come in as arguments, and what must be told or kept goes
out by return value: an `Applied` holds the results, the `Transaction` to write to the log, and the watch notifications
in the order in which they must be delivered.

Live work and recovery are one path: a write is checked, then made by `_make_*`, and described as changes; `replay`
makes the same changes from a log without checking.

Invariants:
I1  Operations of one `write` happen all or not at all: a rejected one is undone step by step, in reverse.
I2  zxid rises by exactly one per transaction; all changes of one transaction carry the same zxid and time.
I3  Every node but the root has its parent in the tree; ephemeral nodes have no children and a live owner.
I4  Same inputs, same outputs: nothing depends on hashing or on the order of a set.
I5  `replay` of the transactions of one tree into another (from the same start) yields an equal tree.
I6  A session hears of no node that it may not read, whatever it watches (CVE-2024-23944: names of nodes leaked).

Source: Apache ZooKeeper's documentation and its observable behaviour (DataTree, PrepRequestProcessor, WatchManager):
cversion counts creations and deletions of children; the number of a sequential node is the count of children ever
created under its parent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kavka.errors import InvariantViolation
from kavka.zookeeper.decide.access_control import Identity, intern_acl, is_permitted, require_permission, resolve_acl
from kavka.zookeeper.decide.node import Node, owner_of
from kavka.zookeeper.decide.path import PATH, parent_path, validate_path
from kavka.zookeeper.decide.sessions import Session, Sessions
from kavka.zookeeper.decide.watches import Notification, Watches, WatchKind
from kavka.zookeeper.port import (
    ANY_VERSION,
    MAX_REQUEST_BYTES,
    OPEN_ACL,
    Acl,
    AclList,
    BadArguments,
    BadVersion,
    Check,
    Create,
    Created,
    CreateMode,
    Delete,
    EventType,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NoWatcher,
    Operation,
    OperationResult,
    Permission,
    Rejected,
    RequestTooLarge,
    SetAcl,
    SetData,
    Stat,
    WatchEvent,
    WatchMode,
    request_size_bytes,
)

_SEQUENTIAL_MODES = frozenset(
    {CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL}
)


# What a transaction did, in the form that is logged and replayed.


class NodeCreated(NamedTuple):
    path: str
    data: bytes | None
    acl: AclList
    owner: int


class NodeDeleted(NamedTuple):
    path: str


class DataChanged(NamedTuple):
    path: str
    data: bytes | None


class AclChanged(NamedTuple):
    path: str
    acl: AclList


class SessionOpened(NamedTuple):
    session_id: int
    timeout_ms: int
    password: bytes


class SessionClosed(NamedTuple):
    """The session and all its ephemeral nodes are gone."""

    session_id: int


Change: TypeAlias = NodeCreated | NodeDeleted | DataChanged | AclChanged | SessionOpened | SessionClosed


class Transaction(NamedTuple):
    """One step of the tree's history; `time_ms` is milliseconds since 1970."""

    zxid: int
    time_ms: int
    changes: tuple[Change, ...]


class Applied(NamedTuple):
    """What a write did. `transaction` is None if it changed nothing (a multi of checks)."""

    results: tuple[OperationResult, ...]
    transaction: Transaction | None
    notifications: tuple[Notification, ...]


class _Undo(IntEnum):
    CREATE = 0
    DELETE = 1
    SET = 2
    ACL = 3


class TreeState(NamedTuple):
    """All that a snapshot holds, beside the nodes: see `Tree.restore`."""

    zxid: int
    last_session_id: int
    sessions: tuple[SessionOpened, ...]


class Tree:
    """The whole state of a ZooKeeper server.

    One class with many methods, because it is one: every operation of ZooKeeper's (sessions, writes, reads, watches) is
    a method, and each must see sessions, nodes and zxid as one state that changes all at once or not at all (I1, I2).
    """

    def __init__(self, *, max_request_bytes: int = MAX_REQUEST_BYTES) -> None:
        self.zxid = 0
        self._max_request_bytes = max_request_bytes
        self._nodes: dict[str, Node] = {}
        self._sessions = Sessions()
        self._reapable: set[str] = set()
        self.watches = Watches()
        """To be asked; `add_watch` and the reads leave them."""
        # The nodes that every ZooKeeper server has from the start; they are no children by creation (cversion).
        root = self._nodes["/"] = Node(b"", OPEN_ACL, 0, 0, 0)
        root.add_child("zookeeper")
        system = self._nodes["/zookeeper"] = Node(b"", OPEN_ACL, 0, 0, 0)
        system.add_child("config")
        system.add_child("quota")
        self._nodes["/zookeeper/config"] = Node(b"", (Acl(Permission.READ, "world", "anyone"),), 0, 0, 0)
        self._nodes["/zookeeper/quota"] = Node(b"", OPEN_ACL, 0, 0, 0)

    # ------------------------------------------------------------------------------------------------- sessions

    @property
    def sessions(self) -> Mapping[int, Session]:
        """Open sessions by id, oldest first; not to be changed."""
        return self._sessions

    @property
    def by_path(self) -> Mapping[str, Node]:
        """All nodes by path, to look at; not to be changed."""
        return self._nodes

    @property
    def node_count(self) -> int:
        return len(self._nodes)

    def open_session(self, timeout_ms: int, password: bytes, *, now_ms: int, monotonic_ms: int) -> tuple[int, Applied]:
        """Begins a session and returns its id. Ids rise, and start from the time so that no restart repeats one."""
        session_id = self._sessions.new_id(now_ms)
        opened = SessionOpened(session_id, timeout_ms, password)
        self._make_session(opened, monotonic_ms + timeout_ms)
        return session_id, Applied((), self._advance(now_ms, [opened]), ())

    def resume_session(self, session_id: int, password: bytes, *, monotonic_ms: int) -> int:
        """A client came back on another connection. Returns its time-out; raises SessionExpired, also for a wrong
        password."""
        return self._sessions.resume(session_id, password, monotonic_ms)

    def authenticate(self, session_id: int, identity: Identity) -> None:
        """The session has proved to be `identity`, from now on until it ends."""
        session = self._sessions.require(session_id)
        if identity not in session.identities:
            session.identities = (*session.identities, identity)

    def identities(self, session_id: int) -> tuple[Identity, ...]:
        """Who the session has proved to be. Raises SessionExpired."""
        return self._sessions.require(session_id).identities

    def touch(self, session_id: int, *, monotonic_ms: int) -> None:
        """The session was heard of. Raises SessionExpired."""
        self._sessions.require(session_id).touch(monotonic_ms)

    def put_off_deadlines(self, late_ms: int) -> None:
        """Nobody was listened to for so long: all sessions have so much more time."""
        self._sessions.put_off(late_ms)

    def overdue_sessions(self, *, monotonic_ms: int) -> list[int]:
        """Ids of the sessions to be closed because their time is over, oldest first."""
        return self._sessions.overdue(monotonic_ms)

    def close_session(self, session_id: int, *, now_ms: int) -> Applied:
        """Ends a session: its ephemeral nodes are deleted, its watches forgotten. Raises SessionExpired."""
        session = self._sessions.require(session_id)
        zxid = self.zxid + 1
        gone = {path: self._nodes[path].acl for path in session.ephemerals}
        deleted = self._unmake_session(session_id, zxid)
        transaction = self._advance(now_ms, [SessionClosed(session_id)])
        return Applied((), transaction, self._notify([NodeDeleted(path) for path in deleted], zxid, gone))

    # --------------------------------------------------------------------------------------------------- writes

    def write(self, session_id: int, operations: Sequence[Operation], *, now_ms: int) -> Applied:
        """Carries out all operations, in order, or none.

        Raises the `Rejected` of the first that fails, with its position in `operation_index`, and SessionExpired. The
        results correspond to the operations.
        """
        return self._write(self._sessions.require(session_id), operations, now_ms)

    def idle_nodes(self, *, now_ms: int) -> list[str]:
        """Paths to `reap`: containers whose children are all gone, and childless nodes whose TTL is over."""
        idle = []
        for path in sorted(self._reapable):
            node = self._nodes[path]
            if node.children is not None:
                continue
            ttl_ms = node.ttl_ms()
            if node.mtime + ttl_ms <= now_ms if ttl_ms else node.created_children > 0:
                idle.append(path)
        return idle

    def reap(self, paths: Iterable[str], *, now_ms: int) -> Applied:
        """Deletes what `idle_nodes` returned; a node that is not idle any more stays."""
        idle = set(self.idle_nodes(now_ms=now_ms))
        return self._write(None, [Delete(path) for path in paths if path in idle], now_ms)

    def _write(self, session: Session | None, operations: Sequence[Operation], now_ms: int) -> Applied:
        if session is not None:
            self._check_size(operations)
        zxid = self.zxid + 1
        results: list[OperationResult] = []
        changes: list[Change] = []
        undo: list[tuple[object, ...]] = []
        try:
            for operation in operations:
                if isinstance(operation, Create):
                    results.append(self._create(session, operation, zxid, now_ms, changes, undo))
                elif isinstance(operation, SetData):
                    results.append(self._set(session, operation, zxid, now_ms, changes, undo))
                elif isinstance(operation, Delete):
                    self._delete(session, operation, zxid, changes, undo)
                    results.append(None)
                elif isinstance(operation, Check):
                    self._check(session, operation)
                    results.append(None)
                else:
                    results.append(self._set_acl(session, operation, changes, undo))
        except Rejected as rejected:
            for step in reversed(undo):
                self._revert(step)
            rejected.operation_index = len(results)
            raise
        if not changes:
            return Applied(tuple(results), None, ())
        gone = {
            path: node.acl
            for kind, path, node, *_ in (step for step in undo if step[0] is _Undo.DELETE)
            if isinstance(path, str) and isinstance(node, Node)
        }
        return Applied(tuple(results), self._advance(now_ms, changes), self._notify(changes, zxid, gone))

    def _check_size(self, operations: Sequence[Operation]) -> None:
        size_bytes = sum(map(request_size_bytes, operations))
        if size_bytes > self._max_request_bytes:
            raise RequestTooLarge(
                operations[0].path, f"{len(operations)} operations, {size_bytes} > {self._max_request_bytes} bytes"
            )

    def _create(
        self,
        session: Session | None,
        operation: Create,
        zxid: int,
        now_ms: int,
        changes: list[Change],
        undo: list[tuple[object, ...]],
    ) -> Created:
        path, data, mode, wanted, ttl_ms = operation
        acl = OPEN_ACL if wanted is None else wanted
        sequential = mode in _SEQUENTIAL_MODES
        if not PATH.match(path):
            if path == "/":
                raise NodeExists(path)
            if path.startswith("/") and parent_path(path) not in self._nodes:
                raise NoNode(path, "its parent does not exist")  # As in ZooKeeper, before the name is looked at.
            # The name of a sequential node may be empty: the number follows.
            validate_path(f"{path}1" if sequential else path)
        split = path.rfind("/")
        parent_at = path[:split] or "/"
        parent = self._nodes.get(parent_at)
        if parent is None:
            raise NoNode(path, "its parent does not exist")
        if parent.acl is not OPEN_ACL:
            require_permission(session, parent.acl, Permission.CREATE, parent_at)
        if sequential:
            path = f"{path}{parent.created_children:010d}"
        if path in self._nodes:
            raise NodeExists(path)
        if parent.owner > 0:
            raise NoChildrenForEphemerals(path)
        if acl is not OPEN_ACL:
            acl = resolve_acl(session, acl, path)
        owner = 0
        if mode is not CreateMode.PERSISTENT:
            owner = owner_of(None if session is None else session.session_id, mode, ttl_ms, path)
        undo.append((_Undo.CREATE, path, parent, parent.pzxid))
        node = self._make_node(path, parent, path[split + 1 :], Node(data, acl, owner, zxid, now_ms))
        changes.append(NodeCreated(path, data, acl, owner))
        return Created(path, node.stat())

    def _set(
        self,
        session: Session | None,
        operation: SetData,
        zxid: int,
        now_ms: int,
        changes: list[Change],
        undo: list[tuple[object, ...]],
    ) -> Stat:
        node = self._require_node(operation.path)
        require_permission(session, node.acl, Permission.WRITE, operation.path)
        _require_version(operation.path, operation.version, node.version)
        undo.append((_Undo.SET, node, node.data, node.mzxid, node.mtime))
        _make_data(node, operation.data, zxid, now_ms)
        changes.append(DataChanged(operation.path, operation.data))
        return node.stat()

    def _delete(
        self,
        session: Session | None,
        operation: Delete,
        zxid: int,
        changes: list[Change],
        undo: list[tuple[object, ...]],
    ) -> None:
        path = operation.path
        if path == "/" or path == "/zookeeper" or path.startswith("/zookeeper/"):
            raise BadArguments(path, "this node cannot be deleted")
        node = self._require_node(path)
        parent_at = parent_path(path)
        parent = self._nodes[parent_at]
        require_permission(session, parent.acl, Permission.DELETE, parent_at)
        _require_version(path, operation.version, node.version)
        if node.children is not None:
            raise NotEmpty(path)
        undo.append((_Undo.DELETE, path, node, parent, parent.pzxid))
        self._unmake_node(path, node, parent, zxid)
        changes.append(NodeDeleted(path))

    def _check(self, session: Session | None, operation: Check) -> None:
        node = self._require_node(operation.path)
        require_permission(session, node.acl, Permission.READ, operation.path)
        _require_version(operation.path, operation.version, node.version)

    def _set_acl(
        self, session: Session | None, operation: SetAcl, changes: list[Change], undo: list[tuple[object, ...]]
    ) -> Stat:
        node = self._require_node(operation.path)
        require_permission(session, node.acl, Permission.ADMIN, operation.path)
        _require_version(operation.path, operation.version, node.aversion)
        acl = resolve_acl(session, operation.acl, operation.path)
        undo.append((_Undo.ACL, node, node.acl))
        _make_acl(node, acl)
        changes.append(AclChanged(operation.path, acl))
        return node.stat()

    def _revert(self, step: tuple[object, ...]) -> None:
        match step:
            case (_Undo.CREATE, str() as path, Node() as parent, int() as pzxid):
                node = self._nodes[path]
                self._unmake_node(path, node, parent, pzxid)
                parent.created_children -= 1
            case (_Undo.DELETE, str() as path, Node() as node, Node() as parent, int() as pzxid):
                self._make_node(path, parent, path[path.rfind("/") + 1 :], node)
                parent.created_children -= 1
                parent.pzxid = pzxid
            case (_Undo.SET, Node() as node, bytes() | None as data, int() as mzxid, int() as mtime):
                node.data, node.mzxid, node.mtime = data, mzxid, mtime
                node.version -= 1
            case (_Undo.ACL, Node() as node, tuple() as acl):
                node.acl = acl
                node.aversion -= 1
            case _:
                raise InvariantViolation(f"no such step: {step!r}")

    def _advance(self, now_ms: int, changes: list[Change]) -> Transaction:
        self.zxid += 1
        return Transaction(self.zxid, now_ms, tuple(changes))

    # -------------------------------------------------------------------------------------------------- effects

    def replay(self, transaction: Transaction) -> None:
        """Repeats a transaction of a log. One that the tree already has is skipped; a gap is an InvariantViolation.

        Sessions come back overdue at once; `touch_all` gives them their time.
        """
        if transaction.zxid <= self.zxid:
            return
        if transaction.zxid != self.zxid + 1:
            raise InvariantViolation(f"transaction {transaction.zxid:#x} cannot follow {self.zxid:#x}")
        zxid, now_ms, changes = transaction
        for change in changes:
            match change:
                case NodeCreated(path, data, acl, owner):
                    split = path.rfind("/")
                    parent = self._nodes[path[:split] or "/"]
                    self._make_node(path, parent, path[split + 1 :], Node(data, intern_acl(acl), owner, zxid, now_ms))
                case NodeDeleted(path):
                    self._unmake_node(path, self._nodes[path], self._nodes[parent_path(path)], zxid)
                case DataChanged(path, data):
                    _make_data(self._nodes[path], data, zxid, now_ms)
                case AclChanged(path, acl):
                    _make_acl(self._nodes[path], intern_acl(acl))
                case SessionOpened():
                    self._make_session(change, 0)
                case SessionClosed(session_id):
                    self._unmake_session(session_id, zxid)
        self.zxid = zxid

    def touch_all(self, *, monotonic_ms: int) -> None:
        """All sessions get their full time-out: the server was down, which is no fault of theirs."""
        for session in self._sessions.values():
            session.deadline_ms = monotonic_ms + session.timeout_ms

    def _make_node(self, path: str, parent: Node, name: str, node: Node) -> Node:
        self._nodes[path] = node
        parent.add_child(sys.intern(name))
        parent.created_children += 1
        parent.pzxid = node.czxid
        if node.owner:
            if node.owner > 0:
                self._sessions[node.owner].ephemerals.add(path)
            else:
                self._reapable.add(path)
        return node

    def _unmake_node(self, path: str, node: Node, parent: Node, zxid: int) -> None:
        del self._nodes[path]
        parent.remove_child(path[path.rfind("/") + 1 :])
        parent.pzxid = zxid
        if node.owner:
            if node.owner > 0:
                self._sessions[node.owner].ephemerals.discard(path)
            else:
                self._reapable.discard(path)

    def _make_session(self, opened: SessionOpened, deadline_ms: int) -> None:
        self._sessions.open(opened.session_id, opened.timeout_ms, opened.password, deadline_ms)

    def _unmake_session(self, session_id: int, zxid: int) -> list[str]:
        """Returns the paths of the ephemeral nodes that went with it, sorted."""
        deleted = sorted(self._sessions[session_id].ephemerals)
        for path in deleted:
            self._unmake_node(path, self._nodes[path], self._nodes[parent_path(path)], zxid)
        del self._sessions[session_id]
        self.watches.forget(session_id)
        return deleted

    # ---------------------------------------------------------------------------------------------------- reads

    def get(self, path: str, *, session_id: int, watch: bool = False) -> tuple[bytes | None, Stat]:
        """A node's data and stat. Raises NoNode, NoAuth, SessionExpired."""
        node = self._readable(path, session_id)
        if watch:
            self.watches.add_data(path, session_id)
        return node.data, node.stat()

    def exists(self, path: str, *, session_id: int, watch: bool = False) -> Stat | None:
        """A node's stat, or None; the watch is left in either case."""
        self._sessions.require(session_id)
        validate_path(path)
        if watch:
            self.watches.add_data(path, session_id)
        node = self._nodes.get(path)
        return node.stat() if node is not None else None

    def children(self, path: str, *, session_id: int, watch: bool = False) -> tuple[list[str], Stat]:
        """Names of a node's children, sorted, and its stat. Raises NoNode, NoAuth, SessionExpired."""
        node = self._readable(path, session_id)
        if watch:
            self.watches.add_children(path, session_id)
        return node.child_names(), node.stat()

    def get_acl(self, path: str, *, session_id: int) -> tuple[AclList, Stat]:
        """A node's access control list. Raises NoNode, NoAuth, SessionExpired."""
        session = self._sessions.require(session_id)
        node = self._require_node(path)
        require_permission(session, node.acl, Permission.READ | Permission.ADMIN, path)
        return node.acl, node.stat()

    def ephemerals(self, session_id: int, *, prefix: str = "/") -> list[str]:
        """Paths of a session's ephemeral nodes that start with `prefix`, sorted."""
        return sorted(path for path in self._sessions.require(session_id).ephemerals if path.startswith(prefix))

    def descendant_count(self, path: str) -> int:
        """How many nodes there are below `path`."""
        self._require_node(path)
        prefix = path if path == "/" else f"{path}/"
        return sum(1 for other in self._nodes if other != path and other.startswith(prefix))

    def _readable(self, path: str, session_id: int) -> Node:
        session = self._sessions.require(session_id)
        node = self._nodes.get(path)
        if node is None:
            validate_path(path)
            raise NoNode(path)
        if node.acl is not OPEN_ACL:
            require_permission(session, node.acl, Permission.READ, path)
        return node

    # -------------------------------------------------------------------------------------------------- watches

    def add_watch(self, path: str, mode: WatchMode, *, session_id: int) -> None:
        """Leaves a watch that stays until removed; on the same path it replaces the session's former one."""
        self._sessions.require(session_id)
        validate_path(path)
        self.watches.add_lasting(path, mode, session_id)

    def remove_watches(self, path: str, *, session_id: int, kind: WatchKind = WatchKind.ANY) -> None:
        """Removes the session's watches of this kind on `path`. Raises NoWatcher where there is none."""
        self._sessions.require(session_id)
        if not self.watches.remove(path, session_id, kind):
            raise NoWatcher(path)

    def check_watches(self, path: str, *, session_id: int, kind: WatchKind = WatchKind.ANY) -> None:
        """Raises NoWatcher where the session has no watch of this kind on `path`."""
        self._sessions.require(session_id)
        if not self.watches.has(path, session_id, kind):
            raise NoWatcher(path)

    def disconnect(self, session_id: int) -> None:
        """The session's connection is gone, and with it what belonged to the connection: its watches, and who it had
        proved to be. The client repeats both when it comes back."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.identities = ()
            self.watches.forget(session_id)

    def restore_watches(
        self,
        *,
        session_id: int,
        seen_zxid: int,
        data: Sequence[str] = (),
        exist: Sequence[str] = (),
        child: Sequence[str] = (),
    ) -> tuple[Notification, ...]:
        """Arms a client's one-shot watches again after it lost its connection, having seen all up to `seen_zxid`.

        What changed meanwhile is told at once, in the order given, instead of arming. (ZooKeeper's setWatches.)
        """
        self._sessions.require(session_id)
        missed: list[tuple[EventType, str]] = []
        for path in data:
            node = self._nodes.get(path)
            if node is None:
                missed.append((EventType.NODE_DELETED, path))
            elif node.mzxid > seen_zxid:
                missed.append((EventType.NODE_DATA_CHANGED, path))
            else:
                self.watches.add_data(path, session_id)
        for path in exist:
            if path in self._nodes:
                missed.append((EventType.NODE_CREATED, path))
            else:
                self.watches.add_data(path, session_id)
        for path in child:
            node = self._nodes.get(path)
            if node is None:
                missed.append((EventType.NODE_DELETED, path))
            elif node.pzxid > seen_zxid:
                missed.append((EventType.NODE_CHILDREN_CHANGED, path))
            else:
                self.watches.add_children(path, session_id)
        return tuple(Notification(session_id, WatchEvent(kind, path, self.zxid)) for kind, path in missed)

    def _notify(self, changes: Sequence[Change], zxid: int, gone: Mapping[str, AclList]) -> tuple[Notification, ...]:
        """What sessions hear of changes (I6). `gone`: the lists of deleted nodes."""
        if not self.watches:
            return ()
        watches, out = self.watches, list[Notification]()
        for change in changes:
            if isinstance(change, NodeCreated):
                watches.on_came_or_went(EventType.NODE_CREATED, change.path, zxid, out)
            elif isinstance(change, NodeDeleted):
                watches.on_came_or_went(EventType.NODE_DELETED, change.path, zxid, out)
            elif isinstance(change, DataChanged):
                watches.trigger(EventType.NODE_DATA_CHANGED, change.path, zxid, out)
        return tuple(told for told in out if self._may_hear(told, gone))

    def _may_hear(self, told: Notification, gone: Mapping[str, AclList]) -> bool:
        path = told.event.path
        node = self._nodes.get(path)
        acls = [acl for acl in (None if node is None else node.acl, gone.get(path)) if acl is not None]
        session = self._sessions.get(told.session_id)
        return session is None or all(is_permitted(session, acl, Permission.READ) for acl in acls)

    # -------------------------------------------------------------------------------------------------- snapshot

    def state(self) -> TreeState:
        """What a snapshot needs beside `nodes`."""
        return TreeState(
            self.zxid,
            self._sessions.last_id,
            tuple(SessionOpened(s.session_id, s.timeout_ms, s.password) for s in self._sessions.values()),
        )

    def nodes(self) -> Iterator[tuple[str, Node]]:
        """All nodes with their paths, sorted, so that a parent comes before its children."""
        for path in sorted(self._nodes):
            yield path, self._nodes[path]

    @classmethod
    def restore(
        cls, state: TreeState, nodes: Iterable[tuple[str, Node]], *, max_request_bytes: int = MAX_REQUEST_BYTES
    ) -> Tree:
        """The tree that `state` and `nodes` were taken from, without its watches. The nodes become the tree's own."""
        tree = cls(max_request_bytes=max_request_bytes)
        tree._nodes.clear()
        tree.zxid = state.zxid
        for opened in state.sessions:
            tree._make_session(opened, 0)
        tree._sessions.last_id = state.last_session_id
        for path, node in nodes:
            node.children = None
            node.acl = intern_acl(node.acl)
            tree._nodes[path] = node
            if path != "/":
                split = path.rfind("/")
                tree._nodes[path[:split] or "/"].add_child(sys.intern(path[split + 1 :]))
            if node.owner > 0:
                tree._sessions[node.owner].ephemerals.add(path)
            elif node.owner < 0:
                tree._reapable.add(path)
        return tree

    # --------------------------------------------------------------------------------------------------- checks

    def _require_node(self, path: str) -> Node:
        node = self._nodes.get(path)
        if node is None:
            validate_path(path)
            raise NoNode(path)
        return node


def _make_data(node: Node, data: bytes | None, zxid: int, time_ms: int) -> None:
    node.data, node.mzxid, node.mtime = data, zxid, time_ms
    node.version += 1


def _make_acl(node: Node, acl: AclList) -> None:
    node.acl = acl
    node.aversion += 1


def _require_version(path: str, expected: int, found: int) -> None:
    if expected not in (ANY_VERSION, found):
        raise BadVersion(path, f"expected {expected}, found {found}")
