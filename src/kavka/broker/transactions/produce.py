"""What comes before an append of transactional batches: the answer of the transaction's coordinator (KIP-890).

Decides which batches of a Produce request must be verified, and which error a client gets if that fails. Must not know
how a coordinator is asked (`verification`), nor how an append is done (`api/records/produce`).

| the coordinator says | the client gets |
|---------------------------------------------------------------|------------------------------------------------------|
| NONE                                                          | what the append brings                               |
| NETWORK_EXCEPTION, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,| NOT_ENOUGH_REPLICAS, which every client tries again  |
| COORDINATOR_LOAD_IN_PROGRESS                                  | without looking for another leader                   |
| CONCURRENT_TRANSACTIONS                                       | the same before version 12, itself from then on      |
| TRANSACTION_ABORTABLE                                         | INVALID_TXN_STATE before version 11, itself then     |
| PRODUCER_FENCED                                               | INVALID_PRODUCER_EPOCH                               |

Source: Kafka's ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS
from kavka.broker.transactions.verification import Beginning
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode, RecordsError
from kavka.model import TopicPartition
from kavka.records.batch import HEADER_SIZE, MAGIC, MAGIC_OFFSET, batch_at
from kavka.replication.delayed_requests import AppendOutcome

if TYPE_CHECKING:
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.transactions.verification import TransactionVerification
    from kavka.protocol.messages.produce_request import ProduceRequest
    from kavka.replication.replica_manager import ReplicaManager

_FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_NOBODY_TO_ASK: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Unverified(NamedTuple):
    """A batch that may begin its producer's transaction in a partition."""

    producer: ProducerIdAndEpoch
    beginning: Beginning


def unverified_batches(
    metadata: MetadataCache, replicas: ReplicaManager, message: ProduceRequest, version: int, now_ms: int
) -> list[Unverified]:
    """The batches of the request that must be verified. The append reports what is wrong with the others."""
    found = []
    for topic in message.topic_data:
        name: str | None = topic.name
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            name = metadata.topic_name(topic.topic_id)
        if name is None or name in INTERNAL_TOPICS:
            continue
        for data in topic.partition_data:
            records = data.records
            partition = replicas.partition(name, data.index)
            if partition is None or not partition.is_leader or not isinstance(records, memoryview):
                continue
            if len(records) < HEADER_SIZE or records[MAGIC_OFFSET] != MAGIC:
                continue
            try:
                batch = batch_at(records)
            except RecordsError:
                continue
            if batch is None or not batch.header.is_transactional or batch.header.producer_id < 0:
                continue
            header = batch.header
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            one = Beginning(TopicPartition(name, data.index), partition.log, header.base_sequence)
            if one.verification(producer, now_ms, add=version >= FIRST_VERSION_THAT_ADDS) is not None:
                found.append(Unverified(producer, one))
    return found


async def verify(
    verification: TransactionVerification, transactional_id: str, unverified: Sequence[Unverified], version: int
) -> Mapping[TopicPartition, AppendOutcome]:
    """Verifies the batches. Returns the errors of those that may not be appended."""
    by_producer: dict[ProducerIdAndEpoch, list[Beginning]] = {}
    for producer, beginning in unverified:
        by_producer.setdefault(producer, []).append(beginning)
    answers = await asyncio.gather(
        *(
            verification.open(transactional_id, producer, beginnings, add=version >= FIRST_VERSION_THAT_ADDS)
            for producer, beginnings in by_producer.items()
        )
    )
    return {
        partition: _refusal(error, version)
        for errors in answers
        for partition, error in errors.items()
        if error is not ErrorCode.NONE
    }


def _refusal(error: ErrorCode, version: int) -> AppendOutcome:
    if error in _NOBODY_TO_ASK or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS):
        return AppendOutcome(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            message="it could not be verified that the partition is part of the transaction: " + error.name,
        )
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_VERSION_WITH_ABORTABLE:
        error = ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.INVALID_TXN_STATE:
        return AppendOutcome(error, message="the partition was not added to the transaction")
    return AppendOutcome(error)
