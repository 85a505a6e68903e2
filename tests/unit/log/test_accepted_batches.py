"""Which batches a log accepts, each bound at its edge, and what a refusal says."""

from __future__ import annotations

import pytest

from kavka.errors import CorruptRecords, ErrorCode, InvariantViolation, RecordsError
from kavka.log.decide.accepted_batches import (
    accept_own,
    accept_produced,
    check_order,
    over_segment_bytes,
    read_markers,
)
from kavka.log.log_config import LogConfig
from kavka.records.batch import RecordBatch, batch_at, read_header
from kavka.records.builder import seal
from kavka.records.compression import Compression
from kavka.records.control import ControlType, EndTransactionMarker
from tests.unit.log.log_support import NOW_MS, PARTITION, batch, marker

SIZE = len(batch())
LARGE = [b"x" * 2_000]


def parsed(data: bytes | bytearray) -> RecordBatch:
    found = batch_at(memoryview(data))
    assert found is not None
    return found


# -- of a client


@pytest.mark.parametrize("sent", [Compression.NONE, Compression.GZIP])
def test_a_batch_in_the_codec_of_the_topic_is_taken_as_it_is(sent: Compression) -> None:
    data = batch(LARGE, compression=sent)
    for codec in (None, sent):
        accepted = accept_produced(memoryview(data), LogConfig(compression_type=codec), NOW_MS)
        assert accepted.view.obj is data
        assert bytes(accepted.view) == bytes(data)


@pytest.mark.parametrize(
    ("sent", "codec"),
    [(Compression.NONE, Compression.GZIP), (Compression.GZIP, Compression.NONE), (Compression.GZIP, Compression.LZ4)],
)
def test_a_batch_in_another_codec_is_laid_out_anew(sent: Compression, codec: Compression) -> None:
    data = batch([b"a" * 300, b"b"], compression=sent)
    accepted = accept_produced(memoryview(data), LogConfig(compression_type=codec), NOW_MS)
    assert accepted.header.codec_id == codec
    assert accepted.crc_is_right()
    assert not accepted.view.readonly, "its offsets are patched in place"
    assert [record.value for record in accepted.records()] == [b"a" * 300, b"b"]


def test_a_batch_may_be_as_large_as_max_message_bytes_in_the_codec_of_the_topic() -> None:
    sent = batch(LARGE, compression=Compression.GZIP)
    inflated = len(batch(LARGE))
    assert len(sent) < inflated
    fits = LogConfig(compression_type=Compression.NONE, max_message_bytes=inflated)
    assert len(accept_produced(memoryview(sent), fits, NOW_MS).view) == inflated
    small = LogConfig(compression_type=Compression.NONE, max_message_bytes=inflated - 1)
    with pytest.raises(RecordsError) as refusal:
        accept_produced(memoryview(sent), small, NOW_MS)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal.value.message == (
        f"the batch has {inflated} bytes with the codec NONE of the topic, over max.message.bytes of {inflated - 1}"
    )


# -- of this broker


def test_a_coordinators_batch_may_be_as_large_as_max_message_bytes() -> None:
    data = batch()
    assert accept_own(memoryview(data), LogConfig(max_message_bytes=SIZE)).view.obj is data
    with pytest.raises(RecordsError) as refusal:
        accept_own(memoryview(data), LogConfig(max_message_bytes=SIZE - 1))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal.value.message == f"the batch has {SIZE} bytes, over max.message.bytes of {SIZE - 1}"


@pytest.mark.parametrize("data", [b"", bytes(batch())[:-1], bytes(batch()) * 2, bytes(batch()) + b"\0"])
def test_what_a_coordinator_appends_is_one_whole_batch(data: bytes) -> None:
    with pytest.raises(InvariantViolation, match=f"{len(data)} bytes from a coordinator are not one batch"):
        accept_own(memoryview(data), LogConfig())


def test_a_batch_that_fits_into_no_segment_is_refused_as_kafka_does() -> None:
    refusal = over_segment_bytes(101, 100)
    assert refusal.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert refusal.message == "the batch has 101 bytes, over segment.bytes of 100"


# -- of the leader


@pytest.mark.parametrize(
    ("log_end_offset", "bases", "refused"),
    [
        (0, [0, 2, 4], None),
        (3, [3, 5], None),
        (3, [10, 12, 90], None),
        (3, [2], (0, 2, 3)),
        (0, [0, 1], (1, 1, 2)),
        (0, [5, 7, 8, 2], (2, 8, 9)),
    ],
)
def test_offsets_from_the_leader_only_grow(
    log_end_offset: int, bases: list[int], refused: tuple[int, int, int] | None
) -> None:
    batches = [parsed(batch(2, base_offset=base)) for base in bases]
    if refused is None:
        check_order(batches, log_end_offset, PARTITION)
        return
    number, base, expected = refused
    with pytest.raises(CorruptRecords) as refusal:
        check_order(batches, log_end_offset, PARTITION)
    assert str(refusal.value.message) == (
        f"orders-0: batch {number} from the leader has the offsets [{base}, {base + 1}], expected none below {expected}"
    )


@pytest.mark.parametrize(("delta", "is_right"), [(0, True), (1, True), (-1, False)])
def test_a_batch_from_the_leader_does_not_end_before_it_begins(delta: int, is_right: bool) -> None:
    data = seal(read_header(batch(base_offset=7))._replace(last_offset_delta=delta), b"")
    if is_right:
        check_order([parsed(data)], 7, PARTITION)
    else:
        with pytest.raises(CorruptRecords, match="batch 0 from the leader"):
            check_order([parsed(data)], 7, PARTITION)


def test_what_the_control_batches_say_is_known_before_any_is_written() -> None:
    commit = marker(ControlType.COMMIT, producer_id=0, coordinator_epoch=4)
    abort = marker(ControlType.ABORT, producer_id=9, coordinator_epoch=5)
    batches = []
    for offset, data in enumerate([batch(producer_id=3), commit, batch(), abort]):
        data[:8] = offset.to_bytes(8, "big")
        batches.append(parsed(data))
    emptied = seal(read_header(abort)._replace(base_offset=8, record_count=0), b"")
    of_no_producer = seal(read_header(abort)._replace(base_offset=9, producer_id=-1), b"no record")
    assert read_markers([*batches, parsed(emptied), parsed(of_no_producer)]) == {
        1: EndTransactionMarker(ControlType.COMMIT, 4),
        3: EndTransactionMarker(ControlType.ABORT, 5),
    }
