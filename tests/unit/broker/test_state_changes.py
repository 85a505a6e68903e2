"""What the controller says: which messages still count, and what a broker serves and tells after each."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogSettings
from kavka.broker.late import Late
from kavka.broker.metadata.controller_messages import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    MAX_PARTITION_INDEX,
)
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, Endpoint, MetadataCache
from kavka.broker.metadata.state_changes import FULL_UPDATE, Hosted, StateChangePorts, StateChanges
from kavka.broker.settings.topic_settings import log_config
from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.errors import ErrorCode, RequestError, StorageError
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import NO_LEADER, BrokerId, GoneTopic, TopicPartition
from kavka.protocol.messages.leader_and_isr_request import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kavka.protocol.messages.stop_replica_request import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kavka.protocol.messages.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kavka.records.builder import BatchBuilder
from kavka.replication.decide.fetch_state import Followed
from kavka.replication.decide.fetching import FetchParams, FetchSpec
from kavka.replication.decide.replica import BrokerStatus
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from kavka.runtime.disk import LocalFileSystem
from tests.kit.group_surroundings import group_surroundings

OWN, OTHER, THIRD = 1, 2, 3
BROKER_EPOCH = 50
CONTROLLER_EPOCH = 7
ORDERS = uuid.UUID(int=11)
ORDERS_AGAIN = uuid.UUID(int=12)
OTHER_TOPIC = uuid.UUID(int=77)
NOW_MS = 1_700_000_000_000
ORDERS_0 = TopicPartition("orders", 0)


class Settings:
    """Topics that set what a test says."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.overrides: dict[str, str] = {}
        self.count = 2
        """Partitions of every topic, as ZooKeeper has them."""
        self.counted: list[str] = []

    def topic(self, name: str) -> TopicConfig:
        return TopicConfig(self.overrides, self._config)

    async def require_topics(self, names: Iterable[str]) -> None:
        pass

    async def partition_count(self, name: str) -> int:
        self.counted.append(name)
        return self.count

    def forget_topic(self, name: str) -> None:
        pass


class Fetching:
    """What is fetched from whom: partition -> (leader, leader epoch)."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, tuple[int, int]] = {}
        self.endpoints: dict[BrokerId, Endpoint] = {}

    def follow(self, items: Sequence[Followed]) -> None:
        for partition, leader, leader_epoch in items:
            self.followed[partition.topic_partition] = (leader, leader_epoch)

    def unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self.followed.pop(topic_partition, None)

    def set_endpoints(self, endpoints: Mapping[BrokerId, Endpoint]) -> None:
        self.endpoints = dict(endpoints)


class Transactions:
    """Stands for the transaction coordinator: what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.partition_count = 0

    def set_partition_count(self, count: int) -> None:
        self.partition_count = count
        self.told.append(("count", count))

    async def load(self, partition: int, leader_epoch: int) -> None:
        self.told.append(("load", partition, leader_epoch))

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        self.told.append(("unload", partition, leader_epoch))

    def forget(self, partition: int) -> None:
        self.told.append(("forget", partition))


