"""The tree's decisions, one by one."""

import copy

import pytest

from kavka.errors import InvariantViolation
from kavka.zookeeper.decide.access_control import Identity
from kavka.zookeeper.decide.node import MAX_TTL_MS, Node
from kavka.zookeeper.decide.tree import Transaction, Tree
from kavka.zookeeper.decide.watches import WatchKind
from kavka.zookeeper.port import (
    OPEN_ACL,
    Acl,
    BadArguments,
    BadVersion,
    Check,
    Create,
    Created,
    CreateMode,
    Delete,
    InvalidAcl,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NoWatcher,
    Operation,
    RequestTooLarge,
    SessionExpired,
    SetAcl,
    SetData,
    Stat,
    WatchMode,
)
from tests.unit.zookeeper.tree_support import NOW_MS, PASSWORD, events, new_tree, open_session, picture, replayed, write


def test_a_created_node_has_the_stat_of_its_creation() -> None:
    tree, session = new_tree()
    applied = write(tree, session, Create("/a", b"xyz"))
    zxid = tree.zxid
    stat = Stat(zxid, zxid, NOW_MS, NOW_MS, 0, 0, 0, 0, 3, 0, zxid)
    assert applied.results == (Created("/a", stat),)
    assert tree.get("/a", session_id=session) == (b"xyz", stat)


def test_no_data_and_empty_data_are_told_apart() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/null"), Create("/empty", b""))
    assert tree.get("/null", session_id=session)[0] is None
    assert tree.get("/empty", session_id=session)[0] == b""


def test_data_changes_raise_version_and_mzxid_only() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a", b"1"))
    created = tree.exists("/a", session_id=session)
    assert created is not None
    (stat,) = write(tree, session, SetData("/a", b"22"), now_ms=NOW_MS + 5).results
    assert stat == created._replace(mzxid=tree.zxid, mtime=NOW_MS + 5, version=1, data_length=2)


def test_children_change_cversion_and_pzxid_of_the_parent() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    write(tree, session, Create("/a/x"))
    write(tree, session, Create("/a/y"))
    write(tree, session, Delete("/a/x"))
    stat = tree.exists("/a", session_id=session)
    assert stat is not None
    assert (stat.cversion, stat.num_children, stat.pzxid, stat.version) == (3, 1, tree.zxid, 0)


def test_children_come_sorted_for_none_one_and_many() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    for expected, name in [(["m"], "m"), (["b", "m"], "b"), (["b", "m", "z"], "z")]:
        write(tree, session, Create(f"/a/{name}"))
        assert tree.children("/a", session_id=session)[0] == expected
    for name in "bzm":
        write(tree, session, Delete(f"/a/{name}"))
    assert tree.children("/a", session_id=session)[0] == []


def test_sequential_names_count_all_children_ever_created() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"), Create("/a/plain"))
    paths = []
    for _ in range(2):
        (created,) = write(tree, session, Create("/a/n_", mode=CreateMode.PERSISTENT_SEQUENTIAL)).results
        assert isinstance(created, Created)
        paths.append(created.path)
        write(tree, session, Delete(created.path))
    assert paths == ["/a/n_0000000001", "/a/n_0000000002"]


def test_a_sequential_name_may_be_the_number_alone() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    (created,) = write(tree, session, Create("/a/", mode=CreateMode.PERSISTENT_SEQUENTIAL)).results
    assert isinstance(created, Created)
    assert created.path == "/a/0000000000"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/a/",
        "//a",
        "/a//b",
        "/.",
        "/..",
        "/a/./b",
        "/a/..",
        "/a\x00",
        "/a\x1f",
        "/a\x7f",
        "/\ud800",
        "/\uf8ff",
    ],
)
def test_malformed_paths_are_refused(path: str) -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    # As in ZooKeeper, a parent that cannot be is missed before the name is looked at.
    with pytest.raises(NoNode if path in ("/a//b", "/a/./b") else BadArguments):
        write(tree, session, Create(path))
    with pytest.raises(BadArguments):
        tree.exists(path, session_id=session)


