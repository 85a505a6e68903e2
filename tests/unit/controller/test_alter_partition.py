"""AlterPartition through ZooKeeper: what is written, answered and published."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.controller.decide.context import NO_BROKER_EPOCH
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kavka.zookeeper.port import ConnectionLoss, Operation, OperationResult
from kavka.zookeeper.znode_paths import partition_state_path
from kavka.zookeeper.znodes import PartitionState
from tests.unit.controller.scripted_brokers import Brokers, run, until

T0 = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


async def create(cluster: Brokers, partitions: int = 1) -> uuid.UUID:
    wish = TopicRequest("t", assignment={number: [1, 2, 3] for number in range(partitions)})
    (outcome,) = await cluster.controller.controller.topics.create_topics([wish])
    assert outcome.topic_id is not None
    return outcome.topic_id


def request(cluster: Brokers, topic_id: uuid.UUID, *isrs: Sequence[int], **fields: Any) -> AlterPartitionRequest:
    """From leader 1, for the partitions 0, 1, ... as they were created."""
    partitions = [
        PartitionData(
            partition_index=index,
            leader_epoch=fields.get("leader_epoch", 0),
            partition_epoch=fields.get("partition_epoch", 0),
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=cluster[each].epoch) for each in isr],
        )
        for index, isr in enumerate(isrs)
    ]
    return AlterPartitionRequest(
        broker_id=1,
        broker_epoch=fields.get("broker_epoch", cluster[1].epoch),
        topics=[TopicData(topic_id=topic_id, partitions=partitions)],
    )


def test_an_accepted_isr_is_written_answered_and_published_to_all(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        topic_id = await create(cluster, 2)
        controller = cluster[1].controller
        answer = await controller.alter_partition(request(cluster, topic_id, (1, 3), (1,)), 3)
        assert answer.error_code == ErrorCode.NONE
        first, second = answer.topics[0].partitions
        assert (first.error_code, first.isr, first.partition_epoch, first.leader_epoch) == (0, [1, 3], 1, 0)
        assert (second.error_code, second.isr, second.partition_epoch) == (0, [1], 1)
        assert (await cluster.state("t", 0)).isr == (1, 3)
        for broker_id in (1, 2, 3):
            await until(lambda: cluster[broker_id].inside.metadata("t", 1) == (1, 0, [1]))  # noqa: B023
        assert [cluster[1].inside.leads("t", index) for index in (0, 1)] == [(1, 0, [1, 2, 3])] * 2
        assert len(cluster[1].reasons(DecisionKind.ISR_SHRUNK)) == 2

    run(tmp_path, scenario)


def test_one_refused_partition_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        topic_id = await create(cluster, 2)
        answer = await cluster[1].controller.alter_partition(request(cluster, topic_id, (2, 3), (1,)), 3)
        assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert cluster[1].reasons(DecisionKind.ISR_CHANGE_REFUSED)

    run(tmp_path, scenario)


def test_an_answer_that_was_lost_is_given_again(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        topic_id = await create(cluster)
        for _ in range(3):
            answer = await cluster[1].controller.alter_partition(request(cluster, topic_id, (1, 2)), 3)
            (partition,) = answer.topics[0].partitions
            assert (partition.error_code, partition.isr, partition.partition_epoch) == (0, [1, 2], 1)

    run(tmp_path, scenario)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_write_of_unknown_outcome_is_read_back(tmp_path: Path, lost: str) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        topic_id = await create(cluster)
        zookeeper = cluster[1].zookeeper
        original, losses = zookeeper.multi, [lost]

        async def lossy(operations: Sequence[Operation]) -> list[OperationResult]:
            loss = losses.pop() if losses else None
            if loss == "request":
                raise ConnectionLoss("before")
            results = await original(operations)
            if loss == "answer":
                raise ConnectionLoss("after")
            return results

        zookeeper.multi = lossy  # type: ignore[method-assign]
        answer = await cluster[1].controller.alter_partition(request(cluster, topic_id, (1, 2)), 3)
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.isr, partition.partition_epoch) == (0, [1, 2], 1)
        await until(lambda: cluster[3].inside.metadata("t", 0) == (1, 0, [1, 2]))

    run(tmp_path, scenario)


def test_a_state_that_was_written_past_the_controller_is_seen_before_it_is_judged(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        topic_id = await create(cluster)
        written = PartitionState(BrokerId(1), 0, ids(1, 3), 1)
        await cluster.admin.set(partition_state_path(T0), written.encode())
        answer = await cluster[1].controller.alter_partition(request(cluster, topic_id, (1, 2)), 3)
        (partition,) = answer.topics[0].partitions
        assert partition.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert await cluster.state("t") == written
        await until(lambda: cluster[2].inside.metadata("t", 0) == (1, 0, [1, 3]))

    run(tmp_path, scenario)


def test_a_request_of_a_former_life_is_refused_whole(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        topic_id = await create(cluster)
        stale = request(cluster, topic_id, (1, 2), broker_epoch=cluster[1].epoch - 1)
        answer = await cluster[1].controller.alter_partition(stale, 3)
        assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])

    run(tmp_path, scenario)


def test_nobody_is_registered_with_the_epoch_that_no_broker_has(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        nobody = request(cluster, await create(cluster), (1, 2), broker_epoch=NO_BROKER_EPOCH)
        for broker_id in (4711, -1):
            nobody.broker_id = broker_id
            answer = await cluster[1].controller.alter_partition(nobody, 3)
            assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])

    run(tmp_path, scenario)


def test_an_unknown_topic_id_and_names_in_old_versions(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster)
        controller = cluster[1].controller
        answer = await controller.alter_partition(request(cluster, uuid.UUID(int=1), (1, 2)), 3)
        assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
        old = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=cluster[1].epoch,
            topics=[TopicData(topic_name="t", partitions=[PartitionData(partition_index=0, new_isr=[1, 2])])],
        )
        answer = await controller.alter_partition(old, 0)
        assert (answer.topics[0].topic_name, answer.topics[0].partitions[0].isr) == ("t", [1, 2])

    run(tmp_path, scenario)


def test_isrs_that_leaders_wrote_themselves_are_published_and_the_notification_is_removed(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, 2)
        written = PartitionState(BrokerId(1), 0, ids(1, 3), 1)
        await cluster.admin.set(partition_state_path(T0), written.encode())
        for number, body in enumerate([b'{"version":1,"partitions":[{"topic":"t","partition":0}]}', b"garbage"]):
            await cluster.admin.create(f"/isr_change_notification/isr_change_{number:010}", body)
        await until(lambda: cluster[2].inside.metadata("t", 0) == (1, 0, [1, 3]))
        await cluster.settled()
        assert await cluster.admin.children("/isr_change_notification") == []
        assert cluster[2].inside.leads("t", 0) == (1, 0, [1, 2, 3]), "its leader knows already"
        assert cluster[1].controller.context.states[T0].version == 1

    run(tmp_path, scenario)
