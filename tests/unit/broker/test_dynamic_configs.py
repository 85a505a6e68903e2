"""Settings that change at run time: every broker obeys what was set through any of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.settings import dynamic_configs
from kavka.broker.settings.dynamic_configs import ConfigListeners, DynamicConfigs
from kavka.config.alter import Change, Operation, alter_broker_incrementally
from kavka.config.broker import BrokerConfig
from kavka.controller.work.config_admin import ConfigAdmin
from kavka.model import BrokerId
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.old_changes import CHANGE_RETENTION_MS, delete_old
from kavka.zookeeper.persistent_paths import make_persistent_paths
from kavka.zookeeper.port import ConnectionLoss, Stat, ZooKeeper
from kavka.zookeeper.znode_paths import delete_topic_path, topic_config_path, topic_path
from kavka.zookeeper.znodes import TopicAssignment, random_uuid


class Listener:
    """A broker's settings, and what it hears of their changes."""

    def __init__(self, zookeeper: ZooKeeper, broker_id: int, path: Path) -> None:
        self.heard: list[str] = []
        self.changed = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.configs = DynamicConfigs(
            zookeeper,
            BrokerConfig.from_properties({"broker.id": str(broker_id), "log.dirs": str(path)}),
            BrokerId(broker_id),
            ConfigListeners(
                on_topic_change=self._note,
                on_broker_change=lambda config: self._note("broker"),
                on_topic_read=lambda name, overrides: None,
                on_client_entity=lambda path, config: self._note(f"{path} {dict(config)}"),
            ),
            wall_ms=lambda: 0,
            spawn=self._spawn,
        )

    def _note(self, what: str) -> None:
        self.heard.append(what)
        self.changed.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))


class CutOff:
    """A session whose first reads fail."""

    def __init__(self, zookeeper: ZooKeeper, *, failing_reads: int) -> None:
        self._zookeeper = zookeeper
        self._failing_reads = failing_reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zookeeper, name)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes | None, Stat] | None]:
        if self._failing_reads:
            self._failing_reads -= 1
            raise ConnectionLoss("cut off")
        return await self._zookeeper.get_many(paths)