@pytest.mark.parametrize("path", ["/a.b", "/...", "/.a", "/a b", "/é", "/a/b/c", "/<default>", "/al%20ice"])
def test_unusual_paths_are_accepted(path: str) -> None:
    tree, session = new_tree()
    parts = path.split("/")[1:]
    for depth in range(1, len(parts) + 1):
        write(tree, session, Create("/" + "/".join(parts[:depth])))
    assert tree.exists(path, session_id=session) is not None


def test_what_cannot_be_created_or_deleted() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a", b"", CreateMode.EPHEMERAL), Create("/p"), Create("/p/c"))
    with pytest.raises(NodeExists):
        write(tree, session, Create("/p"))
    with pytest.raises(NodeExists):
        write(tree, session, Create("/"))
    with pytest.raises(NoNode):
        write(tree, session, Create("/no/child"))
    with pytest.raises(NoChildrenForEphemerals):
        write(tree, session, Create("/a/child"))
    with pytest.raises(NotEmpty):
        write(tree, session, Delete("/p"))
    with pytest.raises(NoNode):
        write(tree, session, Delete("/gone"))
    with pytest.raises(BadArguments):
        write(tree, session, Delete("/"))
    with pytest.raises(BadArguments):
        write(tree, session, Delete("/zookeeper/quota"))


def test_a_write_of_another_version_is_refused() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    for operation in (SetData("/a", b"", 1), Delete("/a", 7), Check("/a", 3), SetAcl("/a", OPEN_ACL, 2)):
        with pytest.raises(BadVersion, match="found 0"):
            write(tree, session, operation)
    assert write(tree, session, SetData("/a", b"", 0)).transaction is not None


def test_a_multi_is_undone_whole_and_says_what_failed() -> None:
    tree, session = new_tree()
    watching = open_session(tree)
    write(tree, session, Create("/a", b"old"), Create("/a/x"), Create("/e", mode=CreateMode.EPHEMERAL))
    write(tree, session, Create("/a/z"))
    tree.children("/a", session_id=watching, watch=True)
    before = picture(tree)
    with pytest.raises(BadVersion) as refused:
        write(
            tree,
            session,
            SetData("/a", b"new"),
            Create("/a/y"),
            Create("/a/y/deep", mode=CreateMode.EPHEMERAL),
            Create("/a/n", mode=CreateMode.PERSISTENT_SEQUENTIAL),
            Delete("/a/x"),
            Delete("/e"),
            SetAcl("/a", (Acl(1, "world", "anyone"),)),
            Create("/c", mode=CreateMode.CONTAINER),
            Check("/a", 5),
        )
    assert refused.value.operation_index == 8
    assert refused.value.path == "/a"
    assert picture(tree) == before
    assert tree.watches.count() == 1


def test_a_deletion_that_is_undone_leaves_no_trace_at_the_parent() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"), Create("/a/x", b"1"))
    write(tree, session, Create("/a/z"))
    before = picture(tree)
    with pytest.raises(NoNode):
        write(tree, session, Delete("/a/x"), Check("/none", 0))
    assert picture(tree) == before


def test_operations_of_a_multi_see_the_ones_before() -> None:
    tree, session = new_tree()
    applied = write(tree, session, Create("/a"), Create("/a/b"), SetData("/a", b"1"), Check("/a", 1), Delete("/a/b"))
    assert applied.transaction is not None
    assert {tree.exists("/a", session_id=session).pzxid, tree.zxid} == {applied.transaction.zxid}  # type: ignore[union-attr]


def test_a_multi_of_checks_changes_nothing() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    before = tree.zxid
    assert write(tree, session, Check("/a", 0)).transaction is None
    assert tree.zxid == before


def test_ephemeral_nodes_go_with_their_session() -> None:
    tree, session = new_tree()
    other = open_session(tree)
    write(tree, session, Create("/p"), Create("/p/b", mode=CreateMode.EPHEMERAL))
    write(tree, session, Create("/p/a", mode=CreateMode.EPHEMERAL_SEQUENTIAL))
    tree.children("/p", session_id=other, watch=True)
    tree.exists("/p/b", session_id=other, watch=True)
    assert tree.ephemerals(session) == ["/p/a0000000001", "/p/b"]
    applied = tree.close_session(session, now_ms=NOW_MS)
    assert tree.children("/p", session_id=other)[0] == []
    assert events(applied) == [(other, "NODE_CHILDREN_CHANGED", "/p"), (other, "NODE_DELETED", "/p/b")]
    with pytest.raises(SessionExpired):
        tree.get("/p", session_id=session)
    with pytest.raises(SessionExpired):
        write(tree, session, Create("/q"))


