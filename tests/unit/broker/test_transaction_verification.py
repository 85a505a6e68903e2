"""What a log waits for before a transaction begins in it is asked for, and granted, whatever comes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pytest

from kavka.broker.metadata.metadata_cache import (
    TRANSACTION_STATE_TOPIC,
    BrokerMetadata,
    Endpoint,
    MetadataCache,
    PartitionMetadata,
    TopicMetadata,
)
from kavka.broker.transactions.peers import PeerAccess
from kavka.broker.transactions.verification import AddRetries, Beginning, TransactionVerification
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode, RecordsError, RequestError
from kavka.log.decide.producer_state import AppendOrigin, ProducerState
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kavka.protocol.schema import ZERO_UUID
from kavka.records.batch import BatchHeader, read_header
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker

OWN, OTHER = BrokerId(1), BrokerId(2)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
PRODUCER = ProducerIdAndEpoch(7, 5)
COMMIT = EndTransactionMarker(ControlType.COMMIT, 0)
NOW_MS = 1_000_000
PATIENCE_MS = 60_000


class Log(NamedTuple):
    """What verification has of a log."""

    producers: ProducerState


class Coordinator:
    """Stands for the coordinator of transactions: `meanwhile` is called while it is asked, and raises what it refuses
    with."""

    def __init__(self, meanwhile: Callable[[int], None]) -> None:
        self.meanwhile = meanwhile
        self.asked: list[set[TopicPartition]] = []

    def partition_for(self, transactional_id: str) -> int:
        return 0

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition], *, version: int
    ) -> None:
        await asyncio.sleep(0)
        self._ask(partitions)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self._ask(partitions)
        return dict.fromkeys(partitions, ErrorCode.NONE)

    def _ask(self, partitions: Iterable[TopicPartition]) -> None:
        self.asked.append(set(partitions))
        self.meanwhile(len(self.asked))


class Refusing:
    """Stands for a connection to a broker that lets this one do nothing."""

    address = "there:1"
    is_open = True

    async def request(self, *asked: object, timeout_ms: int) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results_by_transaction=[])


async def refusing(host: str, port: int, timeout_ms: int) -> Refusing:
    return Refusing()


def verification(
    coordinator: Coordinator, leader: BrokerId = OWN, *, patience_ms: int = PATIENCE_MS
) -> TransactionVerification:
    metadata = MetadataCache("cluster")
    state = LeaderAndIsr(leader, 0, (leader,), 0)
    metadata.set_topic(TopicMetadata(TRANSACTION_STATE_TOPIC, ZERO_UUID, (PartitionMetadata((leader,), state),)))
    metadata.set_brokers([BrokerMetadata(OTHER, {"PLAINTEXT": Endpoint("there", 1)})])
    return TransactionVerification(
        OWN,
        coordinator,  # type: ignore[arg-type]  # what it has of a coordinator is all that is used
        PeerAccess(metadata, "PLAINTEXT", refusing, 1_000),  # type: ignore[arg-type]  # the same of a connection
        AddRetries(1, patience_ms),
        is_enabled=lambda: True,
        wall_ms=lambda: NOW_MS,
    )


def batch() -> BatchHeader:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"v")
    return read_header(memoryview(builder.build(ProducerStamp(*PRODUCER, 0, is_transactional=True))))


def marker(epoch: int) -> BatchHeader:
    data = build_marker(COMMIT, producer_id=PRODUCER.producer_id, producer_epoch=epoch, timestamp=NOW_MS)
    return read_header(memoryview(data))


def opened(
    coordinator: Coordinator,
    logs: Mapping[TopicPartition, ProducerState],
    *,
    add: bool,
    patience_ms: int = PATIENCE_MS,
) -> Mapping[TopicPartition, ErrorCode]:
    beginnings = [
        Beginning(partition, Log(producers), 0)  # type: ignore[arg-type]  # its producers are all that is used
        for partition, producers in logs.items()
    ]
    asking = verification(coordinator, patience_ms=patience_ms).open("tx", PRODUCER, beginnings, add=add)
    return asyncio.run(asyncio.wait_for(asking, 60))


@pytest.mark.parametrize("add", [True, False])
def test_a_marker_that_comes_while_the_coordinator_is_asked_takes_nothing_from_the_next_transaction(
    add: bool,
) -> None:
    """1. a producer has committed, and its next batch is here, with the epoch that the marker has (KIP-890); 2. the
    coordinator is asked; 3. the marker comes, and the coordinator, which has heard so, says yes. The batch was refused
    with INVALID_TXN_STATE."""
    here, quiet = ProducerState(), ProducerState()

    def end_the_former_one(times_asked: int) -> None:
        if times_asked == 1:
            here.end_transaction(marker(PRODUCER.epoch), COMMIT, 3)

    coordinator = Coordinator(end_the_former_one)
    assert opened(coordinator, {A: here, B: quiet}, add=add) == {A: ErrorCode.NONE, B: ErrorCode.NONE}
    for producers in (here, quiet):
        assert producers.check(batch(), AppendOrigin.CLIENT) is None
    assert coordinator.asked == [{A, B}, {A}]


@pytest.mark.parametrize("add", [True, False])
def test_where_the_coordinators_answer_took_too_long_the_client_tries_again(add: bool) -> None:
    """The log would refuse the batch, and the client abort."""
    here, quiet = ProducerState(), ProducerState()
    coordinator = Coordinator(lambda times_asked: here.end_transaction(marker(PRODUCER.epoch), COMMIT, 3) and None)
    found = opened(coordinator, {A: here, B: quiet}, add=add, patience_ms=0)
    assert found == {A: ErrorCode.CONCURRENT_TRANSACTIONS, B: ErrorCode.NONE}
    assert quiet.check(batch(), AppendOrigin.CLIENT) is None


def test_a_marker_that_ends_the_transaction_itself_is_followed_by_the_coordinators_no() -> None:
    """1. the coordinator says yes; 2. the transaction is aborted, and its marker is here before the answer."""
    here = ProducerState()

    def abort(times_asked: int) -> None:
        if times_asked == 1:
            here.end_transaction(marker(PRODUCER.epoch + 1), COMMIT, 3)
        else:
            raise RequestError(ErrorCode.PRODUCER_FENCED)

    assert opened(Coordinator(abort), {A: here}, add=True) == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
    with pytest.raises(RecordsError):
        here.check(batch(), AppendOrigin.CLIENT)


def test_while_the_former_transaction_ends_adding_is_tried_again() -> None:
    here = ProducerState()

    def still_ends(times_asked: int) -> None:
        if times_asked < 3:
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)

    coordinator = Coordinator(still_ends)
    assert opened(coordinator, {A: here}, add=True) == {A: ErrorCode.NONE}
    assert here.check(batch(), AppendOrigin.CLIENT) is None
    assert len(coordinator.asked) == 3


def test_who_only_asks_is_told_at_once_that_the_former_transaction_still_ends() -> None:
    def still_ends(times_asked: int) -> None:
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)

    coordinator = Coordinator(still_ends)
    assert opened(coordinator, {A: ProducerState()}, add=False) == {A: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert len(coordinator.asked) == 1


def test_what_was_begun_meanwhile_is_not_asked_about_again() -> None:
    """Another batch of the producer was verified, and is here first."""
    here = ProducerState()

    def begin(times_asked: int) -> None:
        standing = here.verification(*PRODUCER, 0, NOW_MS)
        assert standing is not None
        standing.grant(PRODUCER.epoch)
        here.append(batch(), 0)

    coordinator = Coordinator(begin)
    assert opened(coordinator, {A: here}, add=True) == {A: ErrorCode.NONE}
    assert len(coordinator.asked) == 1


@pytest.mark.parametrize("add", [True, False])
def test_a_right_that_this_broker_lacks_is_not_taken_for_one_of_the_client(add: bool) -> None:
    """CLUSTER_AUTHORIZATION_FAILED ends a producer for good."""

    async def ask() -> Mapping[TopicPartition, ErrorCode]:
        asking = verification(Coordinator(lambda times_asked: None), OTHER)
        return await asking.verify_or_add("tx", *PRODUCER, [A], add=add)

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == {A: ErrorCode.INVALID_TXN_STATE}
