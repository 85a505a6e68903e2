"""TransactionVerification: has a transaction's coordinator say that partitions are part of it, before they are written.

Decides which broker is asked, how often, and what its answer means for who writes. Must not know what is written.

Before transaction version 2 a client adds partitions itself, and is only verified; from then on a partition that is
written to is added with that (`add`), and a partition that could not be added is not written.

    I1  NONE is answered for a partition only if its coordinator, at some time after the call, held it for a part of the
        open transaction of this producer id and epoch
    I2  what a log waits for (`log.decide.producer_state`, I4) is asked for before the coordinator is, each time: a
        marker of the former transaction that comes meanwhile ends a verification that is older than it. With
        transaction version 2: 1. the producer commits, and is given the next epoch; 2. its next batch is here, and the
        coordinator still waits for markers; 3. the marker comes, with that same epoch; 4. the coordinator says yes, the
        second time. Or the question is on its way at 3., and the coordinator says yes at once: then it is asked once
        more. Apache Kafka leaves the verification as it is where the marker has its epoch. So a batch that is late may
        begin a transaction that is over, where a client of version 2 ends it as one of version 1: with its own epoch

Source: KIP-890; Kafka's AddPartitionsToTxnManager and ReplicaManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.metadata.metadata_cache import TRANSACTION_STATE_TOPIC
from kavka.broker.transactions.peers import PeerAccess, TransactionPeers
from kavka.coordinator.transactions.coordinator import TransactionCoordinator
from kavka.coordinator.transactions.decide.state import BUMPS_EPOCH, ProducerIdAndEpoch
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.log.decide.producer_state import Verification
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kavka.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from kavka.protocol.peer import PeerConnection

logger = Logger(__name__)

VERSION: Final = 4
"""Of AddPartitionsToTxn: the first for brokers, and the highest that all of them know."""

Errors = Mapping[TopicPartition, ErrorCode]


class Claim(NamedTuple):
    """What a producer says: these partitions are part of my transaction; `add`: or are to be from now on."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]
    add: bool

    def all(self, error: ErrorCode) -> Errors:
        return dict.fromkeys(self.partitions, error)


class Beginning(NamedTuple):
    """A batch that may begin its producer's transaction in a partition that is led here."""

    partition: TopicPartition
    log: UnifiedLog
    sequence: int

    def verification(self, producer: ProducerIdAndEpoch, now_ms: int, *, add: bool) -> Verification | None:
        """What the log waits for; `add`: with transaction version 2, in which each transaction has its own epoch."""
        return self.log.producers.verification(
            producer.producer_id, producer.epoch, self.sequence, now_ms, bumps_epoch=add
        )


class AddRetries(NamedTuple):
    """While the former transaction still ends adding is tried every `retry_ms`, for `patience_ms`."""

    retry_ms: int
    patience_ms: int