def test_sessions_are_overdue_when_not_heard_of() -> None:
    tree = Tree()
    short = open_session(tree, timeout_ms=100, monotonic_ms=0)
    long = open_session(tree, timeout_ms=500, monotonic_ms=0)
    assert tree.overdue_sessions(monotonic_ms=99) == []
    assert tree.overdue_sessions(monotonic_ms=100) == [short]
    tree.touch(short, monotonic_ms=90)
    assert tree.overdue_sessions(monotonic_ms=100) == []
    assert tree.overdue_sessions(monotonic_ms=500) == [short, long]
    tree.touch_all(monotonic_ms=500)
    assert tree.overdue_sessions(monotonic_ms=599) == []


def test_a_session_is_resumed_with_its_password_only() -> None:
    tree, session = new_tree()
    assert tree.resume_session(session, PASSWORD, monotonic_ms=50) == 6_000
    assert tree.overdue_sessions(monotonic_ms=6_049) == []
    with pytest.raises(SessionExpired):
        tree.resume_session(session, b"wrong", monotonic_ms=0)
    with pytest.raises(SessionExpired):
        tree.resume_session(session + 1, PASSWORD, monotonic_ms=0)


def test_session_ids_rise_even_if_the_clock_goes_back() -> None:
    tree = Tree()
    first, _ = tree.open_session(1, b"", now_ms=NOW_MS, monotonic_ms=0)
    second, _ = tree.open_session(1, b"", now_ms=NOW_MS - 10_000, monotonic_ms=0)
    assert second == first + 1


def test_watches_tell_once_and_in_order() -> None:
    tree, session = new_tree()
    first, second = open_session(tree), open_session(tree)
    write(tree, session, Create("/a"))
    for watching in (second, first):
        tree.get("/a", session_id=watching, watch=True)
        tree.children("/a", session_id=watching, watch=True)
    applied = write(tree, session, SetData("/a", b"1"), Create("/a/b"), SetData("/a", b"2"))
    assert events(applied) == [
        (second, "NODE_DATA_CHANGED", "/a"),
        (first, "NODE_DATA_CHANGED", "/a"),
        (second, "NODE_CHILDREN_CHANGED", "/a"),
        (first, "NODE_CHILDREN_CHANGED", "/a"),
    ]
    assert tree.watches.count() == 0


def test_a_deletion_is_told_once_to_who_watches_data_and_children() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    tree.get("/a", session_id=session, watch=True)
    tree.children("/a", session_id=session, watch=True)
    tree.children("/", session_id=session, watch=True)
    assert events(write(tree, session, Delete("/a"))) == [
        (session, "NODE_DELETED", "/a"),
        (session, "NODE_CHILDREN_CHANGED", "/"),
    ]


def test_an_exists_watch_tells_of_the_creation() -> None:
    tree, session = new_tree()
    assert tree.exists("/a", session_id=session, watch=True) is None
    assert events(write(tree, session, Create("/a"))) == [(session, "NODE_CREATED", "/a")]


def test_a_failed_read_leaves_no_watch() -> None:
    tree, session = new_tree()
    for read in (tree.get, tree.children):
        with pytest.raises(NoNode):
            read("/a", session_id=session, watch=True)
    assert tree.watches.count() == 0


