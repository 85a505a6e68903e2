"""Scenarios of the data path: Produce, Fetch, ListOffsets, InitProducerId, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from scenario import scenario
from wire_connection import carried, framed
from wire_session import BASE_TIMESTAMP_MS, WireSession, batch

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import encode
from kavka.protocol.messages import (
    delete_records_request,
    fetch_request,
    list_offsets_request,
    offset_for_leader_epoch_request,
    produce_request,
)
from kavka.records.batch import read_header
from kavka.records.builder import ProducerStamp, seal
from kavka.records.compression import Compression

FIRST_VERSION_WITH_TOPIC_IDS = {ApiKey.PRODUCE: 13, ApiKey.FETCH: 13}
UNKNOWN_ID = UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)
LONG_AGO_MS, FAR_AHEAD_MS = 1_000, 4_000_000_000_000


# ---- Produce ------------------------------------------------------------------------------------------------------


def produce(
    session: WireSession, topic: str, *records: bytes | None, acks: int = -1, partition: int = 0, **more: Any
) -> m.ProduceRequest:
    """A request with one entry for each of `records`, all for the same partition of `topic`."""
    pr = produce_request
    data = [pr.PartitionProduceData(index=partition, records=one) for one in records]
    topic_id = more.pop("topic_id", None) or known_id(session, topic)
    return m.ProduceRequest(
        acks=acks,
        timeout_ms=15_000,
        topic_data=[pr.TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)],
        **more,
    )


def known_id(session: WireSession, topic: str) -> UUID:
    return session.topic_id(topic)


def changed(data: bytes, position: int, new: bytes) -> bytes:
    """The batch with other bytes at a position and its old checksum."""
    return data[:position] + new + data[position + len(new) :]


def resealed(data: bytes, **fields: int) -> bytes:
    """The batch with other fields in its header and a checksum that is right."""
    return seal(read_header(data)._replace(**fields), data[61:])


@scenario(ApiKey.PRODUCE)
def produce_appends(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=2)
    session.record("first batch", produce(session, topic, batch()), version)
    session.record("acks 1", produce(session, topic, batch(), acks=1), version)
    session.record("other partition", produce(session, topic, batch(), partition=1), version)
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
        session.record(codec.name.lower(), produce(session, topic, batch(compression=codec)), version)
    session.record("zstd", produce(session, topic, batch(compression=Compression.ZSTD)), version)
    session.record("tombstone", produce(session, topic, batch([None], key=b"k")), version)


@scenario(ApiKey.PRODUCE)
def produce_without_acknowledgement(session: WireSession, version: int) -> None:
    """There is no answer, so the next answer on the connection is that to the next request."""
    topic = session.topic()
    session.connection.send(produce(session, topic, batch(), acks=0), version)
    session.record("acks 1 behind it", produce(session, topic, batch(), acks=1), version)
    # An error that cannot be answered closes the connection.
    lost = session.connect()
    lost.send(produce(session, topic, batch(), acks=0, partition=9), version)
    session.record("acks 0 to an unknown partition", m.ApiVersionsRequest(), 0, connection=lost, keep=lambda _: False)


@scenario(ApiKey.PRODUCE)
def produce_with_append_time(session: WireSession, version: int) -> None:
    topic = session.topic(message_timestamp_type="LogAppendTime")
    session.record("append time", produce(session, topic, batch()), version)
    session.record("append time, deflated", produce(session, topic, batch(compression=Compression.GZIP)), version)


@scenario(ApiKey.PRODUCE)
def produce_to_what_is_not_there(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.record("unknown partition", produce(session, topic, batch(), partition=9), version)
    session.record("negative partition", produce(session, topic, batch(), partition=-1), version)
    unknown = session.name("unknown")
    session.record("unknown topic", produce(session, unknown, batch(), topic_id=UNKNOWN_ID), version)
    session.record("illegal topic", produce(session, "no spaces", batch(), topic_id=UNKNOWN_ID), version)
    session.record("no topics", m.ProduceRequest(acks=1, timeout_ms=1000), version)


@scenario(ApiKey.PRODUCE)
def produce_with_odd_acks(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.record("acks 2", produce(session, topic, batch(), acks=2), version)
    session.record("acks -2", produce(session, topic, batch(), acks=-2), version)


@scenario(ApiKey.PRODUCE)
def produce_refused_batches(session: WireSession, version: int) -> None:
    topic = session.topic(max_message_bytes="2000")
    good = batch()
    session.record("empty records", produce(session, topic, b""), version)
    session.record("two batches", produce(session, topic, good + good), version)
    session.record("wrong checksum", produce(session, topic, changed(good, 17, b"\0\0\0\0")), version)
    session.record("magic 1", produce(session, topic, changed(good, 16, b"\x01")), version)
    session.record("magic 3", produce(session, topic, changed(good, 16, b"\x03")), version)
    session.record("cut short", produce(session, topic, good[:-3]), version)
    session.record("bytes behind", produce(session, topic, good + b"\0\0\0"), version)
    session.record("length too small", produce(session, topic, changed(good, 8, b"\0\0\0\x0a")), version)
    session.record("base offset 5", produce(session, topic, changed(good, 0, bytes(7) + b"\x05")), version)
    session.record("wrong count", produce(session, topic, resealed(good, record_count=4)), version)
    session.record("wrong last delta", produce(session, topic, resealed(good, last_offset_delta=7)), version)
    session.record("count of zero", produce(session, topic, resealed(good, record_count=0)), version)
    session.record("control batch", produce(session, topic, resealed(good, attributes=0x20)), version)
    session.record("unknown codec", produce(session, topic, resealed(good, attributes=5)), version)
    session.record("broken gzip", produce(session, topic, resealed(good, attributes=1)), version)
    session.record("append time flag", produce(session, topic, resealed(good, attributes=8)), version)
    session.record("too large", produce(session, topic, batch([b"x" * 3000])), version)
    session.record("good after all that", produce(session, topic, good), version)


@scenario(ApiKey.PRODUCE)
def produce_checks_of_topic_settings(session: WireSession, version: int) -> None:
    compacted = session.topic("compacted", cleanup_policy="compact")
    session.record("no key", produce(session, compacted, batch()), version)
    session.record("no key, deflated", produce(session, compacted, batch(compression=Compression.LZ4)), version)
    session.record("with key", produce(session, compacted, batch(key=b"k")), version)
    timed = session.topic("timed", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    session.record("too old", produce(session, timed, batch(timestamp_ms=LONG_AGO_MS)), version)
    session.record("too new", produce(session, timed, batch(timestamp_ms=FAR_AHEAD_MS)), version)


def given_producer_id(session: WireSession) -> int:
    """A new producer's id; a broker that has just started may have none to give yet."""
    request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    session.until(lambda: session.connection.ask(request, 1).error_code == 0)
    answer = session.connection.ask(request, 1)
    assert answer.error_code == 0, answer
    return int(answer.producer_id)


