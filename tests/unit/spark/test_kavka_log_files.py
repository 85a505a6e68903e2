"""Segment files become rows: which files, which batches, and what is said of those that are damaged."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ConfigError
from kavka.log.decide.indexes import AbortedTransaction, OffsetIndex, aborted_bytes
from kavka.records.batch import HEADER_SIZE
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka_spark.columns import TYPES
from kavka_spark.errors import CorruptBatchError, LogFileError
from kavka_spark.log_format import RECORD_DDL, KavkaLogReader, KavkaLogSource, log_options, read_piece
from kavka_spark.log_segments import find_segments, split


def batch_of(*values: bytes, base_offset: int, stamp: ProducerStamp | None = None) -> bytes:
    builder = BatchBuilder(Compression.NONE)
    for value in values:
        builder.append(1000, None, value)
    return builder.build(stamp or ProducerStamp(), base_offset=base_offset, partition_leader_epoch=4)


def transactional(producer_id: int) -> ProducerStamp:
    return ProducerStamp(producer_id, 0, 0, is_transactional=True)


def marker(producer_id: int, base_offset: int, kind: ControlType) -> bytes:
    return build_marker(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=base_offset
    )


def write_segment(directory: Path, base_offset: int, data: bytes, partition: str = "orders-0") -> Path:
    (directory / partition).mkdir(parents=True, exist_ok=True)
    path = directory / partition / f"{base_offset:020d}.log"
    path.write_bytes(data)
    return path


def rows(path: Path, columns: Sequence[str] = ("offset", "value"), **options: str) -> list[tuple[Any, ...]]:
    """What a query reads, task after task, without Spark."""
    reader = KavkaLogReader(log_options({"path": str(path), **options}), columns)
    return [
        tuple(row.values())
        for partition in reader.partitions()
        for table in reader.read(partition)
        for row in table.to_pylist()
    ]


def test_the_names_and_types_of_records_are_those_of_the_decoder() -> None:
    assert list(RECORD_DDL) == list(TYPES)


def test_segments_are_read_in_order_and_what_is_on_its_way_out_is_not(tmp_path: Path) -> None:
    write_segment(tmp_path, 2, batch_of(b"c", base_offset=2))
    write_segment(tmp_path, 0, batch_of(b"a", b"b", base_offset=0))
    for name in ("orders-0.5f0c-delete", "orders-0.5f0c-future", "orders-0.5f0c-stray", "no-partition"):
        write_segment(tmp_path, 0, batch_of(b"x", base_offset=0), name)
    (tmp_path / "orders-0" / f"{9:020d}.log.deleted").write_bytes(batch_of(b"y", base_offset=9))
    (tmp_path / "orders-0" / f"{9:020d}.log.swap").write_bytes(batch_of(b"z", base_offset=9))
    write_segment(tmp_path, 0, batch_of(b"p", base_offset=0), "pay-ments-12")
    assert rows(tmp_path, ("topic", "partition", "offset", "value")) == [
        ("orders", 0, 0, b"a"),
        ("orders", 0, 1, b"b"),
        ("orders", 0, 2, b"c"),
        ("pay-ments", 12, 0, b"p"),
    ]
    assert rows(tmp_path, topics="pay*, other") == [(0, b"p")]
    assert rows(tmp_path, sealedOnly="true") == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("partition", ["orders-99999999999", "orders-4294967296", "ord\udcffers-0", "or ders-0", "-1"])
def test_names_that_no_broker_gives_are_passed_over(tmp_path: Path, partition: str) -> None:
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0))
    write_segment(tmp_path, 0, batch_of(b"x", base_offset=0), partition)
    write_segment(tmp_path, 10**20 - 1, batch_of(b"y", base_offset=0))
    assert rows(tmp_path, ("topic", "value")) == [("orders", b"a")]


def test_a_partition_or_a_file_can_be_named_instead_of_the_log_directory(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0))
    second = write_segment(tmp_path, 1, batch_of(b"b", base_offset=1))
    assert rows(tmp_path / "orders-0") == [(0, b"a"), (1, b"b")]
    assert rows(second) == [(1, b"b")]
    assert rows(tmp_path / "orders-0", topics="other") == []


def test_a_log_directory_with_the_name_of_a_partition_is_a_log_directory(tmp_path: Path) -> None:
    write_segment(tmp_path / "broker-1", 0, batch_of(b"a", base_offset=0))
    assert rows(tmp_path / "broker-1") == [(0, b"a")]


def test_columns_say_where_a_record_lies(tmp_path: Path) -> None:
    first = batch_of(b"a", base_offset=5)
    path = write_segment(tmp_path, 5, first + batch_of(b"b", b"c", base_offset=6, stamp=ProducerStamp(9, 2, 30)))
    names = ("offset", "base_offset", "leader_epoch", "producer_id", "producer_epoch", "sequence", "crc_ok")
    assert rows(tmp_path, names) == [
        (5, 5, 4, -1, -1, -1, True),
        (6, 6, 4, 9, 2, 30, True),
        (7, 6, 4, 9, 2, 31, True),
    ]
    assert rows(tmp_path, ("file", "position")) == [(str(path), 0)] + 2 * [(str(path), len(first))]


def test_the_tail_of_the_active_segment_ends_it_and_that_of_a_sealed_one_is_damage(tmp_path: Path) -> None:
    torn = batch_of(b"b", base_offset=1)[:-1]
    path = write_segment(tmp_path, 0, batch_of(b"a", base_offset=0) + torn)
    assert rows(tmp_path) == [(0, b"a")]
    write_segment(tmp_path, 2, batch_of(b"c", base_offset=2))
    with pytest.raises(CorruptBatchError, match=rf"orders-0 at offset 1: {len(torn)} bytes of a batch of") as failure:
        rows(tmp_path)
    assert str(path) in str(failure.value)
    assert rows(tmp_path, onCorrupt="skip") == [(0, b"a"), (2, b"c")]


@pytest.mark.parametrize("tail", [bytes(100), bytes(3), b"\x01\x02"])
def test_a_file_laid_out_at_full_size_or_cut_in_a_header_ends_where_its_batches_do(tmp_path: Path, tail: bytes) -> None:
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0) + tail)
    assert rows(tmp_path) == [(0, b"a")]
    assert rows(tmp_path, ("problem",), rows="batches")[0] == (None,)
    kind = "zeros" if not any(tail) else "incomplete"
    assert rows(tmp_path, ("base_offset", "size_bytes", "problem"), rows="batches")[1][:2] == (None, len(tail))
    assert rows(tmp_path, ("problem",), rows="batches")[1][0].startswith(kind)


def test_a_wrong_crc_fails_is_skipped_or_kept_as_asked(tmp_path: Path) -> None:
    damaged = bytearray(batch_of(b"bbbb", base_offset=1))
    damaged[-3] ^= 1
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0) + bytes(damaged) + batch_of(b"c", base_offset=2))
    with pytest.raises(CorruptBatchError, match="orders-0 at offset 1: its CRC-32C is not"):
        rows(tmp_path)
    assert rows(tmp_path, onCorrupt="skip") == [(0, b"a"), (2, b"c")]
    kept = rows(tmp_path, ("offset", "crc_ok"), onCorrupt="keep")
    assert kept == [(0, True), (1, False), (2, True)]
    assert len(rows(tmp_path, checkCrcs="false")) == 3
    assert [row[0] for row in rows(tmp_path, ("crc_ok",), rows="batches")] == [True, False, True]
    assert [row[0] for row in rows(tmp_path, ("crc_ok",), rows="batches", checkCrcs="false")] == [None] * 3


def test_records_that_cannot_be_read_are_passed_over_where_that_is_asked_for(tmp_path: Path) -> None:
    malformed = bytearray(batch_of(b"b", base_offset=1))
    malformed[HEADER_SIZE] = 0x7F
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0) + bytes(malformed) + batch_of(b"c", base_offset=2))
    assert rows(tmp_path, onCorrupt="keep") == [(0, b"a"), (2, b"c")]
    with pytest.raises(CorruptBatchError, match=r"orders-0 at offset 1: record 0 of the batch.*byte \d+\)"):
        rows(tmp_path, checkCrcs="false")


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_refused_by_name(tmp_path: Path, magic: int) -> None:
    old = bytearray(batch_of(b"b", base_offset=1))
    old[16] = magic
    first = batch_of(b"a", base_offset=0)
    write_segment(tmp_path, 0, first + bytes(old))
    with pytest.raises(CorruptBatchError, match=f"message format {magic} at byte {len(first)}, expected 2"):
        rows(tmp_path)
    problem = rows(tmp_path, ("problem",), rows="batches")[1][0]
    assert problem == f"no batch: message format {magic} at byte {len(first)}, expected 2"


def test_offsets_that_go_back_or_do_not_belong_to_the_segment_are_problems(tmp_path: Path) -> None:
    write_segment(tmp_path, 5, batch_of(b"a", b"b", base_offset=5) + batch_of(b"c", base_offset=6))
    with pytest.raises(CorruptBatchError, match="it starts at offset 6, what is before it ends at 6"):
        rows(tmp_path)
    write_segment(tmp_path, 5, batch_of(b"a", base_offset=3))
    with pytest.raises(CorruptBatchError, match="it starts at offset 3, what is before it ends at 4"):
        rows(tmp_path)


def test_a_length_that_lies_is_damage_and_not_an_allocation(tmp_path: Path) -> None:
    lying = bytearray(batch_of(b"b" * 50, base_offset=1))
    struct.pack_into("!i", lying, 8, (1 << 31) - 1)
    path = write_segment(tmp_path, 0, batch_of(b"a", base_offset=0) + bytes(lying))
    assert rows(tmp_path) == [(0, b"a")]  # as if the rest was still to be written
    with path.open("ab") as file:
        file.truncate(3 << 30)  # sparse: 3 GiB that hold nothing
    with pytest.raises(CorruptBatchError, match=f"a batch of {(1 << 31) + 11} bytes, over maxBatchBytes of 268435456"):
        rows(tmp_path)
    write_segment(tmp_path, 0, batch_of(b"b" * 5000, base_offset=0))
    with pytest.raises(CorruptBatchError, match="over maxBatchBytes of 1000"):
        rows(tmp_path, maxBatchBytes="1000")


def test_a_batch_larger_than_a_window_is_read_whole(tmp_path: Path) -> None:
    large = b"x" * (9 << 20)
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0) + batch_of(large, base_offset=1))
    assert [len(row[1]) for row in rows(tmp_path)] == [1, 9 << 20]


def test_a_row_per_batch_says_everything_of_its_header(tmp_path: Path) -> None:
    data = batch_of(b"a", b"b", base_offset=0, stamp=transactional(7)) + marker(7, 2, ControlType.COMMIT)
    write_segment(tmp_path, 0, data)
    names = ("base_offset", "last_offset", "record_count", "leader_epoch", "control", "marker", "size_bytes", "problem")
    size = len(batch_of(b"a", b"b", base_offset=0))
    assert rows(tmp_path, names, rows="batches") == [
        (0, 1, 2, 4, False, None, size, None),
        (2, 2, 1, -1, True, "commit", len(data) - size, None),
    ]


def test_markers_are_rows_only_where_asked_for(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of(b"a", base_offset=0, stamp=transactional(7)) + marker(7, 1, ControlType.COMMIT))
    assert rows(tmp_path, ("offset", "control")) == [(0, False)]
    assert rows(tmp_path, ("offset", "control"), includeControlRecords="true") == [(0, False), (1, True)]


def with_transactions(directory: Path) -> Path:
    """Producer 7 aborts a transaction over two segments, then commits one; producer 8 has one open."""
    write_segment(
        directory,
        0,
        batch_of(b"7a", base_offset=0, stamp=transactional(7)) + batch_of(b"8a", base_offset=1, stamp=transactional(8)),
    )
    second = write_segment(
        directory,
        2,
        batch_of(b"7b", base_offset=2, stamp=transactional(7))
        + marker(7, 3, ControlType.ABORT)
        + batch_of(b"7c", base_offset=4, stamp=transactional(7))
        + marker(7, 5, ControlType.COMMIT),
    )
    return second.with_suffix(".txnindex")


def test_aborted_transactions_are_marked_over_segments(tmp_path: Path) -> None:
    index = with_transactions(tmp_path)
    index.write_bytes(aborted_bytes(AbortedTransaction(7, 0, 3, 4)))
    expected = [(b"7a", True), (b"8a", False), (b"7b", True), (b"7c", False)]
    assert rows(tmp_path, ("value", "aborted")) == expected
    index.write_bytes(index.read_bytes()[:-5])  # a damaged index: the markers say the same
    assert rows(tmp_path, ("value", "aborted")) == expected


def large_segment(directory: Path, *, count: int = 400) -> tuple[Path, list[int]]:
    positions, data = [], b""
    for number in range(count):
        positions.append(len(data))
        data += batch_of(b"v" * 100, base_offset=number)
    return write_segment(directory, 0, data), positions


@pytest.mark.parametrize("indexed", ["well", "not", "wrongly"])
def test_a_large_segment_is_cut_at_batches_with_or_without_an_index(tmp_path: Path, indexed: str) -> None:
    path, positions = large_segment(tmp_path)
    if indexed != "not":
        index = OffsetIndex(0)
        for number in range(1, 400, 3):
            index.append(number, positions[number] + (11 if indexed == "wrongly" else 0))
        path.with_suffix(".index").write_bytes(index.tobytes())
    (segment,) = find_segments([str(tmp_path)], [])
    pieces = split(segment, 10_000)
    assert len(pieces) == pytest.approx(path.stat().st_size / 10_000, abs=1)
    assert {piece.start for piece in pieces} <= set(positions)
    assert [piece.end for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
    options = log_options({"path": str(path)})
    offsets = [
        row["offset"]
        for piece in pieces
        for table in read_piece(piece, options, ("offset",))
        for row in table.to_pylist()
    ]
    assert offsets == list(range(400))


def test_small_segments_share_a_task_and_large_ones_do_not(tmp_path: Path) -> None:
    for number in range(100):
        write_segment(tmp_path, number, batch_of(b"v", base_offset=number))
    reader = KavkaLogReader(log_options({"path": str(tmp_path)}), ("offset",))
    assert [len(partition.pieces) for partition in reader.partitions()] == [63, 37]
    assert rows(tmp_path, ("offset",)) == [(number,) for number in range(100)]
    reader = KavkaLogReader(log_options({"path": str(tmp_path), "splitBytes": "10"}), ("offset",))
    assert len(reader.partitions()) == 100


def test_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, batch_of(b"a", base_offset=0))
    reader = KavkaLogReader(log_options({"path": str(tmp_path)}), ("offset",))
    (partition,) = reader.partitions()
    path.unlink()
    with pytest.raises(LogFileError, match=r"0\.log: No such file"):
        list(reader.read(partition))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/nowhere/at/all"}, "does not exist"),
        ({}, "option 'path' is missing"),
        ({"path": "/tmp", "row": "batches"}, "did you mean 'rows'"),
        ({"path": "/tmp", "rows": "lines"}, "expected one of records, batches"),
        ({"path": "/tmp", "columns": "valu"}, "columns valu: expected each name once, out of key, value"),
        ({"path": "/tmp", "splitBytes": "-1"}, "splitbytes"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KavkaLogReader(log_options(options), KavkaLogSource(options).schema().split()[:1]).partitions()


def test_several_directories_are_read_together(tmp_path: Path) -> None:
    write_segment(tmp_path / "a", 0, batch_of(b"1", base_offset=0))
    write_segment(tmp_path / "b", 0, batch_of(b"2", base_offset=0), "other-0")
    reader = KavkaLogReader(log_options({"paths": f'["{tmp_path}/a", "{tmp_path}/b"]'}), ("topic",))
    assert [piece.topic for partition in reader.partitions() for piece in partition.pieces] == ["orders", "other"]