def test_lasting_watches_stay_and_recursive_ones_see_all_below() -> None:
    tree, session = new_tree()
    here, below = open_session(tree), open_session(tree)
    tree.add_watch("/a", WatchMode.PERSISTENT, session_id=here)
    tree.add_watch("/a", WatchMode.PERSISTENT_RECURSIVE, session_id=below)
    write(tree, session, Create("/ab"))
    assert events(write(tree, session, Create("/a"), Create("/a/b"), SetData("/a/b", b""), Delete("/a/b"))) == [
        (here, "NODE_CREATED", "/a"),
        (below, "NODE_CREATED", "/a"),
        (below, "NODE_CREATED", "/a/b"),
        (here, "NODE_CHILDREN_CHANGED", "/a"),
        (below, "NODE_DATA_CHANGED", "/a/b"),
        (below, "NODE_DELETED", "/a/b"),
        (here, "NODE_CHILDREN_CHANGED", "/a"),
    ]
    assert tree.watches.count() == 2
    tree.remove_watches("/a", session_id=below)
    assert events(write(tree, session, Create("/a/b"))) == [(here, "NODE_CHILDREN_CHANGED", "/a")]
    with pytest.raises(NoWatcher):
        tree.remove_watches("/a", session_id=below)


def test_watches_end_with_their_session() -> None:
    tree, session = new_tree()
    watching = open_session(tree)
    tree.exists("/a", session_id=watching, watch=True)
    tree.children("/", session_id=watching, watch=True)
    tree.add_watch("/", WatchMode.PERSISTENT_RECURSIVE, session_id=watching)
    tree.close_session(watching, now_ms=NOW_MS)
    assert tree.watches.count() == 0
    assert write(tree, session, Create("/a")).notifications == ()


def test_restored_watches_tell_at_once_what_was_missed() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/same"), Create("/changed"), Create("/gone"), Create("/parent"))
    seen = tree.zxid
    write(tree, session, SetData("/changed", b"1"), Delete("/gone"), Create("/parent/c"), Create("/new"))
    missed = tree.restore_watches(
        session_id=session,
        seen_zxid=seen,
        data=["/same", "/changed", "/gone"],
        exist=["/new", "/later"],
        child=["/parent", "/same"],
    )
    assert [(event.type.name, event.path) for _, event in missed] == [
        ("NODE_DATA_CHANGED", "/changed"),
        ("NODE_DELETED", "/gone"),
        ("NODE_CREATED", "/new"),
        ("NODE_CHILDREN_CHANGED", "/parent"),
    ]
    assert events(write(tree, session, SetData("/same", b""), Create("/later"), Create("/same/c"))) == [
        (session, "NODE_DATA_CHANGED", "/same"),
        (session, "NODE_CREATED", "/later"),
        (session, "NODE_CHILDREN_CHANGED", "/same"),
    ]


def test_empty_containers_are_reaped_once_they_had_children() -> None:
    tree, session = new_tree()
    (created,) = write(tree, session, Create("/c", mode=CreateMode.CONTAINER)).results
    assert isinstance(created, Created)
    assert created.stat.ephemeral_owner == 0
    assert tree.idle_nodes(now_ms=NOW_MS) == []
    write(tree, session, Create("/c/x"))
    assert tree.idle_nodes(now_ms=NOW_MS) == []
    write(tree, session, Delete("/c/x"))
    assert tree.idle_nodes(now_ms=NOW_MS) == ["/c"]
    write(tree, session, Create("/c/y"))
    assert tree.reap(["/c"], now_ms=NOW_MS).transaction is None, "it is in use again"
    write(tree, session, Delete("/c/y"))
    assert tree.reap(["/c"], now_ms=NOW_MS).transaction is not None
    assert tree.exists("/c", session_id=session) is None


def test_ttl_nodes_are_reaped_when_their_time_is_over() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/t", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=100))
    assert tree.idle_nodes(now_ms=NOW_MS + 99) == []
    write(tree, session, SetData("/t", b""), now_ms=NOW_MS + 50)
    assert tree.idle_nodes(now_ms=NOW_MS + 149) == []
    assert tree.idle_nodes(now_ms=NOW_MS + 150) == ["/t"]
    for ttl_ms in (0, -1, MAX_TTL_MS + 1):
        with pytest.raises(BadArguments):
            write(tree, session, Create("/u", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=ttl_ms))
    (longest,) = write(
        tree, session, Create("/v", mode=CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, ttl_ms=MAX_TTL_MS)
    ).results
    assert isinstance(longest, Created)
    assert longest.stat.ephemeral_owner == 0
    assert dict(tree.nodes())[longest.path].ttl_ms() == MAX_TTL_MS


