"""Scenarios of transactions: producers, partitions, offsets, ends, markers, and what is told of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    add_partitions_to_txn_request,
    describe_producers_request,
    fetch_request,
    list_offsets_request,
    produce_request,
    txn_offset_commit_request,
    write_txn_markers_request,
)
from kavka.records.builder import BatchBuilder, ProducerStamp
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession

TIMEOUT_MS = 60_000
UNKNOWN_TOPIC_OR_PARTITION, CONCURRENT_TRANSACTIONS = 3, 51
FIRST_THAT_BUMPS = 5
"""The first version of EndTxn that gives the producer its next epoch."""
# Versions for the requests that only prepare a scenario: those of transaction version 0.
INIT, ADD, END, FIND, DESCRIBE, PRODUCE = 4, 3, 3, 3, 0, 8


class Transactional:
    """A transactional id of this session, with the producer id and epoch that it was given last."""

    def __init__(self, session: WireSession, prefix: str = "tx") -> None:
        self.session = session
        self.id = session.name(prefix)
        self.producer_id, self.epoch = -1, -1
        session.until(self._coordinator_serves)

    def _coordinator_serves(self) -> bool:
        found = self.session.connection.ask(m.FindCoordinatorRequest(key=self.id, key_type=1), FIND)
        if found.error_code:
            return False
        asked = m.AddOffsetsToTxnRequest(transactional_id=self.id, producer_id=1, producer_epoch=0, group_id="g")
        if self.session.connection.ask(asked, 3).error_code != 49:
            return False  # INVALID_PRODUCER_ID_MAPPING: it knows its ids
        # Kafka's first block of producer ids may still be on its way to the broker.
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        return self.session.connection.ask(request, INIT).error_code == 0

    def init_request(self, **changes: Any) -> Any:
        fields: dict[str, Any] = {"transactional_id": self.id, "transaction_timeout_ms": TIMEOUT_MS}
        return m.InitProducerIdRequest(**fields | changes)

    def init(self) -> None:
        """Takes the next epoch; an open transaction is aborted."""

        def given() -> bool:
            answer = self.session.connection.ask(self.init_request(), INIT)
            assert answer.error_code in (0, CONCURRENT_TRANSACTIONS), answer
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return answer.error_code == 0

        self.session.until(given)

    def add_request(self, version: int, *partitions: tuple[str, int], verify: bool = False, **changes: Any) -> Any:
        ap = add_partitions_to_txn_request
        topics = [ap.AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in by_topic(partitions)]
        who = {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch} | changes
        if version >= 4:
            one = ap.AddPartitionsToTxnTransaction(**who, verify_only=verify, topics=topics)
            return m.AddPartitionsToTxnRequest(transactions=[one])
        return m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who["transactional_id"],
            v3_and_below_producer_id=who["producer_id"],
            v3_and_below_producer_epoch=who["producer_epoch"],
            v3_and_below_topics=topics,
        )

    def add(self, *partitions: tuple[str, int]) -> None:
        """Adds partitions, as soon as the former transaction has ended."""

        def added() -> bool:
            answer = self.session.connection.ask(self.add_request(ADD, *partitions), ADD)
            codes = {
                found.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for found in topic.results_by_partition
            }
            assert codes <= {0, CONCURRENT_TRANSACTIONS}, answer
            return codes == {0}

        self.session.until(added)

    def add_nowhere(self) -> None:
        """Asks to add a partition that does not exist, and is refused."""
        request = self.add_request(ADD, (self.session.name("nowhere"), 0))
        (topic,) = self.session.connection.ask(request, ADD).results_by_topic_v3_and_below
        assert [found.partition_error_code for found in topic.results_by_partition] == [UNKNOWN_TOPIC_OR_PARTITION]

    def end_request(self, *, commit: bool, **changes: Any) -> Any:
        who = {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch} | changes
        return m.EndTxnRequest(**who, committed=commit)

    def end(self, *, commit: bool) -> None:
        answer = self.session.connection.ask(self.end_request(commit=commit), END)
        assert answer.error_code == 0, answer
        self.settle()

    def settle(self) -> None:
        """Waits until all markers are written."""
        self.session.until(lambda: self.state().startswith("Complete"))

    def state(self) -> str:
        answer = self.session.connection.ask(m.DescribeTransactionsRequest(transactional_ids=[self.id]), DESCRIBE)
        return str(answer.transaction_states[0].transaction_state)

    def batch(self, count: int = 2, *, sequence: int = 0, **changes: Any) -> bytes:
        builder = BatchBuilder()
        for number in range(count):
            builder.append(int(time.time() * 1000), None, b"v%d" % number)
        who = {"producer_id": self.producer_id, "producer_epoch": self.epoch} | changes
        return builder.build(ProducerStamp(**who, base_sequence=sequence, is_transactional=True))

    def produce_request(self, topic: str, batch: bytes, version: int, **changes: Any) -> Any:
        pr = produce_request
        data = pr.PartitionProduceData(index=0, records=batch)
        named = (
            pr.TopicProduceData(topic_id=self.session.topic_id(topic), partition_data=[data])
            if version >= 13
            else pr.TopicProduceData(name=topic, partition_data=[data])
        )
        fields: dict[str, Any] = {"transactional_id": self.id, "acks": -1, "timeout_ms": 15_000}
        return m.ProduceRequest(**fields | changes, topic_data=[named])

    def produce(self, topic: str, *, sequence: int = 0, count: int = 2) -> None:
        """Adds the partition and writes to it."""
        self.add((topic, 0))
        request = self.produce_request(topic, self.batch(count, sequence=sequence), PRODUCE)
        answer = self.session.connection.ask(request, PRODUCE).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer


def by_topic(partitions: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return list(found.items())


def ours(session: WireSession, transactional: Transactional) -> Any:
    """For `keep`: of the transactional ids only this one."""
    return lambda struct: getattr(struct, "transactional_id", transactional.id) == transactional.id


# ---- FindCoordinator, InitProducerId ------------------------------------------------------------------------------


@scenario(ApiKey.FIND_COORDINATOR, min_version=1)
def find_transaction_coordinator(session: WireSession, version: int) -> None:
    tx = Transactional(session)
    request = m.FindCoordinatorRequest(key=tx.id, key_type=1, coordinator_keys=[tx.id])
    session.record("of a transactional id", request, version)


@scenario(ApiKey.INIT_PRODUCER_ID)
def init_transactional_producer_id(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    session.record("the first time", tx.init_request(), version)
    session.record("the second time", tx.init_request(), version)
    session.record("a time-out of nothing", tx.init_request(transaction_timeout_ms=0), version)
    session.record("a time-out of hours", tx.init_request(transaction_timeout_ms=10_000_000), version)
    tx.init()
    tx.add((topic, 0))
    session.record("while a transaction is open", tx.init_request(), version)
    session.until(lambda: tx.state() == "CompleteAbort")
    session.record("after it was aborted", tx.init_request(), version)


@scenario(ApiKey.INIT_PRODUCER_ID, min_version=3)
def init_producer_id_of_a_known_producer(session: WireSession, version: int) -> None:
    tx = Transactional(session)
    tx.init()
    tx.init()
    session.record("id and epoch of now", tx.init_request(producer_id=tx.producer_id, producer_epoch=1), version)
    session.record("once more", tx.init_request(producer_id=tx.producer_id, producer_epoch=1), version)
    session.record("an older epoch", tx.init_request(producer_id=tx.producer_id, producer_epoch=0), version)
    session.record("an epoch to come", tx.init_request(producer_id=tx.producer_id, producer_epoch=9), version)
    session.record("another id", tx.init_request(producer_id=tx.producer_id + 777, producer_epoch=2), version)
    session.record("an id without an epoch", tx.init_request(producer_id=tx.producer_id), version)
    session.record("nobody", tx.init_request(), version)
    session.record("the epoch before nobody", tx.init_request(producer_id=tx.producer_id, producer_epoch=2), version)


@scenario(ApiKey.INIT_PRODUCER_ID, min_version=3)
def init_producer_id_after_a_fence(session: WireSession, version: int) -> None:
    """With transaction version 2 in force the end of a transaction gives its producer the next epoch, whoever asked."""
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.add((topic, 0))
    own = tx.init_request(producer_id=tx.producer_id, producer_epoch=0)
    session.record("its own transaction is open", own, version)
    session.until(lambda: tx.state() == "CompleteAbort")
    session.record("once more", own, version)
    session.record("and more", own, version)
    session.record("what is known then", m.DescribeTransactionsRequest(transactional_ids=[tx.id]), DESCRIBE)


@scenario(ApiKey.INIT_PRODUCER_ID, min_version=3)
def init_producer_id_of_odd_numbers(session: WireSession, version: int) -> None:
    """-1 is no id and no epoch; other numbers below 0 are ids and epochs that nobody has."""
    tx = Transactional(session)
    tx.init()
    for who, name in (("", tx.init_request().transactional_id), (", without a name", None)):
        for producer_id, epoch in ((-1, -2), (-2, -1), (-2, -2), (-1, 0)):
            request = m.InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
            )
            session.record(f"{producer_id}, {epoch}{who}", request, version)


# ---- AddPartitionsToTxn, AddOffsetsToTxn --------------------------------------------------------------------------


@scenario(ApiKey.ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(session: WireSession, version: int) -> None:
    topic, tx = session.topic(partitions=2), Transactional(session)
    session.record("unknown id", tx.add_request(version, (topic, 0), producer_id=5, producer_epoch=0), version)
    tx.init()
    tx.init()
    session.record("another producer", tx.add_request(version, (topic, 0), producer_id=tx.producer_id + 777), version)
    session.record("an older epoch", tx.add_request(version, (topic, 0), producer_epoch=0), version)
    session.record("an epoch to come", tx.add_request(version, (topic, 0), producer_epoch=8), version)
    session.record("empty id", tx.add_request(version, (topic, 0), transactional_id=""), version)
    unknown = session.name("unknown")
    session.record("with an unknown topic", tx.add_request(version, (topic, 0), (unknown, 0)), version)
    session.record("with an unknown partition", tx.add_request(version, (topic, 0), (topic, 7)), version)
    session.record("no partition", tx.add_request(version), version)
    session.record("the first", tx.add_request(version, (topic, 0)), version)
    session.record("again", tx.add_request(version, (topic, 0)), version)
    session.record("one more", tx.add_request(version, (topic, 1)), version)
    if version >= 4:
        session.record("verified", tx.add_request(version, (topic, 0), verify=True), version)
    tx.end(commit=True)
    if version >= 4:
        session.record("verified after the end", tx.add_request(version, (topic, 0), verify=True), version)


@scenario(ApiKey.ADD_PARTITIONS_TO_TXN, min_version=4)
def verify_partitions_of_txn(session: WireSession, version: int) -> None:
    topic, tx = session.topic(partitions=2), Transactional(session)
    request = tx.add_request(version, (topic, 0), verify=True, producer_id=5, producer_epoch=0)
    session.record("unknown id", request, version)
    tx.init()
    session.record("nothing is open", tx.add_request(version, (topic, 0), verify=True), version)
    tx.add((topic, 0))
    session.record("another partition", tx.add_request(version, (topic, 1), verify=True), version)
    session.record("one of two", tx.add_request(version, (topic, 0), (topic, 1), verify=True), version)
    session.record("an older epoch", tx.add_request(version, (topic, 0), verify=True, producer_epoch=-1), version)
    session.record("an unknown topic", tx.add_request(version, (session.name("unknown"), 0), verify=True), version)


@scenario(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(session: WireSession, version: int) -> None:
    tx = Transactional(session)
    group = session.name("group")
    session.coordinator_serves(group)

    def request(**changes: Any) -> Any:
        fields: dict[str, Any] = {
            "transactional_id": tx.id,
            "producer_id": tx.producer_id,
            "producer_epoch": tx.epoch,
            "group_id": group,
        }
        return m.AddOffsetsToTxnRequest(**fields | changes)

    session.record("unknown id", request(producer_id=5, producer_epoch=0), version)
    tx.init()
    tx.init()
    session.record("another producer", request(producer_id=tx.producer_id + 777), version)
    session.record("an older epoch", request(producer_epoch=0), version)
    session.record("empty id", request(transactional_id=""), version)
    session.record("a group", request(), version)
    session.record("again", request(), version)
    session.record("the empty group", request(group_id=""), version)


# ---- EndTxn -------------------------------------------------------------------------------------------------------


@scenario(ApiKey.END_TXN)
def end_txn(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    nobody = {"producer_id": 5, "producer_epoch": 0}
    session.record("unknown id", tx.end_request(commit=True, **nobody), version)
    tx.init()
    tx.init()
    session.record("another producer", tx.end_request(commit=True, producer_id=tx.producer_id + 777), version)
    session.record("an older epoch", tx.end_request(commit=True, producer_epoch=0), version)
    session.record("an epoch to come", tx.end_request(commit=True, producer_epoch=8), version)
    session.record("empty id", tx.end_request(commit=True, transactional_id=""), version)
    session.record("nothing to commit", tx.end_request(commit=True), version)
    tx.init()
    tx.add((topic, 0))
    session.record("commit", tx.end_request(commit=True), version)
    tx.settle()
    session.record("commit again", tx.end_request(commit=True), version)
    session.record("abort what was committed", tx.end_request(commit=False), version)
    session.until(lambda: tx.state() in ("CompleteAbort", "CompleteCommit", "Empty"))
    tx.init()
    tx.add((topic, 0))
    session.record("abort", tx.end_request(commit=False), version)
    tx.settle()
    session.record("abort again", tx.end_request(commit=False), version)
    session.record("commit what was aborted", tx.end_request(commit=True), version)


@scenario(ApiKey.END_TXN)
def end_txn_of_nothing(session: WireSession, version: int) -> None:
    tx = Transactional(session)
    tx.init()
    session.record("abort nothing", tx.end_request(commit=False), version)
    session.until(lambda: tx.state() in ("CompleteAbort", "Empty"))
    session.record("what is known then", m.DescribeTransactionsRequest(transactional_ids=[tx.id]), DESCRIBE)


@scenario(ApiKey.END_TXN)
def end_txn_of_what_was_refused(session: WireSession, version: int) -> None:
    """The producer has begun another transaction, and its first partition was refused."""
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.add_nowhere()
    session.record("abort before there was any", tx.end_request(commit=False), version)
    session.until(lambda: tx.state() in ("CompleteAbort", "Empty"))
    tx.init()
    tx.add((topic, 0))
    answer = session.connection.ask(tx.end_request(commit=True), version)
    assert answer.error_code == 0, answer
    if version >= FIRST_THAT_BUMPS:
        tx.epoch = answer.producer_epoch
    tx.settle()
    tx.add_nowhere()
    session.record("abort after a commit", tx.end_request(commit=False), version)
    session.until(lambda: tx.state().startswith("Complete"))


@scenario(ApiKey.END_TXN, min_version=FIRST_THAT_BUMPS)
def end_txn_after_a_fence(session: WireSession, version: int) -> None:
    """The former producer's transaction was aborted by another one, which has no epoch yet."""
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.add((topic, 0))
    assert session.connection.ask(tx.init_request(), INIT).error_code == CONCURRENT_TRANSACTIONS
    session.until(lambda: tx.state() == "CompleteAbort")
    session.record("commit", tx.end_request(commit=True), version)
    session.record("abort", tx.end_request(commit=False), version)
    session.record("another one takes over", tx.init_request(), INIT)
    session.record("abort again", tx.end_request(commit=False), version)


