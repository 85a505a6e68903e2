"""The tree against a model of it: plain dictionaries, copied whole before each multi.

The model knows nothing of undo steps, compact children or counters of created children: it keeps lists and recomputes.
Any sequence of multis and session ends must give both the same answers, errors, stats and watch events; and a tree
built from the log of the first must equal it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.zookeeper.decide.tree import Transaction, Tree
from kavka.zookeeper.port import (
    ANY_VERSION,
    OPEN_ACL,
    BadVersion,
    Check,
    Create,
    Created,
    CreateMode,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Rejected,
    SetData,
)

NAMES = ["a", "b", "n"]
PATHS = [
    *(f"/{one}" for one in NAMES),
    *(f"/{one}/{two}" for one in NAMES for two in NAMES),
    *(f"/a/{two}/{three}" for two in NAMES for three in NAMES),
]
MODES = [
    CreateMode.PERSISTENT,
    CreateMode.PERSISTENT,
    CreateMode.EPHEMERAL,
    CreateMode.PERSISTENT_SEQUENTIAL,
    CreateMode.EPHEMERAL_SEQUENTIAL,
    CreateMode.CONTAINER,
]


@dataclass
class ModelNode:
    data: bytes | None
    owner: int | None
    created_at: int
    changed_at: int
    children_changed_at: int
    version: int = 0
    creations: int = 0
    deletions: int = 0


@dataclass
class Model:
    nodes: dict[str, ModelNode] = field(default_factory=lambda: {"": ModelNode(b"", None, 0, 0, 0)})
    data_watches: list[tuple[str, int]] = field(default_factory=list)
    child_watches: list[tuple[str, int]] = field(default_factory=list)

    def children(self, path: str) -> list[str]:
        depth = path.count("/") + 1
        return sorted(
            other.rpartition("/")[2]
            for other in self.nodes
            if other.startswith(f"{path}/") and other.count("/") == depth
        )

    def apply(self, session: int, operation: Operation, zxid: int) -> object:
        """The result, or the class of the error."""
        path = operation.path
        parent = path.rpartition("/")[0]
        if isinstance(operation, Create):
            if parent not in self.nodes:
                return NoNode
            if operation.mode in (CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL):
                path += f"{self.nodes[parent].creations:010}"
            if path in self.nodes:
                return NodeExists
            if self.nodes[parent].owner is not None:
                return NoChildrenForEphemerals
            ephemeral = operation.mode in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)
            self.nodes[path] = ModelNode(operation.data, session if ephemeral else None, zxid, zxid, zxid)
            self.nodes[parent].creations += 1
            self.nodes[parent].children_changed_at = zxid
            return path
        if path not in self.nodes:
            return NoNode
        node = self.nodes[path]
        if operation.version not in (ANY_VERSION, node.version):  # type: ignore[union-attr]
            return BadVersion
        if isinstance(operation, SetData):
            node.data, node.changed_at = operation.data, zxid
            node.version += 1
            return node.version
        if isinstance(operation, Delete):
            if self.children(path):
                return NotEmpty
            self.delete(path, zxid)
        return None

    def delete(self, path: str, zxid: int) -> None:
        parent = self.nodes[path.rpartition("/")[0]]
        del self.nodes[path]
        parent.deletions += 1
        parent.children_changed_at = zxid

    def events(self, changes: list[tuple[str, str]]) -> list[tuple[int, str, str]]:
        """What one-shot watches tell of the changes (kind, path)."""
        told: list[tuple[int, str, str]] = []
        for kind, path in changes:
            parent = path.rpartition("/")[0]
            tables = [self.data_watches] if kind != "NODE_DELETED" else [self.data_watches, self.child_watches]
            told += self.fire(tables, path, kind)
            if kind != "NODE_DATA_CHANGED":
                told += self.fire([self.child_watches], parent, "NODE_CHILDREN_CHANGED")
        return told

    def fire(self, tables: list[list[tuple[str, int]]], path: str, kind: str) -> list[tuple[int, str, str]]:
        sessions: list[int] = []
        for table in tables:
            sessions += [session for watched, session in table if watched == path and session not in sessions]
            table[:] = [entry for entry in table if entry[0] != path]
        return [(session, kind, path or "/") for session in sessions]


operations = st.one_of(
    st.builds(
        Create,
        st.sampled_from(PATHS),
        st.none() | st.binary(max_size=3),
        st.sampled_from(MODES),
        acl=st.just(OPEN_ACL),
        ttl_ms=st.just(0),
    ),
    st.builds(SetData, st.sampled_from(PATHS), st.none() | st.binary(max_size=3), st.sampled_from([ANY_VERSION, 0, 1])),
    st.builds(Delete, st.sampled_from(PATHS), st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1])),
    st.builds(Check, st.sampled_from(PATHS), st.sampled_from([0, 1])),
)
steps = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2), st.lists(operations, min_size=1, max_size=6)),
    st.tuples(st.just("watch"), st.integers(0, 2), st.tuples(st.sampled_from(PATHS), st.booleans())),
    st.tuples(st.just("end"), st.integers(0, 2), st.none()),
)


class Run:
    def __init__(self) -> None:
        self.tree = Tree()
        self.model = Model()
        self.log: list[Transaction] = []
        self.sessions = [self.open() for _ in range(3)]

    def open(self) -> int:
        session, applied = self.tree.open_session(1_000, b"", now_ms=1, monotonic_ms=0)
        self.keep(applied.transaction)
        return session

    def keep(self, transaction: Transaction | None) -> None:
        if transaction is not None:
            self.log.append(transaction)

    def write(self, who: int, batch: list[Operation]) -> None:
        session, zxid = self.sessions[who], self.tree.zxid + 1
        before = copy.deepcopy(self.model)
        results, changes = [], []
        for operation in batch:
            result = self.model.apply(session, operation, zxid)
            results.append(result)
            if isinstance(result, type):
                break
            if isinstance(operation, Create):
                changes.append(("NODE_CREATED", str(result)))
            elif isinstance(operation, SetData):
                changes.append(("NODE_DATA_CHANGED", operation.path))
            elif isinstance(operation, Delete):
                changes.append(("NODE_DELETED", operation.path))
        if isinstance(results[-1], type):
            with pytest.raises(Rejected) as refused:
                self.tree.write(session, batch, now_ms=1)
            assert type(refused.value) is results[-1]
            assert refused.value.operation_index == len(results) - 1
            self.model = before
            return
        applied = self.tree.write(session, batch, now_ms=1)
        assert [_simple(result) for result in applied.results] == results
        assert _events(applied.notifications) == self.model.events(changes)
        self.keep(applied.transaction)

    def watch(self, who: int, path: str, child: bool) -> None:
        session = self.sessions[who]
        if child:
            if path not in self.model.nodes:
                return
            self.tree.children(path, session_id=session, watch=True)
            table = self.model.child_watches
        else:
            self.tree.exists(path, session_id=session, watch=True)
            table = self.model.data_watches
        if (path, session) not in table:
            table.append((path, session))

    def end(self, who: int) -> None:
        session, zxid = self.sessions[who], self.tree.zxid + 1
        ephemeral = sorted(path for path, node in self.model.nodes.items() if node.owner == session)
        for table in (self.model.data_watches, self.model.child_watches):
            table[:] = [entry for entry in table if entry[1] != session]
        for path in ephemeral:
            self.model.delete(path, zxid)
        applied = self.tree.close_session(session, now_ms=1)
        assert _events(applied.notifications) == self.model.events([("NODE_DELETED", path) for path in ephemeral])
        self.keep(applied.transaction)
        self.sessions[who] = self.open()

    def compare(self, tree: Tree) -> None:
        session = self.sessions[0]
        found = {path: node for path, node in tree.nodes() if path != "/" and not path.startswith("/zookeeper")}
        assert sorted(found) == sorted(path for path in self.model.nodes if path)
        for path, expected in self.model.nodes.items():
            if not path:
                continue
            data, stat = tree.get(path, session_id=session)
            names = self.model.children(path)
            assert data == expected.data
            assert (stat.czxid, stat.mzxid, stat.pzxid) == (
                expected.created_at,
                expected.changed_at,
                expected.children_changed_at,
            )
            assert (stat.version, stat.cversion) == (expected.version, expected.creations + expected.deletions)
            assert (stat.num_children, stat.data_length) == (len(names), len(expected.data or b""))
            assert tree.children(path, session_id=session)[0] == names
            assert (stat.ephemeral_owner > 0) == (expected.owner is not None)


def _simple(result: object) -> object:
    if isinstance(result, Created):
        return result.path
    return None if result is None else result.version  # type: ignore[attr-defined]


def _events(notifications: object) -> list[tuple[int, str, str]]:
    return [(session, event.type.name, event.path) for session, event in notifications]  # type: ignore[attr-defined]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=40))
def test_any_history_gives_the_tree_of_the_model_and_its_log_gives_it_again(
    history: list[tuple[str, int, object]],
) -> None:
    run = Run()
    for kind, who, argument in history:
        if kind == "write":
            run.write(who, argument)  # type: ignore[arg-type]
        elif kind == "watch":
            run.watch(who, *argument)  # type: ignore[misc]
        else:
            run.end(who)
    run.compare(run.tree)
    again = Tree()
    for transaction in run.log:
        again.replay(transaction)
    run.compare(again)
    assert again.state() == run.tree.state()
    restored = Tree.restore(run.tree.state(), [(path, copy.copy(node)) for path, node in run.tree.nodes()])
    run.compare(restored)