class TransactionVerification:
    """Asks coordinators, this broker's own or others'."""

    def __init__(
        self,
        broker_id: BrokerId,
        transactions: TransactionCoordinator,
        access: PeerAccess,
        add_retries: AddRetries,
        *,
        is_enabled: Callable[[], bool],
        wall_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._transactions = transactions
        self._metadata = access.metadata
        self._request_timeout_ms = access.request_timeout_ms
        self._is_enabled = is_enabled
        self._wall_ms = wall_ms
        self._add_retry_s = add_retries.retry_ms / 1000
        self._add_patience_s = add_retries.patience_ms / 1000
        self._peers: TransactionPeers[Claim, Errors] = TransactionPeers(access, self._send)

    async def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partitions: Iterable[TopicPartition],
        *,
        add: bool,
    ) -> Errors:
        """Per partition NONE, or why the producer may not write to it.

        An error of the coordinator is passed on unchanged, except PRODUCER_FENCED: a writer knows it as
        INVALID_PRODUCER_EPOCH. NETWORK_EXCEPTION means that partitions may or may not have been added.
        """
        claim = Claim(transactional_id, ProducerIdAndEpoch(producer_id, producer_epoch), list(topic_partitions), add)
        if not add and not self._is_enabled():
            return claim.all(ErrorCode.NONE)
        errors = await self._ask(claim)
        return {
            partition: ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
            for partition, error in errors.items()
        }

    async def open(
        self, transactional_id: str, producer: ProducerIdAndEpoch, beginnings: Iterable[Beginning], *, add: bool
    ) -> Errors:
        """As `verify_or_add`, and the logs are granted what they wait for, so that the next append may begin the
        transaction there. While the former transaction still ends adding is tried again, for a moment; so is what was
        answered after a marker has ended the question (I2)."""
        found: dict[TopicPartition, ErrorCode] = {}
        waiting = list(beginnings)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._add_patience_s
        while True:
            asked = [(one, one.verification(producer, self._wall_ms(), add=add)) for one in waiting]
            wanted = [one.partition for one, verification in asked if verification is not None]
            errors: Errors = {}
            if wanted:
                errors = await self.verify_or_add(transactional_id, *producer, wanted, add=add)
            ended = []
            for one, verification in asked:
                found[one.partition] = errors.get(one.partition, ErrorCode.NONE)
                if verification is not None and found[one.partition] is ErrorCode.NONE:
                    verification.grant(producer.epoch)
                    if not one.log.producers.stands(producer.producer_id, verification):
                        ended.append(one)
            busy = [one for one in waiting if add and found[one.partition] is ErrorCode.CONCURRENT_TRANSACTIONS]
            waiting = [*busy, *ended]
            if not waiting:
                return found
            if loop.time() >= deadline:
                # The log would refuse what was answered too late for it: the client tries again.
                found.update((one.partition, ErrorCode.CONCURRENT_TRANSACTIONS) for one in ended)
                return found
            if busy:
                await asyncio.sleep(self._add_retry_s)

    async def _ask(self, claim: Claim) -> Errors:
        try:
            index = self._transactions.partition_for(claim.transactional_id)
        except RequestError:
            return claim.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        known = self._metadata.partition(TRANSACTION_STATE_TOPIC, index)
        leader = NO_LEADER if known is None else known.state.leader
        if leader == NO_LEADER:
            return claim.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader == self._broker_id:
            return await self._ask_here(claim)
        try:
            return await self._peers.ask(leader, claim)
        except ConnectionFailed:
            return claim.all(ErrorCode.NETWORK_EXCEPTION)

    async def _ask_here(self, claim: Claim) -> Errors:
        try:
            if not claim.add:
                return self._transactions.verify(claim.transactional_id, claim.producer, claim.partitions)
            await self._transactions.add_partitions(
                claim.transactional_id, claim.producer, claim.partitions, version=BUMPS_EPOCH
            )
        except RequestError as refused:
            return claim.all(refused.code)
        return claim.all(ErrorCode.NONE)

    async def _send(self, connection: PeerConnection, claims: Sequence[Claim]) -> Sequence[Errors]:
        """Asks in as few requests as there may be: one names a transactional id once."""
        from kavka.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

        answers: dict[int, Errors] = {}
        left = dict(enumerate(claims))
        while left:
            together: dict[str, list[int]] = {}
            for number, claim in left.items():
                same = together.setdefault(claim.transactional_id, [number])
                first = left[same[0]]
                if number != same[0] and (first.producer, first.add) == (claim.producer, claim.add):
                    same.append(number)
            answer = await connection.request(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                VERSION,
                _request([[left[number] for number in same] for same in together.values()]),
                AddPartitionsToTxnResponse,
                timeout_ms=self._request_timeout_ms,
            )
            found = {
                result.transactional_id: {
                    TopicPartition(topic.name, one.partition_index): ErrorCode.answered(one.partition_error_code)
                    for topic in result.topic_results
                    for one in topic.results_by_partition
                }
                for result in answer.results_by_transaction
            }
            whole = ErrorCode.answered(answer.error_code)
            if whole is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                # It is this broker that lacks a right. A client would take it for its own, and end.
                logger.error(
                    "the coordinator of transactions does not let this broker ask",
                    address=connection.address,
                    next_step="allow brokers ClusterAction on the cluster",
                )
                whole = ErrorCode.INVALID_TXN_STATE
            for transactional_id, same in together.items():
                errors = found.get(transactional_id, {})
                for number in same:
                    claim = left.pop(number)
                    missing = whole if whole is not ErrorCode.NONE else ErrorCode.UNKNOWN_SERVER_ERROR
                    answers[number] = {partition: errors.get(partition, missing) for partition in claim.partitions}
        return [answers[number] for number in range(len(claims))]

    def close(self) -> None:
        self._peers.close()


def _request(claims: Iterable[Sequence[Claim]]) -> AddPartitionsToTxnRequest:
    from kavka.protocol.messages.add_partitions_to_txn_request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    request = AddPartitionsToTxnRequest(transactions=[])
    for same in claims:
        by_topic: dict[str, dict[int, None]] = {}
        for claim in same:
            for topic, index in claim.partitions:
                by_topic.setdefault(topic, {})[index] = None
        first = same[0]
        request.transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=first.transactional_id,
                producer_id=first.producer.producer_id,
                producer_epoch=first.producer.epoch,
                verify_only=not first.add,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=list(ids)) for name, ids in by_topic.items()],
            )
        )
    return request
