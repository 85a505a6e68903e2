"""kazoo, a client that nobody here wrote, and its recipes against `kavka zookeeper`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.security import make_acl, make_digest_acl

from tests.conformance.zookeeper.zookeeper_process import ZooKeeperProcess

SESSION_S = 4.0
Connect = Callable[..., KazooClient]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@contextlib.contextmanager
def clients_of(server: ZooKeeperProcess) -> Iterator[Connect]:
    clients: list[KazooClient] = []

    def connect(**options: object) -> KazooClient:
        client = KazooClient(hosts=server.address, **{"timeout": SESSION_S, **options})
        clients.append(client)
        client.start(timeout=10)
        return client

    yield connect
    for client in clients:
        client.stop()
        # One whose socket was cut under it ends its thread in its own time, and cannot be closed before.
        client._connection.connection_stopped.wait(10)
        client.close()


@pytest.fixture
def connect(server: ZooKeeperProcess) -> Iterator[Connect]:
    with clients_of(server) as connect:
        yield connect


@pytest.fixture
def zk(connect: Connect) -> KazooClient:
    return connect()


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path that no other test uses."""
    return f"/{request.node.name}"


def eventually(condition: Callable[[], object], *, timeout_s: float = 8.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------------------ operations


def test_nodes_are_created_read_written_and_deleted(zk: KazooClient, path: str) -> None:
    created, stat = zk.create(path, b"one", include_data=True)
    assert (created, stat.version, stat.dataLength) == (path, 0, 3)
    data, read = zk.get(path)
    assert (data, read) == (b"one", stat)
    assert zk.set(path, b"two", version=0).version == 1
    with pytest.raises(BadVersionError):
        zk.set(path, b"three", version=0)
    with pytest.raises(NodeExistsError):
        zk.create(path)
    zk.create(f"{path}/a/b", makepath=True)
    assert zk.get_children(path) == ["a"]
    with pytest.raises(NotEmptyError):
        zk.delete(path)
    zk.delete(path, recursive=True)
    assert zk.exists(path) is None
    with pytest.raises(NoNodeError):
        zk.get(path)
    assert zk.sync("/") == "/"


def test_sequential_and_ephemeral_nodes(zk: KazooClient, path: str) -> None:
    zk.create(path)
    assert zk.create(f"{path}/n-", sequence=True) == f"{path}/n-0000000000"
    ephemeral = zk.create(f"{path}/e-", ephemeral=True, sequence=True)
    assert ephemeral == f"{path}/e-0000000001"
    assert zk.get(ephemeral)[1].ephemeralOwner == zk.client_id[0]
    with pytest.raises(NoChildrenForEphemeralsError):
        zk.create(f"{ephemeral}/child")


def test_a_transaction_is_whole_or_nothing_and_tells_which_part_failed(zk: KazooClient, path: str) -> None:
    zk.create(path)
    transaction = zk.transaction()
    transaction.create(f"{path}/a", b"x")
    transaction.set_data(path, b"new")
    transaction.check(path, 1)
    transaction.delete(f"{path}/a")
    created, stat, checked, deleted = transaction.commit()
    assert (created, stat.version, checked, deleted) == (f"{path}/a", 1, True, True)
    transaction = zk.transaction()
    transaction.create(f"{path}/b")
    transaction.check(path, 77)
    transaction.delete(path)
    assert list(map(type, transaction.commit())) == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert zk.get_children(path) == []


def test_access_control_lists_keep_strangers_out(connect: Connect, path: str) -> None:
    alice = connect(auth_data=[("digest", "alice:secret")])
    alice.create(path, b"x", acl=[make_digest_acl("alice", "secret", all=True)])
    assert alice.get(path)[0] == b"x"
    stranger = connect()
    with pytest.raises(NoAuthError):
        stranger.get(path)
    stranger.add_auth("digest", "alice:secret")
    assert stranger.get(path)[0] == b"x"
    assert stranger.set_acls(path, [make_acl("world", "anyone", read=True)]).aversion == 1
    assert connect().get(path)[0] == b"x"
    with pytest.raises(InvalidACLError):
        stranger.create(f"{path}-2", acl=[make_acl("nonsense", "x", all=True)])
    with pytest.raises(AuthFailedError):
        connect().add_auth("nonsense", "x:y")


def test_bad_paths_are_bad_arguments(zk: KazooClient) -> None:
    with pytest.raises(BadArgumentsError):
        zk.create("/a\x01b")


def test_a_node_as_large_as_the_limit_allows_and_many_requests_at_once(zk: KazooClient, path: str) -> None:
    large = b"x" * 1_000_000
    zk.create(path, large)
    answers = [zk.get_async(path) for _ in range(5)]
    answers += [zk.create_async(f"{path}/n", sequence=True) for _ in range(200)]
    assert [answer.get(10)[0] for answer in answers[:5]] == [large] * 5
    assert [answer.get(10) for answer in answers[5:]] == [f"{path}/n{number:010d}" for number in range(200)]


# --------------------------------------------------------------------------------------------------------- watches


def test_watches_fire_once_before_the_change_can_be_read(connect: Connect, path: str) -> None:
    watching, writing = connect(), connect()
    seen: list[tuple[str, str]] = []

    def on_event(event: object) -> None:
        seen.append((event.type, event.path))  # type: ignore[attr-defined]  # kazoo has no types.

    watching.exists(path, watch=on_event)
    writing.create(path, b"1")
    eventually(lambda: seen == [(EventType.CREATED, path)])
    watching.get(path, watch=on_event)
    watching.get_children(path, watch=on_event)
    writing.create(f"{path}/child")
    writing.set(path, b"2")
    writing.set(path, b"3")
    eventually(lambda: len(seen) == 3)
    assert seen[1:] == [(EventType.CHILD, path), (EventType.CHANGED, path)]


# --------------------------------------------------------------------------------------------------------- recipes


def test_lock(connect: Connect, path: str) -> None:
    first, second = connect(), connect()
    held = first.Lock(path, "first")
    assert held.acquire(timeout=5)
    waiting = second.Lock(path, "second")
    assert not waiting.acquire(blocking=False)
    assert held.contenders()[0] == "first"
    taken = threading.Event()
    thread = threading.Thread(target=lambda: waiting.acquire(timeout=8) and taken.set())
    thread.start()
    eventually(lambda: len(held.contenders()) == 2)
    held.release()
    thread.join(8)
    assert taken.is_set()


def test_read_and_write_locks_and_a_semaphore(connect: Connect, path: str) -> None:
    first, second = connect(), connect()
    with first.ReadLock(f"{path}/rw"), second.ReadLock(f"{path}/rw"):
        assert not second.WriteLock(f"{path}/rw").acquire(blocking=False)
    with first.Semaphore(f"{path}/s", max_leases=1):
        assert not second.Semaphore(f"{path}/s", max_leases=1).acquire(blocking=False)


def test_an_election_passes_on_when_the_leader_is_gone(connect: Connect, path: str) -> None:
    leaders: list[str] = []
    leading, resign = threading.Event(), threading.Event()

    def lead(name: str) -> None:
        leaders.append(name)
        leading.set()
        resign.wait(8)

    threads = [
        threading.Thread(target=connect().Election(path, name).run, args=(lead, name), daemon=True)
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    assert leading.wait(8)
    assert len(leaders) == 1
    resign.set()
    for thread in threads:
        thread.join(8)
    assert sorted(leaders) == ["a", "b"]


def test_barriers(connect: Connect, path: str) -> None:
    first, second = connect(), connect()
    barrier = first.Barrier(path)
    barrier.create()
    assert not second.Barrier(path).wait(timeout=0.05)
    barrier.remove()
    assert second.Barrier(path).wait(timeout=5)
    doubles = [client.DoubleBarrier(f"{path}-double", 2) for client in (first, second)]
    for step in ("enter", "leave"):
        threads = [threading.Thread(target=getattr(double, step)) for double in doubles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(8)
        assert [double.participating for double in doubles] == [step == "enter"] * 2


def test_queues(zk: KazooClient, path: str) -> None:
    queue = zk.Queue(path)
    queue.put(b"low", priority=200)
    queue.put(b"high", priority=1)
    assert [queue.get(), queue.get(), queue.get()] == [b"high", b"low", None]
    locking = zk.LockingQueue(f"{path}-locking")
    locking.put_all([b"1", b"2"])
    assert locking.get(timeout=5) == b"1"
    assert locking.consume()
    assert locking.get(timeout=5) == b"2"


def test_a_counter_of_two_clients_loses_nothing(connect: Connect, path: str) -> None:
    def count(client: KazooClient) -> None:
        counter = client.Counter(path)
        for _ in range(10):
            counter += 1

    clients = [connect(), connect()]
    threads = [threading.Thread(target=count, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert clients[0].Counter(path).value == 20


def test_a_party(connect: Connect, path: str) -> None:
    first, second = connect(), connect()
    for client, name in ((first, "a"), (second, "b")):
        client.Party(path, name).join()
        client.ShallowParty(f"{path}-shallow", name).join()
    assert sorted(first.Party(path)) == ["a", "b"]
    second.stop()
    eventually(lambda: list(first.Party(path)) == ["a"])
    assert list(first.ShallowParty(f"{path}-shallow")) == ["a"]


def test_data_and_children_watches_follow(connect: Connect, path: str) -> None:
    watching, writing = connect(), connect()
    data: list[bytes | None] = []
    children: list[list[str]] = []
    writing.create(path, b"0")
    watching.DataWatch(path, lambda value, stat: data.append(value))
    watching.ChildrenWatch(path, lambda names: children.append(sorted(names)))
    for number in (1, 2, 3):
        writing.set(path, b"%d" % number)
        eventually(lambda number=number: data[-1] == b"%d" % number)
        writing.create(f"{path}/{number}")
        eventually(lambda number=number: len(children[-1]) == number)
    writing.delete(path, recursive=True)
    eventually(lambda: data[-1] is None)


def test_a_tree_cache_follows(connect: Connect, path: str) -> None:
    watching, writing = connect(), connect()
    writing.create(path)
    cache = TreeCache(watching, path)
    initialized = threading.Event()
    cache.listen(lambda event: initialized.set() if event.event_type == TreeEvent.INITIALIZED else None)
    cache.start()
    assert initialized.wait(5)
    writing.create(f"{path}/a/b", b"x", makepath=True)
    eventually(lambda: cache.get_data(f"{path}/a/b") is not None)
    assert cache.get_data(f"{path}/a/b").data == b"x"
    writing.delete(f"{path}/a", recursive=True)
    eventually(lambda: cache.get_children(path) == frozenset())
    cache.close()


# -------------------------------------------------------------------------------------------------------- sessions


def test_a_client_comes_back_to_its_session_over_a_killed_server(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path) as server, clients_of(server) as connect:
        client = connect()
        session = client.client_id
        client.create("/e", b"x", ephemeral=True)
        events: list[str] = []
        client.get("/e", watch=lambda event: events.append(event.type))
        server.kill()
        eventually(lambda: client.state == KazooState.SUSPENDED)
        server.start()
        eventually(lambda: client.state == KazooState.CONNECTED)
        assert client.client_id == session
        assert client.get("/e")[0] == b"x"
        assert server.stop() == 0


def test_ephemeral_nodes_go_with_a_session_that_falls_silent(connect: Connect, path: str) -> None:
    watching, dying = connect(), connect(timeout=0.4)
    dying.create(path, ephemeral=True)
    gone = threading.Event()
    watching.exists(path, watch=lambda event: gone.set())
    # The socket is cut under the client, which may not come back: its session has to expire.
    dying._stopped.set()
    dying._connection._socket.shutdown(2)
    assert gone.wait(6)
    assert watching.exists(path) is None


def test_a_session_moves_to_the_connection_that_has_its_password(connect: Connect, path: str) -> None:
    first = connect()
    first.create(path, ephemeral=True)
    session = first.client_id
    suspended = threading.Event()
    first.add_listener(lambda state: suspended.set() if state == KazooState.SUSPENDED else None)
    second = connect(client_id=session)
    assert second.client_id == session
    assert second.get(path)[1].ephemeralOwner == session[0]
    assert suspended.wait(5)
    first._stopped.set()  # Else the two take the session from each other until one is stopped.
    stranger = connect(client_id=(session[0], b"\0" * 16))
    assert stranger.client_id[0] != session[0]


# ----------------------------------------------------------------------------------------------- four-letter words


def test_four_letter_words_have_their_forms(zk: KazooClient, path: str) -> None:
    zk.create(path, ephemeral=True)
    zk.exists(path, watch=lambda event: None)
    assert zk.server_version() == (3, 9, 0)
    assert zk.command(b"ruok") == "imok"
    assert zk.command(b"isro") == "rw"
    assert "Mode: standalone\n" in zk.command(b"srvr")
    assert "Clients:\n /127.0.0.1:" in zk.command(b"stat")
    monitored = dict(line.split("\t") for line in zk.command(b"mntr").splitlines())
    assert int(monitored["zk_znode_count"]) >= 5
    assert int(monitored["zk_watch_count"]) == 1
    assert f"sid={zk.client_id[0]:#x},to=4000" in zk.command(b"cons")
    assert f"\t{path}\n" in zk.command(b"dump")
    assert zk.command(b"wchs") == "1 connections watching 1 paths\nTotal watches:1\n"
    assert "maxSessionTimeout=4000\n" in zk.command(b"conf")


def test_only_srvr_is_answered_by_default(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path, words="srvr") as server, clients_of(server) as connect:
        client = connect()
        assert client.command(b"ruok") == "ruok is not executed because it is not in the whitelist.\n"
        assert client.command(b"srvr").startswith("Zookeeper version: ")