@scenario(ApiKey.PRODUCE)
def produce_in_sequence(session: WireSession, version: int) -> None:
    topic = session.topic()
    producer_id = given_producer_id(session)

    def stamped(sequence: int, epoch: int = 0) -> bytes:
        return batch(stamp=ProducerStamp(producer_id, epoch, sequence))

    session.record("first", produce(session, topic, stamped(0)), version)
    session.record("second", produce(session, topic, stamped(3)), version)
    session.record("first again", produce(session, topic, stamped(0)), version)
    session.record("second again", produce(session, topic, stamped(3)), version)
    session.record("a gap", produce(session, topic, stamped(9)), version)
    session.record("overlap", produce(session, topic, stamped(4)), version)
    session.record("new epoch, wrong start", produce(session, topic, stamped(5, epoch=1)), version)
    session.record("new epoch", produce(session, topic, stamped(0, epoch=1)), version)
    session.record("old epoch", produce(session, topic, stamped(6)), version)
    for number in range(1, 6):
        session.record(f"batch {number} of the new epoch", produce(session, topic, stamped(3 * number, 1)), version)
    session.record("older than the five that are kept", produce(session, topic, stamped(0, epoch=1)), version)
    session.record("oldest of the five", produce(session, topic, stamped(3, epoch=1)), version)
    unknown = batch(stamp=ProducerStamp(4_711_000_000, 0, 7))
    session.record("unknown producer in mid-sequence", produce(session, topic, unknown), version)
    negative = batch(stamp=ProducerStamp(producer_id, 1, -1))
    session.record("producer without sequence", produce(session, topic, negative), version)
    answered = produce(session, topic, stamped(0, 2), acks=1)
    session.record("acks 1 from an idempotent producer", answered, version)


