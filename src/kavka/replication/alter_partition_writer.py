"""AlterPartitionWriter: has ISR proposals stored by the controller (KIP-497).

Knows the request and its answers; not who the controller is or how it is reached: `send` finds it and tries again.

Versions: 3 (broker epochs, KIP-903), or 1 where the id of a topic is not known, as Kafka 3.9 sends them.

What the controller's error says about the proposal:

    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    NEW_LEADER_ELECTED, INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED      rejected: to send it again changes nothing
    any other, also for the whole request (STALE_BROKER_EPOCH, ...)       unknown: it is sent again

Source: Kafka's DefaultAlterPartitionManager and Partition.handleAlterPartitionError, 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kavka.config.setting import release_of
from kavka.errors import ConnectionFailed, ErrorCode
from kavka.model import BrokerId, LeaderAndIsr
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse
from kavka.protocol.messages.alter_partition_response import PartitionData as PartitionAnswer
from kavka.protocol.schema import ZERO_UUID
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal, IsrRejected, IsrUnknown

VERSION: Final = 3
VERSION_WITHOUT_TOPIC_IDS: Final = 1
TIMEOUT_MS: Final = 10_000
"""How long an answer is waited for before the proposals are sent again, perhaps to another controller."""

FIRST_RELEASE: Final = (2, 7, 2)
"""Brokers of older releases write ISRs into ZooKeeper themselves (zookeeper_isr_writer)."""

_REJECTED = (
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


def stores_isr_through_controller(inter_broker_protocol_version: str) -> bool:
    """Whether brokers that speak this version propose ISRs to the controller.

    >>> [stores_isr_through_controller(version) for version in ("3.9-IV0", "2.7", "2.7-IV1", "0.10.2")]
    [True, True, False, False]
    """
    return release_of(inter_broker_protocol_version) >= FIRST_RELEASE


class SendToController(Protocol):
    """Asks the controller, whoever it is. Raises ConnectionFailed if no answer came in `timeout_ms`."""

    async def __call__(
        self,
        key: ApiKey,
        version: int,
        message: AlterPartitionRequest,
        answer_type: type[AlterPartitionResponse],
        *,
        timeout_ms: int,
    ) -> AlterPartitionResponse: ...


class AlterPartitionWriter:
    """`broker_epoch` returns this broker's present epoch."""

    def __init__(self, send: SendToController, broker_id: BrokerId, broker_epoch: Callable[[], int]) -> None:
        self._send = send
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        """See `IsrWriter.write`."""
        with_ids = all(proposal.topic_id.int for proposal in proposals)
        version = VERSION if with_ids else VERSION_WITHOUT_TOPIC_IDS
        try:
            response = await self._send(
                ApiKey.ALTER_PARTITION,
                version,
                self._request(proposals, with_ids=with_ids),
                AlterPartitionResponse,
                timeout_ms=TIMEOUT_MS,
            )
        except ConnectionFailed as failure:
            return [IsrUnknown(str(failure))] * len(proposals)
        if response.error_code != ErrorCode.NONE:
            return [IsrUnknown(ErrorCode.answered(response.error_code).name)] * len(proposals)
        answers: dict[tuple[object, int], PartitionAnswer] = {
            (topic.topic_id if with_ids else topic.topic_name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        return [
            _answer(
                answers.get(
                    (proposal.topic_id if with_ids else proposal.topic_partition.topic, proposal.topic_partition[1])
                )
            )
            for proposal in proposals
        ]

    def _request(self, proposals: Sequence[IsrProposal], *, with_ids: bool) -> AlterPartitionRequest:
        topics: dict[str, TopicData] = {}
        for proposal in proposals:
            name, index = proposal.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic_id = proposal.topic_id if with_ids else ZERO_UUID
                topic = topics[name] = TopicData(topic_name=name, topic_id=topic_id, partitions=[])
            data = PartitionData(
                partition_index=index, leader_epoch=proposal.leader_epoch, partition_epoch=proposal.partition_epoch
            )
            if with_ids:
                data.new_isr_with_epochs = [
                    BrokerState(broker_id=broker_id, broker_epoch=epoch) for broker_id, epoch in proposal.new_isr
                ]
            else:
                data.new_isr = list(proposal.isr)
            topic.partitions.append(data)
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )


def _answer(answer: PartitionAnswer | None) -> IsrAnswer:
    if answer is None:
        return IsrUnknown("the controller's answer leaves the partition out")
    error = ErrorCode.answered(answer.error_code)
    if error is ErrorCode.NONE:
        isr = tuple(BrokerId(broker_id) for broker_id in answer.isr)
        return IsrCommitted(LeaderAndIsr(BrokerId(answer.leader_id), answer.leader_epoch, isr, answer.partition_epoch))
    return IsrRejected(error) if error in _REJECTED else IsrUnknown(error.name)