def test_access_lists_are_kept_to() -> None:
    tree, session = new_tree()
    stranger = open_session(tree)
    tree.authenticate(session, Identity("digest", "kafka:x"))
    mine = (Acl(31, "auth", ""), Acl(1, "world", "anyone"))
    write(tree, session, Create("/a", b"", acl=mine))
    acl, _ = tree.get_acl("/a", session_id=stranger)
    assert acl == (Acl(31, "digest", "kafka:x"), Acl(1, "world", "anyone"))
    assert tree.get("/a", session_id=stranger)[0] == b""
    for operation in (SetData("/a", b""), Create("/a/b"), SetAcl("/a", OPEN_ACL)):
        with pytest.raises(NoAuth):
            write(tree, stranger, operation)
    write(tree, session, Create("/a/b"))
    with pytest.raises(NoAuth):
        write(tree, stranger, Delete("/a/b"))
    (stat,) = write(tree, session, SetAcl("/a", OPEN_ACL, 0)).results
    assert isinstance(stat, Stat)
    assert stat.aversion == 1
    write(tree, stranger, Delete("/a/b"))


def test_addresses_match_networks() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a", acl=(Acl(1, "ip", "10.0.0.0/8"),)))
    with pytest.raises(NoAuth):
        tree.get("/a", session_id=session)
    tree.authenticate(session, Identity("ip", "10.1.2.3"))
    assert tree.get("/a", session_id=session)[0] is None


@pytest.mark.parametrize("acl", [(), (Acl(32, "world", "anyone"),), (Acl(1, "nobody", "x"),), (Acl(1, "world", "x"),)])
def test_invalid_access_lists_are_refused(acl: tuple[Acl, ...]) -> None:
    tree, session = new_tree()
    with pytest.raises(InvalidAcl):
        write(tree, session, Create("/a", acl=acl))


def test_a_request_over_the_limit_is_refused() -> None:
    tree = Tree(max_request_bytes=1_000)
    session = open_session(tree)
    write(tree, session, Create("/a", b"x" * 938))
    with pytest.raises(RequestTooLarge):
        write(tree, session, Create("/b", b"x" * 939))
    with pytest.raises(RequestTooLarge):
        write(tree, session, *(Create(f"/{number:04}") for number in range(16)))


def test_replay_repeats_skips_and_refuses_gaps() -> None:
    tree, session = new_tree()
    history = [tree.open_session(5, PASSWORD, now_ms=NOW_MS, monotonic_ms=0)[1].transaction]
    second = history[0].changes[0].session_id  # type: ignore[union-attr]
    writes: tuple[tuple[Operation, ...], ...] = (
        (Create("/a", b"1", acl=(Acl(31, "world", "anyone"), Acl(1, "ip", "1.2.3.4"))),),
        (Create("/a/e", mode=CreateMode.EPHEMERAL), Create("/a/c", mode=CreateMode.CONTAINER)),
        (SetData("/a", None), SetAcl("/a", OPEN_ACL), Delete("/a/c")),
    )
    history.extend(write(tree, second, *operations).transaction for operations in writes)
    history.append(tree.close_session(second, now_ms=NOW_MS).transaction)
    opened = Transaction(1, NOW_MS, (tree.state().sessions[0],))
    transactions = [opened, *(transaction for transaction in history if transaction is not None)]
    twin = replayed(transactions)
    assert picture(twin) == picture(tree)
    for transaction in transactions:
        twin.replay(transaction)
    assert picture(twin) == picture(tree), "a second replay changes nothing"
    with pytest.raises(InvariantViolation):
        twin.replay(Transaction(twin.zxid + 2, NOW_MS, ()))
    assert session in twin.sessions


def test_a_restored_tree_goes_on_like_the_first() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a", b"1"), Create("/a/e", mode=CreateMode.EPHEMERAL), Create("/a/f"))
    write(tree, session, Create("/c", mode=CreateMode.CONTAINER), Create("/c/x"), Delete("/c/x"))
    restored = Tree.restore(tree.state(), replayed_nodes(tree))
    assert picture(restored) == picture(tree)
    assert restored.idle_nodes(now_ms=NOW_MS) == ["/c"]
    for one in (tree, restored):
        write(one, session, Create("/a/s", mode=CreateMode.PERSISTENT_SEQUENTIAL))
        one.close_session(session, now_ms=NOW_MS)
    assert picture(restored) == picture(tree)


