"""Creating, growing and deleting topics on a real tree: the znodes afterwards, and what brokers are told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kavka.controller import controller as controller_module
from kavka.controller.controller import ControllerSettings
from kavka.controller.decide.topic_plans import PartitionsRequest, TopicRequest, TopicRules
from kavka.controller.term.controller_term import NotController
from kavka.errors import ConfigError, ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.embedded import LocalZooKeeper
from kavka.zookeeper.port import ConnectionLoss, Create, Operation, OperationResult, RequestTooLarge
from kavka.zookeeper.znodes import ConfigEntity, PartitionState, TopicAssignment
from tests.unit.controller.cluster_support import Cluster, run


def test_a_created_topic_is_in_the_tree_and_is_ordered_to_brokers(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        (outcome,) = await topics.create_topics([TopicRequest("t", 2, 1, config={"a": "b"})])
        assert (outcome.code, outcome.partition_count, outcome.replication_factor) == (ErrorCode.NONE, 2, 1)
        data, stat = await cluster.admin.get("/brokers/topics/t")
        assert TopicAssignment.decode("t", data) == TopicAssignment("t", {0: (1,), 1: (1,)}, outcome.topic_id)
        assert stat.version == 0
        assert await cluster.state("t", 1) == PartitionState(BrokerId(1), 0, (BrokerId(1),), 1)
        assert (await cluster.admin.get("/config/topics/t"))[0] == ConfigEntity({"a": "b"}).encode()
        order = broker.orders[-1].partitions[1]
        assert (order.topic_partition, order.topic_id, order.is_new) == (TopicPartition("t", 1), outcome.topic_id, True)
        assert order.replicas == (1,)
        assert order.state.leader == 1
        assert await cluster.admin.children("/config/changes") == [], "Kafka notifies of changes, not of creations"

    run(tmp_path, scenario)


def test_each_wish_stands_for_itself(tmp_path: Path) -> None:
    def check_config(config: object) -> None:
        if config:
            raise ConfigError("no")

    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1, settings=ControllerSettings(TopicRules(check_config=check_config)))
        wishes = [
            TopicRequest("a"),
            TopicRequest("twice"),
            TopicRequest("b", config={"x": "y"}),
            TopicRequest("twice"),
            TopicRequest("none", 0),
            TopicRequest("c"),
        ]
        outcomes = await broker.controller.topics.create_topics(wishes)
        assert [(outcome.name, outcome.code) for outcome in outcomes] == [
            ("a", ErrorCode.NONE),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("b", ErrorCode.INVALID_CONFIG),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("none", ErrorCode.INVALID_PARTITIONS),
            ("c", ErrorCode.NONE),
        ]
        assert await cluster.admin.children("/brokers/topics") == ["a", "c"]
        assert [order.topic_partition.topic for order in broker.orders[-1].partitions] == ["a", "c"]

    run(tmp_path, scenario)


def test_validation_writes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics, told = broker.controller.topics, len(broker.orders)
        await topics.create_topics([TopicRequest("grown")])
        before = cluster.server.tree_zxid
        (created,) = await topics.create_topics([TopicRequest("t", 3)], validate_only=True)
        assert (created.code, created.partition_count) == (ErrorCode.NONE, 3)
        (grown,) = await topics.create_partitions([PartitionsRequest("grown", 5)], validate_only=True)
        assert (grown.code, grown.partition_count) == (ErrorCode.NONE, 5)
        (refused,) = await topics.create_topics([TopicRequest("bad name")], validate_only=True)
        assert refused.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert cluster.server.tree_zxid == before
        assert len(broker.orders) == told + 1

    run(tmp_path, scenario)


def test_a_configuration_left_behind_is_replaced(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        await cluster.admin.create("/config/topics/t", ConfigEntity({"old": "1"}).encode())
        (outcome,) = await broker.controller.topics.create_topics([TopicRequest("t", config={"new": "2"})])
        assert outcome.code is ErrorCode.NONE
        assert (await cluster.admin.get("/config/topics/t"))[0] == ConfigEntity({"new": "2"}).encode()

    run(tmp_path, scenario)


def test_a_topic_that_another_made_meanwhile_exists(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        await cluster.admin.create("/brokers/topics/t", TopicAssignment("t", {0: (1,)}, None).encode())
        (outcome,) = await broker.controller.topics.create_topics([TopicRequest("t")])
        assert (outcome.code, outcome.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")

    run(tmp_path, scenario)


def test_partitions_are_added(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        await topics.create_topics([TopicRequest("t", 2)])
        outcomes = await topics.create_partitions([PartitionsRequest("t", 4), PartitionsRequest("gone", 1)])
        assert [outcome.code for outcome in outcomes] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (await cluster.state("t", 3)).leader == 1
        assert [order.topic_partition.partition for order in broker.orders[-1].partitions] == [2, 3]
        (again,) = await topics.create_partitions([PartitionsRequest("t", 5)])
        assert again.code is ErrorCode.NONE, "the version of the topic's znode was followed"

    run(tmp_path, scenario)


def test_a_deleted_topic_leaves_nothing_and_can_be_made_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        (created,) = await topics.create_topics([TopicRequest("t", 3)])
        outcomes = await topics.delete_topics(["t", "gone"])
        assert [outcome.code for outcome in outcomes] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert ("t", created.topic_id) in broker.orders[-1].deleted_topics
        for path in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
            assert await cluster.admin.children(path) == []
        (again,) = await topics.create_topics([TopicRequest("t", 1)])
        assert again.code is ErrorCode.NONE
        assert again.topic_id != created.topic_id

    run(tmp_path, scenario)


def test_what_this_broker_has_not_carried_out_in_time_timed_out_and_is_there(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        await topics.create_topics([TopicRequest("grown"), TopicRequest("gone")])
        broker.obeys.clear()
        wishes = [TopicRequest("t"), TopicRequest("grown")]
        outcomes = await topics.create_topics(wishes, timeout_ms=1)
        assert [outcome.code for outcome in outcomes] == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS]
        (grown,) = await topics.create_partitions([PartitionsRequest("grown", 2)], timeout_ms=1)
        assert grown.code is ErrorCode.REQUEST_TIMED_OUT
        (gone,) = await topics.delete_topics(["gone"], timeout_ms=1)
        assert gone.code is ErrorCode.REQUEST_TIMED_OUT
        broker.obeys.set()
        await broker.controller.carried_out_here()
        await cluster.settled()
        assert await cluster.admin.children("/brokers/topics") == ["grown", "t"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_gives_no_time_hears_that_it_was_not_enough(tmp_path: Path, timeout_ms: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        topics = (await cluster.join(1)).controller.topics
        (created,) = await topics.create_topics([TopicRequest("t")], timeout_ms=timeout_ms)
        (grown,) = await topics.create_partitions([PartitionsRequest("t", 2)], timeout_ms=timeout_ms)
        (gone,) = await topics.delete_topics(["t"], timeout_ms=timeout_ms)
        assert [created.code, grown.code, gone.code] == [ErrorCode.REQUEST_TIMED_OUT] * 3
        (valid,) = await topics.create_topics([TopicRequest("u")], validate_only=True, timeout_ms=timeout_ms)
        assert valid.code is ErrorCode.NONE

    run(tmp_path, scenario)


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1, settings=ControllerSettings(deletion_enabled=False))
        await broker.controller.topics.create_topics([TopicRequest("t")])
        outcomes = await broker.controller.topics.delete_topics(["t", "nobody-made-it"])
        assert [outcome.code for outcome in outcomes] == [ErrorCode.TOPIC_DELETION_DISABLED] * 2
        assert await cluster.admin.exists("/brokers/topics/t") is not None

    run(tmp_path, scenario)


def test_ten_thousand_partitions_come_and_go(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        (created,) = await broker.controller.topics.create_topics([TopicRequest("t", 10_000)])
        assert created.code is ErrorCode.NONE
        assert len(broker.orders[-1].partitions) == 10_000
        assert len(await cluster.admin.children("/brokers/topics/t/partitions")) == 10_000
        (deleted,) = await broker.controller.topics.delete_topics(["t"], timeout_ms=60_000)
        assert deleted.code is ErrorCode.NONE
        assert await cluster.admin.exists("/brokers/topics/t") is None

    run(tmp_path, scenario)


class LossyMulti:
    """Loses answers of a session's multis, before or after the server carried them out."""

    def __init__(self, zookeeper: LocalZooKeeper, losses: Sequence[str | None]) -> None:
        self._multi = zookeeper.multi
        self._losses = list(losses)
        zookeeper.multi = self.multi  # type: ignore[method-assign]

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        loss = self._losses.pop(0) if self._losses else None
        if loss == "request":
            raise ConnectionLoss("lost before")
        results = await self._multi(operations)
        if loss == "answer":
            raise ConnectionLoss("lost after")
        return results


