"""Markers reach their partitions wherever these are led, and one kind only; coordinators that are late are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kavka.broker.metadata.metadata_cache import Endpoint, MetadataCache, PartitionMetadata, TopicMetadata
from kavka.broker.transactions.markers import Marker, TransactionMarkers
from kavka.broker.transactions.peers import MAX_WAITING, Lane, PeerAccess
from kavka.coordinator.transactions.decide.state import Transaction, TransactionState
from kavka.errors import ConnectionFailed, ErrorCode, InvariantViolation
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kavka.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kavka.protocol.schema import ZERO_UUID

OWN, OTHER = BrokerId(1), BrokerId(2)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TRANSACTION = Transaction("tx", 7, 3, 1_000, TransactionState.PREPARE_COMMIT, frozenset({A, B}))


class Partitions:
    """Stands for the logs here: `errors` are answered one after another, NONE then."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.errors = list(errors)
        self.written: list[Marker] = []

    async def write(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        self.written.append(marker)
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        return dict.fromkeys(marker.partitions, error)


class Peer:
    """Stands for a connection to another broker."""

    def __init__(self, partitions: Partitions, *failures: ConnectionFailed) -> None:
        self.partitions = partitions
        self.failures = list(failures)
        self.versions: list[int] = []
        self.is_open = True

    async def request(
        self, key: ApiKey, version: int, message: WriteTxnMarkersRequest, answer: object, *, timeout_ms: int
    ) -> WriteTxnMarkersResponse:
        assert key is ApiKey.WRITE_TXN_MARKERS
        self.versions.append(version)
        if self.failures:
            raise self.failures.pop(0)
        results = []
        for one in message.markers:
            places = [TopicPartition(topic.name, index) for topic in one.topics for index in topic.partition_indexes]
            marker = Marker(
                one.producer_id, one.producer_epoch, one.transaction_result, one.coordinator_epoch, 0, places
            )
            errors = await self.partitions.write(marker)
            topics = [
                WritableTxnMarkerTopicResult(
                    name=place.topic,
                    partitions=[
                        WritableTxnMarkerPartitionResult(partition_index=place.partition, error_code=errors[place])
                    ],
                )
                for place in places
            ]
            results.append(WritableTxnMarkerResult(producer_id=one.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)

    def close(self) -> None:
        self.is_open = False


class Room:
    """Markers with a broker here and one elsewhere."""

    def __init__(self, here: Partitions, there: Peer | None = None, *, version: int = 0) -> None:
        self.here, self.there = here, there or Peer(Partitions())
        self.metadata = MetadataCache("cluster")
        self.in_zookeeper: dict[str, int] = {"a": 1, "b": 1}
        self.markers = TransactionMarkers(
            OWN,
            here,  # type: ignore[arg-type]  # what it has of a MarkerLog is all that is used
            PeerAccess(self.metadata, "PLAINTEXT", self._open, 1_000),  # type: ignore[arg-type]
            partition_count=self._count,
            transaction_version=lambda: version,
        )
        from kavka.broker.metadata.metadata_cache import BrokerMetadata

        self.metadata.set_brokers([BrokerMetadata(OTHER, {"PLAINTEXT": Endpoint("there", 1)})])

    def lead(self, partition: TopicPartition, leader: int) -> None:
        state = LeaderAndIsr(BrokerId(leader), 0, (BrokerId(leader),), 0)
        self.metadata.set_topic(
            TopicMetadata(partition.topic, ZERO_UUID, (PartitionMetadata((BrokerId(leader),), state),))
        )

    async def _open(self, host: str, port: int, timeout_ms: int) -> Peer:
        self.there.is_open = True
        return self.there

    async def _count(self, topic: str) -> int:
        return self.in_zookeeper.get(topic, 0)


def runs(scenario: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.broker.transactions.markers.RETRY_S", 0.001)

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 60)

    asyncio.run(bounded())


def test_each_leader_gets_the_marker_of_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        room = Room(Partitions())
        room.lead(A, OWN)
        room.lead(B, OTHER)
        assert await room.markers.write(TRANSACTION, 5)
        assert room.here.written == [Marker(7, 3, True, 5, 0, [A])]
        assert room.there.partitions.written == [Marker(7, 3, True, 5, 0, [B])]
        assert room.there.versions == [1]

    runs(scenario, monkeypatch)


def test_brokers_that_know_transaction_version_2_are_told_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        room = Room(Partitions(), version=2)
        room.lead(A, OTHER)
        room.lead(B, OTHER)
        assert await room.markers.write(TRANSACTION, 5)
        assert room.there.versions == [2]

    runs(scenario, monkeypatch)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_marker_that_was_not_written_is_written_again(monkeypatch: pytest.MonkeyPatch, error: ErrorCode) -> None:
    async def scenario() -> None:
        room = Room(Partitions(error, error))
        room.lead(A, OWN)
        room.lead(B, OTHER)
        assert await room.markers.write(TRANSACTION, 5)
        assert [marker.partitions for marker in room.here.written] == [[A], [A], [A]]
        assert {marker.committed for marker in room.here.written} == {True}
        assert len(room.there.partitions.written) == 1, "who has it gets it no second time"

    runs(scenario, monkeypatch)


def test_a_marker_whose_error_nobody_knows_here_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of a later version may answer so. The transaction never ended, and nothing was logged."""

    async def scenario() -> None:
        unheard_of: list[ErrorCode] = [9_999]  # type: ignore[list-item]
        room = Room(Partitions(), Peer(Partitions(*unheard_of)))
        room.lead(A, OTHER)
        room.lead(B, OWN)
        assert await room.markers.write(TRANSACTION, 5)
        assert [marker.partitions for marker in room.there.partitions.written] == [[A], [A]]

    runs(scenario, monkeypatch)


def test_after_a_lost_connection_the_leader_of_then_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        room = Room(Partitions(), Peer(Partitions(), ConnectionFailed("gone")))
        room.lead(A, OTHER)
        room.lead(B, OTHER)
        writing = asyncio.ensure_future(room.markers.write(TRANSACTION, 5))
        await asyncio.sleep(0)
        room.lead(B, OWN)
        assert await writing
        assert [marker.partitions for marker in room.here.written] == [[B]]
        assert [marker.partitions for marker in room.there.partitions.written] == [[A]]

    runs(scenario, monkeypatch)


@pytest.mark.parametrize("error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_coordinator_that_is_late_stops(monkeypatch: pytest.MonkeyPatch, error: ErrorCode) -> None:
    async def scenario() -> None:
        room = Room(Partitions(error))
        room.lead(A, OWN)
        room.lead(B, OWN)
        assert not await room.markers.write(TRANSACTION, 5)
        assert len(room.here.written) == 1

    runs(scenario, monkeypatch)


def test_only_a_partition_that_zookeeper_does_not_know_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        room = Room(Partitions())
        room.lead(A, OWN)
        writing = asyncio.ensure_future(room.markers.write(TRANSACTION, 5))
        await asyncio.sleep(0.05)
        assert not writing.done(), "this broker has not heard of b yet"
        del room.in_zookeeper["b"]
        assert await writing
        assert [marker.partitions for marker in room.here.written] == [[A]]

    runs(scenario, monkeypatch)


def test_a_partition_without_a_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        room = Room(Partitions())
        room.lead(A, OWN)
        room.lead(B, -1)
        writing = asyncio.ensure_future(room.markers.write(TRANSACTION, 5))
        await asyncio.sleep(0.05)
        assert not writing.done()
        room.lead(B, OWN)
        assert await writing

    runs(scenario, monkeypatch)


# -- lanes


def test_what_comes_while_a_request_is_under_way_goes_together_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        sent: list[list[int]] = []
        gate = asyncio.Event()

        async def send(connection: object, items: Sequence[int]) -> Sequence[int]:
            sent.append(list(items))
            await gate.wait()
            return [10 * item for item in items]

        async def open_peer(host: str, port: int, timeout_ms: int) -> Peer:
            return Peer(Partitions())

        lane: Lane[int, int] = Lane(lambda: Endpoint("there", 1), open_peer, send)  # type: ignore[arg-type]
        asking = [asyncio.ensure_future(lane.ask(item)) for item in range(4)]
        await asyncio.sleep(0.01)
        asking += [asyncio.ensure_future(lane.ask(item)) for item in range(4, 6)]
        await asyncio.sleep(0.01)
        gate.set()
        assert await asyncio.gather(*asking) == [0, 10, 20, 30, 40, 50]
        assert sent == [[0, 1, 2, 3], [4, 5]]

    runs(scenario, monkeypatch)


def test_a_bug_in_sending_comes_to_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were cancelled, and whoever waited for their tasks took that for the end of the broker."""

    async def scenario() -> None:
        async def send(connection: object, items: Sequence[int]) -> Sequence[int]:
            raise InvariantViolation("no such item")

        async def open_peer(host: str, port: int, timeout_ms: int) -> Peer:
            return Peer(Partitions())

        lane: Lane[int, int] = Lane(lambda: Endpoint("there", 1), open_peer, send)  # type: ignore[arg-type]
        with pytest.raises(InvariantViolation):
            await lane.ask(1)

    runs(scenario, monkeypatch)


def test_a_lane_is_bounded_and_fails_what_waits_for_a_broker_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def send(connection: object, items: Sequence[int]) -> Sequence[int]:
            return items

        async def open_peer(host: str, port: int, timeout_ms: int) -> Peer:
            raise ConnectionFailed("refused")

        lane: Lane[int, int] = Lane(lambda: Endpoint("there", 1), open_peer, send)  # type: ignore[arg-type]
        asking = [asyncio.ensure_future(lane.ask(item)) for item in range(MAX_WAITING + 1)]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert {str(answer) for answer in answers[:-1]} == {"refused"}
        assert "wait for the broker" in str(answers[-1])

    runs(scenario, monkeypatch)
