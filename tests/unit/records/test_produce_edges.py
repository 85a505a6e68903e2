"""What a leader takes and refuses at the edges of a topic's settings, and the words of its refusals."""

from __future__ import annotations

import pytest

from kavka.errors import BadRecord, ErrorCode, RecordsError
from kavka.records.batch import TimestampType, read_header
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.compression import Compression, compress
from kavka.records.record import encode_record
from kavka.records.validation import ProduceRules, validate_produced, validate_replicated

NOW_MS = 1_700_000_000_000
RULES = ProduceRules(max_message_bytes=1_048_588)
NARROW = RULES._replace(timestamp_before_max_ms=1000, timestamp_after_max_ms=2000)
WITHIN = f"[{NOW_MS - 1000}, {NOW_MS + 2000}]"


def batch(
    *times: int, key: bytes | None = b"k", codec: Compression = Compression.NONE, stamp: ProducerStamp | None = None
) -> bytes:
    builder = BatchBuilder(codec)
    for time in times:
        builder.append(time, key, b"v")
    return builder.build(stamp or ProducerStamp())


def refusal(records: bytes, rules: ProduceRules) -> RecordsError:
    with pytest.raises(RecordsError) as refused:
        validate_produced(memoryview(bytearray(records)), rules, NOW_MS)
    return refused.value


def takes(records: bytes, rules: ProduceRules) -> bool:
    try:
        validate_produced(memoryview(bytearray(records)), rules, NOW_MS)
    except RecordsError:
        return False
    return True


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(
    ("offset_ms", "taken"), [(-1001, False), (-1000, True), (0, True), (2000, True), (2001, False)]
)
def test_a_record_may_be_just_so_old_and_so_far_ahead(
    offset_ms: int, count: int, codec: Compression, *, taken: bool
) -> None:
    records = batch(*[NOW_MS] * (count - 1), NOW_MS + offset_ms, codec=codec)
    assert takes(records, NARROW) is taken
    if not taken:
        refused = refusal(records, NARROW)
        fault = f"timestamp {NOW_MS + offset_ms} is not within {WITHIN}"
        assert list(refused.bad_records) == [BadRecord(count - 1, ErrorCode.INVALID_TIMESTAMP, fault)]
        assert refused.message == f"1 of the batch's {count} records are invalid; record {count - 1}: {fault}"
    assert takes(records, NARROW._replace(timestamp_type=TimestampType.LOG_APPEND_TIME))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_one_bound_says_nothing_of_the_other(codec: Compression) -> None:
    old, ahead = batch(0, codec=codec), batch(NOW_MS * 2, codec=codec)
    assert takes(ahead, RULES._replace(timestamp_before_max_ms=1000))
    assert not takes(old, RULES._replace(timestamp_before_max_ms=1000))
    assert takes(old, RULES._replace(timestamp_after_max_ms=1000))
    assert not takes(ahead, RULES._replace(timestamp_after_max_ms=1000))


def test_a_batch_with_a_broker_s_stamp_has_the_one_timestamp_that_its_header_says() -> None:
    """Kafka looks at each record's timestamp, which is that of the header then."""
    header = read_header(batch(NOW_MS))._replace(attributes=8)
    payload = batch(NOW_MS)[61:]
    for offset_ms, taken in ((-1001, False), (-1000, True), (2000, True), (2001, False)):
        records = seal(header._replace(base_timestamp=0, max_timestamp=NOW_MS + offset_ms), payload)
        assert takes(records, NARROW) is taken
    for rules in (RULES, NARROW):
        refused = refusal(seal(header, payload), rules._replace(timestamp_type=TimestampType.LOG_APPEND_TIME))
        assert refused.code is ErrorCode.INVALID_TIMESTAMP
        (bad,) = refused.bad_records
        assert bad == BadRecord(
            0, ErrorCode.INVALID_TIMESTAMP, "a producer must not set the timestamp type to LogAppendTime"
        )