def test_a_creation_whose_answer_was_lost_is_found_and_completed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        # The first of several multis is carried out and its answer lost; the others were never sent.
        LossyMulti(broker.zookeeper, ["answer"])
        (outcome,) = await broker.controller.topics.create_topics([TopicRequest("t", 6_000)])
        assert outcome.code is ErrorCode.NONE
        assert len(broker.orders[-1].partitions) == 6_000
        assert (await cluster.state("t", 5_999)).leader == 1

    run(tmp_path, scenario)


def test_a_creation_that_never_arrived_timed_out_and_can_be_repeated(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        LossyMulti(broker.zookeeper, ["request"])
        (outcome,) = await broker.controller.topics.create_topics([TopicRequest("t")])
        assert outcome.code is ErrorCode.REQUEST_TIMED_OUT
        assert await cluster.admin.exists("/brokers/topics/t") is None
        (again,) = await broker.controller.topics.create_topics([TopicRequest("t")])
        assert again.code is ErrorCode.NONE

    run(tmp_path, scenario)


def test_a_growth_whose_answer_was_lost_is_found(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        await topics.create_topics([TopicRequest("t")])
        LossyMulti(broker.zookeeper, ["answer", "request"])
        (grown,) = await topics.create_partitions([PartitionsRequest("t", 3)])
        assert grown.code is ErrorCode.NONE
        assert [order.topic_partition.partition for order in broker.orders[-1].partitions] == [1, 2]
        LossyMulti(broker.zookeeper, ["request"])
        (lost,) = await topics.create_partitions([PartitionsRequest("t", 4)])
        assert lost.code is ErrorCode.REQUEST_TIMED_OUT

    run(tmp_path, scenario)


def test_a_refusal_of_zookeepers_own_is_told(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)

        async def refuse(operations: Sequence[Operation]) -> list[OperationResult]:
            raise RequestTooLarge("/x", "for the test")

        broker.zookeeper.multi = refuse  # type: ignore[method-assign]
        (outcome,) = await broker.controller.topics.create_topics([TopicRequest("t")])
        assert outcome.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert "request too large" in (outcome.message or "")

    run(tmp_path, scenario)


def test_a_deposed_controller_writes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        await topics.create_topics([TopicRequest("old")])
        # Another controller came, and this one has not heard of it: no event reaches it.
        cluster.server.detach(broker.zookeeper.session_id)
        await cluster.admin.set("/controller_epoch", b"2")
        told = len(broker.orders)
        for call in (
            topics.create_topics([TopicRequest("t")]),
            topics.delete_topics(["old"]),
            topics.create_partitions([PartitionsRequest("old", 3)]),
        ):
            with pytest.raises(NotController):
                await call
        assert not broker.controller.is_active
        with pytest.raises(NotController):
            _ = broker.controller.topics
        assert await cluster.admin.children("/brokers/topics") == ["old"]
        assert await cluster.admin.children("/admin/delete_topics") == []
        assert len(broker.orders) == told

    run(tmp_path, scenario)


def test_what_was_written_before_the_deposition_is_for_the_next_term_to_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "RETRY_MS", 10)

    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        original = broker.zookeeper.multi

        async def depose_after(operations: Sequence[Operation]) -> list[OperationResult]:
            results = await original(operations)
            if any(isinstance(one, Create) and one.path == "/brokers/topics/a" for one in operations):
                await cluster.admin.set("/controller_epoch", b"2")
            return results

        broker.zookeeper.multi = depose_after  # type: ignore[method-assign]
        with pytest.raises(NotController):
            await broker.controller.topics.create_topics([TopicRequest("a"), TopicRequest("b")])
        broker.orders.clear()
        broker.ordered.clear()
        await broker.ordered.wait()
        await cluster.settled()
        assert broker.controller.context.epoch == 2
        assert [order.topic_partition.topic for order in broker.orders[-1].partitions] == ["a"]

    run(tmp_path, scenario)
