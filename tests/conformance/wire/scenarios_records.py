"""Scenarios of the data path: Produce, Fetch, ListOffsets, InitProducerId, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

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
from kavka.records.batch import BatchHeader, read_header
from kavka.records.builder import ProducerStamp, seal
from kavka.records.compression import Compression, compress
from kavka.records.record import encode_record, encode_varint
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_connection import carried, framed
from tests.conformance.wire.wire_session import BASE_TIMESTAMP_MS, WireSession, batch

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
def produce_zstd_to_unknown_topics(session: WireSession, version: int) -> None:
    """That a topic is not there is said before what its records would have to be."""
    if version < 13:  # which names topics by their ids
        deflated = batch(compression=Compression.ZSTD)
        session.record("unknown topic", produce(session, session.name("unknown"), deflated), version)
        session.record("unknown partition", produce(session, session.topic(), deflated, partition=7), version)


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


# A record with a null key, the value "v" and no headers begins so behind its length: attributes, two deltas.
_START = bytes(3)
_TOO_LONG = b"\xff" * 9 + b"\x7f"
"""A varint of ten bytes, where lengths have five at most."""
MALFORMED = {
    "garbage": b"\xff" * 200,
    "length of 0": bytes(40),
    "length behind the end": encode_varint(100) + _START + b"\x01\x02v\0",
    "negative length": encode_varint(-3) + _START + b"\x01\x02v\0",
    "length of ten bytes": _TOO_LONG + _START + b"\x01\x02v\0",
    "shorter than its fields": encode_varint(6) + _START + b"\x01\x02v\0",
    "longer than its fields": encode_varint(8) + _START + b"\x01\x02v\0\0",
    "key behind the end": encode_varint(7) + _START + encode_varint(50) + b"\x02v\0",
    "value behind the end": encode_varint(7) + _START + b"\x01" + encode_varint(50) + b"v\0",
    "key of -7": encode_varint(7) + _START + encode_varint(-7) + b"\x02v\0",
    "value of -7": encode_varint(6) + _START + b"\x01" + encode_varint(-7) + b"\0",
    "negative count of headers": encode_varint(7) + _START + b"\x01\x02v" + encode_varint(-1),
    "more headers than bytes": encode_varint(7) + _START + b"\x01\x02v" + encode_varint(60),
    "header without key": encode_varint(9) + _START + b"\x01\x02v\x02\x01\x01",
    "header value of -7": encode_varint(9) + _START + b"\x01\x02v\x02\0" + encode_varint(-7),
    "header value behind the end": encode_varint(9) + _START + b"\x01\x02v\x02\0\x40",
    "header key that is no UTF-8": encode_varint(10) + _START + b"\x01\x02v\x02\x02\xff\x01",
    "timestamp of eleven bytes": encode_varint(17) + b"\0" + b"\xff" * 10 + b"\x01\0\x01\x02v\0",
    "attributes of a record": encode_varint(7) + b"\xff\0\0\x01\x02v\0",
}
"""One record that is wrong in one way, or that looks so."""

WRONG_LENGTHS = ("length behind the end", "negative length", "shorter than its fields")
"""Of these the fields are right, and only the length in front of them is not."""


def sealed(payload: bytes, count: int, codec: Compression = Compression.NONE, **fields: int) -> bytes:
    """A batch of `count` records that are `payload`, whatever that is."""
    header: BatchHeader = read_header(batch())._replace(
        record_count=count, last_offset_delta=count - 1, attributes=codec, max_timestamp=BASE_TIMESTAMP_MS
    )
    return seal(header._replace(**fields), compress(codec, payload))


def plain_records(deltas: list[int], timestamp_deltas: list[int] | None = None, key: bytes | None = b"k") -> bytes:
    times = timestamp_deltas or [0] * len(deltas)
    return b"".join(encode_record(delta, time, key, b"v") for delta, time in zip(deltas, times, strict=True))


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_malformed_records(session: WireSession, version: int) -> None:
    topic = session.topic()
    good = encode_record(0, 0, None, b"v")
    for name, record in MALFORMED.items():
        session.record(name, produce(session, topic, sealed(record, 1)), version)
        behind = good * 40 + record
        session.record(f"{name}, behind forty good ones", produce(session, topic, sealed(behind, 41)), version)
    for count in (1, 50):
        records = plain_records(list(range(count)))
        session.record(f"bytes behind {count}", produce(session, topic, sealed(records + b"\0", count)), version)
        session.record(f"one more than {count}", produce(session, topic, sealed(records, count + 1)), version)
        fewer = sealed(records + good, count)
        session.record(f"one behind {count}", produce(session, topic, fewer), version)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_malformed_records_deflated(session: WireSession, version: int) -> None:
    topic, apart = session.topic(), session.topic("apart")
    good = encode_record(0, 0, None, b"v")
    for name, record in MALFORMED.items():
        into = apart if name in WRONG_LENGTHS else topic
        session.record(name, produce(session, into, sealed(record, 1, Compression.GZIP)), version)
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        named, many = codec.name.lower(), plain_records(list(range(50)))
        session.record(f"bytes behind, {named}", produce(session, topic, sealed(many + b"\0", 50, codec)), version)
        session.record(f"one more, {named}", produce(session, topic, sealed(many, 51, codec)), version)
        session.record(f"one behind, {named}", produce(session, topic, sealed(many + good, 50, codec)), version)
        cut = sealed(many, 50)[:61] + compress(codec, many)[:-20]
        session.record(f"cut short, {named}", produce(session, topic, resealed(cut, attributes=codec)), version)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_odd_deltas(session: WireSession, version: int) -> None:
    """What a batch says of its offsets and timestamps beside what its records say, and what is then read."""
    largest = (1 << 63) - 1
    topic = session.topic(message_timestamp_after_max_ms=str(largest))
    batches = {
        "offsets all 0": sealed(plain_records([0, 0, 0]), 3),
        "offsets backwards": sealed(plain_records([2, 1, 0]), 3),
        "offsets all 0, deflated": sealed(plain_records([0, 0, 0]), 3, Compression.GZIP),
        "largest timestamp too small": sealed(plain_records([0, 1], [0, 700]), 2),
        "largest timestamp too large": sealed(plain_records([0, 1], [0, -700]), 2),
        "largest timestamp too small, deflated": sealed(plain_records([0, 1], [0, 700]), 2, Compression.GZIP),
        "largest timestamp of forty": sealed(plain_records(list(range(40)), [9 * n % 40 for n in range(40)]), 40),
        "over the largest": sealed(plain_records([0, 1], [0, 1]), 2, base_timestamp=largest, max_timestamp=largest),
        "no timestamps": sealed(plain_records([0, 1]), 2, base_timestamp=-1, max_timestamp=-1),
        "before 1970": sealed(plain_records([0, 1]), 2, base_timestamp=-1000, max_timestamp=-1000),
        "stamped by the client": sealed(plain_records([0, 1], [5, 7]), 2, attributes=8),
    }
    for name, records in batches.items():
        offset = session.end_offset(topic)
        answer = session.record(name, produce(session, topic, records), version)
        if answer is not None and answer.responses[0].partition_responses[0].error_code == 0:
            session.record(f"{name}, read", fetch(session, topic, wanted(offset=offset)), 11)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_lists_bad_records(session: WireSession, version: int) -> None:
    """Which records of a batch are named, and with what code the whole is refused."""
    compacted = session.topic("compacted", cleanup_policy="compact")
    keys = [b"k", None, b"k", None, None]
    mixed = b"".join(encode_record(number, 0, key, b"v") for number, key in enumerate(keys))
    for codec in (Compression.NONE, Compression.LZ4):
        session.record(f"some keys, {codec.name}", produce(session, compacted, sealed(mixed, 5, codec)), version)
    many = plain_records(list(range(100)), key=None)
    session.record("a hundred without key", produce(session, compacted, sealed(many, 100)), version)
    broken = sealed(mixed + b"\xff" * 9, 6)
    session.record("no keys, then garbage", produce(session, compacted, broken), version)
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    timed = session.topic("timed", **bounds)
    for codec in (Compression.NONE, Compression.LZ4):
        old = sealed(plain_records([0, 1, 2]), 3, codec)
        session.record(f"all too old, {codec.name}", produce(session, timed, old), version)
    now = int(time.time() * 1000)
    times = plain_records([0, 1, 2, 3], [0, 60_000, -60_000, 0])
    some = sealed(times, 4, base_timestamp=now, max_timestamp=now + 60_000)
    session.record("two too far away", produce(session, timed, some), version)
    hidden = sealed(times, 4, base_timestamp=now, max_timestamp=now)
    session.record("two too far away, not told", produce(session, timed, hidden), version)
    for base in ((1 << 63) - 1, -(1 << 63)):
        edge = sealed(plain_records([0, 1], [0, 1]), 2, base_timestamp=base, max_timestamp=base)
        session.record(f"timestamps from {base}", produce(session, timed, edge), version)
    none = sealed(plain_records([0, 1]), 2, base_timestamp=-1, max_timestamp=-1)
    session.record("no timestamps", produce(session, timed, none), version)
    both = session.topic("both", cleanup_policy="compact", **bounds)
    old_or_keyless = plain_records([0], key=None) + encode_record(1, 0, b"k", b"v")
    session.record("no key, or too old", produce(session, both, sealed(old_or_keyless, 2)), version)
    stamping = session.topic("stamping", message_timestamp_type="LogAppendTime")
    stamped = sealed(plain_records([0, 1]), 2, attributes=8)
    session.record("stamped by the client", produce(session, stamping, stamped), version)
    session.record(
        "stamped with no time",
        produce(session, timed, sealed(plain_records([0, 1]), 2, attributes=8, max_timestamp=-1)),
        version,
    )
    session.record("stamped long ago", produce(session, timed, stamped), version)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_to_another_codec(session: WireSession, version: int) -> None:
    """Batches that the broker lays out anew, because the topic has a codec of its own."""
    topic = session.topic(compression_type="gzip")
    for codec in (Compression.NONE, Compression.LZ4):
        for name, payload in (
            ("good", plain_records([0, 1, 2])),
            ("offsets all 0", plain_records([0, 0, 0])),
            ("fields behind the end", plain_records([0, 1]) + encode_varint(7) + _START + b"\x01\x40v\0"),
        ):
            session.record(f"{name}, {codec.name}", produce(session, topic, sealed(payload, 3, codec)), version)


@scenario(ApiKey.PRODUCE)
def produce_to_internal_topics(session: WireSession, version: int) -> None:
    session.coordinator_serves(session.name("group"))
    session.record("offsets topic", produce(session, "__consumer_offsets", batch(key=b"k")), version)
    session.record("offsets topic, odd acks", produce(session, "__consumer_offsets", batch(key=b"k"), acks=3), version)
    session.record("offsets topic, two", produce(session, "__consumer_offsets", batch() + batch()), version)


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
