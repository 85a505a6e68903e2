"""`format("kavka-log")`: log files of kavka or Apache Kafka as a table, read with no broker.

Decides what a query reads and what it does with damage. Where segments are is `log_segments`' to find, what a file
holds `log_scan`'s, and what a record says `decoder`'s.

    spark.read.format("kavka-log").option("topics", "orders").load("/var/kavka/data")

| option                | default |                                                                                   |
| path, paths           |         | log directories, directories of partitions, .log files; where the tasks run       |
| rows                  | records | records: a row each. batches: a row for each batch, and for bytes that are none   |
| topics                | all     | names, separated by commas, with * and ?                                          |
| columns               | all     | those wanted, separated by commas; a schema given to Spark says the same          |
| sealedOnly            | false   | leave the last segment of each partition out                                      |
| checkCrcs             | true    | false: `crc_ok` is null in batches, true in records                               |
| onCorrupt             | fail    | rows=records: fail, skip the batch, or keep what of it can be read, with `crc_ok` |
| includeControlRecords | false   | rows=records: transactions' markers too                                           |
| splitBytes            | 256 MiB | larger segments are read in pieces of about this size, small ones together        |
| maxBatchBytes         | 256 MiB | a batch that says it is larger is taken for damage                                |

Invariants
  I1  Reading is not atomic against a broker that writes: an incomplete batch ends the last segment of a partition with
      no error. It is damage in any other.
  I2  rows=records hands out records of intact batches only, unless onCorrupt=keep.
  I3  This module is imported in every Python process that looks for formats: it imports nothing heavy.

Source: pyspark.sql.datasource (Spark 4.2 and 4.3).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from kavka.errors import ConfigError
from kavka_spark.jvm_sockets import Acknowledging
from kavka_spark.plain_errors import with_plain_errors
from kavka_spark.push_down import filters_may_come
from kavka_spark.source import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kavka_spark.batch_walk import PlacedBatch
    from kavka_spark.decoder import ArrowDecoder
    from kavka_spark.errors import CorruptBatchError
    from kavka_spark.log_scan import Window
    from kavka_spark.log_segments import LogPiece
    from kavka_spark.log_transactions import AbortedTransactions

_OPTIONS = (
    "path",
    "paths",
    "rows",
    "topics",
    "columns",
    "sealedOnly",
    "checkCrcs",
    "onCorrupt",
    "includeControlRecords",
    "splitBytes",
    "maxBatchBytes",
)
_ROWS = ("records", "batches")
_ON_CORRUPT = ("fail", "skip", "keep")
_DEFAULT_SPLIT_BYTES = 256 << 20
_DEFAULT_MAX_BATCH_BYTES = 256 << 20
_ADVICE = "onCorrupt=skip leaves such batches out; onCorrupt=keep reads as much of them as possible"
_PACK_BYTES = 64 << 20
"""Small segments share a task up to this size: some tens of milliseconds of work."""

RECORD_DDL = {
    **COLUMNS,
    "base_offset": "long",
    "leader_epoch": "int",
    "producer_id": "long",
    "producer_epoch": "int",
    "sequence": "int",
    "attributes": "int",
    "compression": "string",
    "transactional": "boolean",
    "control": "boolean",
    "aborted": "boolean",
    "crc_ok": "boolean",
    "file": "string",
    "position": "long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What is read, and how."""

    paths: tuple[str, ...]
    rows: str = "records"
    topics: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    sealed_only: bool = False
    check_crcs: bool = True
    on_corrupt: str = "fail"
    include_control: bool = False
    split_bytes: int = _DEFAULT_SPLIT_BYTES
    max_batch_bytes: int = _DEFAULT_MAX_BATCH_BYTES


def log_options(options: Mapping[str, str]) -> LogOptions:
    """The options, parsed. Raises `ConfigError`."""
    from kavka_spark.options import boolean, check_names, positive_int

    check_names(options, _OPTIONS, what="log source")
    given = {name.lower(): text for name, text in options.items()}
    paths = _paths(given)
    if not paths:
        raise ConfigError("option 'path' is missing: name a log directory, as in load('/var/kavka/data')")
    return LogOptions(
        paths=paths,
        rows=_one_of(given, "rows", _ROWS),
        topics=_names(given, "topics"),
        columns=_names(given, "columns"),
        sealed_only=boolean(given, "sealedonly", default=False),
        check_crcs=boolean(given, "checkcrcs", default=True),
        on_corrupt=_one_of(given, "oncorrupt", _ON_CORRUPT),
        include_control=boolean(given, "includecontrolrecords", default=False),
        split_bytes=positive_int(given, "splitbytes") if "splitbytes" in given else _DEFAULT_SPLIT_BYTES,
        max_batch_bytes=positive_int(given, "maxbatchbytes") if "maxbatchbytes" in given else _DEFAULT_MAX_BATCH_BYTES,
    )


