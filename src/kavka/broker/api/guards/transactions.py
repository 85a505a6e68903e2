"""Guards of transactions: their producers, their coordinators, and those who look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.cluster import refusal
from kavka.broker.api.guards.guard import Then, joined, sort_out, then_add, then_join
from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS
from kavka.controller.decide.topic_plans import topic_name_error
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kavka.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kavka.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kavka.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kavka.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kavka.protocol.messages.describe_producers_response import (
    PartitionResponse,
    TopicResponse,
)
from kavka.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kavka.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from kavka.protocol.messages.end_txn_request import EndTxnRequest
from kavka.protocol.messages.end_txn_response import EndTxnResponse
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kavka.protocol.messages.list_transactions_request import ListTransactionsRequest
from kavka.protocol.messages.list_transactions_response import ListTransactionsResponse
from kavka.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kavka.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kavka.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_FIRST_VERSION_FOR_BROKERS = 4


def _may_write_id(caller: Caller, transactional_id: str) -> bool:
    return caller.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def init_producer_id(broker: ApiBroker, caller: Caller, message: InitProducerIdRequest) -> Any:
    """W X; without an id IW K, or W on any topic."""
    if message.transactional_id is not None:
        error = None if _may_write_id(caller, message.transactional_id) else _ID
    elif caller.may_on_cluster(Operation.IDEMPOTENT_WRITE, quietly=True) or caller.may_on_any(
        Operation.WRITE, ResourceType.TOPIC
    ):
        error = None
    else:
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None if error is None else InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def add_offsets_to_txn(broker: ApiBroker, caller: Caller, message: AddOffsetsToTxnRequest) -> Any:
    """W X, then R G."""
    if not _may_write_id(caller, message.transactional_id):
        return AddOffsetsToTxnResponse(error_code=_ID)
    if not caller.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return AddOffsetsToTxnResponse(error_code=_GROUP)
    return None


def end_txn(broker: ApiBroker, caller: Caller, message: EndTxnRequest) -> Any:
    """W X."""
    return None if _may_write_id(caller, message.transactional_id) else EndTxnResponse(error_code=_ID)


def write_txn_markers(broker: ApiBroker, caller: Caller, message: WriteTxnMarkersRequest) -> Any:
    """A K for administrators; CA K for brokers, on their own listener."""
    if caller.may_on_cluster(Operation.ALTER, quietly=True):
        return None
    if caller.may_as_broker():
        return None
    return refusal(ApiKey.WRITE_TXN_MARKERS, message)


def add_partitions_to_txn(broker: ApiBroker, caller: Caller, message: AddPartitionsToTxnRequest) -> Any:
    """From producers W X, then W T, all partitions or none; internal topics are refused. From brokers CA K."""
    if caller.request.header.api_version >= _FIRST_VERSION_FOR_BROKERS:
        if caller.may_as_broker():
            return None
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = message.v3_and_below_topics
    if not _may_write_id(caller, message.v3_and_below_transactional_id):
        return _not_added(topics, lambda name, index: _ID)
    allowed = caller.allowed(
        Operation.WRITE, ResourceType.TOPIC, (topic.name for topic in topics if topic.name not in INTERNAL_TOPICS)
    )
    if all(topic.name in allowed for topic in topics):
        return None

    def error(name: str, index: int) -> ErrorCode:
        if name not in allowed:
            return _TOPIC
        if broker.metadata.partition(name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    producer = ProducerIdAndEpoch(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    # A producer whose partitions were all refused may abort all the same.
    broker.transactions.on_begun(message.v3_and_below_transactional_id, producer)
    return _not_added(topics, error)


def _not_added(
    topics: Iterable[AddPartitionsToTxnTopic], error: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error(topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def txn_offset_commit(broker: ApiBroker, caller: Caller, message: TxnOffsetCommitRequest) -> Any:
    """W X, then R G, then R T."""
    if not _may_write_id(caller, message.transactional_id):
        return TxnOffsetCommitResponse(topics=[_uncommitted(topic, _ID) for topic in message.topics])
    if not caller.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return TxnOffsetCommitResponse(topics=[_uncommitted(topic, _GROUP) for topic in message.topics])
    allowed = caller.allowed(Operation.READ, ResourceType.TOPIC, (topic.name for topic in message.topics))
    message.topics, refused = sort_out(
        message.topics, lambda topic: None if topic.name in allowed else _uncommitted(topic, _TOPIC)
    )
    return then_add(refused, to="topics")


def _uncommitted(topic: Any, error: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions
        ],
    )


def describe_producers(broker: ApiBroker, caller: Caller, message: DescribeProducersRequest) -> Any:
    """R T, of names that a topic can have."""

    def refusal(topic: TopicRequest) -> TopicResponse | None:
        if topic_name_error(topic.name) is not None or caller.may(Operation.READ, ResourceType.TOPIC, topic.name):
            return None
        partitions = [
            PartitionResponse(partition_index=index, error_code=_TOPIC, error_message=None)
            for index in topic.partition_indexes
        ]
        return TopicResponse(name=topic.name, partitions=partitions)

    refused = [refusal(topic) for topic in message.topics]
    message.topics = [topic for topic, denied in zip(message.topics, refused, strict=True) if denied is None]
    return then_join(refused, to="topics")


def describe_transactions(broker: ApiBroker, caller: Caller, message: DescribeTransactionsRequest) -> Any:
    """De X; of its topics those are shown that the caller may describe."""
    allowed = caller.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, message.transactional_ids)
    refused = [
        None if each in allowed else TransactionState(error_code=_ID, transactional_id=each)
        for each in message.transactional_ids
    ]
    message.transactional_ids = [each for each in message.transactional_ids if each in allowed]

    def change(answer: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in answer.transaction_states:
            state.topics = [
                topic
                for topic in state.topics
                if caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quietly=True)
            ]
        answer.transaction_states = joined(refused, answer.transaction_states)
        return answer

    return Then(change)


def list_transactions(broker: ApiBroker, caller: Caller, message: ListTransactionsRequest) -> Any:
    """Filtered by De X."""

    def change(answer: ListTransactionsResponse) -> ListTransactionsResponse:
        answer.transaction_states = [
            state
            for state in answer.transaction_states
            if caller.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id, quietly=True)
        ]
        return answer

    return Then(change)