class Room:
    """A broker's state changes on a real disk, with what they act on."""

    def __init__(
        self, path: Path, *, recorder: Any = None, disk: LocalFileSystem | None = None, more: tuple[Path, ...] = ()
    ) -> None:
        config = BrokerConfig.from_properties({"broker.id": str(OWN), "log.dirs": str(path)})
        loop = asyncio.get_running_loop()
        self.storage_errors: list[StorageError] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.metadata = MetadataCache("cluster")
        self.replicas = ReplicaManager(loop, ReplicaPorts(self.storage_errors.append))
        self.logs = LogManager(
            disk or LocalFileSystem(),
            [str(directory) for directory in (path, *more)],
            LogManagerSettings(),
            lambda topic: log_config(TopicConfig({}, config)),
        )
        self.logs.load(NOW_MS)
        self.groups = GroupCoordinator(
            loop,
            CoordinatorLog(
                GROUP_METADATA_TOPIC,
                self.replicas,
                CoordinatorLogSettings(load_bytes=1 << 20, commit_timeout_ms=100),
                wall_ms=lambda: NOW_MS,
                on_storage_error=self.storage_errors.append,
            ),
            group_surroundings(),
            offset_metadata_max_bytes=4096,
        )
        self.transactions, self.share_states = Transactions(), Transactions()
        self.fetching = Fetching()
        self.settings = Settings(config)
        self.gone: set[uuid.UUID] = set()
        """Topics that the controller has said are deleted."""
        self.changes = StateChanges(
            BrokerId(OWN),
            "PLAINTEXT",
            Hosted(
                self.metadata,
                self.replicas,
                self.logs,
                Late(lambda: self.groups),
                Late(lambda: self.transactions),
                Late(lambda: self.share_states),
            ),
            StateChangePorts(
                topics=self.settings,
                new_fetchers=lambda: self.fetching,
                broker_epoch=lambda: BROKER_EPOCH,
                wall_ms=lambda: NOW_MS,
                on_storage_error=self.storage_errors.append,
                spawn=self._spawn,
                on_topics_deleted=self.on_topics_deleted,
            ),
            recorder=recorder,
        )

    async def on_topics_deleted(self, topic_ids: frozenset[uuid.UUID]) -> None:
        self.gone |= topic_ids

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def settled(self) -> None:
        while self.tasks:
            await self.tasks.pop()

    # -- the messages

    async def lead(
        self,
        *,
        leader: int = OWN,
        leader_epoch: int = 0,
        partition: int = 0,
        topic: str = "orders",
        topic_id: uuid.UUID = ORDERS,
        replicas: Sequence[int] = (OWN,),
        controller_epoch: int = CONTROLLER_EPOCH,
        broker_epoch: int = BROKER_EPOCH,
        is_new: bool = False,
    ) -> ErrorCode:
        """LeaderAndIsr for one partition: the error of the whole, or the partition's."""
        state = LeaderAndIsrPartitionState(
            partition_index=partition,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=[leader],
            replicas=list(replicas),
            is_new=is_new,
        )
        request = LeaderAndIsrRequest(
            controller_id=THIRD,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=[state])],
        )
        error, errors = await self.changes.leader_and_isr(request)
        return error if error is not ErrorCode.NONE else errors[TopicPartition(topic, partition)]

    async def publish(
        self,
        leaders: Mapping[int, int],
        *,
        leader_epoch: int = 0,
        topic: str = "orders",
        topic_id: uuid.UUID = ORDERS,
        controller_epoch: int = CONTROLLER_EPOCH,
        broker_epoch: int = BROKER_EPOCH,
        kind: int = 0,
        live: Sequence[int] = (OWN, OTHER, THIRD),
        leaving: Sequence[int] = (),
    ) -> ErrorCode:
        """UpdateMetadata: partition -> leader of one topic."""
        states = [
            UpdateMetadataPartitionState(
                partition_index=partition, leader=leader, leader_epoch=leader_epoch, isr=[OWN], replicas=[OWN, OTHER]
            )
            for partition, leader in leaders.items()
        ]
        return await self.changes.update_metadata(
            UpdateMetadataRequest(
                controller_id=THIRD,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                type=kind,
                topic_states=[UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)],
                live_brokers=[
                    UpdateMetadataBroker(
                        id=broker_id,
                        endpoints=[UpdateMetadataEndpoint(host="here", port=9000 + broker_id, listener="PLAINTEXT")],
                        rack=None,
                        kavka_is_shutting_down=broker_id in leaving,
                    )
                    for broker_id in live
                ],
            )
        )

    async def stop(
        self,
        *,
        leader_epoch: int = 0,
        delete: bool = True,
        partition: int = 0,
        controller_epoch: int = CONTROLLER_EPOCH,
        broker_epoch: int = BROKER_EPOCH,
    ) -> ErrorCode:
        """StopReplica for one partition of orders."""
        state = StopReplicaPartitionState(partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete)
        error, errors = await self.changes.stop_replica(
            StopReplicaRequest(
                controller_id=THIRD,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=[state])],
            )
        )
        return error if error is not ErrorCode.NONE else errors[TopicPartition("orders", partition)]

    def leader(self, partition: int = 0) -> int:
        """Whom clients are told."""
        known = self.metadata.partition("orders", partition)
        assert known is not None
        return known.state.leader


