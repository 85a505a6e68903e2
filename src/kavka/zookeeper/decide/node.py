"""One znode: its data, versions and children, and whose it is.

A node's owner says when it goes: 0 never by itself, a session's id with that session (ephemeral), `CONTAINER_OWNER`
when its last child has gone, a TTL (below zero, above the containers' mark) when nothing changed for so long.

Source: ZooKeeper's DataNode and EphemeralType.
"""

from __future__ import annotations

from typing import Final

from kavka.errors import InvariantViolation
from kavka.zookeeper.port import AclList, BadArguments, CreateMode, Stat

CONTAINER_OWNER: Final = -(1 << 63)
"""The owner of container nodes."""
_TTL_MARK: Final = -(1 << 56)
MAX_TTL_MS: Final = (1 << 40) - 1
"""A TTL has 40 bits in the owner, below a byte of ones."""

_EPHEMERAL_MODES = frozenset({CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL})
_TTL_MODES = frozenset({CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL})


class Node:
    """One znode. `created_children` is ZooKeeper's counter behind cversion and sequential names."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "created_children",
        "ctime",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, acl: AclList, owner: int, zxid: int, time_ms: int) -> None:
        self.data = data
        self.acl = acl
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = 0
        self.aversion = 0
        self.created_children = 0
        self.owner = owner
        # None, the name of an only child, or the names: most nodes of a Kafka cluster have one child or none, and a
        # set of one costs as much memory as all the rest of the node.
        self.children: str | set[str] | None = None

    def add_child(self, name: str) -> None:
        children = self.children
        if children is None:
            self.children = name
        elif isinstance(children, str):
            self.children = {children, name}
        else:
            children.add(name)

    def remove_child(self, name: str) -> None:
        children = self.children
        if isinstance(children, set):
            children.remove(name)
            if not children:
                self.children = None
        elif children == name:
            self.children = None
        else:
            raise InvariantViolation(f"child {name!r} is not known to its parent")

    def child_names(self) -> list[str]:
        """Names of the children, sorted."""
        children = self.children
        if children is None:
            return []
        return [children] if isinstance(children, str) else sorted(children)

    def child_count(self) -> int:
        children = self.children
        if children is None:
            return 0
        return 1 if isinstance(children, str) else len(children)

    def ttl_ms(self) -> int:
        """The TTL of a TTL node, else 0."""
        return self.owner - _TTL_MARK if _TTL_MARK <= self.owner < 0 else 0

    def stat(self) -> Stat:
        count = self.child_count()
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.created_children * 2 - count,
            self.aversion,
            max(self.owner, 0),  # Real servers keep the marks of containers and TTL nodes to themselves, too.
            len(self.data) if self.data is not None else 0,
            count,
            self.pzxid,
        )


def owner_of(session_id: int | None, mode: CreateMode, ttl_ms: int, path: str) -> int:
    """The ephemeralOwner of a node that `session_id` creates (None: the server itself)."""
    if mode in _EPHEMERAL_MODES:
        if session_id is None:
            raise BadArguments(path, "an ephemeral node needs a session")
        return session_id
    if mode is CreateMode.CONTAINER:
        return CONTAINER_OWNER
    if mode in _TTL_MODES:
        if not 0 < ttl_ms <= MAX_TTL_MS:
            raise BadArguments(path, f"a TTL of {ttl_ms} ms is not in 1..{MAX_TTL_MS}")
        return _TTL_MARK + ttl_ms
    return 0