def runs(path: Path, scenario: Callable[[EmbeddedZooKeeper], Awaitable[None]]) -> None:
    async def run() -> None:
        database = Database.open(LocalFileSystem(), str(path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 0, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        await make_persistent_paths(await server.connect())
        try:
            await scenario(server)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


def limit(value: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    return lambda _current: {"min.insync.replicas": value}


def test_a_topics_settings_arrive_at_every_broker(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        one, two = [Listener(await server.connect(), number, tmp_path) for number in (1, 2)]
        await two.configs.start()
        await one.configs.change_topic("orders", limit("2"))
        assert one.configs.topic("orders").min_insync_replicas == 2
        await two.changed.wait()
        assert two.heard == ["orders"]
        assert two.configs.topic("orders").min_insync_replicas == 2
        await two.configs.stop()

    runs(tmp_path, scenario)


def test_a_default_for_all_brokers_arrives_and_one_for_another_broker_does_not(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        one, two = [Listener(await server.connect(), number, tmp_path) for number in (1, 2)]
        await two.configs.start()
        await one.configs.change_broker(limit("3"), per_broker=True)
        await one.configs.change_broker(limit("2"), per_broker=False)
        await two.changed.wait()
        assert two.heard == ["broker"]
        assert two.configs.broker.min_insync_replicas == 2
        assert two.configs.topic("orders").min_insync_replicas == 2
        assert one.configs.broker.min_insync_replicas == 3
        await two.configs.stop()

    runs(tmp_path, scenario)


def test_of_what_is_found_for_brokers_the_rest_is_obeyed_where_one_cannot_be(tmp_path: Path) -> None:
    found = {"min.insync.replicas": "2", "listeners": "PLAINTEXT://:1", "log.segment.bytes": "many"}

    async def scenario(server: EmbeddedZooKeeper) -> None:
        one = Listener(await server.connect(), 1, tmp_path)
        await one.configs.change_broker(lambda _current: found, per_broker=True)
        assert one.configs.broker.min_insync_replicas == 2
        assert one.configs.broker.dynamic == {"min.insync.replicas": "2"}
        assert one.configs.broker.listeners == "PLAINTEXT://:9092"

    runs(tmp_path, scenario)


def test_what_another_broker_set_and_this_one_was_not_told_of_yet_stays(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        one, two = [Listener(await server.connect(), number, tmp_path) for number in (1, 2)]
        await one.configs.change_broker(limit("2"), per_broker=False)
        change = [Change("log.retention.ms", Operation.SET, "5")]
        await two.configs.change_broker(
            lambda current: alter_broker_incrementally(change, current, two.configs.broker, per_broker=False),
            per_broker=False,
        )
        assert two.configs.broker.dynamic_default == {"min.insync.replicas": "2", "log.retention.ms": "5"}

    runs(tmp_path, scenario)


class Silent:
    """A session whose list of notifications never arrives while `is_silent`; counts how often it is asked for."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self.is_silent = False
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zookeeper, name)

    def subscribe(self, _on_event: Callable[[Any], None]) -> Callable[[], None]:
        """ZooKeeper's word that something changed never comes, or comes late."""
        return lambda: None

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        self.looks += 1
        if self.is_silent:
            await asyncio.Event().wait()
        return await self._zookeeper.children(path, watch=watch)


def test_whoever_asks_sees_what_another_broker_set_before_zookeeper_told_of_it(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        session: Any = Silent(await server.connect())
        one, two = Listener(await server.connect(), 1, tmp_path), Listener(session, 2, tmp_path)
        await two.configs.start()
        await one.configs.change_topic("orders", limit("2"))
        await one.configs.change_broker(limit("3"), per_broker=False)
        assert two.configs.topic("orders").min_insync_replicas == 1
        before = session.looks
        await asyncio.gather(*(two.configs.catch_up() for _ in range(100)))
        assert two.heard == ["orders", "broker"]
        assert two.configs.topic("orders").min_insync_replicas == 2
        assert two.configs.broker.min_insync_replicas == 3
        assert session.looks == before + 1, "all who ask at once share one look"
        await two.configs.stop()
        await two.configs.catch_up()

    runs(tmp_path, scenario)


def test_settings_are_described_as_they_were_last_read_while_zookeeper_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_configs, "SETTINGS_PATIENCE_S", 0.05)

    async def scenario(server: EmbeddedZooKeeper) -> None:
        session: Any = Silent(await server.connect())
        two = Listener(session, 2, tmp_path)
        await two.configs.start()
        session.is_silent = True
        await two.configs.catch_up()
        waiting = asyncio.create_task(two.configs.catch_up())
        await asyncio.sleep(0)
        await two.configs.stop()
        await waiting

    runs(tmp_path, scenario)


def test_settings_that_cannot_be_read_now_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_configs, "RETRY_S", 0.01)

    async def scenario(server: EmbeddedZooKeeper) -> None:
        session = await server.connect()
        writer = Listener(session, 1, tmp_path)
        await writer.configs.change_topic("orders", limit("2"))
        reader = Listener(CutOff(session, failing_reads=2), 2, tmp_path)
        await reader.configs.require_topics(["orders"])
        assert reader.configs.topic("orders").min_insync_replicas == 1
        await reader.changed.wait()
        assert reader.configs.topic("orders").min_insync_replicas == 2

    runs(tmp_path, scenario)


def test_of_a_topics_settings_the_rest_is_obeyed_where_one_cannot_be(tmp_path: Path) -> None:
    found = {"min.insync.replicas": "2", "segment.bytes": "many", "remote.storage.enable": "true"}

    async def scenario(server: EmbeddedZooKeeper) -> None:
        one = Listener(await server.connect(), 1, tmp_path)
        await one.configs.change_topic("orders", lambda _current: found)
        assert one.configs.topic("orders").min_insync_replicas == 2
        assert one.configs.topic("orders").segment_bytes == 1 << 30
        assert one.configs.overrides("orders") == found

    runs(tmp_path, scenario)


def test_a_topic_whose_settings_are_garbage_has_the_defaults_and_harms_no_other(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        session = await server.connect()
        writer = Listener(session, 1, tmp_path)
        for topic in ("broken", "orders"):
            await writer.configs.change_topic(topic, limit("2"))
        await session.set(topic_config_path("broken"), b"\x00 no JSON")
        reader = Listener(session, 2, tmp_path)
        await reader.configs.load_topics(["broken", "orders"])
        assert reader.configs.topic("broken").min_insync_replicas == 1
        assert reader.configs.topic("orders").min_insync_replicas == 2

    runs(tmp_path, scenario)


def test_the_number_of_a_topics_partitions_is_the_one_in_zookeeper(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        session = await server.connect()
        listener = Listener(session, 1, tmp_path)
        assert await listener.configs.partition_count("orders") == 0
        assignment = TopicAssignment("orders", {0: (1,), 1: (1,), 2: (1,)}, random_uuid(bytes(16)))
        await session.create(topic_path("orders"), assignment.encode())
        assert await listener.configs.partition_count("orders") == 3
        assert await listener.configs.lasting_partition_count("orders") == 3
        await session.set(topic_path("orders"), b"\xff{")
        assert await listener.configs.partition_count("orders") == 0
        assert await listener.configs.lasting_partition_count("orders") == dynamic_configs.ANY_PARTITION
        await session.set(topic_path("orders"), assignment.encode())
        await session.create(delete_topic_path("orders"), b"")
        assert await listener.configs.partition_count("orders") == 3
        assert await listener.configs.lasting_partition_count("orders") == 0
        await session.set(topic_path("orders"), b"\xff{")
        assert await listener.configs.lasting_partition_count("orders") == dynamic_configs.ANY_PARTITION

    runs(tmp_path, scenario)


@pytest.mark.parametrize(
    "name", ["a/b", "/", "a//b/", ".", "..", "a%2Fb", "%", "ü 1", "x\x00y", "\u200f\ue000", "g" * 5_000]
)
def test_a_group_of_any_name_keeps_its_settings_over_a_restart_and_other_brokers_learn_them(
    tmp_path: Path, name: str
) -> None:
    async def scenario(zookeeper: EmbeddedZooKeeper) -> None:
        one, two = [Listener(await zookeeper.connect(), broker_id, tmp_path) for broker_id in (1, 2)]
        await one.configs.start()
        await two.configs.start()
        wanted = {"consumer.session.timeout.ms": "50000"}
        await one.configs.change_other("groups", name, lambda _current: wanted)
        assert one.configs.group(name) == wanted
        for _ in range(1_000):
            if two.configs.group(name) == wanted:
                break
            await asyncio.sleep(0.01)
        assert two.configs.named("groups") == [name]
        restarted = Listener(await zookeeper.connect(), 3, tmp_path)
        await restarted.configs.start()
        assert restarted.configs.group(name) == wanted
        assert restarted.configs.named("groups") == [name]
        await restarted.configs.change_other("groups", name, lambda _current: {})
        assert restarted.configs.named("groups") == []
        for listener in (one, two, restarted):
            await listener.configs.stop()

    runs(tmp_path, scenario)


def quota(_current: Mapping[str, str]) -> Mapping[str, str]:
    return {"producer_byte_rate": "1"}


def test_what_is_set_for_clients_is_read_at_a_start_and_followed(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        admin = ConfigAdmin(await server.connect())
        await admin.change("users/u/clients/c", quota)
        session = await server.connect()
        one = Listener(session, 1, tmp_path)
        stats = await make_persistent_paths(session)
        await one.configs.start()
        await one.configs.load_clients(stats)
        assert one.heard == ["users/u/clients/c {'producer_byte_rate': '1'}"]
        one.changed.clear()
        await admin.change("ips/10.0.0.7", quota)
        await one.changed.wait()
        assert one.heard[1:] == ["ips/10.0.0.7 {'producer_byte_rate': '1'}"]
        await one.configs.stop()

    runs(tmp_path, scenario)


def test_a_change_between_the_look_and_the_listening_is_not_missed(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        admin = ConfigAdmin(await server.connect())
        await admin.change("topics/t", quota)
        session = await server.connect()
        one = Listener(session, 1, tmp_path)
        stats = await make_persistent_paths(session)
        await admin.change("users/u", quota)
        await one.configs.start()
        await one.configs.load_clients(stats)
        assert one.heard == ["users/u {'producer_byte_rate': '1'}"]
        await one.configs.stop()

    runs(tmp_path, scenario)


def test_a_cluster_without_settings_of_clients_is_not_asked_for_them(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        await ConfigAdmin(await server.connect()).change("topics/t", quota)
        session = await server.connect()
        one = Listener(session, 1, tmp_path)
        stats = await make_persistent_paths(session)
        await one.configs.start()
        one.configs._admin = None  # type: ignore[assignment]
        await one.configs.load_clients(stats)
        assert one.heard == []
        await one.configs.stop()

    runs(tmp_path, scenario)


def test_a_user_goes_with_its_last_setting_and_keeps_those_of_others(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        session = await server.connect()
        one = Listener(session, 1, tmp_path)
        await one.configs.change_user("<default>", quota)
        await one.configs.change_user("u", lambda _current: {"SCRAM-SHA-256": "x", "producer_byte_rate": "1"})
        await one.configs.change_user("u", lambda current: {**current, "SCRAM-SHA-256": "y"})
        assert await one.configs.read_users(["u"]) == {"u": {"SCRAM-SHA-256": "y", "producer_byte_rate": "1"}}
        await one.configs.change_user("u", lambda _current: {})
        assert await session.children("/config/users") == ["%3Cdefault%3E"]

    runs(tmp_path, scenario)


def test_a_broker_that_was_away_for_longer_than_notifications_live_reads_all_settings_again(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        admin = ConfigAdmin(await server.connect())
        for path in ("topics/orders", "topics/same", "topics/plain", "users/u", "groups/g"):
            await admin.change(path, lambda _current: {"min.insync.replicas": "2"})
        session = await server.connect()
        one = Listener(session, 1, tmp_path)
        stats = await make_persistent_paths(session)
        await one.configs.start()
        await one.configs.load_clients(stats)
        await one.configs.load_topics(["orders", "same", "plain"])
        one.heard.clear()

        await server.expire(session.session_id)
        await admin.change("topics/orders", lambda _current: {"min.insync.replicas": "3"})
        await admin.change("topics/plain", lambda _current: {})
        await admin.change("topics/unknown-here", lambda _current: {"min.insync.replicas": "3"})
        await admin.change("users/u", lambda _current: {})
        await admin.change("users/v/clients/c", quota)
        await admin.change("groups/g", lambda _current: {})
        await admin.change("brokers/<default>", lambda _current: {"log.retention.ms": "5"})
        await delete_old(await server.connect(), "/config/changes", CHANGE_RETENTION_MS + 1)
        await session.renew()
        await asyncio.sleep(0)
        await one.configs._changes.settled()

        assert one.configs.topic("orders").min_insync_replicas == 3
        assert one.configs.topic("same").min_insync_replicas == 2
        assert one.configs.topic("plain").min_insync_replicas == 1
        assert one.configs.broker.log_retention_ms == 5
        assert one.configs.named("groups") == []
        assert one.heard == [
            "broker",
            "orders",
            "plain",
            "users/u {}",
            "users/v/clients/c {'producer_byte_rate': '1'}",
        ]
        await one.configs.stop()

    runs(tmp_path, scenario)