def runs(path: Path, scenario: Callable[[Room], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Room(path))

    asyncio.run(asyncio.wait_for(run(), 60))


def strays(path: Path) -> list[str]:
    return [entry.name for entry in path.iterdir() if entry.name.endswith("-stray")]


# -- which messages count


def test_messages_for_a_former_registration_change_nothing(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        old = BROKER_EPOCH - 1
        assert await room.lead(broker_epoch=old) is ErrorCode.STALE_BROKER_EPOCH
        assert await room.publish({0: OWN}, broker_epoch=old) is ErrorCode.STALE_BROKER_EPOCH
        assert room.replicas.partition(*ORDERS_0) is None
        assert room.metadata.topic("orders") is None
        assert await room.lead() is ErrorCode.NONE
        assert await room.stop(broker_epoch=old) is ErrorCode.STALE_BROKER_EPOCH
        assert room.logs.get(ORDERS_0) is not None

    runs(tmp_path, scenario)


def test_a_registration_that_the_controller_saw_first_and_none_at_all_pass(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(broker_epoch=BROKER_EPOCH + 1) is ErrorCode.NONE
        assert await room.lead(leader_epoch=1, broker_epoch=-1) is ErrorCode.NONE

    runs(tmp_path, scenario)


def test_messages_of_a_former_controller_change_nothing(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(leader_epoch=3) is ErrorCode.NONE
        assert await room.publish({0: OWN}, leader_epoch=3) is ErrorCode.NONE
        former = CONTROLLER_EPOCH - 1
        stale = ErrorCode.STALE_CONTROLLER_EPOCH
        assert await room.lead(leader=OTHER, leader_epoch=4, replicas=(OWN, OTHER), controller_epoch=former) is stale
        assert await room.publish({0: OTHER}, leader_epoch=4, controller_epoch=former) is stale
        assert await room.stop(leader_epoch=4, controller_epoch=former) is stale
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert hosted.is_leader
        assert room.leader() == OWN

    runs(tmp_path, scenario)


# -- LeaderAndIsr


def test_a_partition_is_led_once_its_log_is_there(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead() is ErrorCode.NONE
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert hosted.is_leader
        assert (tmp_path / "orders-0").is_dir()

    runs(tmp_path, scenario)


def test_the_same_leader_epoch_again_is_taken_and_an_older_one_is_not(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(leader_epoch=5) is ErrorCode.NONE
        # A new controller repeats what the one before it may not have sent.
        assert await room.lead(leader_epoch=5, controller_epoch=CONTROLLER_EPOCH + 1) is ErrorCode.NONE
        late = await room.lead(leader_epoch=4, controller_epoch=CONTROLLER_EPOCH + 1)
        assert late is ErrorCode.STALE_CONTROLLER_EPOCH
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert hosted.leader_epoch == 5

    runs(tmp_path, scenario)


def test_a_partition_without_a_replica_here_is_refused(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        error = await room.lead(leader=OTHER, replicas=(OTHER, THIRD))
        assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert room.logs.get(ORDERS_0) is None

    runs(tmp_path, scenario)


def test_a_topic_created_anew_does_not_take_over_the_former_ones_replica(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(leader_epoch=9) is ErrorCode.NONE
        assert await room.lead(topic_id=ORDERS_AGAIN) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert await room.stop(leader_epoch=EPOCH_DURING_DELETE) is ErrorCode.NONE
        # Its epochs begin with 0 again.
        assert await room.lead(topic_id=ORDERS_AGAIN) is ErrorCode.NONE

    runs(tmp_path, scenario)


def test_a_topic_that_gets_an_id_when_the_cluster_learns_of_ids_is_served_by_it(tmp_path: Path) -> None:
    # While inter.broker.protocol.version is below 2.8, a controller of Apache Kafka names topics by their names alone.
    # When it is raised, the controller gives each topic an id, and says so in the leader epoch that is known already.
    async def scenario(room: Room) -> None:
        assert await room.lead(leader_epoch=4, topic_id=uuid.UUID(int=0)) is ErrorCode.NONE
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert await room.lead(leader_epoch=4) is ErrorCode.NONE
        assert room.replicas.partition(*ORDERS_0) is hosted
        assert (hosted.topic_id, hosted.log.topic_id) == (ORDERS, ORDERS)
        assert room.replicas.topic_name(ORDERS) == "orders"
        spec = FetchSpec(ORDERS_0, ORDERS, 0, 1 << 20)
        (outcome,) = room.replicas.read(FetchParams(0, 1, 1 << 20, read_committed=False), [spec])
        assert outcome.error is ErrorCode.NONE
        assert await room.lead(leader_epoch=4, topic_id=uuid.UUID(int=0)) is ErrorCode.NONE
        assert await room.lead(leader_epoch=4, topic_id=ORDERS_AGAIN) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert await room.stop(leader_epoch=EPOCH_DURING_DELETE) is ErrorCode.NONE
        assert room.replicas.topic_name(ORDERS) is None

    runs(tmp_path, scenario)


def test_a_log_that_a_crash_left_of_a_former_topic_is_set_aside(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.logs.get_or_create(ORDERS_0, ORDERS, NOW_MS)
        assert await room.lead(topic_id=ORDERS_AGAIN) is ErrorCode.NONE
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert hosted.topic_id == ORDERS_AGAIN
        assert len(strays(tmp_path)) == 1

    runs(tmp_path, scenario)


def test_a_failed_log_directory_is_answered_for_its_partitions(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead() is ErrorCode.NONE
        assert await room.publish({0: OWN}) is ErrorCode.NONE
        room.changes.take_offline([ORDERS_0])
        assert room.leader() == NO_LEADER
        assert await room.lead(leader_epoch=1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await room.stop(leader_epoch=1) is ErrorCode.KAFKA_STORAGE_ERROR
        # And it is not named as a leader by what the controller says before it knows.
        assert await room.publish({0: OWN}, leader_epoch=1) is ErrorCode.NONE
        published = room.metadata.partition(*ORDERS_0)
        assert published is not None
        assert published.state.leader == NO_LEADER
        assert published.offline_replicas == (OWN,)

    runs(tmp_path, scenario)


class FailingToMake(LocalFileSystem):
    """Makes no directory of a log in these log directories."""

    def __init__(self, *directories: Path) -> None:
        self.failing = [str(path) for path in directories]

    def make_new_directory(self, path: str) -> bool:
        if path.rpartition("/")[0] in self.failing:
            raise StorageError(path, "input/output error")
        return super().make_new_directory(path)


@pytest.mark.parametrize(
    ("failing", "is_new", "expected"),
    [
        ("a", True, ErrorCode.NONE),
        ("ab", True, ErrorCode.NONE),
        ("abc", True, ErrorCode.KAFKA_STORAGE_ERROR),
        ("a", False, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_new_partition_goes_to_another_disk_where_one_fails(
    tmp_path: Path, failing: str, is_new: bool, expected: ErrorCode
) -> None:
    """One that is not new may lie on the disk that failed."""
    homes = [tmp_path / name for name in "abc"]
    failed = [tmp_path / name for name in failing]

    async def scenario() -> None:
        room = Room(homes[0], disk=FailingToMake(*failed), more=(homes[1], homes[2]))
        assert await room.lead(is_new=is_new) is expected
        assert [error.path for error in room.storage_errors][: len(failed)] == [f"{path}/orders-0" for path in failed]
        assert list(room.logs.offline_directories) == [str(path) for path in failed]
        hosted = room.replicas.partition(*ORDERS_0)
        if expected is ErrorCode.NONE:
            assert hosted is not None
            assert hosted.log.directory == str(homes[len(failed)] / "orders-0")
        else:
            assert hosted is None

    asyncio.run(scenario())


# -- following


def test_a_follower_fetches_from_its_leader_in_the_leaders_epoch(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        assert await room.lead(leader=OTHER, leader_epoch=3, replicas=(OTHER, OWN)) is ErrorCode.NONE
        assert room.fetching.followed == {ORDERS_0: (OTHER, 3)}
        assert room.fetching.endpoints[BrokerId(OTHER)] == Endpoint("here", 9000 + OTHER)
        assert await room.lead(leader=THIRD, leader_epoch=4, replicas=(THIRD, OWN)) is ErrorCode.NONE
        assert room.fetching.followed == {ORDERS_0: (THIRD, 4)}

    runs(tmp_path, scenario)


def test_who_leads_or_has_no_leader_fetches_nothing(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = (OTHER, OWN)
        assert await room.lead(leader=OTHER, leader_epoch=3, replicas=replicas) is ErrorCode.NONE
        assert await room.lead(leader=OWN, leader_epoch=4, replicas=replicas) is ErrorCode.NONE
        assert room.fetching.followed == {}
        assert await room.lead(leader=OTHER, leader_epoch=5, replicas=replicas) is ErrorCode.NONE
        assert await room.lead(leader=NO_LEADER, leader_epoch=6, replicas=replicas) is ErrorCode.NONE
        assert room.fetching.followed == {}

    runs(tmp_path, scenario)


def test_a_stopped_or_offline_replica_fetches_nothing(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = (OTHER, OWN)
        assert await room.lead(leader=OTHER, leader_epoch=3, replicas=replicas) is ErrorCode.NONE
        assert await room.stop(leader_epoch=3, delete=False) is ErrorCode.NONE
        assert room.fetching.followed == {}
        # It is still here, and follows again when it is told to.
        assert await room.lead(leader=OTHER, leader_epoch=4, replicas=replicas) is ErrorCode.NONE
        assert room.fetching.followed == {ORDERS_0: (OTHER, 4)}
        room.changes.take_offline([ORDERS_0])
        assert room.fetching.followed == {}

    runs(tmp_path, scenario)


def test_a_late_order_to_follow_stops_no_leader(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = (OWN, OTHER)
        assert await room.lead(leader_epoch=5, replicas=replicas) is ErrorCode.NONE
        late = await room.lead(leader=OTHER, leader_epoch=4, replicas=replicas)
        assert late is ErrorCode.STALE_CONTROLLER_EPOCH
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert hosted.is_leader
        assert room.fetching.followed == {}

    runs(tmp_path, scenario)


def test_where_brokers_are_reached_is_told_to_who_fetches(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(leader=OTHER, leader_epoch=3, replicas=(OTHER, OWN)) is ErrorCode.NONE
        assert room.fetching.endpoints == {}
        assert await room.publish({0: OTHER}, leader_epoch=3) is ErrorCode.NONE
        assert set(room.fetching.endpoints) == {OWN, OTHER, THIRD}

    runs(tmp_path, scenario)


def test_the_same_epoch_again_keeps_a_stopped_fetcher_going(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = (OTHER, OWN)
        assert await room.lead(leader=OTHER, leader_epoch=3, replicas=replicas) is ErrorCode.NONE
        assert await room.stop(leader_epoch=3, delete=False) is ErrorCode.NONE
        assert await room.lead(leader=OTHER, leader_epoch=3, replicas=replicas) is ErrorCode.NONE
        assert room.fetching.followed == {ORDERS_0: (OTHER, 3)}

    runs(tmp_path, scenario)


# -- UpdateMetadata


def test_a_leader_that_does_not_serve_yet_is_not_told_to_clients(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.publish({0: OWN, 1: OTHER}, leader_epoch=2) is ErrorCode.NONE
        assert (room.leader(0), room.leader(1)) == (NO_LEADER, OTHER)
        assert await room.lead(leader_epoch=1) is ErrorCode.NONE
        assert room.leader() == NO_LEADER
        assert await room.lead(leader_epoch=2) is ErrorCode.NONE
        assert room.leader() == OWN

    runs(tmp_path, scenario)


def test_what_is_held_back_gives_way_to_later_news(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.publish({0: OWN}, leader_epoch=2) is ErrorCode.NONE
        assert await room.publish({0: OTHER}, leader_epoch=3) is ErrorCode.NONE
        assert await room.lead(leader_epoch=2) is ErrorCode.NONE
        assert room.leader() == OTHER

    runs(tmp_path, scenario)


def test_brokers_and_the_controller_are_known_from_the_first_message_on(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert not room.changes.informed.is_set()
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        assert room.changes.informed.is_set()
        assert [broker.broker_id for broker in room.metadata.brokers()] == [OWN, OTHER, THIRD]
        assert room.metadata.endpoint(BrokerId(OTHER), "PLAINTEXT") == Endpoint("here", 9000 + OTHER)
        assert room.metadata.controller_id == THIRD

    runs(tmp_path, scenario)


def test_what_waits_for_a_replica_goes_on_when_its_broker_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[bool] = []

    async def scenario(room: Room) -> None:
        monkeypatch.setattr(room.replicas, "on_brokers_gone", lambda: looked_at.append(room.metadata.is_alive(OTHER)))
        for live, looks in [((OWN, OTHER), 0), ((OWN, OTHER, THIRD), 0), ((OWN, THIRD), 1), ((OWN, THIRD), 1)]:
            assert await room.publish({0: OWN}, live=live) is ErrorCode.NONE
            assert looked_at == [False] * looks

    runs(tmp_path, scenario)


def test_a_broker_that_is_about_to_stop_is_waited_for_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(room: Room) -> None:
        looks: list[BrokerStatus | None] = []
        monkeypatch.setattr(
            room.replicas, "on_brokers_gone", lambda: looks.append(room.metadata.status(BrokerId(OTHER)))
        )
        for leaving, count in [((), 0), ((OTHER,), 1), ((OTHER,), 1), ((), 1), ((OTHER,), 2)]:
            assert await room.publish({0: OWN}, leaving=leaving) is ErrorCode.NONE
            assert looks == [BrokerStatus(is_shutting_down=True)] * count
        assert room.metadata.is_alive(BrokerId(OTHER))
        assert room.metadata.status(BrokerId(THIRD)) == BrokerStatus()

    runs(tmp_path, scenario)


def test_who_lives_is_recorded_before_what_follows_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a replay waits on for who is gone, and differs."""
    told: list[object] = []
    recorder = SimpleNamespace(on_live_brokers=lambda live, leaving: told.append((list(live), list(leaving))))

    async def scenario() -> None:
        room = Room(tmp_path, recorder=recorder)
        monkeypatch.setattr(room.replicas, "on_brokers_gone", lambda: told.append("looks"))
        for live, leaving in [((OWN, OTHER), ()), ((OWN, OTHER), (OTHER,)), ((OWN,), ())]:
            await room.publish({}, live=live, leaving=leaving)
        assert told == [([OWN, OTHER], []), ([OWN, OTHER], [OTHER]), "looks", ([OWN], [])]

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("index", [2**30, MAX_PARTITION_INDEX + 1, -1, -(2**31)])
def test_a_partition_number_that_lies_costs_nothing_and_keeps_the_others(tmp_path: Path, index: int) -> None:
    """Found by the fuzzer: an UpdateMetadata with partition 2^30 held every client up for minutes."""

    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER, index: OTHER}) is ErrorCode.NONE
        topic = room.metadata.topic("orders")
        assert topic is not None
        assert len(topic.partitions) == 1
        assert await room.lead(partition=index) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await room.lead() is ErrorCode.NONE

    runs(tmp_path, scenario)
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()] == ["orders-0"]


@pytest.mark.parametrize("name", ["..", "../elsewhere", "no/such", "", "x" * 250, "\N{SNOWMAN}"])
def test_a_topic_name_that_is_none_makes_no_directory_and_no_metadata(tmp_path: Path, name: str) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(topic=name) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await room.publish({0: OTHER}, topic=name) is ErrorCode.NONE
        assert room.metadata.topic(name) is None

    (tmp_path / "a" / "b").mkdir(parents=True)
    runs(tmp_path / "a" / "b", scenario)
    assert sorted(entry.name for entry in tmp_path.rglob("*") if entry.is_dir()) == ["a", "b"]


def test_a_deleted_topic_is_gone_and_one_that_follows_it_stays(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER, 1: OTHER}) is ErrorCode.NONE
        assert await room.publish({0: LEADER_DURING_DELETE, 1: LEADER_DURING_DELETE}) is ErrorCode.NONE
        assert room.metadata.topic("orders") is None
        assert room.metadata.topic_name(ORDERS) is None
        assert await room.publish({0: OTHER}, topic_id=ORDERS_AGAIN) is ErrorCode.NONE
        assert await room.publish({0: LEADER_DURING_DELETE}) is ErrorCode.NONE
        assert room.metadata.topic_name(ORDERS_AGAIN) == "orders"
        await room.settled()

    runs(tmp_path, scenario)


def test_a_deleted_topic_is_gone_though_nothing_was_ever_heard_of_one_of_its_partitions(tmp_path: Path) -> None:
    """A partition that never had a leader is not announced, so nor is its deletion."""

    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER, 2: OTHER}) is ErrorCode.NONE
        assert await room.publish({0: LEADER_DURING_DELETE, 2: LEADER_DURING_DELETE}) is ErrorCode.NONE
        assert room.metadata.topic("orders") is None
        await room.settled()

    runs(tmp_path, scenario)


def test_a_topic_that_was_deleted_unheard_is_gone_with_the_next_controllers_whole_metadata(tmp_path: Path) -> None:
    """The seed: topic deleted, broker not reached, controller gone: no other ever had a reason to speak of it."""

    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        assert await room.publish({0: OTHER}, topic="other", topic_id=OTHER_TOPIC) is ErrorCode.NONE
        assert room.metadata.topic("orders") is not None
        assert await room.publish({0: OTHER}, topic="other", topic_id=OTHER_TOPIC, kind=FULL_UPDATE) is ErrorCode.NONE
        assert room.metadata.topic("orders") is None
        assert room.metadata.topic_name(ORDERS) is None
        assert room.metadata.topic("other") is not None
        await room.settled()

    runs(tmp_path, scenario)


def test_of_a_deleted_topic_the_id_is_told_and_of_a_name_that_another_topic_has(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        await room.settled()
        assert room.gone == set()
        assert await room.publish({0: OTHER}, topic_id=ORDERS_AGAIN) is ErrorCode.NONE
        await room.settled()
        assert room.gone == {ORDERS}
        assert await room.publish({0: LEADER_DURING_DELETE}, topic="other", topic_id=OTHER_TOPIC) is ErrorCode.NONE
        await room.settled()
        assert room.gone == {ORDERS, OTHER_TOPIC}, "this broker did not know it"

    runs(tmp_path, scenario)


def test_of_a_topic_that_is_not_in_the_whole_metadata_the_id_is_told(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        assert await room.publish({0: OTHER}, topic="other", topic_id=OTHER_TOPIC, kind=FULL_UPDATE) is ErrorCode.NONE
        await room.settled()
        assert room.gone == {ORDERS}

    runs(tmp_path, scenario)


def test_who_waits_for_a_topic_goes_on_when_it_comes(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert not await room.changes.await_topic("orders", 0.01)
        waiting = asyncio.ensure_future(room.changes.await_topic("orders", 10))
        await asyncio.sleep(0)
        assert await room.publish({0: OTHER}) is ErrorCode.NONE
        assert await waiting

    runs(tmp_path, scenario)


def test_forms_of_older_controllers_are_understood(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        state = LeaderAndIsrPartitionState(
            topic_name="orders", partition_index=0, leader=OWN, leader_epoch=0, isr=[OWN], replicas=[OWN]
        )
        error, errors = await room.changes.leader_and_isr(
            LeaderAndIsrRequest(controller_id=THIRD, controller_epoch=1, ungrouped_partition_states=[state])
        )
        assert (error, errors) == (ErrorCode.NONE, {ORDERS_0: ErrorCode.NONE})
        error = await room.changes.update_metadata(
            UpdateMetadataRequest(
                controller_id=THIRD,
                controller_epoch=1,
                ungrouped_partition_states=[
                    UpdateMetadataPartitionState(
                        topic_name="orders", partition_index=0, leader=OWN, leader_epoch=0, isr=[OWN], replicas=[OWN]
                    )
                ],
                live_brokers=[UpdateMetadataBroker(id=OWN, v0_host="here", v0_port=9001)],
            )
        )
        assert error is ErrorCode.NONE
        assert room.leader() == OWN
        assert room.metadata.endpoint(BrokerId(OWN), "PLAINTEXT") == Endpoint("here", 9001)
        stop_v1 = StopReplicaRequest(
            controller_epoch=1, topics=[StopReplicaTopicV1(name="orders", partition_indexes=[0])]
        )
        assert await room.changes.stop_replica(stop_v1) == (ErrorCode.NONE, {ORDERS_0: ErrorCode.NONE})
        assert room.logs.get(ORDERS_0) is not None
        stop_v0 = StopReplicaRequest(
            controller_epoch=1,
            delete_partitions=True,
            ungrouped_partitions=[StopReplicaPartitionV0(topic_name="orders", partition_index=0)],
        )
        assert await room.changes.stop_replica(stop_v0) == (ErrorCode.NONE, {ORDERS_0: ErrorCode.NONE})
        assert room.logs.get(ORDERS_0) is None

    runs(tmp_path, scenario)


# -- StopReplica


def test_a_late_stop_does_not_touch_a_replica_that_came_back(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead(leader_epoch=4) is ErrorCode.NONE
        assert await room.stop(leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH
        assert room.replicas.partition(*ORDERS_0) is not None
        # One in the epoch that it knows takes it out: it was reassigned in that epoch.
        assert await room.stop(leader_epoch=4) is ErrorCode.NONE
        assert room.replicas.partition(*ORDERS_0) is None
        assert not (tmp_path / "orders-0").exists()

    runs(tmp_path, scenario)


def test_a_replica_that_is_only_stopped_keeps_its_log(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead() is ErrorCode.NONE
        assert await room.stop(delete=False) is ErrorCode.NONE
        assert room.logs.get(ORDERS_0) is not None

    runs(tmp_path, scenario)


def test_a_log_whose_topic_was_deleted_meanwhile_goes_without_a_partition(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.logs.get_or_create(ORDERS_0, ORDERS, NOW_MS)
        assert await room.stop(leader_epoch=EPOCH_DURING_DELETE) is ErrorCode.NONE
        assert room.logs.get(ORDERS_0) is None
        assert await room.stop(leader_epoch=EPOCH_DURING_DELETE) is ErrorCode.NONE

    runs(tmp_path, scenario)


# -- groups


def test_groups_come_and_go_with_their_partition(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        offsets = uuid.UUID(int=5)
        assert await room.publish({0: OWN, 1: OTHER}, topic=GROUP_METADATA_TOPIC, topic_id=offsets) is ErrorCode.NONE
        for partition in (0, 1):
            assert await room.lead(topic=GROUP_METADATA_TOPIC, topic_id=offsets, partition=partition) is ErrorCode.NONE
        await room.settled()
        assert room.groups.describe_group("group") is None
        offline = TopicPartition(GROUP_METADATA_TOPIC, room.groups.partition_for("group"))
        room.changes.take_offline([offline])
        with pytest.raises(RequestError) as refused:
            room.groups.describe_group("group")
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    runs(tmp_path, scenario)


def test_transactions_come_and_go_with_their_partition(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        topic, topic_id = TRANSACTION_STATE_TOPIC, uuid.UUID(int=6)
        assert await room.publish({0: OWN, 1: OTHER}, topic=topic, topic_id=topic_id) is ErrorCode.NONE
        assert await room.lead(topic=topic, topic_id=topic_id, partition=0) is ErrorCode.NONE
        await room.settled()
        room.changes.take_offline([TopicPartition(topic, 0)])
        assert sorted(room.transactions.told) == [("count", 2), ("load", 0, 0), ("unload", 0, None)]

    runs(tmp_path, scenario)


def test_offsets_of_a_deleted_topic_go_though_this_broker_never_knew_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(room: Room) -> None:
        told: list[GoneTopic] = []

        async def note(topics: Sequence[GoneTopic]) -> None:
            told.extend(topics)

        monkeypatch.setattr(room.groups.offsets, "on_topics_deleted", note)
        offsets = uuid.UUID(int=5)
        assert await room.publish({0: OWN}, topic=GROUP_METADATA_TOPIC, topic_id=offsets) is ErrorCode.NONE
        assert await room.lead(topic=GROUP_METADATA_TOPIC, topic_id=offsets) is ErrorCode.NONE
        await room.settled()
        assert await room.publish({0: LEADER_DURING_DELETE}) is ErrorCode.NONE
        await room.settled()
        assert told == [GoneTopic("orders", ORDERS)]
        assert await room.publish({0: OTHER}, topic_id=ORDERS_AGAIN) is ErrorCode.NONE
        assert await room.publish({0: LEADER_DURING_DELETE}) is ErrorCode.NONE
        await room.settled()
        assert told[1:] == [GoneTopic("orders", ORDERS, has_successor=True)], "those of its successor stay"
        # The end of the successor itself is not heard of: another topic has its name already.
        assert await room.publish({0: OTHER}, topic_id=uuid.UUID(int=77)) is ErrorCode.NONE
        await room.settled()
        assert told[2:] == [GoneTopic("orders", ORDERS_AGAIN, has_successor=True)]

    runs(tmp_path, scenario)


def test_groups_are_placed_by_the_whole_number_of_partitions(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        # Some are told of: others never had a leader. ZooKeeper knows how many there are.
        room.settings.count = 50
        assert await room.publish({0: OTHER, 1: OTHER}, topic=GROUP_METADATA_TOPIC) is ErrorCode.NONE
        with pytest.raises(RequestError) as refused:
            room.groups.partition_for("group")
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await room.settled()
        assert room.groups.partition_count == 50

    runs(tmp_path, scenario)


def test_who_waits_for_a_coordinators_topic_waits_until_ids_can_be_placed(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        waiting = asyncio.ensure_future(room.changes.await_topic(GROUP_METADATA_TOPIC, 10))
        await asyncio.sleep(0)
        assert await room.publish({0: OTHER, 1: OTHER}, topic=GROUP_METADATA_TOPIC) is ErrorCode.NONE
        assert await waiting
        assert room.groups.partition_count == 2

    runs(tmp_path, scenario)


def test_groups_stay_where_they_are_when_their_topic_grows(tmp_path: Path) -> None:
    """A controller of another kind may let it grow. What was committed would not be found by the new number."""

    async def scenario(room: Room) -> None:
        topic = GROUP_METADATA_TOPIC
        assert await room.publish({0: OTHER, 1: OTHER}, topic=topic) is ErrorCode.NONE
        await room.settled()
        room.settings.count = 3
        assert await room.publish({0: OTHER, 1: OTHER, 2: OTHER}, topic=topic) is ErrorCode.NONE
        await room.settled()
        assert room.groups.partition_count == 2
        assert room.settings.counted == [topic], "it is counted once, not with every message"

    runs(tmp_path, scenario)


def test_a_topic_that_is_made_anew_places_groups_anew(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        topic = GROUP_METADATA_TOPIC
        assert await room.publish({0: OTHER, 1: OTHER}, topic=topic, topic_id=uuid.UUID(int=5)) is ErrorCode.NONE
        await room.settled()
        # This broker did not hear that the former topic was deleted.
        room.settings.count = 3
        made_anew = {0: OTHER, 1: OTHER, 2: OTHER}
        assert await room.publish(made_anew, topic=topic, topic_id=uuid.UUID(int=6)) is ErrorCode.NONE
        await room.settled()
        assert room.groups.partition_count == 3

    runs(tmp_path, scenario)


# -- settings


def test_settings_hold_for_a_partition_that_is_not_published_yet(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        assert await room.lead() is ErrorCode.NONE
        room.settings.overrides = {"min.insync.replicas": "2", "segment.bytes": "1048576"}
        room.changes.apply_topic_config("orders")
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert hosted.min_insync_replicas == 2
        assert hosted.log.config.segment_bytes == 1048576

    runs(tmp_path, scenario)


def test_records_that_wait_for_more_replicas_are_committed_once_fewer_are_enough(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.settings.overrides = {"min.insync.replicas": "2"}
        # In sync alone, of two.
        assert await room.lead(replicas=(OWN, OTHER)) is ErrorCode.NONE
        builder = BatchBuilder()
        builder.append(NOW_MS, None, b"value")
        batch = memoryview(bytearray(builder.build()))
        room.replicas.append("orders", 0, batch, required_acks=1, wall_ms=NOW_MS)
        hosted = room.replicas.partition(*ORDERS_0)
        assert hosted is not None
        assert (hosted.log.log_end_offset, hosted.log.high_watermark) == (1, 0)
        room.settings.overrides = {}
        room.changes.apply_broker_config()
        assert hosted.log.high_watermark == 1

    runs(tmp_path, scenario)


def test_a_message_that_arrives_when_the_logs_are_closed_is_of_a_life_that_is_over(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.logs.close(NOW_MS)
        assert await room.lead() is ErrorCode.STALE_BROKER_EPOCH
        assert room.storage_errors == []

    runs(tmp_path, scenario)


def test_logs_that_are_closed_within_a_message_are_no_failure_of_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(room: Room) -> None:
        async def closes_meanwhile(names: Iterable[str]) -> None:
            room.logs.close(NOW_MS)

        monkeypatch.setattr(room.changes._topics, "require_topics", closes_meanwhile)
        assert await room.lead() is ErrorCode.KAFKA_STORAGE_ERROR
        assert room.storage_errors == []

    runs(tmp_path, scenario)