@with_plain_errors
class KavkaLogSource(DataSource):
    """Segment files as Spark sees them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._read = log_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "kavka-log"

    def schema(self) -> str:
        known = _known_columns(self._read.rows)
        names = self._read.columns or tuple(known)
        return ", ".join(f"{name} {known[name]}" for name in _checked(names, known))

    def reader(self, schema: StructType) -> KavkaLogReader:
        columns = _checked(schema.names, _known_columns(self._read.rows))
        return FilteredLogReader(self._read, columns) if filters_may_come() else KavkaLogReader(self._read, columns)


@dataclass
class _Pieces(InputPartition):
    """What one task reads. The list may be empty: Spark needs at least one partition."""

    pieces: list[LogPiece]


@with_plain_errors
class KavkaLogReader(Acknowledging, DataSourceReader):
    """Plans the pieces of files, and reads them in the tasks."""

    def __init__(self, options: LogOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._filters: list[Filter] = []

    def partitions(self) -> Sequence[InputPartition]:
        from kavka_spark.log_filters import LogFilters
        from kavka_spark.log_segments import find_segments, packed, split

        options = self._options
        filters = LogFilters()
        for condition in self._filters:
            filters.heed(condition)
        pieces = [
            piece
            for segment in filters.wanted(find_segments(options.paths, options.topics))
            if not (options.sealed_only and segment.is_active)
            for piece in split(segment, options.split_bytes)
        ]
        return [_Pieces(group) for group in packed(pieces, min(_PACK_BYTES, options.split_bytes))] or [_Pieces([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Pieces)
        for piece in partition.pieces:
            yield from read_piece(piece, self._options, self._columns)


@with_plain_errors
class FilteredLogReader(KavkaLogReader):
    """A reader that takes filters. Spark refuses such a reader if filter push-down is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's
        """Files that the filters refuse are not opened; Spark applies all of them to the rows of the others."""
        self._filters += filters
        return filters


def read_piece(piece: LogPiece, options: LogOptions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of one piece of a segment, in `columns`: the work of a Spark task, without Spark."""
    from kavka_spark.log_batches import batches_table
    from kavka_spark.log_scan import scan

    transactions = _transactions(piece) if "aborted" in columns else None
    windows = scan(
        piece, check_crcs=options.check_crcs, transactions=transactions, max_batch_bytes=options.max_batch_bytes
    )
    if options.rows == "batches":
        for window in windows:
            yield batches_table(window, piece, list(columns))
        return
    from kavka_spark.decoder import ArrowDecoder, Wanted

    decoder = ArrowDecoder(columns, Wanted(piece.topic, piece.partition), file=piece.path)
    for window in windows:
        yield from _records(decoder, window, piece, options)


def _records(decoder: ArrowDecoder, window: Window, piece: LogPiece, options: LogOptions) -> Iterator[pa.RecordBatch]:
    """The records of a window's batches. Raises `CorruptBatchError` unless damage is to be passed over."""
    from kavka_spark.errors import CorruptBatchError
    from kavka_spark.log_scan import ProblemKind

    sound: list[PlacedBatch] = []
    failure: CorruptBatchError | None = None
    for scanned in window.batches:
        batch, problem = scanned.batch, scanned.problem
        if problem is not None and options.on_corrupt == "fail":
            failure = _corrupt(piece, batch.header.base_offset, batch.position, problem.reason)
            break
        if problem is not None and options.on_corrupt == "skip":
            continue
        if batch.header.record_count > 0 and (options.include_control or not batch.header.is_control):
            sound.append(batch)
    while sound:
        try:
            yield from decoder.decode(sound)
            break
        except CorruptBatchError as malformed:
            at = next(index for index, batch in enumerate(sound) if batch is decoder.malformed)
            if options.on_corrupt == "fail":
                raise _corrupt(piece, malformed.offset, sound[at].position, malformed.reason) from malformed
            sound = sound[at + 1 :]
    end = window.end
    if failure is None and end is not None and options.on_corrupt == "fail":
        ends_well = piece.is_active and piece.end is None and end.problem.kind is not ProblemKind.NO_BATCH
        if not ends_well:
            failure = _corrupt(piece, end.next_offset, end.position, end.problem.reason)
    if failure is not None:
        raise failure


def _corrupt(piece: LogPiece, offset: int, position: int, reason: str) -> CorruptBatchError:
    from kavka_spark.errors import CorruptBatchError

    place = f"{reason} ({piece.path}, byte {position})"
    return CorruptBatchError(piece.topic, piece.partition, offset, place, _ADVICE)


def _transactions(piece: LogPiece) -> AbortedTransactions:
    from kavka_spark.log_scan import marker_kind, scan
    from kavka_spark.log_segments import segment_files
    from kavka_spark.log_transactions import read_aborted

    segments = segment_files(os.path.dirname(piece.path))

    def markers() -> Iterable[tuple[int, int, bool]]:
        for base_offset, path in segments:
            if base_offset < piece.base_offset:
                continue
            for window in scan(replace(piece, path=path, base_offset=base_offset, start=0, end=None), check_crcs=False):
                for scanned in window.batches:
                    kind = marker_kind(scanned.batch)
                    if kind is not None:
                        header = scanned.batch.header
                        yield header.producer_id, header.base_offset, kind == "abort"

    return read_aborted(segments, markers, base_offset=piece.base_offset)


def _known_columns(rows: str) -> dict[str, str]:
    if rows == "records":
        return RECORD_DDL
    from kavka_spark.log_batches import DDL

    return DDL


def _checked(names: Sequence[str], known: Mapping[str, str]) -> Sequence[str]:
    unknown = [name for name in names if name not in known]
    if unknown or len(set(names)) != len(names):
        raise ConfigError(f"columns {', '.join(names)}: expected each name once, out of {', '.join(known)}")
    return names


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    """`load(path)` gives `path`, `load([a, b])` gives `paths` as a JSON array."""
    found = [options["path"]] if options.get("path") else []
    if options.get("paths"):
        try:
            found += [str(path) for path in json.loads(options["paths"])]
        except (ValueError, TypeError):
            found += options["paths"].split(",")
    return tuple(path.removeprefix("file://") for path in found)


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in options.get(name, "").split(",") if part.strip())


def _one_of(options: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    text = options.get(name, choices[0]).strip().lower()
    if text not in choices:
        raise ConfigError(f"option {name!r} is {options[name]!r}, expected one of {', '.join(choices)}")
    return text
