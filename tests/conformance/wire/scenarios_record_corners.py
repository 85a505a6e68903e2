"""Scenarios of the data path's corners: what no client sends, or a broken one alone; repeats, edges, limits, waits."""

from __future__ import annotations

import time
from typing import Any

import cramjam

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    delete_records_request,
    fetch_request,
    list_offsets_request,
    produce_request,
)
from kavka.records.builder import ProducerStamp
from kavka.records.compression import Compression, compress
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_records import (
    MAX_TIMESTAMP,
    changed,
    fetch,
    given_producer_id,
    known_id,
    list_offsets,
    plain_records,
    produce,
    resealed,
    sealed,
    wanted,
)
from tests.conformance.wire.scenarios_transactions import Transactional
from tests.conformance.wire.wire_connection import carried
from tests.conformance.wire.wire_session import BASE_TIMESTAMP_MS, WireSession, batch

LAST_SEQUENCE = (1 << 31) - 1
WAIT_MS = 600


def read_from(session: WireSession, step: str, topic: str, offset: int, partition: int = 0) -> None:
    session.record(step, fetch(session, topic, wanted(partition, offset)), 11)


# ---- Produce ------------------------------------------------------------------------------------------------------


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_to_a_partition_twice(session: WireSession, version: int) -> None:
    topic = session.topic()
    request = produce(session, topic, batch([b"a"]), batch([b"b", b"c"]))
    answer = session.connection.ask(carried(request, version), version)
    told = [partition.base_offset for named in answer.responses for partition in named.partition_responses]
    session.recorded["twice"] = {"base_offsets": told, "end_offset": session.end_offset(topic)}


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_beside_what_is_refused(session: WireSession, version: int) -> None:
    topic, pr = session.topic(partitions=3), produce_request

    def ask(step: str, *records: bytes, acks: int = -1, **more: Any) -> None:
        data = [pr.PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
        named = pr.TopicProduceData(name=topic, topic_id=known_id(session, topic), partition_data=data)
        session.record(step, m.ProduceRequest(acks=acks, timeout_ms=15_000, topic_data=[named], **more), version)
        session.recorded[f"{step}, ends"] = [session.end_offset(topic, index) for index in range(3)]

    ask("one refused", batch(), resealed(batch(), record_count=9), batch())
    ask("one unknown", batch(), batch(), batch(), batch())
    tx = Transactional(session)
    tx.init()
    ask("one of a transaction, and no transactional id", batch(), tx.batch(), batch())
    ask("acks 2, one without records", batch(), b"", batch(), acks=2)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_around_the_last_sequence(session: WireSession, version: int) -> None:
    topic = session.topic()
    producer_id = given_producer_id(session)

    def ask(step: str, sequence: int, count: int = 3, epoch: int = 0, name: str = "") -> None:
        stamped = batch([b"v"] * count, stamp=ProducerStamp(producer_id, epoch, sequence))
        session.record(step, produce(session, name or topic, stamped), version)

    ask("over the last", LAST_SEQUENCE - 1)
    ask("again", LAST_SEQUENCE - 1)
    ask("what does not follow", 2)
    ask("zero", 0)
    ask("what follows", 1)
    ask("the first again", LAST_SEQUENCE - 1)
    ask("a part of the first", LAST_SEQUENCE, 2)
    other = session.topic("other")
    ask("the last", LAST_SEQUENCE, 1, name=other)
    ask("one behind the last", 1, name=other)
    ask("zero behind the last", 0, name=other)
    ask("the last again", LAST_SEQUENCE, 1, name=other)
    ask("zero again", 0, name=other)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_without_an_epoch(session: WireSession, version: int) -> None:
    topic = session.topic()
    producer_id = given_producer_id(session)
    for step, epoch, sequence in (
        ("first", -1, 0),
        ("second", -1, 3),
        ("second again", -1, 3),
        ("a gap", -1, 30),
        ("epoch 0 in mid-sequence", 0, 5),
        ("no epoch any more", -1, 0),
        ("epoch below all", -2, 0),
    ):
        stamped = batch(stamp=ProducerStamp(producer_id, epoch, sequence))
        session.record(step, produce(session, topic, stamped), version)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_odd_headers(session: WireSession, version: int) -> None:
    """Fields and bits that are the broker's own business, and what is then read."""
    topic = session.topic()
    good = batch(key=b"k")
    for step, fields in (
        ("leader epoch", {"partition_leader_epoch": 7}),
        ("delete horizon", {"attributes": 0x40}),
        ("bits that have no meaning", {"attributes": 0x7F80}),
        ("producer epoch without an id", {"producer_epoch": 3, "base_sequence": 4}),
        ("id below all", {"producer_id": -2}),
    ):
        offset = session.end_offset(topic) or 0
        session.record(step, produce(session, topic, resealed(good, **fields)), version)
        if session.end_offset(topic) != offset:
            read_from(session, f"{step}, read", topic, offset)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_over_a_segment(session: WireSession, version: int) -> None:
    topic = session.topic(segment_bytes=str(1 << 20), max_message_bytes="4000000")
    session.record("over segment.bytes", produce(session, topic, batch([b"x" * 2_000_000])), version)
    session.record("under it", produce(session, topic, batch([b"x" * 900_000])), version)
    session.record("another", produce(session, topic, batch([b"x" * 900_000])), version)
    session.recorded["end"] = session.end_offset(topic)


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_stamped_again(session: WireSession, version: int) -> None:
    """A duplicate is answered with the time of the first; what is deflated anew keeps its sequence."""
    producer_id = given_producer_id(session)
    stamping = session.topic("stamping", message_timestamp_type="LogAppendTime")
    stamped = batch(stamp=ProducerStamp(producer_id, 0, 0))
    for step in ("first", "again"):
        session.record(f"stamped, {step}", produce(session, stamping, stamped), version)
    old = sealed(plain_records([0, 1]), 2, base_timestamp=5, max_timestamp=5)
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    both = session.topic("both", message_timestamp_type="LogAppendTime", **bounds)
    session.record("old, where the broker stamps", produce(session, both, old), version)
    session.record("read", fetch(session, both, wanted()), 11)
    for codec in ("uncompressed", "gzip", "zstd"):
        laid_out = session.topic(codec, compression_type=codec)
        for source in (Compression.NONE, Compression.LZ4):
            start = 0 if source is Compression.NONE else 3
            one = batch(compression=source, stamp=ProducerStamp(producer_id, 0, start))
            session.record(f"{source.name} to {codec}", produce(session, laid_out, one), version)
        session.record(f"{codec}, read", fetch(session, laid_out, wanted()), 11)


def framed_records() -> dict[str, tuple[Compression, bytes]]:
    """Four records, deflated into frames as no producer makes them."""
    first, second = plain_records([0, 1]), plain_records([2, 3])
    both = first + second
    lz4, gzip, zstd, snappy = Compression.LZ4, Compression.GZIP, Compression.ZSTD, Compression.SNAPPY
    found: dict[str, tuple[Compression, bytes]] = {}
    for codec in (lz4, gzip, zstd, snappy):
        name, whole = codec.name.lower(), compress(codec, both)
        found[f"{name}, two frames"] = (codec, compress(codec, first) + compress(codec, second))
        found[f"{name}, bytes behind"] = (codec, whole + b"\x01\x02\x03\x04\x05\x06\x07\x08")
        found[f"{name}, zeros behind"] = (codec, whole + bytes(8))
        found[f"{name}, a frame of nothing behind"] = (codec, whole + compress(codec, b""))
        found[f"{name}, a frame of nothing before"] = (codec, compress(codec, b"") + whole)
    found["snappy, raw"] = (snappy, bytes(cramjam.snappy.compress_raw(both)))
    found["snappy, version 0"] = (snappy, changed(compress(snappy, both), 8, bytes(8)))
    found["snappy, version 2"] = (snappy, changed(compress(snappy, both), 8, b"\0\0\0\2\0\0\0\2"))
    whole = compress(lz4, both)
    found["lz4, a stored block of nothing before the others"] = (lz4, whole[:7] + b"\0\0\0\x80" + whole[7:])
    linked = cramjam.lz4.Compressor(content_checksum=False, block_linked=True)
    linked.compress(both)
    found["lz4, linked blocks"] = (lz4, bytes(linked.finish()))
    summed = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    summed.compress(both)
    with_sum = bytes(summed.finish())
    found["lz4, content checksum"] = (lz4, with_sum)
    found["lz4, wrong content checksum"] = (lz4, with_sum[:-1] + bytes([with_sum[-1] ^ 1]))
    found["lz4, wrong header checksum"] = (lz4, changed(whole, 6, bytes([whole[6] ^ 1])))
    found["gzip, wrong checksum"] = (gzip, changed(compress(gzip, both), len(compress(gzip, both)) - 8, bytes(4)))
    return found


@scenario(ApiKey.PRODUCE, min_version=8)
def produce_odd_frames(session: WireSession, version: int) -> None:
    """What a broker believes of a stream that its codec can read in more than one way: consumers must read the same."""
    topic = session.topic()
    for step, (codec, deflated) in framed_records().items():
        whole = sealed(plain_records([0, 1, 2, 3]), 4)[:61] + deflated
        request = produce(session, topic, resealed(whole, attributes=codec))
        answer = session.connection.ask(carried(request, version), version)
        session.recorded[step] = {"error_code": answer.responses[0].partition_responses[0].error_code}


# ---- Fetch --------------------------------------------------------------------------------------------------------


@scenario(ApiKey.FETCH, min_version=11)
def fetch_within_limits(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=3)
    for partition in range(3):
        session.produced(topic, batch(), partition)
    size = len(batch())
    everything = [wanted(partition) for partition in range(3)]
    for step, limit in (
        ("no byte", 0),
        ("a byte", 1),
        ("one batch", size),
        ("one, and less than a header", size + 20),
        ("two", 2 * size),
    ):
        session.record(step, fetch(session, topic, *everything, max_bytes=limit), version)
    backwards = [wanted(partition) for partition in (2, 1, 0)]
    session.record("backwards", fetch(session, topic, *backwards, max_bytes=1), version)
    session.record("partition twice", fetch(session, topic, wanted(), wanted(offset=3)), version)


@scenario(ApiKey.FETCH, min_version=11)
def fetch_as_somebody_else(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.produced(topic, batch())

    def ask(step: str, replica: int, **more: Any) -> None:
        who: dict[str, Any] = {"replica_id": replica}
        if version >= 15:
            who = {"replica_state": fetch_request.ReplicaState(replica_id=replica, replica_epoch=-1)}
        session.record(step, fetch(session, topic, wanted(**more), **who), version)

    ask("who debugs", -2)
    ask("who is nobody", -7)
    ask("a broker that is not there", 4_321)
    ask("a broker that is not there, in an epoch", 4_321, current_leader_epoch=0)
    ask("the broker itself", session.broker_id)
    ask("the broker itself, in an epoch", session.broker_id, current_leader_epoch=0)
    ask("a broker that is not there, in an epoch to come", 4_321, current_leader_epoch=9)


@scenario(ApiKey.FETCH, min_version=11)
def fetch_sessions_in_turn(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=3)
    for partition in range(3):
        session.produced(topic, batch(), partition)
    topic_id = known_id(session, topic)
    everything = [wanted(partition) for partition in range(3)]
    opened = fetch(session, topic, *everything, max_bytes=1, session_id=0, session_epoch=0)
    number = session.record("opened", opened, version).session_id

    def ask(step: str, epoch: int, *partitions: Any, forget: tuple[int, ...] = (), **more: Any) -> None:
        dropped = [fetch_request.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=list(forget))]
        named = topic if partitions else None
        more = {"max_bytes": 1} | more
        request = fetch(session, named, *partitions, session_id=number, session_epoch=epoch, **more)
        request.forgotten_topics_data = dropped if forget else []
        session.record(step, request, version)

    for epoch in range(1, 5):
        ask(f"turn {epoch}", epoch)
    ask("named again", 5, wanted())
    ask("moved to the end", 6, wanted(offset=3))
    ask("moved beyond the end", 7, wanted(offset=30))
    ask("beyond the end again", 8)
    ask("back at the end", 9, wanted(offset=3))
    ask("nothing of it", 10, wanted(1, 3), wanted(2, 3))
    ask("named and forgotten", 11, wanted(1), forget=(1,))
    ask("forgotten that is not there", 12, forget=(1, 77))
    ask("unknown partition", 13, wanted(9))
    ask("unknown partition again", 14)
    ask("named twice", 15, wanted(2, 3), wanted(2, 0))
    ask("everything forgotten", 16, forget=(0, 2, 9))
    ask("the session is over", 17)


@scenario(ApiKey.FETCH, min_version=11)
def fetch_what_waits(session: WireSession, version: int) -> None:
    """Which fetches are answered at once."""
    topic = session.topic(partitions=2)
    session.produced(topic, batch())
    size = len(batch())

    def ask(step: str, *partitions: Any, min_bytes: int = 1, wait_ms: int = WAIT_MS, **more: Any) -> None:
        request = fetch(session, topic if partitions else None, *partitions, **more)
        request.max_wait_ms, request.min_bytes = wait_ms, min_bytes
        began = time.monotonic()
        session.connection.ask(request, version)
        session.recorded[step] = {"waited": time.monotonic() - began >= WAIT_MS / 1000 - 0.05}

    ask("at the end", wanted(offset=3))
    ask("records", wanted())
    ask("as many bytes", wanted(), min_bytes=size)
    ask("one byte more", wanted(), min_bytes=size + 1)
    ask("more than the limit", wanted(), min_bytes=size + 1, max_bytes=size)
    ask("more than the partition's limit", wanted(max_bytes=10), min_bytes=11)
    ask("no bytes wanted", wanted(offset=3), min_bytes=0)
    ask("negative bytes wanted", wanted(offset=3), min_bytes=-1)
    ask("no time", wanted(offset=3), wait_ms=0)
    ask("negative time", wanted(offset=3), wait_ms=-1)
    ask("beyond the end", wanted(offset=4))
    ask("beyond the end, beside one at its end", wanted(offset=4), wanted(1))
    ask("unknown partition", wanted(9))
    ask("no partitions")
    ask("wrong epoch", wanted(offset=3, current_leader_epoch=7))
    if version >= 12:
        ask("diverged", wanted(offset=3, last_fetched_epoch=0, current_leader_epoch=0))
    tx, topic = Transactional(session), session.topic("open")
    tx.init()
    tx.produce(topic)
    ask("uncommitted", wanted())
    ask("uncommitted, read committed", wanted(), isolation_level=1)
    ask("behind what is uncommitted, read committed", wanted(offset=1), isolation_level=1)


@scenario(ApiKey.FETCH, min_version=11)
def fetch_around_open_transactions(session: WireSession, version: int) -> None:
    topic = session.topic()
    first, second = Transactional(session), Transactional(session, "other")
    for tx in (first, second):
        tx.init()
        tx.produce(topic)
    first.end(commit=False)
    for offset in range(5):
        request = fetch(session, topic, wanted(offset=offset), isolation_level=1)
        session.record(f"one aborted, one open, from {offset}", request, version)
    session.record("one byte", fetch(session, topic, wanted(max_bytes=1), isolation_level=1), version)
    second.end(commit=True)
    for offset in (0, 2, 3, 5, 6):
        request = fetch(session, topic, wanted(offset=offset), isolation_level=1)
        session.record(f"both ended, from {offset}", request, version)


# ---- ListOffsets --------------------------------------------------------------------------------------------------


@scenario(ApiKey.LIST_OFFSETS, min_version=7)
def list_offsets_of_equal_times(session: WireSession, version: int) -> None:
    topic = session.topic()
    same = sealed(plain_records([0, 1, 2], [0, 700, 700]), 3, max_timestamp=BASE_TIMESTAMP_MS + 700)
    session.produced(topic, same)
    session.produced(topic, same)
    deflated = sealed(plain_records([0, 1, 2], [700, 0, 700]), 3, Compression.GZIP)
    session.produced(topic, deflated)
    session.record("max timestamp", list_offsets(topic, MAX_TIMESTAMP), version)
    for ahead_ms in (0, 1, 700, 701):
        session.record(f"{ahead_ms} ms", list_offsets(topic, BASE_TIMESTAMP_MS + ahead_ms), version)
    timeless = session.topic("timeless")
    none = sealed(plain_records([0, 1]), 2, base_timestamp=-1, max_timestamp=-1)
    session.produced(timeless, none)
    session.record("max timestamp of none", list_offsets(timeless, MAX_TIMESTAMP), version)
    session.record("time zero of none", list_offsets(timeless, 0), version)
    session.produced(timeless, batch())
    session.record("max timestamp of some", list_offsets(timeless, MAX_TIMESTAMP), version)
    session.record("time zero of some", list_offsets(timeless, 0), version)
    session.record("max timestamp of an empty log", list_offsets(session.topic("empty"), MAX_TIMESTAMP), version)
    session.record("the last time of all", list_offsets(topic, (1 << 63) - 1), version)
    session.record("the first time of all", list_offsets(topic, -(1 << 63)), version)


@scenario(ApiKey.LIST_OFFSETS, min_version=7)
def list_offsets_as_somebody_else(session: WireSession, version: int) -> None:
    topic = session.topic()
    tx = Transactional(session)
    tx.init()
    session.produced(topic, batch(timestamp_ms=1_000))
    tx.produce(topic)
    lo = list_offsets_request

    def ask(step: str, timestamp: int, replica: int = -1, level: int = 0) -> None:
        one = lo.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = m.ListOffsetsRequest(
            replica_id=replica, isolation_level=level, topics=[lo.ListOffsetsTopic(name=topic, partitions=[one])]
        )
        session.record(step, request, version)

    for who, replica, level in (
        ("consumer", -1, 0),
        ("consumer, committed", -1, 1),
        ("who debugs, committed", -2, 1),
        ("broker, committed", 4_321, 1),
        ("nobody, committed", -7, 1),
    ):
        ask(f"latest, {who}", -1, replica, level)
        ask(f"max timestamp, {who}", MAX_TIMESTAMP, replica, level)
        ask(f"in the transaction, {who}", 1_000_000, replica, level)
        ask(f"before it, {who}", 1_500, replica, level)
    tx.end(commit=False)
    ask("max timestamp, aborted", MAX_TIMESTAMP, level=1)
    ask("in the transaction, aborted", 1_000_000, level=1)


# ---- DeleteRecords ------------------------------------------------------------------------------------------------


@scenario(ApiKey.DELETE_RECORDS)
def delete_records_of_several(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=2)
    for partition in (0, 1):
        session.produced(topic, batch(), partition)
    dr = delete_records_request

    def ask(step: str, *topics: tuple[str, list[tuple[int, int]]], timeout_ms: int = 10_000) -> None:
        chosen = [
            dr.DeleteRecordsTopic(
                name=name,
                partitions=[dr.DeleteRecordsPartition(partition_index=i, offset=offset) for i, offset in wishes],
            )
            for name, wishes in topics
        ]
        session.record(step, m.DeleteRecordsRequest(topics=chosen, timeout_ms=timeout_ms), version)

    ask("none")
    ask("no partitions", (topic, []))
    ask("two partitions", (topic, [(0, 1), (1, 9)]))
    ask("no time", (topic, [(0, 2)]), timeout_ms=0)
    ask("at the high watermark", (topic, [(0, 3)]))
    ask("one behind it", (topic, [(0, 4)]))
    ask("the last offset of all", (topic, [(1, (1 << 63) - 1)]))
    ask("the first offset of all", (topic, [(1, -(1 << 63))]))
    both = session.topic("both", cleanup_policy="compact,delete")
    session.produced(both, batch(key=b"k"))
    ask("compacted and deleted", (both, [(0, 2)]))
    neither = session.topic("neither", cleanup_policy="")
    session.produced(neither, batch())
    ask("neither compacted nor deleted", (neither, [(0, 2)]))
    session.coordinator_serves(session.name("group"))
    ask("internal topic", ("__consumer_offsets", [(0, 0)]))
