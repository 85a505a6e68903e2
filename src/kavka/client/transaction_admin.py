"""TransactionAdmin: queries about transactions, and how to end one that hangs.

Decides which brokers are asked, and which transactions hang. Works with Apache Kafka from 3.0 on.

A transaction hangs where a partition has records of it, older than any transaction may be, and its coordinator knows
nothing of that any more: nobody will ever end it, and who reads committed records waits for it. Clusters whose brokers
verify transactions (KIP-890) get none; logs of an earlier life may hold some.

Source: KIP-664; Kafka's TransactionsCommand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster, CoordinatorType, by_leader
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kavka.protocol.messages.describe_producers_response import DescribeProducersResponse
from kavka.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kavka.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kavka.protocol.messages.list_transactions_request import ListTransactionsRequest
from kavka.protocol.messages.list_transactions_response import ListTransactionsResponse
from kavka.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kavka.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

MAX_TIMEOUT_MS: Final = 900_000
"""transaction.max.timeout.ms where nobody says another one."""
HIGHEST_MARKERS: Final = 1
"""Of WriteTxnMarkers: an aborted transaction's version is not known to who aborts it from outside."""


class ListedTransaction(NamedTuple):
    """A transactional id in a coordinator's list."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class ShownTransaction(NamedTuple):
    """A transactional id's state at its coordinator. `started_ms` is -1 if no transaction was begun."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: Sequence[TopicPartition]