@scenario(ApiKey.PRODUCE)
def produce_pipelined(session: WireSession, version: int) -> None:
    """Three requests in one write are answered in their order."""
    topic = session.topic()
    request = produce(session, topic, batch())
    connection = session.connect()
    body = encode(carried(request, version), version)
    frames = [
        framed(encode_request_header(RequestHeader(ApiKey.PRODUCE, version, number, "wire")) + body)
        for number in (71, 72, 73)
    ]
    connection.send_bytes(b"".join(frames))
    for number in (71, 72, 73):
        frame = connection.receive_frame()
        session.recorded[f"answer {number}"] = {"correlation_id": int.from_bytes(frame[:4], "big")}
    session.recorded["end offset"] = session.end_offset(topic)


# ---- Fetch --------------------------------------------------------------------------------------------------------


def wanted(partition: int = 0, offset: int = 0, *, max_bytes: int = 1 << 20, **more: Any) -> Any:
    return fetch_request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **more)


def fetch(session: WireSession, topic: str | None, *partitions: Any, max_bytes: int = 1 << 20, **more: Any) -> Any:
    topics = []
    if topic is not None:
        topic_id = more.pop("topic_id", None) or known_id(session, topic)
        topics = [fetch_request.FetchTopic(topic=topic, topic_id=topic_id, partitions=list(partitions))]
    return m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=topics, **more)


@scenario(ApiKey.FETCH)
def fetch_reads(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=2)
    session.record("empty log", fetch(session, topic, wanted()), version)
    for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
        session.produced(topic, batch(compression=codec))
    session.record("all", fetch(session, topic, wanted()), version)
    session.record("middle of the second batch", fetch(session, topic, wanted(offset=4)), version)
    session.record("at the end", fetch(session, topic, wanted(offset=9)), version)
    session.record("two partitions", fetch(session, topic, wanted(), wanted(1)), version)
    session.record("read committed", fetch(session, topic, wanted(), isolation_level=1), version)
    session.record("one byte of a partition", fetch(session, topic, wanted(max_bytes=1)), version)
    session.record("one byte of an answer", fetch(session, topic, wanted(), max_bytes=1), version)
    session.record("zero bytes of a partition", fetch(session, topic, wanted(max_bytes=0)), version)
    first = len(batch())
    session.record("room for the first batch alone", fetch(session, topic, wanted(max_bytes=first)), version)
    session.record("one log start offset given", fetch(session, topic, wanted(log_start_offset=0)), version)