@scenario(ApiKey.END_TXN, min_version=FIRST_THAT_BUMPS)
def end_txn_with_the_epoch_before_that_of_another_producer(session: WireSession, version: int) -> None:
    """That one's client knows transaction version 0: the end of its transaction gave it no other epoch."""
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.init()
    tx.add((topic, 0))
    tx.end(commit=False)
    session.record("abort", tx.end_request(commit=False, producer_epoch=0), version)
    session.record("commit", tx.end_request(commit=True, producer_epoch=0), version)


# ---- TxnOffsetCommit ----------------------------------------------------------------------------------------------


def commit(tx: Transactional, group: str, *partitions: tuple[str, int], **changes: Any) -> Any:
    oc = txn_offset_commit_request
    topics = [
        oc.TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                oc.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes
            ],
        )
        for name, indexes in by_topic(partitions)
    ]
    fields: dict[str, Any] = {
        "transactional_id": tx.id,
        "group_id": group,
        "producer_id": tx.producer_id,
        "producer_epoch": tx.epoch,
    }
    return m.TxnOffsetCommitRequest(**fields | changes, topics=topics)


@scenario(ApiKey.TXN_OFFSET_COMMIT)
def txn_offset_commit(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    group = session.name("group")
    session.coordinator_serves(group)
    tx.init()
    tx.init()
    session.record("an older epoch", commit(tx, group, (topic, 0), producer_epoch=0), version)
    session.record("another producer", commit(tx, group, (topic, 0), producer_id=tx.producer_id + 777), version)
    session.record("an unknown topic", commit(tx, group, (session.name("unknown"), 0)), version)
    session.record("the empty group", commit(tx, "", (topic, 0)), version)
    if version < 5:
        session.record("not added", commit(tx, group, (topic, 0)), version)
        add = m.AddOffsetsToTxnRequest(
            transactional_id=tx.id, producer_id=tx.producer_id, producer_epoch=tx.epoch, group_id=group
        )
        assert session.connection.ask(add, 3).error_code == 0
    session.record("added", commit(tx, group, (topic, 0)), version)
    session.record("with an unknown partition", commit(tx, group, (topic, 0), (topic, 9)), version)
    if version >= 3:
        session.record("of no member", commit(tx, group, (topic, 0), member_id="nobody", generation_id=3), version)


# ---- Produce, and what readers see --------------------------------------------------------------------------------


@scenario(ApiKey.PRODUCE, min_version=3)
def produce_in_a_transaction(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.init()
    session.record("no id", tx.produce_request(topic, tx.batch(), version, transactional_id=None), version)
    if version < 12:
        session.record("not added", tx.produce_request(topic, tx.batch(), version), version)
        tx.add((topic, 0))
    session.record("an older epoch", tx.produce_request(topic, tx.batch(producer_epoch=0), version), version)
    other = tx.batch(producer_id=tx.producer_id + 777)
    session.record("another producer", tx.produce_request(topic, other, version), version)
    session.record("added", tx.produce_request(topic, tx.batch(), version), version)
    session.record("the same again", tx.produce_request(topic, tx.batch(), version), version)
    session.record("a gap", tx.produce_request(topic, tx.batch(sequence=7), version), version)
    session.record("the next", tx.produce_request(topic, tx.batch(sequence=2), version), version)
    tx.end(commit=True)
    if version < 12:
        session.record("after the end", tx.produce_request(topic, tx.batch(sequence=4), version), version)
    assert session.end_offset(topic) == 5


@scenario(ApiKey.PRODUCE, min_version=3)
def produce_in_a_transaction_what_comes_later(session: WireSession, version: int) -> None:
    """The first batch that a partition sees of a producer is not the first one that was sent."""
    topic, tx = session.topic(partitions=2), Transactional(session)
    tx.init()
    if version < 12:
        tx.add((topic, 0))
    session.record("the second batch", tx.produce_request(topic, tx.batch(sequence=2), version), version)
    session.record("the first batch", tx.produce_request(topic, tx.batch(), version), version)
    session.record("the second batch again", tx.produce_request(topic, tx.batch(sequence=2), version), version)
    session.record("where it ends", offsets(topic, -1, committed=False), 5)
    tx.end(commit=True)


def offsets(topic: str, timestamp: int, *, committed: bool) -> Any:
    lo = list_offsets_request
    wanted = lo.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return m.ListOffsetsRequest(
        replica_id=-1, isolation_level=int(committed), topics=[lo.ListOffsetsTopic(name=topic, partitions=[wanted])]
    )


@scenario(ApiKey.LIST_OFFSETS, min_version=2)
def list_offsets_of_transactions(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.produce(topic)
    session.record("end while open", offsets(topic, -1, committed=True), version)
    session.record("end of all while open", offsets(topic, -1, committed=False), version)
    tx.end(commit=True)
    session.record("end", offsets(topic, -1, committed=True), version)


def fetch(topic: str, *, committed: bool) -> Any:
    fr = fetch_request
    wanted = fr.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return m.FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=0,
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[fr.FetchTopic(topic=topic, partitions=[wanted])],
    )


@scenario(ApiKey.FETCH, min_version=11)
def fetch_transactions(session: WireSession, version: int) -> None:
    if version > 12:
        return  # From 13 on by topic id: what is told of transactions is the same.
    topic, tx = session.topic(), Transactional(session)
    other = Transactional(session, "other")
    tx.init()
    other.init()
    tx.produce(topic)
    session.record("committed, while open", fetch(topic, committed=True), version)
    session.record("all, while open", fetch(topic, committed=False), version)
    tx.end(commit=False)
    other.produce(topic)
    tx.produce(topic, sequence=2)
    other.end(commit=True)
    session.record("committed, with one aborted and one open", fetch(topic, committed=True), version)
    tx.end(commit=False)
    session.record("committed, with two aborted", fetch(topic, committed=True), version)
    session.record("all", fetch(topic, committed=False), version)


# ---- markers and what is told -------------------------------------------------------------------------------------


def marker(tx: Transactional, topic: str, index: int = 0, **changes: Any) -> Any:
    wm = write_txn_markers_request
    fields: dict[str, Any] = {
        "producer_id": tx.producer_id,
        "producer_epoch": tx.epoch,
        "transaction_result": False,
        "coordinator_epoch": 3,
    }
    topics = [wm.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])]
    return m.WriteTxnMarkersRequest(markers=[wm.WritableTxnMarker(**fields | changes, topics=topics)])