class ShownProducer(NamedTuple):
    """A producer that a partition remembers. `transaction_start` is -1 if it has no open transaction."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start: int


class TransactionAdmin:
    """Queries and changes of transactions. Raises as `Cluster.retry` does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # -- questions

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of all coordinators, by id. Raises RequestError UNSUPPORTED_VERSION if a broker does
        not know a requested filter."""
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )
        needed = 2 if pattern else 1 if longer_than_ms >= 0 else 0

        async def ask(node_id: int) -> list[ListedTransaction]:
            async def attempt() -> ListTransactionsResponse:
                connection = await self._cluster.connection(node_id)
                if connection.version_of(ApiKey.LIST_TRANSACTIONS) < needed:
                    raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"broker {node_id} does not know this filter")
                answer = await connection.request(ApiKey.LIST_TRANSACTIONS, request, ListTransactionsResponse)
                raise_for(answer.error_code, "list transactions")
                return answer

            answer = await self._cluster.retry(attempt, what="list transactions")
            return [
                ListedTransaction(one.transactional_id, node_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]

        await self._cluster.refresh([])
        found = await asyncio.gather(*(ask(node_id) for node_id in sorted(self._cluster.brokers)))
        return sorted(one for listed in found for one in listed)

    async def describe(self, transactional_id: str) -> ShownTransaction:
        """The id's state at its coordinator. Raises RequestError TRANSACTIONAL_ID_NOT_FOUND if the coordinator does
        not know it."""

        async def attempt() -> ShownTransaction:
            node_id = await self._cluster.find_coordinator(transactional_id, CoordinatorType.TRANSACTION)
            answer = await self._cluster.ask(
                ApiKey.DESCRIBE_TRANSACTIONS,
                DescribeTransactionsRequest(transactional_ids=[transactional_id]),
                DescribeTransactionsResponse,
                node_id=node_id,
            )
            (one,) = answer.transaction_states
            raise_for(one.error_code, f"transactional id {transactional_id!r}")
            return ShownTransaction(
                transactional_id,
                node_id,
                one.producer_id,
                one.producer_epoch,
                one.transaction_state,
                one.transaction_timeout_ms,
                one.transaction_start_time_ms,
                [TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions],
            )

        return await self._cluster.retry(attempt, what=f"describe transactional id {transactional_id!r}")

    async def producers(self, partitions: Iterable[TopicPartition]) -> list[ShownProducer]:
        """The producers that the leaders of these partitions remember, by partition and id."""
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, list[ShownProducer]] = {}

        async def attempt() -> None:
            missing = [partition for partition in wanted if partition not in found]
            await self._cluster.refresh(list(dict.fromkeys(partition.topic for partition in missing)))
            for node_id, led in by_leader(self._cluster, missing).items():
                if node_id < 0:
                    raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{led[0]} has no leader")
                await self._producers_at(node_id, led, found)

        await self._cluster.retry(attempt, what="describe producers")
        return sorted(one for producers in found.values() for one in producers)

    async def _producers_at(
        self, node_id: int, partitions: Sequence[TopicPartition], found: dict[TopicPartition, list[ShownProducer]]
    ) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        answer = await self._cluster.ask(
            ApiKey.DESCRIBE_PRODUCERS,
            DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()]
            ),
            DescribeProducersResponse,
            node_id=node_id,
        )
        for described in answer.topics:
            for one in described.partitions:
                partition = TopicPartition(described.name, one.partition_index)
                raise_for(one.error_code, str(partition), one.error_message)
                found[partition] = [
                    ShownProducer(
                        partition,
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.coordinator_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.current_txn_start_offset,
                    )
                    for producer in one.active_producers
                ]

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], *, now_ms: int, max_timeout_ms: int = MAX_TIMEOUT_MS
    ) -> list[ShownProducer]:
        """The hanging transactions in these partitions, by partition and producer."""
        old = [
            producer
            for producer in await self.producers(partitions)
            if producer.transaction_start >= 0 and producer.last_timestamp_ms < now_ms - max_timeout_ms
        ]
        if not old:
            return []
        ids = sorted({producer.producer_id for producer in old})
        by_id = {listed.producer_id: listed for listed in await self.list_transactions(producer_ids=ids)}
        known = {
            producer_id: await self._described_or_none(listed.transactional_id) for producer_id, listed in by_id.items()
        }
        return [producer for producer in old if _hangs(producer, known)]

    async def _described_or_none(self, transactional_id: str) -> ShownTransaction | None:
        try:
            return await self.describe(transactional_id)
        except RequestError as refused:
            if refused.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise

    # -- orders

    async def abort(self, producer: ShownProducer) -> None:
        """Ends the producer's open transaction in its partition with an abort marker, without asking its
        coordinator."""
        topic, index = producer.partition

        async def attempt() -> None:
            await self._cluster.refresh([topic])
            node_id = self._cluster.leader(producer.partition)
            if node_id < 0:
                raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{producer.partition} has no leader")
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
            answer = await self._cluster.ask(
                ApiKey.WRITE_TXN_MARKERS,
                WriteTxnMarkersRequest(markers=[marker]),
                WriteTxnMarkersResponse,
                node_id=node_id,
                highest=HIGHEST_MARKERS,
            )
            for one in answer.markers:
                for written in one.topics:
                    for result in written.partitions:
                        raise_for(result.error_code, f"abort in {producer.partition}")

        await self._cluster.retry(attempt, what=f"abort in {producer.partition}")

    async def force_terminate(self, transactional_id: str) -> None:
        """Fences the id's producer, and aborts its open transaction, as a producer that begins with the id does."""

        async def attempt() -> None:
            node_id = await self._cluster.find_coordinator(transactional_id, CoordinatorType.TRANSACTION)
            answer = await self._cluster.ask(
                ApiKey.INIT_PRODUCER_ID,
                InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1),
                InitProducerIdResponse,
                node_id=node_id,
            )
            raise_for(answer.error_code, f"transactional id {transactional_id!r}")

        await self._cluster.retry(attempt, what=f"terminate transactional id {transactional_id!r}")


def _hangs(producer: ShownProducer, known: Mapping[int, ShownTransaction | None]) -> bool:
    transaction = known.get(producer.producer_id)
    return (
        transaction is None
        or producer.partition not in transaction.partitions
        or producer.producer_epoch < transaction.producer_epoch
    )
