"""TxnOffsetCommit: what a client of each version is told while nobody can say whether the transaction is open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api.transactions import txn_offset_commit
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, MetadataCache, PartitionMetadata, TopicMetadata
from kavka.broker.transactions.verification import Beginning
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.protocol.schema import ZERO_UUID

OWN = BrokerId(1)
NOT_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Answers:
    """Stands for the transaction's coordinator."""

    def __init__(self, error: ErrorCode) -> None:
        self.error = error

    async def open(
        self, transactional_id: str, producer: ProducerIdAndEpoch, beginnings: Sequence[Beginning], *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        return {one.partition: self.error for one in beginnings}


def answered(version: int, error: ErrorCode) -> int:
    """The error of the partition where verification says `error`."""
    metadata = MetadataCache("cluster")
    state = LeaderAndIsr(OWN, 0, (OWN,), 0)
    for topic in ("orders", GROUP_METADATA_TOPIC):
        metadata.set_topic(TopicMetadata(topic, ZERO_UUID, (PartitionMetadata((OWN,), state),)))
    broker: Any = SimpleNamespace(
        metadata=metadata,
        groups=SimpleNamespace(partition_for=lambda group_id: 0),
        replicas=SimpleNamespace(partition=lambda topic, index: SimpleNamespace(is_leader=True, log=None)),
        verification=Answers(error),
    )
    request: Any = SimpleNamespace(header=SimpleNamespace(api_version=version))
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    message = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )

    async def ask() -> int:
        answer = await txn_offset_commit.handle(broker, request, message)
        return answer.topics[0].partitions[0].error_code

    return asyncio.run(ask())


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("error", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, NOT_YET])
def test_producers_that_do_not_know_of_loading_look_for_the_coordinator_again(version: int, error: ErrorCode) -> None:
    """KAFKA-7296: they end with COORDINATOR_LOAD_IN_PROGRESS, which Kafka answers from version 2 on."""
    assert answered(version, error) == (NOT_YET if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_is_not_part_of_the_transaction_aborts_it(version: int) -> None:
    not_known = ErrorCode.INVALID_TXN_STATE if version < 4 else ErrorCode.TRANSACTION_ABORTABLE
    assert answered(version, ErrorCode.TRANSACTION_ABORTABLE) == not_known