def replayed_nodes(tree: Tree) -> list[tuple[str, Node]]:
    """Copies of the nodes, since `restore` takes them over."""
    return [(path, copy.copy(node)) for path, node in tree.nodes()]


def test_descendants_are_counted() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"), Create("/a/b"), Create("/a/b/c"), Create("/ab"))
    assert tree.descendant_count("/a") == 2
    assert tree.descendant_count("/") == tree.node_count - 1


def test_watches_are_looked_for_and_removed_by_their_kind() -> None:
    tree, session = new_tree()
    write(tree, session, Create("/a"))
    tree.get("/a", session_id=session, watch=True)
    tree.children("/a", session_id=session, watch=True)
    tree.add_watch("/a", WatchMode.PERSISTENT, session_id=session)
    for kind in (WatchKind.DATA, WatchKind.CHILDREN, WatchKind.PERSISTENT):
        tree.check_watches("/a", session_id=session, kind=kind)
        tree.remove_watches("/a", session_id=session, kind=kind)
        with pytest.raises(NoWatcher):
            tree.check_watches("/a", session_id=session, kind=kind)
        with pytest.raises(NoWatcher):
            tree.remove_watches("/a", session_id=session, kind=kind)
    assert tree.watches.count() == 0


def test_watches_and_identities_end_with_the_connection() -> None:
    tree, session = new_tree()
    tree.authenticate(session, Identity("digest", "alice:x"))
    write(tree, session, Create("/a", acl=(Acl(31, "auth", ""),)))
    tree.add_watch("/", WatchMode.PERSISTENT_RECURSIVE, session_id=session)
    tree.disconnect(session)
    assert tree.watches.count() == 0
    with pytest.raises(NoAuth):
        tree.get("/a", session_id=session)
    assert events(write(tree, session, Create("/b"))) == []


def test_a_watch_tells_nothing_of_a_node_that_its_session_may_not_read() -> None:
    """CVE-2024-23944: users' names and tokens' ids stand in paths. What may be read is told as ever."""
    tree, broker = new_tree()
    stranger = open_session(tree)
    tree.authenticate(broker, Identity("sasl", "kafka"))
    own, shown = (Acl(31, "auth", ""),), (Acl(31, "auth", ""), Acl(1, "world", "anyone"))
    write(tree, broker, Create("/tokens", acl=own), Create("/brokers", acl=shown))
    tree.add_watch("/", WatchMode.PERSISTENT_RECURSIVE, session_id=stranger)
    for path in ("/tokens", "/tokens/1", "/brokers"):
        tree.restore_watches(session_id=stranger, seen_zxid=99, data=["/tokens"], exist=["/tokens/1"], child=[path])
        tree.add_watch(path, WatchMode.PERSISTENT, session_id=stranger)
    tree.add_watch("/tokens", WatchMode.PERSISTENT, session_id=broker)

    def told(*operations: Operation) -> list[tuple[int, str, str]]:
        return events(write(tree, broker, *operations))

    assert told(Create("/tokens/1", acl=own)) == [(broker, "NODE_CHILDREN_CHANGED", "/tokens")]
    assert told(SetData("/tokens/1", b"x"), SetData("/tokens", b"x")) == [(broker, "NODE_DATA_CHANGED", "/tokens")]
    assert (
        told(Create("/tokens/2", mode=CreateMode.EPHEMERAL, acl=own), Delete("/tokens/1"))
        == [(broker, "NODE_CHILDREN_CHANGED", "/tokens")] * 2
    )
    assert told(Create("/tokens/3", acl=own), Delete("/tokens/3")) == [(broker, "NODE_CHILDREN_CHANGED", "/tokens")] * 2
    assert (stranger, "NODE_CHILDREN_CHANGED", "/brokers") in told(Create("/brokers/1", acl=shown))
    assert [path for _, _, path in told(Delete("/brokers/1"))] == ["/brokers/1", "/brokers"]
    assert events(tree.close_session(broker, now_ms=NOW_MS)) == []
    assert not tree.exists("/tokens/2", session_id=stranger)