@scenario(ApiKey.WRITE_TXN_MARKERS, min_version=1)
def write_txn_markers(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.init()
    tx.produce(topic)
    session.record("unknown topic", marker(tx, session.name("unknown")), version)
    session.record("unknown partition", marker(tx, topic, 9), version)
    session.record("an older epoch", marker(tx, topic, producer_epoch=0), version)
    session.record("abort", marker(tx, topic), version)
    session.record("once more", marker(tx, topic), version)
    session.record("of an older coordinator", marker(tx, topic, coordinator_epoch=2), version)
    session.record("of a producer that never wrote", marker(tx, topic, producer_id=tx.producer_id + 5_000), version)
    session.record("no marker", m.WriteTxnMarkersRequest(markers=[]), version)
    session.record("producers", producers(topic), 0)
    assert session.end_offset(topic) == 5


@scenario(ApiKey.WRITE_TXN_MARKERS, min_version=2)
def write_txn_markers_of_version_2(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    tx.init()
    tx.produce(topic)
    session.record("the epoch of the records", marker(tx, topic, transaction_version=2), version)
    session.record("the next epoch", marker(tx, topic, transaction_version=2, producer_epoch=tx.epoch + 1), version)
    again = marker(tx, topic, transaction_version=2, producer_epoch=tx.epoch + 1)
    session.record("the next epoch again", again, version)
    session.record("where it ends", offsets(topic, -1, committed=False), 5)
    session.record("producers", producers(topic), 0)


def producers(topic: str, index: int = 0) -> Any:
    dp = describe_producers_request
    return m.DescribeProducersRequest(topics=[dp.TopicRequest(name=topic, partition_indexes=[index])])


@scenario(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    session.record("unknown topic", producers(session.name("unknown")), version)
    session.record("illegal topic", producers("no spaces"), version)
    session.record("empty topic", producers(""), version)
    session.record("unknown partition", producers(topic, 9), version)
    session.record("nobody", producers(topic), version)
    tx.init()
    tx.produce(topic)
    session.record("one with an open transaction", producers(topic), version)
    tx.end(commit=True)
    session.record("after its end", producers(topic), version)


@scenario(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(session: WireSession, version: int) -> None:
    topic, tx = session.topic(partitions=2), Transactional(session)
    session.record("unknown id", m.DescribeTransactionsRequest(transactional_ids=[tx.id]), version)
    session.record("empty id", m.DescribeTransactionsRequest(transactional_ids=[""]), version)
    tx.init()
    session.record("empty", m.DescribeTransactionsRequest(transactional_ids=[tx.id]), version)
    tx.add((topic, 0), (topic, 1))
    session.record("open", m.DescribeTransactionsRequest(transactional_ids=[tx.id, tx.id]), version)
    tx.end(commit=True)
    session.record("committed", m.DescribeTransactionsRequest(transactional_ids=[tx.id]), version)


@scenario(ApiKey.LIST_TRANSACTIONS)
def list_transactions(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    keep = ours(session, tx)
    tx.init()
    session.record("empty", m.ListTransactionsRequest(), version, keep=keep)
    tx.add((topic, 0))
    session.record("open", m.ListTransactionsRequest(), version, keep=keep)
    session.record("by state", m.ListTransactionsRequest(state_filters=["Ongoing"]), version, keep=keep)
    session.record("by another state", m.ListTransactionsRequest(state_filters=["PrepareAbort"]), version, keep=keep)
    states = ["Ongoing", "Nonsense", "ongoing", "PrepareEpochFence", "Dead"]
    session.record("by unknown states", m.ListTransactionsRequest(state_filters=states), version, keep=keep)
    request = m.ListTransactionsRequest(producer_id_filters=[tx.producer_id])
    session.record("by producer", request, version, keep=keep)
    request = m.ListTransactionsRequest(producer_id_filters=[tx.producer_id + 5_000])
    session.record("by another producer", request, version, keep=keep)
    if version >= 1:
        session.record("longer than an hour", m.ListTransactionsRequest(duration_filter=3_600_000), version, keep=keep)
    if version >= 2:
        for step, pattern in (("whole", tx.id), ("part", tx.id[:4]), ("tail", ".*" + tx.id[-6:]), ("none", "(")):
            request = m.ListTransactionsRequest(transactional_id_pattern=pattern)
            session.record(f"by pattern: {step}", request, version, keep=keep)
