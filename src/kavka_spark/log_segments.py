"""LogSegments: which segment files a path holds, and the pieces in which they are read.

Decides what is a partition's segment, which of them is active, and where a large one is cut. It must not know Spark,
nor look at records.

Invariants
  I1  A piece starts at a batch: at the segment's start, where a batch of the index lies, or where a scan found one. An
      index is believed only where the batch that it names lies at its position.
  I2  The pieces of a segment are all of it, each byte once; only the last one ends where the file does.
  I3  Logs on their way out or in (-delete, -stray, -future) and files of unfinished work (.deleted, .cleaned, .swap)
      are no segments.

Source: Kafka's UnifiedLog and LocalLog for the names; kavka.log.decide.indexes for the offset index.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import BinaryIO

from kavka.errors import ConfigError, CorruptRecords
from kavka.log.decide.indexes import CorruptIndex, OffsetIndex
from kavka.records.batch import HEADER_SIZE, MAGIC, read_header
from kavka_spark.batch_walk import MAX_OFFSET
from kavka_spark.errors import LogFileError

_PARTITION_NAME = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]{1,10})")
"""Topic names that Kafka allows. A folder with another name is not a partition."""
_MAX_PARTITION = (1 << 31) - 1
_SEGMENT_NAME = re.compile(r"([0-9]{20})\.log")
MAX_INDEX_BYTES = 64 << 20
"""Largest index file that is read; segment.index.bytes is 10 MiB by default."""
_OPENING_BYTES = 1 << 20
"""What opening a file costs, in bytes that could be read in the same time."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of one segment file, from a batch's start on; what one task reads."""

    path: str
    topic: str
    partition: int
    base_offset: int
    """The segment's base offset, which is the number in its name."""
    start: int
    end: int | None
    """Where the next piece starts; None for the file's end."""
    is_active: bool
    """Whether it is the partition's last segment, to which a broker may be writing."""


def find_segments(paths: Sequence[str], topics: Sequence[str]) -> list[LogPiece]:
    """The segments under `paths`, whole, in order of topic, partition, directory and offset.

    A path is a log directory, the directory of one partition, or one .log file. `topics` are names or patterns with *
    and ?; none are all. Raises `ConfigError` where a path is none of those.
    """
    found: list[LogPiece] = []
    for path in paths:
        found += _segments_of(os.path.abspath(path))
    kept = [piece for piece in found if not topics or any(fnmatchcase(piece.topic, name) for name in topics)]
    return sorted(kept, key=lambda piece: (piece.topic, piece.partition, piece.path))


