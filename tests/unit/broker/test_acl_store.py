"""Access control lists in ZooKeeper: Kafka's bytes, changes by several brokers, lost sessions, lists of garbage."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

import pytest

from kavka.broker.authorization.acl_store import CHANGE_RETENTION_MS, AclStore
from kavka.broker.authorization.lockout import require_way_in
from kavka.errors import ConfigError, ErrorCode
from kavka.runtime.disk import LocalFileSystem
from kavka.security.acls import (
    Binding,
    Entry,
    EntryFilter,
    Filter,
    Operation,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
    ResourceType,
)
from kavka.security.authorizer import AclIndex, Question, Rule, Rules
from kavka.security.principals import ANONYMOUS, Principal
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.local import EmbeddedZooKeeper, LocalZooKeeper

T = ResourceType.TOPIC
READ = Entry("User:alice", "*", Operation.READ, Permission.ALLOW)
DENY = Entry("User:*", "10.0.0.9", Operation.ALL, Permission.DENY)
ORDERS = Binding(Pattern(T, "orders"), READ)
PREFIXED = Binding(Pattern(T, "orders-", PatternType.PREFIXED), DENY)
ALICE = Question(Principal("User", "alice"), "10.0.0.1", Operation.READ, T, "orders")


class Clock:
    ms = 0


class Stores:
    """Brokers on one ZooKeeper."""

    def __init__(self, server: EmbeddedZooKeeper, clock: Clock) -> None:
        self.server = server
        self.clock = clock
        self.flows: list[asyncio.Task[None]] = []

    def spawn(self, flow: Coroutine[None, None, None]) -> None:
        self.flows.append(asyncio.get_running_loop().create_task(flow))

    async def new(self) -> tuple[LocalZooKeeper, AclStore]:
        zookeeper = await self.server.connect()
        store = AclStore(zookeeper, Rules(), wall_ms=lambda: self.clock.ms, spawn=self.spawn)
        await store.start()
        return zookeeper, store


def run(tmp_path: Path, scenario: Callable[[Stores], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = Clock()
        database = Database.open(LocalFileSystem(), str(tmp_path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: clock.ms, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        stores = Stores(server, clock)
        try:
            await scenario(stores)
        finally:
            for flow in stores.flows:
                flow.cancel()
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event.
            await asyncio.sleep(0.01)


def test_lists_and_changes_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        zookeeper, store = await stores.new()
        assert await store.create([ORDERS, PREFIXED]) == [None, None]
        literal, _ = await zookeeper.get("/kafka-acl/Topic/orders")
        assert json.loads(literal or b"") == {
            "version": 1,
            "acls": [{"principal": "User:alice", "permissionType": "Allow", "host": "*", "operation": "Read"}],
        }
        prefixed, _ = await zookeeper.get("/kafka-acl-extended/prefixed/Topic/orders-")
        assert json.loads(prefixed or b"")["acls"][0]["host"] == "10.0.0.9"
        assert (await zookeeper.get("/kafka-acl-changes/acl_changes_0000000000"))[0] == b"TOPIC:orders"
        change, _ = await zookeeper.get("/kafka-acl-extended-changes/acl_changes_0000000000")
        assert json.loads(change or b"")["patternType"] == "PREFIXED"

    run(tmp_path, scenario)


def test_a_change_is_in_force_here_at_once_and_elsewhere_a_moment_later(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        _, here = await stores.new()
        _, there = await stores.new()
        await here.create([ORDERS])
        assert here.decide(ALICE).allowed
        await until(lambda: there.decide(ALICE).allowed)
        (deleted,) = await there.delete([Filter(PatternFilter(T, "orders", PatternType.MATCH))])
        assert [each.binding for each in deleted] == [ORDERS]
        await until(lambda: here.decide(ALICE).rule is Rule.NO_ACL)
        assert not here.index.lists

    run(tmp_path, scenario)


def test_the_last_entry_takes_the_znode_with_it_and_an_entry_twice_is_one(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        zookeeper, store = await stores.new()
        await store.create([ORDERS, ORDERS])
        generation = store.generation
        await store.create([ORDERS])
        assert store.generation == generation
        assert len(await zookeeper.children("/kafka-acl-changes")) == 1
        await store.delete([Filter(entry=EntryFilter("User:alice"))])
        assert await zookeeper.exists("/kafka-acl/Topic/orders") is None

    run(tmp_path, scenario)


def test_two_brokers_that_write_one_list_at_once_lose_nothing(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        _, here = await stores.new()
        _, there = await stores.new()
        mine = [Binding(Pattern(T, "orders"), READ._replace(principal=f"User:here-{n}")) for n in range(5)]
        others = [Binding(Pattern(T, "orders"), READ._replace(principal=f"User:there-{n}")) for n in range(5)]
        outcomes = await asyncio.gather(
            *(here.create([each]) for each in mine), *(there.create([each]) for each in others)
        )
        assert outcomes == [[None]] * 10
        await until(lambda: len(here.find(Filter())) == 10 and len(there.find(Filter())) == 10)

    run(tmp_path, scenario)


def test_after_a_lost_session_every_list_is_read_again_also_what_no_change_node_tells(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        zookeeper, away = await stores.new()
        _, here = await stores.new()
        await here.create([ORDERS])
        await until(lambda: away.decide(ALICE).allowed)
        await stores.server.expire(zookeeper.session_id)
        await here.delete([Filter()])
        other = await stores.server.connect()
        for name in await other.children("/kafka-acl-changes"):
            await other.delete(f"/kafka-acl-changes/{name}")
        await zookeeper.renew()
        await until(lambda: not away.decide(ALICE).allowed)

    run(tmp_path, scenario)


def test_change_nodes_go_after_a_quarter_of_an_hour(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        zookeeper, store = await stores.new()
        await store.create([ORDERS])
        stores.clock.ms += CHANGE_RETENTION_MS + 1
        await store.create([PREFIXED])
        assert await zookeeper.children("/kafka-acl-changes") == []
        assert len(await zookeeper.children("/kafka-acl-extended-changes")) == 1

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1,"acls":[{"principal":"x"}]}',
        b"\xff",
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"DENIED","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Peek","host":"*"}]}',
    ],
)
def test_a_list_that_cannot_be_read_denies_and_is_not_overwritten(tmp_path: Path, garbage: bytes) -> None:
    async def scenario(stores: Stores) -> None:
        zookeeper, store = await stores.new()
        await store.create([ORDERS])
        await zookeeper.set("/kafka-acl/Topic/orders", garbage)
        _, fresh = await stores.new()
        assert fresh.decide(ALICE).rule is Rule.DENIED
        (refusal,) = await fresh.create([ORDERS])
        assert refusal is not None
        assert refusal.code is ErrorCode.INVALID_REQUEST
        assert (await zookeeper.get("/kafka-acl/Topic/orders"))[0] == garbage

    run(tmp_path, scenario)


def test_bindings_that_cannot_be_kept_are_refused_one_by_one(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        _, store = await stores.new()
        wrong = [Binding(Pattern(T, name), READ) for name in ("a/b", "", "..")]
        refusals = await store.create([*wrong, ORDERS])
        assert [None if each is None else each.code for each in refusals] == [ErrorCode.INVALID_REQUEST] * 3 + [None]

    run(tmp_path, scenario)


def test_brokers_that_would_lock_each_other_out_do_not_start() -> None:
    cluster = Pattern(ResourceType.CLUSTER, "kafka-cluster")
    action = Entry("User:ANONYMOUS", "10.0.0.1", Operation.CLUSTER_ACTION, Permission.ALLOW)
    with pytest.raises(ConfigError, match="User:ANONYMOUS"):
        require_way_in(AclIndex(), Rules(), is_alone=False)
    denied = action._replace(host="*", permission=Permission.DENY)
    with pytest.raises(ConfigError, match="ClusterAction"):
        require_way_in(AclIndex({cluster: frozenset({action, denied})}), Rules(), is_alone=False)
    require_way_in(AclIndex({cluster: frozenset({action})}), Rules(), is_alone=False)
    require_way_in(AclIndex(), Rules(frozenset({ANONYMOUS})), is_alone=False)
    require_way_in(AclIndex(), Rules(allow_everyone=True), is_alone=False)


def test_a_lone_broker_that_would_refuse_everybody_everything_does_not_start() -> None:
    with pytest.raises(ConfigError, match="every request would be refused"):
        require_way_in(AclIndex(), Rules(), is_alone=True)
    require_way_in(AclIndex({Pattern(T, "a"): frozenset({READ})}), Rules(), is_alone=True)
    require_way_in(AclIndex(), Rules(allow_everyone=True), is_alone=True)
