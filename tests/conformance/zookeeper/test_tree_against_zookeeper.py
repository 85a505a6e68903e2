"""The same random script on a real ZooKeeper server and on kavka's tree: same results, errors, stats and events.

Absolute zxids and times differ; what is compared of them is their order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kavka.zookeeper.decide.tree import Applied, Tree
from kavka.zookeeper.port import (
    ANY_VERSION,
    Check,
    Create,
    Created,
    CreateMode,
    Delete,
    Operation,
    Rejected,
    SetData,
    Stat,
)
from tests.apache_kafka import ApacheKafka
from tests.conformance.zookeeper.jute_client import JuteClient, ServerError, delete_tree, whole_tree

pytestmark = pytest.mark.kafka

STEPS = 400
NAMES = ["a", "b", "c"]
MODES = [
    CreateMode.PERSISTENT,
    CreateMode.PERSISTENT,
    CreateMode.PERSISTENT_SEQUENTIAL,
    CreateMode.EPHEMERAL,
    CreateMode.EPHEMERAL_SEQUENTIAL,
    CreateMode.CONTAINER,
]
ODD_PATHS = ["/", "/.", "/..", "/a\x01", "/a\x7f", "/\ud7ff", "/\ue000", "/\ufff0", "/ü€", "/<default>", "/a b", "/..."]
"""Below a node that exists: of a missing parent the server complains before it looks at the name."""


class Both:
    """A real server and a tree, with two sessions on each."""

    def __init__(self, address: str, root: str) -> None:
        self.address = address
        self.root = root
        self.real = [JuteClient(address), JuteClient(address)]
        self.tree = Tree()
        self.events: list[list[tuple[int, str]]] = [[], []]
        self.ours = [self._open(), self._open()]
        self.both(0, Create(root))

    def _open(self) -> int:
        return self.tree.open_session(1, b"", now_ms=1, monotonic_ms=0)[0]

    def both(self, who: int, *operations: Operation, multi: bool = False) -> None:
        """One write on both; the outcomes must be the same."""
        real = self._really(who, operations, multi=multi)
        try:
            applied = self.tree.write(self.ours[who], operations, now_ms=1)
        except Rejected as rejected:
            ours: object = (rejected.code, rejected.operation_index if multi else -1)
        else:
            ours = [_plain(result) for result in applied.results]
            self._take(applied)
        assert ours == real, operations

    def _really(self, who: int, operations: tuple[Operation, ...], *, multi: bool) -> object:
        client = self.real[who]
        try:
            if multi:
                return [_plain(result) for result in client.multi(operations)]
            (operation,) = operations
            if isinstance(operation, Create):
                return [_plain(client.create(operation.path, operation.data, operation.mode))]
            if isinstance(operation, SetData):
                return [_plain(client.set(operation.path, operation.data, operation.version))]
            assert isinstance(operation, Delete)
            client.delete(operation.path, operation.version)
        except ServerError as error:
            return (error.code, error.operation_index)
        return [None]

    def read(self, who: int, path: str, kind: str, *, watch: bool) -> None:
        client, session = self.real[who], self.ours[who]
        try:
            real: object = getattr(client, kind)(path, watch=watch)
        except ServerError as error:
            real = error.code
        try:
            ours: object = getattr(self.tree, kind)(path, session_id=session, watch=watch)
        except Rejected as rejected:
            ours = rejected.code
        assert _without_zxids(ours) == _without_zxids(real), (kind, path)

    def end_the_second(self) -> None:
        """Ends the second session on both and begins another; its ephemeral nodes go in no particular order."""
        self.real[1].close()
        self._take(self.tree.close_session(self.ours[1], now_ms=1))
        self.real[0].exists("/")
        assert sorted(map(tuple, self.real[0].events)) == sorted(self.events[0])
        self.real[0].events.clear()
        self.events = [[], []]
        self.real[1] = JuteClient(self.address)
        self.ours[1] = self._open()

    def _take(self, applied: Applied) -> None:
        for session_id, event in applied.notifications:
            if session_id in self.ours:
                self.events[self.ours.index(session_id)].append((event.type, event.path))

    def compare_events(self) -> None:
        for client, ours in zip(self.real, self.events, strict=True):
            client.exists("/")  # Its answer comes behind all events.
            assert list(map(tuple, client.events)) == ours
            client.events.clear()
            ours.clear()

    def compare_trees(self) -> None:
        real = whole_tree(self.real[0], self.root)
        ours = {
            path: (node.data, node.stat())
            for path, node in self.tree.nodes()
            if path == self.root or path.startswith(f"{self.root}/")
        }
        assert sorted(ours) == sorted(real)
        for path, (data, stat) in real.items():
            assert ours[path][0] == data
            assert _without_zxids(ours[path][1]) == _without_zxids(stat), path
        assert _ranks(ours) == _ranks(real)


def _plain(result: object) -> object:
    """A result that both sides can have."""
    if isinstance(result, Created):
        return result.path, _without_zxids(result.stat)
    if isinstance(result, tuple) and len(result) == 2 and not isinstance(result, Stat):
        return result[0], _without_zxids(result[1])
    return _without_zxids(result)


def _without_zxids(value: object) -> object:
    if isinstance(value, Stat):
        return value._replace(
            czxid=0, mzxid=0, pzxid=0, ctime=0, mtime=0, ephemeral_owner=min(value.ephemeral_owner, 1)
        )
    if isinstance(value, tuple):
        return tuple(map(_without_zxids, value))
    return value


def _ranks(nodes: dict[str, tuple[bytes | None, Stat]]) -> dict[str, tuple[int, ...]]:
    """Each node's zxids as places in the order of all."""
    zxids = sorted({zxid for _, stat in nodes.values() for zxid in (stat.czxid, stat.mzxid, stat.pzxid)})
    place = {zxid: index for index, zxid in enumerate(zxids)}
    return {path: (place[stat.czxid], place[stat.mzxid], place[stat.pzxid]) for path, (_, stat) in nodes.items()}