def test_a_record_without_a_key_is_named_in_words() -> None:
    refused = refusal(batch(NOW_MS, NOW_MS, key=None), RULES._replace(compacted=True))
    words = "no key, which a compacted topic needs"
    assert list(refused.bad_records) == [BadRecord(index, ErrorCode.INVALID_RECORD, words) for index in (0, 1)]
    assert refused.message == f"2 of the batch's 2 records are invalid; record 0: {words}"


@pytest.mark.parametrize(
    ("producer_id", "sequence", "taken"),
    [(0, -1, False), (0, 0, True), (1, -1, False), (-1, -1, True), (-1, 5, True), (7, 2**31 - 1, True)],
)
def test_who_has_a_producer_id_has_a_sequence(producer_id: int, sequence: int, *, taken: bool) -> None:
    records = batch(NOW_MS, stamp=ProducerStamp(producer_id, 0, sequence))
    assert takes(records, RULES) is taken
    if not taken:
        assert refusal(records, RULES).message == f"invalid sequence number -1 of producer {producer_id}"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_offset": 7}, "the base offset of a produced batch should be 0 and is 7"),
        ({"base_offset": -1}, "the base offset of a produced batch should be 0 and is -1"),
        ({"last_offset_delta": -1}, "the batch has an invalid offset range: [0, -1]"),
        ({"record_count": 0}, "invalid count of records: 0"),
        ({"record_count": 2}, "the batch has offsets [0, 0] and a count of 2"),
        ({"last_offset_delta": 1}, "the batch has offsets [0, 1] and a count of 1"),
        ({"attributes": 0x20}, "clients are not allowed to write control records"),
        ({"attributes": 0x30}, "clients are not allowed to write control records"),
    ],
)
def test_a_header_that_contradicts_itself_is_told_how(fields: dict[str, int], words: str) -> None:
    data = batch(NOW_MS)
    refused = refusal(seal(read_header(data)._replace(**fields), data[61:]), RULES)
    assert (refused.code, refused.message) == (ErrorCode.INVALID_RECORD, words)


def test_offsets_of_deflated_records_and_sizes_are_told() -> None:
    header = read_header(batch(NOW_MS))._replace(attributes=Compression.LZ4)
    refused = refusal(seal(header, compress(Compression.LZ4, encode_record(1, 0, b"k", b"v"))), RULES)
    assert refused.message == "the offsets of the batch's records do not count up from 0"
    data = batch(NOW_MS)
    refused = refusal(data, RULES._replace(max_message_bytes=len(data) - 1))
    assert refused.message == f"the batch has {len(data)} bytes, over max.message.bytes of {len(data) - 1}"
    assert refusal(b"x" * 5, RULES).message == "5 bytes of records hold no batch"
    assert refusal(data + data, RULES).message == "a produce request may carry only one batch per partition"


def from_leader(*epochs: int) -> bytes:
    parts = []
    for index, epoch in enumerate(epochs):
        builder = BatchBuilder()
        builder.append(NOW_MS, None, b"x")
        parts.append(builder.build(base_offset=index, partition_leader_epoch=epoch))
    return b"".join(parts)


@pytest.mark.parametrize(("last_epoch", "count"), [(None, 5), (9, 5), (5, 5), (4, 2), (3, 1), (2, 0)])
def test_what_begins_with_a_batch_of_a_later_epoch_is_left_out(last_epoch: int | None, count: int) -> None:
    found = validate_replicated(memoryview(from_leader(3, 4, 5, 3, 3)), last_epoch)
    assert [one.header.base_offset for one in found] == list(range(count))


def test_what_is_left_out_is_not_checked_and_what_is_torn_is_none() -> None:
    good = from_leader(3, 4)
    size = len(good) // 2
    damaged = good[:-1] + bytes((good[-1] ^ 1,))
    assert len(validate_replicated(memoryview(damaged), 3)) == 1
    with pytest.raises(RecordsError, match="batch 1 at offset 1: the CRC is not 0x") as refused:
        validate_replicated(memoryview(damaged), 4)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    for end in range(size):
        assert validate_replicated(memoryview(good[:end])) == []
    assert [bytes(one.view) for one in validate_replicated(memoryview(good))] == [good[:size], good[size:]]
