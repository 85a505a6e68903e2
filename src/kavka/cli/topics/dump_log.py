"""`kavka dump-log`: what stands in a log's files, without a broker.

Decides by a file's name what it is, and what counts as damage: then the exit status is 1. Reads only; a directory
stands for all files in it that are understood. Kafka's files and kavka's are the same.

    .log         batches, with --records their records        .snapshot    producers' sequences
    .index       offsets and positions                         leader-epoch-checkpoint, partition.metadata,
    .timeindex   timestamps and offsets                        meta.properties, *-offset-checkpoint: as they are
    .txnindex    aborted transactions
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json
from kavka.cli.output import Failure, Table, counted, note, show, show_json, unreadable

if TYPE_CHECKING:
    from kavka.records.batch import RecordBatch

app = CommandLine()


Row = dict[str, object]
SHOWN_BYTES = 200
"""Bytes of a key or a value that are shown."""
TEXT_FILES = (
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "partition.metadata",
    "meta.properties",
)


class Damage(Exception):
    """A place in a file from which on it cannot be trusted."""


@app.command("dump-log")
def dump_log(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files of logs, or a partition's directory.")],
    records: Annotated[bool, typer.Option("--records", "-r", help="Include the records of each batch.")] = False,
    verify_only: Annotated[bool, typer.Option("--verify", help="Only report whether the files are intact.")] = False,
    as_json: Json = False,
) -> None:
    """Show the content of log files, without a broker.

    The files may be kavka's or Apache Kafka's. The exit status is 1 if one is damaged.

    It reads .log, .index, .timeindex, .txnindex, .snapshot and the checkpoints.

    [bold]Example[/bold]

    kavka dump-log kavka-data/logs/orders-0 --records
    """
    files = [file for path in paths for file in _files(path)]
    damaged: list[str] = []
    documents: list[Row] = []
    for file in files:
        rows, damage = _read(file, records=records)
        if damage:
            damaged.append(f"{file}: {damage}")
        if as_json:
            documents.append({"file": file, "damage": damage, "entries": [] if verify_only else rows})
        else:
            _show(file, rows, damage, verify_only=verify_only)
    if as_json:
        show_json(documents)
    if damaged:
        raise Failure(
            f"{counted(len(damaged), 'damaged file')}, of {len(files)} in all: {damaged[0]}",
            "a broker cuts a torn tail off when it starts; copy the files before you start it",
        )


def _files(path: str) -> list[str]:
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        return [path]
    except FileNotFoundError:
        raise Failure(
            f"there is no file {path}", "name a file of a log, or its directory, for example logs/orders-0"
        ) from None
    except OSError as problem:
        raise Failure(unreadable(path, problem), "name a file that you may read") from None
    found = sorted(os.path.join(path, name) for name in names if _reader_of(name) is not None)
    if not found:
        raise Failure(f"{path} holds no log files", "name a partition's directory, for example logs/orders-0")
    return found


def _read(file: str, *, records: bool) -> tuple[list[Row], str]:
    """The entries of a file, and what is damaged in it ("" for nothing). Raises Failure if it cannot be read."""
    reader = _reader_of(os.path.basename(file))
    if reader is None:
        raise Failure(f"{file}: not the name of a log's file", "`kavka dump-log --help` lists the files that it reads")
    rows: list[Row] = []
    try:
        for row in reader(file, records):
            rows.append(row)  # noqa: PERF402  # what came before a damaged place is kept
    except Damage as damage:
        return rows, str(damage)
    except OSError as problem:
        raise Failure(f"cannot read {file}: {problem.strerror}", "name a file that you may read") from problem
    return rows, ""


def _reader_of(name: str) -> Callable[[str, bool], Iterator[Row]] | None:
    name = name.removesuffix(".deleted")
    if name in TEXT_FILES:
        return _text
    return _READERS.get(os.path.splitext(name)[1])


def _log(file: str, records: bool) -> Iterator[Row]:
    from kavka.errors import RecordsError
    from kavka.records.batch import batch_at

    size_bytes = os.path.getsize(file)
    if not size_bytes:
        return
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        try:
            position = 0
            last_offset = -1
            while position < size_bytes:
                try:
                    batch = batch_at(view, position)
                except RecordsError as problem:
                    raise Damage(f"at byte {position}: {problem}") from problem
                if batch is None:
                    raise Damage(f"at byte {position}: the file ends within a batch")
                try:
                    yield _batch(batch, position)
                    if not batch.crc_is_right():
                        raise Damage(
                            f"at byte {position}: the batch at offset {batch.header.base_offset} has a wrong CRC"
                        )
                    if batch.header.base_offset <= last_offset:
                        raise Damage(f"at byte {position}: offset {batch.header.base_offset} follows {last_offset}")
                    last_offset = batch.header.last_offset
                    position += batch.header.size_bytes
                    if records:
                        yield from _records(batch)
                finally:
                    batch.view.release()
        finally:
            view.release()


def _batch(batch: RecordBatch, position: int) -> Row:
    header = batch.header
    kind = "control" if header.is_control else "transactional" if header.is_transactional else ""
    return {
        "offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": position,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.partition_leader_epoch,
        "timestamp": header.max_timestamp,
        "timestamp_type": header.timestamp_type.name,
        "codec": header.compression.name.lower() if header.codec_id <= 4 else str(header.codec_id),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "kind": kind,
        "crc": header.crc,
    }


def _records(batch: RecordBatch) -> Iterator[Row]:
    from kavka.errors import RecordsError
    from kavka.records.control import read_marker

    try:
        if batch.header.is_control:
            marker = read_marker(batch)
            yield {"record": batch.header.base_offset, "marker": marker.control_type.name if marker else "unknown"}
            return
        for record in batch.records():
            yield {
                "record": record.offset,
                "timestamp": record.timestamp,
                "key": _shown(record.key),
                "value": _shown(record.value),
                "headers": {name: _shown(value) for name, value in record.headers},
            }
    except RecordsError as problem:
        raise Damage(f"the batch at offset {batch.header.base_offset}: {problem}") from problem


def _index(file: str, records: bool) -> Iterator[Row]:
    from kavka.log.decide.indexes import CorruptIndex, OffsetIndex

    log = _beside(file, ".log")
    log_size = os.path.getsize(log) if os.path.exists(log) else 1 << 62
    try:
        index = OffsetIndex.parse(_bytes(file), _base_offset(file), log_size)
    except CorruptIndex as problem:
        raise Damage(str(problem)) from problem
    for offset, position in index:
        yield {"offset": offset, "position": position}


def _time_index(file: str, records: bool) -> Iterator[Row]:
    from kavka.log.decide.indexes import CorruptIndex, TimeIndex

    try:
        index = TimeIndex.parse(_bytes(file), _base_offset(file))
    except CorruptIndex as problem:
        raise Damage(str(problem)) from problem
    for timestamp, offset in index:
        yield {"timestamp": timestamp, "offset": offset}


def _transaction_index(file: str, records: bool) -> Iterator[Row]:
    from kavka.log.decide.indexes import CorruptIndex, parse_aborted

    try:
        entries = parse_aborted(_bytes(file), _base_offset(file))
    except CorruptIndex as problem:
        raise Damage(str(problem)) from problem
    for entry in entries:
        yield dict(entry._asdict())


def _snapshot(file: str, records: bool) -> Iterator[Row]:
    from kavka.log.decide.producer_state import CorruptSnapshot, parse_snapshot

    try:
        for entry in parse_snapshot(_bytes(file)):
            yield {
                "producer_id": entry.producer_id,
                "producer_epoch": entry.producer_epoch,
                "last_sequence": entry.last_sequence,
                "last_offset": entry.last_offset,
                "timestamp": entry.last_timestamp,
                "coordinator_epoch": entry.coordinator_epoch,
                "open_transaction_offset": entry.current_txn_first_offset,
            }
    except CorruptSnapshot as problem:
        raise Damage(str(problem)) from problem


def _text(file: str, records: bool) -> Iterator[Row]:
    for line in _bytes(file).decode("utf-8", "backslashreplace").splitlines():
        yield {"line": line}


_READERS: dict[str, Callable[[str, bool], Iterator[Row]]] = {
    ".log": _log,
    ".index": _index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": _snapshot,
}


def _show(file: str, rows: Sequence[Row], damage: str, *, verify_only: bool) -> None:
    note(f"{file}: {counted(len(rows), 'entry', 'entries')}, {'damaged' if damage else 'intact'}")
    if verify_only or not rows:
        return
    batches = [row for row in rows if "record" not in row]
    if len(batches) == len(rows):
        headings = list(rows[0])
        table = Table(headings, [name for name in headings if isinstance(rows[0][name], int)])
        for row in rows:
            table.add(*row.values())
        show(table)
        return
    for row in rows:
        indent = "  " if "record" in row else ""
        print(indent + " ".join(f"{name}={value}" for name, value in row.items() if value not in ("", None, {})))


def _base_offset(file: str) -> int:
    name = os.path.basename(file).partition(".")[0]
    if not name.isdecimal():
        raise Failure(f"{file}: a segment's file is named after its first offset", "rename the copy back")
    return int(name)


def _beside(file: str, suffix: str) -> str:
    return f"{file.removesuffix('.deleted').rpartition('.')[0]}{suffix}"


def _bytes(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return text + ("..." if len(data) > SHOWN_BYTES else "")