@scenario(ApiKey.FETCH)
def fetch_outside_the_log(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.produced(topic, batch())
    session.record("beyond the end", fetch(session, topic, wanted(offset=4)), version)
    session.record("negative offset", fetch(session, topic, wanted(offset=-1)), version)
    session.record("unknown partition", fetch(session, topic, wanted(7)), version)
    unknown = fetch(session, session.name("unknown"), wanted(), topic_id=UNKNOWN_ID)
    session.record("unknown topic", unknown, version)
    session.record("known and unknown partition", fetch(session, topic, wanted(), wanted(7)), version)


@scenario(ApiKey.FETCH)
def fetch_zstd(session: WireSession, version: int) -> None:
    """Fetch below 10 may not see zstd (KIP-110)."""
    topic = session.topic(compression_type="zstd")
    session.produced(topic, batch())
    # The broker deflates here itself, so the bytes are its own business.
    answer = session.connection.ask(carried(fetch(session, topic, wanted()), version), version)
    (partition,) = answer.responses[0].partitions
    session.recorded["topic that deflates with zstd"] = {
        "error_code": partition.error_code,
        "high_watermark": partition.high_watermark,
        "records": None if partition.records is None else len(partition.records) > 0,
    }


@scenario(ApiKey.FETCH, min_version=9)
def fetch_with_leader_epochs(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.produced(topic, batch())
    session.record("the current epoch", fetch(session, topic, wanted(current_leader_epoch=0)), version)
    session.record("an epoch to come", fetch(session, topic, wanted(current_leader_epoch=5)), version)
    if version >= 12:
        known = wanted(offset=3, current_leader_epoch=0, last_fetched_epoch=0)
        session.record("last fetched epoch", fetch(session, topic, known), version)
        diverged = wanted(offset=3, current_leader_epoch=0, last_fetched_epoch=4)
        session.record("last fetched epoch to come", fetch(session, topic, diverged), version)


@scenario(ApiKey.FETCH, min_version=7)
def fetch_sessions(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=2)
    session.produced(topic, batch())
    full = session.record(
        "new session", fetch(session, topic, wanted(), wanted(1), session_id=0, session_epoch=0), version
    )
    number = full.session_id
    at_end = fetch(session, topic, wanted(offset=3), session_id=number, session_epoch=1)
    session.record("position moved", at_end, version)
    session.record("nothing new", fetch(session, None, session_id=number, session_epoch=2), version)
    session.produced(topic, batch(), partition=1)
    session.record("news of one partition", fetch(session, None, session_id=number, session_epoch=3), version)
    session.record("wrong epoch", fetch(session, None, session_id=number, session_epoch=9), version)
    session.record("unknown session", fetch(session, None, session_id=number + 77, session_epoch=1), version)
    forgotten = fetch_request.ForgottenTopic(topic=topic, topic_id=known_id(session, topic), partitions=[1])
    dropping = fetch(session, None, session_id=number, session_epoch=4, forgotten_topics_data=[forgotten])
    session.record("one partition dropped", dropping, version)
    session.record("what remains", fetch(session, None, session_id=number, session_epoch=5), version)
    session.record("closing", fetch(session, topic, wanted(), session_id=number, session_epoch=-1), version)
    session.record("after closing", fetch(session, None, session_id=number, session_epoch=6), version)
    session.record("empty new session", fetch(session, None, session_id=0, session_epoch=0), version)
    session.record("no session", fetch(session, topic, wanted(), session_id=0, session_epoch=-1), version)
    unknown = fetch(session, topic, wanted(), wanted(9), session_id=0, session_epoch=0)
    session.record("session with an unknown partition", unknown, version)


# ---- ListOffsets --------------------------------------------------------------------------------------------------

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


def list_offsets(topic: str, timestamp: int, partition: int = 0, *, times: int = 1, **more: Any) -> Any:
    lo = list_offsets_request
    epoch = more.pop("current_leader_epoch", -1)
    one = lo.ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    return m.ListOffsetsRequest(
        replica_id=-1, topics=[lo.ListOffsetsTopic(name=topic, partitions=[one] * times)], **more
    )


@scenario(ApiKey.LIST_OFFSETS)
def list_offsets_of_a_log(session: WireSession, version: int) -> None:
    topic = session.topic()
    for name, timestamp in (("latest", LATEST), ("earliest", EARLIEST), ("at a time", BASE_TIMESTAMP_MS)):
        session.record(f"{name} of an empty log", list_offsets(topic, timestamp), version)
    session.produced(topic, batch())
    session.produced(topic, batch(timestamp_ms=BASE_TIMESTAMP_MS + 60_000, compression=Compression.GZIP))
    session.produced(topic, batch(timestamp_ms=BASE_TIMESTAMP_MS + 30_000))
    session.record("latest", list_offsets(topic, LATEST), version)
    session.record("latest committed", list_offsets(topic, LATEST, isolation_level=1), version)
    session.record("earliest", list_offsets(topic, EARLIEST), version)
    for step, ahead_ms in (("before all", -5), ("exact", 1_000), ("between", 1_001), ("deflated", 60_500)):
        session.record(step, list_offsets(topic, BASE_TIMESTAMP_MS + ahead_ms), version)
    session.record("behind all", list_offsets(topic, BASE_TIMESTAMP_MS + 90_000), version)
    session.record("time zero", list_offsets(topic, 0), version)
    session.record("max timestamp", list_offsets(topic, MAX_TIMESTAMP), version)
    session.record("earliest local", list_offsets(topic, EARLIEST_LOCAL), version)
    session.record("latest tiered", list_offsets(topic, LATEST_TIERED), version)
    session.record("earliest not uploaded", list_offsets(topic, -6), version)
    session.record("no such special time", list_offsets(topic, -7), version)


@scenario(ApiKey.LIST_OFFSETS)
def list_offsets_refused(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.record("unknown partition", list_offsets(topic, LATEST, 9), version)
    session.record("unknown topic", list_offsets(session.name("unknown"), LATEST), version)
    session.record("twice in one request", list_offsets(topic, LATEST, times=2), version)
    session.record("no topics", m.ListOffsetsRequest(replica_id=-1), version)
    if version >= 4:
        session.record("the current epoch", list_offsets(topic, LATEST, current_leader_epoch=0), version)
        session.record("an epoch to come", list_offsets(topic, LATEST, current_leader_epoch=5), version)


# ---- InitProducerId -----------------------------------------------------------------------------------------------


@scenario(ApiKey.INIT_PRODUCER_ID)
def init_producer_id(session: WireSession, version: int) -> None:
    given_producer_id(session)
    session.record("idempotent", m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
    session.record("empty transactional id", m.InitProducerIdRequest(transactional_id=""), version)
    if version >= 3:
        halves = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, producer_id=5)
        session.record("id without epoch", halves, version)
        both = m.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1000, producer_id=5, producer_epoch=3
        )
        session.record("id and epoch", both, version)


# ---- OffsetForLeaderEpoch -----------------------------------------------------------------------------------------


def end_of_epoch(topic: str, epoch: int, partition: int = 0, current: int = -1) -> Any:
    oe = offset_for_leader_epoch_request
    one = oe.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return m.OffsetForLeaderEpochRequest(replica_id=-1, topics=[oe.OffsetForLeaderTopic(topic=topic, partitions=[one])])


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.record("empty log", end_of_epoch(topic, 0), version)
    session.produced(topic, batch())
    session.record("the current epoch", end_of_epoch(topic, 0), version)
    session.record("an epoch to come", end_of_epoch(topic, 3), version)
    session.record("no epoch", end_of_epoch(topic, -1), version)
    session.record("current leader epoch", end_of_epoch(topic, 0, current=0), version)
    session.record("leader epoch to come", end_of_epoch(topic, 0, current=4), version)
    session.record("unknown partition", end_of_epoch(topic, 0, partition=8), version)
    session.record("unknown topic", end_of_epoch(session.name("unknown"), 0), version)


# ---- DeleteRecords ------------------------------------------------------------------------------------------------


def delete_records(topic: str, offset: int, partition: int = 0) -> Any:
    dr = delete_records_request
    one = dr.DeleteRecordsPartition(partition_index=partition, offset=offset)
    return m.DeleteRecordsRequest(topics=[dr.DeleteRecordsTopic(name=topic, partitions=[one])], timeout_ms=10_000)


@scenario(ApiKey.DELETE_RECORDS)
def delete_records_from_the_front(session: WireSession, version: int) -> None:
    topic = session.topic()
    for _ in range(3):
        session.produced(topic, batch())
    session.record("middle of a batch", delete_records(topic, 4), version)
    session.record("fetch below the start", fetch(session, topic, wanted(offset=3)), 11)
    session.record("fetch at the start", fetch(session, topic, wanted(offset=4)), 11)
    session.record("earliest afterwards", list_offsets(topic, EARLIEST), 5)
    session.record("at a time that is gone", list_offsets(topic, BASE_TIMESTAMP_MS), 5)
    session.record("below the start", delete_records(topic, 2), version)
    session.record("beyond the end", delete_records(topic, 10), version)
    session.record("negative", delete_records(topic, -2), version)
    session.record("all", delete_records(topic, -1), version)
    session.record("all again", delete_records(topic, -1), version)
    session.record("unknown partition", delete_records(topic, 0, partition=5), version)
    session.record("unknown topic", delete_records(session.name("unknown"), 0), version)
    compacted = session.topic("compacted", cleanup_policy="compact")
    session.record("compacted topic", delete_records(compacted, 0), version)