def split(segment: LogPiece, split_bytes: int) -> list[LogPiece]:
    """`segment` in pieces of about `split_bytes`. Raises `LogFileError` where it cannot be read."""
    try:
        with open(segment.path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= split_bytes + split_bytes // 2:
                return [segment]
            starts = _cuts(file, segment, size, split_bytes)
    except OSError as error:
        raise LogFileError(segment.path, error.strerror or str(error)) from error
    bounds = [0, *starts, None]
    return [
        LogPiece(
            segment.path,
            segment.topic,
            segment.partition,
            segment.base_offset,
            start or 0,
            end,
            segment.is_active,
        )
        for start, end in pairwise(bounds)
    ]


def packed(pieces: Sequence[LogPiece], pack_bytes: int) -> list[list[LogPiece]]:
    """`pieces` in their order, small ones together up to about `pack_bytes`: a task of Spark's costs more than reading
    a few files does."""
    groups: list[list[LogPiece]] = []
    room = 0
    for piece in pieces:
        size = _OPENING_BYTES + _size(piece)
        if not groups or size > room:
            groups.append([])
            room = pack_bytes
        groups[-1].append(piece)
        room -= size
    return groups


def _size(piece: LogPiece) -> int:
    if piece.end is not None:
        return piece.end - piece.start
    try:
        return os.path.getsize(piece.path) - piece.start
    except OSError:
        return 0  # gone, which its reader will say


def partition_name(directory: str) -> tuple[str, int] | None:
    """(topic, partition) of a partition's directory; None where its name is not TOPIC-PARTITION."""
    match = _PARTITION_NAME.fullmatch(os.path.basename(directory))
    return None if match is None or int(match[2]) > _MAX_PARTITION else (match[1], int(match[2]))


def segment_files(directory: str) -> list[tuple[int, str]]:
    """(base offset, path) of the segments in a partition's directory, in order."""
    names = [(name, _SEGMENT_NAME.fullmatch(name)) for name in os.listdir(directory)]
    found = [(int(match[1]), f"{directory}/{name}") for name, match in names if match is not None]
    return sorted((base_offset, path) for base_offset, path in found if base_offset < MAX_OFFSET)


def _segments_of(path: str) -> Iterator[LogPiece]:
    if os.path.isfile(path):
        yield from _segments_of_partition(os.path.dirname(path), only=path)
    elif not os.path.isdir(path):
        raise ConfigError(f"option 'path': {path} does not exist; expected a log directory, or a part of one")
    elif partition_name(path) is not None and segment_files(path):
        yield from _segments_of_partition(path)
    else:
        for entry in os.scandir(path):
            if entry.is_dir() and partition_name(entry.name) is not None:
                yield from _segments_of_partition(entry.path)


def _segments_of_partition(directory: str, *, only: str | None = None) -> Iterator[LogPiece]:
    named = partition_name(directory)
    try:
        files = segment_files(directory)
    except FileNotFoundError:
        return  # a topic that was deleted since its directory was listed
    if only is not None and (named is None or only not in [path for _, path in files]):
        raise ConfigError(f"option 'path': {only} is not a segment: expected TOPIC-PARTITION/OFFSET.log")
    if named is not None:
        for base_offset, path in files:
            if only in (None, path):
                yield LogPiece(path, *named, base_offset, 0, None, path == files[-1][1])


def _cuts(file: BinaryIO, segment: LogPiece, size: int, split_bytes: int) -> list[int]:
    """Batch starts that cut the segment, none of them 0."""
    targets = range(split_bytes, size - split_bytes // 2, split_bytes)
    indexed = _indexed_cuts(file, segment, size, targets)
    return indexed if len(indexed) == len(targets) else _scanned_cuts(file, size, targets)


def _indexed_cuts(file: BinaryIO, segment: LogPiece, size: int, targets: range) -> list[int]:
    try:
        with open(segment.path.removesuffix(".log") + ".index", "rb") as index_file:
            index = OffsetIndex.parse(index_file.read(MAX_INDEX_BYTES), segment.base_offset, size)
    except (OSError, CorruptIndex):
        return []
    offsets = {position: offset for offset, position in index}
    cuts: list[int] = []
    for target in targets:
        position = index.last_position_within(target)
        last_offset = offsets.get(position)
        if last_offset is None or position <= (cuts[-1] if cuts else 0):
            continue
        file.seek(position)
        try:
            header = read_header(file.read(HEADER_SIZE))
        except CorruptRecords:
            continue
        if header.magic == MAGIC and header.last_offset == last_offset:
            cuts.append(position)
    return cuts


def _scanned_cuts(file: BinaryIO, size: int, targets: range) -> list[int]:
    """By the lengths of all batches, up to the first bytes that are none: the reader of the last piece meets them."""
    cuts: list[int] = []
    position = 0
    waiting = list(reversed(targets))
    while waiting and position + HEADER_SIZE <= size:
        if position >= waiting[-1]:
            cuts.append(position)
            while waiting and waiting[-1] <= position:
                waiting.pop()
        file.seek(position)
        try:
            header = read_header(file.read(HEADER_SIZE))
        except CorruptRecords:
            break
        if header.magic != MAGIC or header.size_bytes < HEADER_SIZE:
            break
        position += header.size_bytes
    return cuts
