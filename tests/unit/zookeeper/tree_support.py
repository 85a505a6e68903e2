"""Trees for tests, and what can be seen of one."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.zookeeper.decide.node import Node
from kavka.zookeeper.decide.tree import Applied, Transaction, Tree
from kavka.zookeeper.port import Operation

NOW_MS = 1_700_000_000_000
PASSWORD = b"p" * 16


def open_session(tree: Tree, *, timeout_ms: int = 6_000, monotonic_ms: int = 0) -> int:
    return tree.open_session(timeout_ms, PASSWORD, now_ms=NOW_MS, monotonic_ms=monotonic_ms)[0]


def new_tree() -> tuple[Tree, int]:
    """A tree with one session."""
    tree = Tree()
    return tree, open_session(tree)


def write(tree: Tree, session_id: int, *operations: Operation, now_ms: int = NOW_MS) -> Applied:
    return tree.write(session_id, operations, now_ms=now_ms)


def events(applied: Applied) -> list[tuple[int, str, str]]:
    """(session, kind, path) of the notifications, in order."""
    return [(session_id, event.type.name, event.path) for session_id, event in applied.notifications]


def picture(tree: Tree) -> tuple[object, ...]:
    """All that a restart must bring back."""

    def of(node: Node) -> tuple[object, ...]:
        return node.data, node.acl, node.stat(), node.child_names(), node.created_children, node.owner

    ephemerals = [(session.session_id, sorted(session.ephemerals)) for session in tree.sessions.values()]
    return tree.state(), [(path, of(node)) for path, node in tree.nodes()], ephemerals


def replayed(transactions: Sequence[Transaction]) -> Tree:
    tree = Tree()
    for transaction in transactions:
        tree.replay(transaction)
    return tree