@pytest.fixture(params=range(3))
def both(apache_kafka: ApacheKafka, request: pytest.FixtureRequest) -> Iterator[tuple[Both, random.Random]]:
    seed: int = request.param
    pair = Both(apache_kafka.zookeeper, f"/kavka-tree-{seed}-{random.SystemRandom().randrange(10**9)}")
    yield pair, random.Random(seed)
    delete_tree(pair.real[0], pair.root)
    for client in pair.real:
        client.close()


def test_a_random_script(both: tuple[Both, random.Random]) -> None:
    pair, rng = both

    def path() -> str:
        return pair.root + "".join(f"/{rng.choice(NAMES)}" for _ in range(rng.choice([1, 1, 1, 2, 2, 3])))

    def operation() -> Operation:
        version = rng.choice([ANY_VERSION, ANY_VERSION, 0, 1])
        data = rng.choice([None, b"", b"xyz"])
        match rng.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                return Create(path(), data, rng.choice(MODES))
            case 5 | 6:
                return SetData(path(), data, version)
            case _:
                return Delete(path(), version)

    for _ in range(STEPS):
        who = rng.randrange(2)
        match rng.randrange(20):
            case 0:
                pair.end_the_second()
            case 1 | 2 | 3 | 4 | 5 | 6:
                kind = rng.choice(["get", "exists", "children"])
                pair.read(who, path(), kind, watch=rng.random() < 0.8)
            case 7 | 8 | 9:
                operations = [operation() for _ in range(rng.randrange(1, 5))]
                if rng.random() < 0.4:
                    operations.insert(rng.randrange(len(operations) + 1), Check(path(), rng.choice([0, 0, 1])))
                pair.both(who, *operations, multi=True)
            case _:
                pair.both(who, operation())
        pair.compare_events()
    pair.compare_trees()


@pytest.mark.parametrize("path", ODD_PATHS, ids=[ascii(path) for path in ODD_PATHS])
def test_odd_paths_are_judged_the_same(apache_kafka: ApacheKafka, path: str) -> None:
    client, tree = JuteClient(apache_kafka.zookeeper), Tree()
    session, _ = tree.open_session(1, b"", now_ms=1, monotonic_ms=0)
    root = f"/kavka-odd-{random.SystemRandom().randrange(10**9)}"
    client.create(root)
    try:
        client.create(root + path)
        real = 0
    except ServerError as error:
        real = error.code
    finally:
        delete_tree(client, root)
        client.close()
    tree.write(session, [Create(root)], now_ms=1)
    try:
        tree.write(session, [Create(root + path)], now_ms=1)
        ours = 0
    except Rejected as rejected:
        ours = rejected.code
    assert ours == real
