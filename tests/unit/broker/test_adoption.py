"""Log directories of an earlier life: what is registered of them, when, and what is left alone."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog

from kavka.broker.membership.adoption import (
    MAX_PARTITIONS,
    Claims,
    FoundDirectory,
    FoundPartition,
    FoundTopic,
    Plan,
    adopt,
    is_partition_directory,
    is_unknown,
    operations,
    plan,
    recorded_broker_id,
    settings_of,
    survey,
)
from kavka.config.broker import BrokerConfig
from kavka.errors import ConfigError, InconsistentMetadata, LogDirectoryLocked, LogsContradict, StorageError
from kavka.log.decide.checkpoint import MetaProperties, format_epochs, format_meta_properties, format_partition_metadata
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.model import BrokerId, TopicPartition
from kavka.records.builder import BatchBuilder
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import ConnectionLoss, Create, Operation, OperationResult
from kavka.zookeeper.znode_paths import (
    CLUSTER_ID_PATH,
    PERSISTENT_PATHS,
    partition_state_path,
    topic_config_path,
    topic_path,
)
from kavka.zookeeper.znodes import ClusterId, ConfigEntity, PartitionState, TopicAssignment

BROKER = BrokerId(1)
OLD_CLUSTER = "oSq3R2jATHyENcjV8u1ffA"
ID_A, ID_B = uuid.UUID(int=0xA), uuid.UUID(int=0xB)
NOW_MS = 1_700_000_000_000


def partition(topic: str, number: int, topic_id: uuid.UUID | None = ID_A, leader_epoch: int = 0) -> FoundPartition:
    return FoundPartition(TopicPartition(topic, number), topic_id, leader_epoch)


def directory(
    *partitions: FoundPartition, path: str = "/a", broker_id: int | None = 1, cluster_id: str | None = OLD_CLUSTER
) -> FoundDirectory:
    return FoundDirectory(path, MetaProperties(broker_id, cluster_id), partitions)


# -- what is registered


def test_a_topic_has_as_many_partitions_as_its_highest_number_says() -> None:
    planned = plan([directory(partition("t", 0), partition("t", 3))], 1)
    assert [(topic.name, topic.partition_count, topic.missing) for topic in planned.topics] == [("t", 4, [1, 2])]


def test_an_empty_directory_is_a_partition_where_the_lower_numbers_are_there() -> None:
    def unwritten(topic: str, number: int) -> FoundPartition:
        return FoundPartition(TopicPartition(topic, number), None, -1, False)

    planned = plan(
        [
            directory(
                *(unwritten("new", number) for number in (1, 0)),
                *(unwritten("grown", number) for number in (4, 0, 3, 6)),
                partition("grown", 2),
                unwritten("backup", 2024),
            )
        ],
        1,
    )
    assert [(topic.name, topic.partition_count, topic.missing) for topic in planned.topics] == [
        ("grown", 5, [1]),
        ("new", 2, []),
    ]


def test_topics_are_put_together_over_all_directories_and_sorted() -> None:
    planned = plan(
        [
            directory(partition("b", 1, leader_epoch=7), path="/a"),
            directory(partition("b", 0, leader_epoch=3), partition("a", 0, ID_B), path="/b"),
        ],
        1,
    )
    assert planned == Plan(OLD_CLUSTER, (FoundTopic("a", ID_B, 1, {0: 0}), FoundTopic("b", ID_A, 2, {0: 3, 1: 7})))


def test_nothing_is_planned_of_nothing() -> None:
    assert plan([], 1) == Plan(None, ())
    assert plan([FoundDirectory("/a", None, ())], 1) == Plan(None, ())


def test_a_topic_id_that_one_partition_knows_is_that_of_all() -> None:
    planned = plan([directory(partition("t", 0, None), partition("t", 1, ID_B))], 1)
    assert planned.topics[0].topic_id == ID_B


def test_partitions_of_two_topics_of_one_name_are_refused() -> None:
    with pytest.raises(InconsistentMetadata, match=r"/a/t-1.*another topic 't' than /a/t-0"):
        plan([directory(partition("t", 0, ID_A), partition("t", 1, ID_B))], 1)


def test_a_partition_in_two_directories_is_refused() -> None:
    with pytest.raises(LogsContradict, match=r"t-0 is also in /a: remove one"):
        plan([directory(partition("t", 0), path="/a"), directory(partition("t", 0), path="/b")], 1)


def test_directories_of_two_clusters_are_refused() -> None:
    with pytest.raises(InconsistentMetadata, match=r"cluster.id is other, and .* in /a/meta.properties"):
        plan([directory(path="/a"), directory(path="/b", cluster_id="other")], 1)


def test_a_directory_of_another_broker_is_refused_with_both_ids_and_what_to_do() -> None:
    with pytest.raises(
        ConfigError, match=r"/a/meta.properties belongs to broker 5, and this broker is 1.*--set broker.id=5"
    ):
        plan([directory(broker_id=5)], 1)


def test_a_directory_that_does_not_say_whose_it_is_is_taken() -> None:
    planned = plan([FoundDirectory("/a", None, (partition("t", 0),)), directory(broker_id=None, cluster_id=None)], 1)
    assert (planned.cluster_id, len(planned.topics)) == (None, 1)


def test_the_leader_epoch_goes_on_with_the_last_one_and_a_missing_partition_begins_with_0() -> None:
    topic = FoundTopic("t", ID_A, 3, {0: 4, 2: -1})
    writes = {write.path: write.data for write in operations(topic, {}, BROKER, ID_B)}  # type: ignore[union-attr]
    states = [
        PartitionState.decode(key, writes[partition_state_path(key)])
        for key in (TopicPartition("t", number) for number in range(3))
    ]
    assert [(state.leader, state.leader_epoch, state.isr) for state in states] == [
        (1, 4, (1,)),
        (1, 0, (1,)),
        (1, 0, (1,)),
    ]
    assignment = TopicAssignment.decode("t", writes[topic_path("t")])
    assert (assignment.topic_id, dict(assignment.partitions)) == (ID_A, {0: (1,), 1: (1,), 2: (1,)})


def test_a_topic_without_an_id_gets_the_one_that_was_drawn() -> None:
    writes = {write.path: write.data for write in operations(FoundTopic("t", None, 1, {}), {}, BROKER, ID_B)}  # type: ignore[union-attr]
    assert TopicAssignment.decode("t", writes[topic_path("t")]).topic_id == ID_B


@pytest.mark.setting(
    "offsets.topic.segment.bytes", "transaction.state.log.segment.bytes", "transaction.state.log.min.isr"
)
def test_adopted_topics_keep_their_records_and_internal_ones_are_compacted() -> None:
    config = BrokerConfig.from_properties({})
    assert settings_of("orders", config) == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert settings_of("__transaction_state", config) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": str(100 << 20),
        "unclean.leader.election.enable": "false",
    }
    assert settings_of("__consumer_offsets", config) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


# -- when


@pytest.mark.parametrize(
    ("planned", "cluster_id", "topics", "unknown"),
    [
        (Plan(OLD_CLUSTER, ()), None, [], True),
        (Plan(None, ()), None, [], True),
        # Broken off half-way: /cluster/id comes last.
        (Plan(OLD_CLUSTER, ()), None, ["t"], True),
        # Somebody started an empty broker before the directories were put in its place.
        (Plan(OLD_CLUSTER, ()), "new", [], True),
        # All topics were deleted: they do not come back.
        (Plan(OLD_CLUSTER, ()), OLD_CLUSTER, [], False),
        (Plan(None, ()), "new", [], False),
        (Plan(OLD_CLUSTER, ()), "new", ["t"], False),
    ],
)
def test_only_a_tree_that_serves_nobody_is_filled(
    planned: Plan, cluster_id: str | None, topics: list[str], unknown: bool
) -> None:
    assert is_unknown(planned, cluster_id=cluster_id, topics=topics) is unknown


# -- what is a partition


@pytest.mark.parametrize("name", ["t-0", "a.b_c-d-12", "__consumer_offsets-49", f"t-{MAX_PARTITIONS - 1}"])
def test_a_directory_with_a_log_is_a_partition(name: str) -> None:
    assert is_partition_directory(name, ["00000000000000000000.log", "leader-epoch-checkpoint"])
    assert is_partition_directory(name, ["partition.metadata"])
    assert is_partition_directory(name, [])


@pytest.mark.parametrize(
    "name",
    [
        "t",
        "-0",
        "t-00",
        "t-007",
        "t-x",
        "lost+found-1",
        "t-0.5ab-delete",
        "t-0.5ab-future",
        "t-0.5ab-stray",
        "__cluster_metadata-0",
        f"t-{MAX_PARTITIONS}",
        "a" * 250 + "-0",
    ],
)
def test_a_directory_of_another_name_is_none(name: str) -> None:
    assert not is_partition_directory(name, ["00000000000000000000.log", "partition.metadata"])


@pytest.mark.parametrize("files", [["app.log"], ["0.log"], ["0000000000000000000x.log"], ["notes.txt"]])
def test_a_directory_without_a_log_is_none(files: list[str]) -> None:
    assert not is_partition_directory("backup-2024", files)


# -- reading directories


def written(
    home: Path, name: str, *, topic_id: uuid.UUID | None = ID_A, epochs: str | None = "0\n1\n0 0\n", log: bytes = b""
) -> Path:
    path = home / name
    path.mkdir(parents=True)
    (path / "00000000000000000000.log").write_bytes(log)
    if topic_id is not None:
        (path / "partition.metadata").write_bytes(format_partition_metadata(topic_id))
    if epochs is not None:
        (path / "leader-epoch-checkpoint").write_text(epochs)
    return path


def owned(home: Path, broker_id: int = 1, cluster_id: str = OLD_CLUSTER) -> Path:
    home.mkdir(exist_ok=True)
    (home / "meta.properties").write_bytes(format_meta_properties(MetaProperties(broker_id, cluster_id)))
    return home


def batch(base_offset: int, leader_epoch: int) -> bytes:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    data = bytearray(builder.build(base_offset=base_offset))
    data[12:16] = leader_epoch.to_bytes(4, "big")
    return bytes(data)


def found(*homes: Path) -> list[FoundDirectory]:
    return survey(LocalFileSystem(), [str(home) for home in homes])


def test_what_partitions_say_of_themselves_is_read(tmp_path: Path) -> None:
    epochs = format_epochs([EpochEntry(2, 0), EpochEntry(5, 10)]).decode()
    written(owned(tmp_path), "t-1", epochs=epochs)
    written(tmp_path, "__cluster_metadata-0")
    written(tmp_path, "t-0.abc-delete")
    (tmp_path / "u-0").mkdir()
    (tmp_path / "t-2").write_text("a file")
    assert found(tmp_path) == [
        FoundDirectory(
            str(tmp_path),
            MetaProperties(1, OLD_CLUSTER),
            (partition("t", 1, leader_epoch=5), FoundPartition(TopicPartition("u", 0), None, -1, False)),
        )
    ]


@pytest.mark.parametrize("epochs", [None, "0\n1\n", "", "0\n0\n", f"0\n1\n{2**31} 0\n"])
def test_without_a_checkpoint_the_last_epoch_is_that_of_the_last_batch(tmp_path: Path, epochs: str | None) -> None:
    path = written(tmp_path, "t-0", epochs=epochs, log=batch(0, 3))
    (path / "00000000000000000001.log").write_bytes(batch(1, 4) + batch(2, 6) + batch(3, 8)[:40])
    (path / "00000000000000000004.log").write_bytes(b"")
    assert found(tmp_path)[0].partitions[0].leader_epoch == 6


@pytest.mark.parametrize("message_format", [0, 1])
def test_records_of_an_older_format_are_refused_before_anything_is_loaded(tmp_path: Path, message_format: int) -> None:
    path = written(tmp_path, "t-0", log=batch(0, 3))
    old = bytearray(batch(1, 3))
    old[16] = message_format
    (path / "00000000000000000001.log").write_bytes(old)
    with pytest.raises(
        StorageError, match=rf"00000000000000000001.log: has records in message format {message_format}"
    ):
        found(tmp_path)


def test_without_records_there_is_no_epoch(tmp_path: Path) -> None:
    written(tmp_path, "t-0", epochs=None)
    assert found(tmp_path)[0].partitions[0].leader_epoch == -1


def test_a_topic_id_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (written(tmp_path, "t-0") / "partition.metadata").write_text("version: 0\ntopic_id: ???")
    with structlog.testing.capture_logs() as lines:
        assert found(tmp_path)[0].partitions[0].topic_id is None
    assert [line["event"] for line in lines] == ["topic id unknown"]


def test_a_directory_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "missing") == []


def test_a_directory_that_is_in_use_is_not_read(tmp_path: Path) -> None:
    written(tmp_path, "t-0")
    with_lock = LocalFileSystem().lock(str(tmp_path / ".lock"))
    with pytest.raises(LogDirectoryLocked):
        found(tmp_path)
    with_lock.close()
    found(tmp_path)


class BrokenDisk(LocalFileSystem):
    """Cannot list `broken`."""

    def __init__(self, broken: Path) -> None:
        self.broken = str(broken)

    def list_files(self, path: str) -> list[str]:
        return self._good(path, super().list_files)

    def list_directories(self, path: str) -> list[str]:
        return self._good(path, super().list_directories)

    def _good(self, path: str, listed: Callable[[str], list[str]]) -> list[str]:
        if path == self.broken:
            raise StorageError(path, "Input/output error")
        return listed(path)


def test_one_unreadable_directory_beside_one_with_partitions_stops_the_adoption(tmp_path: Path) -> None:
    bad, good = owned(tmp_path / "bad"), owned(tmp_path / "good")
    assert survey(BrokenDisk(bad), [str(bad), str(good)]) == found(good)
    written(good, "t-0")
    with pytest.raises(StorageError, match="Input/output error"):
        survey(BrokenDisk(bad), [str(bad), str(good)])


def test_an_unreadable_partition_stops_the_adoption(tmp_path: Path) -> None:
    written(tmp_path, "t-0")
    with pytest.raises(StorageError, match="Input/output error"):
        survey(BrokenDisk(written(tmp_path, "t-1")), [str(tmp_path), str(tmp_path.parent)])


def test_garbage_in_meta_properties_stops_the_adoption(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=9\n")
    with pytest.raises(InconsistentMetadata, match="version '9'"):
        found(tmp_path)


def test_the_broker_id_is_found_in_the_first_directory_that_says(tmp_path: Path) -> None:
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "meta.properties").write_text("version=9\n")
    homes = [tmp_path / "missing", tmp_path / "garbage", owned(tmp_path / "b", 4), owned(tmp_path / "c", 5)]
    assert recorded_broker_id(LocalFileSystem(), [str(home) for home in homes]) == 4
    assert recorded_broker_id(LocalFileSystem(), [str(home) for home in homes[:2]]) is None


# -- the flow


Scenario = Callable[[LocalZooKeeper], Awaitable[None]]


def with_zookeeper(tmp_path: Path, scenario: Scenario) -> None:
    async def main() -> None:
        directory = str(tmp_path / "zookeeper")
        database = Database.open(LocalFileSystem(), directory, DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: NOW_MS, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        zookeeper = await server.connect()
        await zookeeper.multi([Create(path) for path in PERSISTENT_PATHS if await zookeeper.exists(path) is None])
        try:
            await scenario(zookeeper)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def adopted(zookeeper: LocalZooKeeper, *homes: Path) -> Plan | None:
    config = BrokerConfig.from_properties({"log.dirs": ",".join(map(str, homes)), "broker.id": "1"})
    return await adopt(zookeeper, LocalFileSystem(), config, BROKER, random.Random(2))


async def registered_id(zookeeper: LocalZooKeeper) -> str:
    return ClusterId.decode((await zookeeper.get(CLUSTER_ID_PATH))[0]).id


def test_topics_settings_and_cluster_id_are_registered(tmp_path: Path) -> None:
    home = owned(tmp_path / "logs")
    written(home, "t-0", epochs="0\n1\n9 0\n")
    written(home, "t-2")

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        before = sorted(str(path) for path in home.rglob("*"))
        with structlog.testing.capture_logs() as lines:
            await adopted(zookeeper, home)
        assert [(line["event"], line.get("partitions")) for line in lines] == [
            ("topics adopted", 3),
            ("partitions without a log", [1]),
        ]
        assert sorted(str(path) for path in home.rglob("*") if path.name != ".lock") == before
        assert await registered_id(zookeeper) == OLD_CLUSTER
        data, _ = await zookeeper.get(topic_path("t"))
        assert TopicAssignment.decode("t", data).topic_id == ID_A
        data, _ = await zookeeper.get(topic_config_path("t"))
        assert ConfigEntity.decode("topics/t", data).config["retention.ms"] == "-1"
        data, _ = await zookeeper.get(partition_state_path(TopicPartition("t", 0)))
        assert PartitionState.decode(TopicPartition("t", 0), data).leader_epoch == 9

    with_zookeeper(tmp_path, scenario)


def test_a_tree_that_knows_topics_is_left_as_it_is(tmp_path: Path) -> None:
    home = owned(tmp_path / "logs")
    written(home, "t-0")

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await adopted(zookeeper, home)
        written(home, "stray-0")
        assert await adopted(zookeeper, home) is None
        assert await zookeeper.exists(topic_path("stray")) is None

    with_zookeeper(tmp_path, scenario)


def test_a_deleted_topic_whose_log_is_still_there_does_not_come_back(tmp_path: Path) -> None:
    home = owned(tmp_path / "logs")

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await adopted(zookeeper, home)
        written(home, "t-0")
        assert await adopted(zookeeper, home) is None
        assert await zookeeper.exists(topic_path("t")) is None

    with_zookeeper(tmp_path, scenario)


def test_a_cluster_id_that_served_nobody_gives_way(tmp_path: Path) -> None:
    home = owned(tmp_path / "logs")
    written(home, "t-0")

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await zookeeper.create(CLUSTER_ID_PATH, ClusterId("new").encode())
        await adopted(zookeeper, home)
        assert await registered_id(zookeeper) == OLD_CLUSTER

    with_zookeeper(tmp_path, scenario)


class BreaksOff:
    """A session that is lost before its n-th multi, or after it is carried out but before it is answered."""

    def __init__(self, zookeeper: LocalZooKeeper, at: int, *, carried_out: bool) -> None:
        self._zookeeper = zookeeper
        self._left = at
        self._carried_out = carried_out

    def __getattr__(self, name: str) -> object:
        return getattr(self._zookeeper, name)

    async def multi(self, wanted: list[Operation]) -> list[OperationResult]:
        self._left -= 1
        if self._left:
            return await self._zookeeper.multi(wanted)
        if self._carried_out:
            await self._zookeeper.multi(wanted)
        raise ConnectionLoss()


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize("carried_out", [False, True])
def test_an_answer_that_is_lost_is_made_up_for(tmp_path: Path, at: int, carried_out: bool) -> None:
    home = owned(tmp_path / "logs")
    for name in ("a-0", "b-0"):
        written(home, name)

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await zookeeper.create(CLUSTER_ID_PATH, ClusterId("new").encode())
        await adopted(BreaksOff(zookeeper, at, carried_out=carried_out), home)  # type: ignore[arg-type]
        assert await registered_id(zookeeper) == OLD_CLUSTER
        assert await zookeeper.children("/brokers/topics") == ["a", "b"]
        for name in ("a", "b"):
            assert await zookeeper.exists(partition_state_path(TopicPartition(name, 0))) is not None

    with_zookeeper(tmp_path, scenario)


def test_an_adoption_that_broke_off_goes_on_with_what_it_has_created(tmp_path: Path) -> None:
    home = owned(tmp_path / "logs")
    written(home, "a-0", topic_id=None, epochs="0\n1\n3 0\n")
    written(home, "b-0")

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        first = list(operations(FoundTopic("a", None, 1, {0: 3}), {}, BROKER, ID_B))
        await zookeeper.multi(first[:-2])
        await adopted(zookeeper, home)
        data, _ = await zookeeper.get(topic_path("a"))
        assert TopicAssignment.decode("a", data).topic_id == ID_B
        data, _ = await zookeeper.get(partition_state_path(TopicPartition("a", 0)))
        assert PartitionState.decode(TopicPartition("a", 0), data).leader_epoch == 3
        assert await zookeeper.exists(topic_path("b")) is not None

    with_zookeeper(tmp_path, scenario)


def test_a_topic_of_as_many_partitions_as_there_may_be_is_registered(tmp_path: Path) -> None:
    home = owned(tmp_path / "logs")
    written(home, f"t-{MAX_PARTITIONS - 1}")
    written(home, f"u-{MAX_PARTITIONS}")

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await adopted(zookeeper, home)
        assert await zookeeper.children("/brokers/topics") == ["t"]
        assert len(await zookeeper.children("/brokers/topics/t/partitions")) == MAX_PARTITIONS

    with_zookeeper(tmp_path, scenario)


# -- claims


def test_a_topic_claims_its_own_partitions_only(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await zookeeper.multi(list(operations(FoundTopic("t", ID_A, 2, {}), {}, BROKER, ID_B)))
        await zookeeper.create(topic_path("unreadable"), b"{")
        claims = await Claims.read(zookeeper, BROKER, ["t", "unreadable", "gone"])
        claimed = [("t", 0), ("t", 1), ("unreadable", 5)]
        strays = [("t", 2), ("gone", 0), ("other", 0)]
        assert all(claims.include(TopicPartition(*one)) for one in claimed)
        assert not any(claims.include(TopicPartition(*one)) for one in strays)
        # Another broker has no replica of it any more.
        others = await Claims.read(zookeeper, BROKER + 1, ["t", "unreadable"])
        assert not others.include(TopicPartition("t", 0))
        assert others.include(TopicPartition("unreadable", 5))

    with_zookeeper(tmp_path, scenario)
