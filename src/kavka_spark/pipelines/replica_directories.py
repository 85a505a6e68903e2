"""ReplicaDirectories: whose log directories they are, and what the files beside the logs say of every replica.

Decides by broker.id in meta.properties and by the checkpoints. It must not know Spark, nor look into segments.

Invariants
  I1  A checkpoint that is not there says nothing: None, not 0. One that is malformed raises, with its path.
  I2  A broker's high watermark checkpoint is one that it once had: never above the true one, and below it by what was
      written in the last seconds before the broker ended.

Source: Kafka's OffsetCheckpointFile, MetaProperties (kavka.log.decide.checkpoint).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from kavka.errors import ConfigError, InconsistentMetadata
from kavka.log.decide.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    MalformedCheckpoint,
    parse_meta_properties,
    parse_offsets,
)
from kavka.model import TopicPartition
from kavka_spark.log_segments import partition_name, segment_files

METADATA_TOPIC = "__cluster_metadata"
"""KRaft's log of metadata follows other rules: its high watermark is in no checkpoint, snapshots take its start."""
MAX_CHECKPOINT_BYTES = 64 << 20


class Replica(NamedTuple):
    """A partition in one broker's directory. Offsets are None where no checkpoint tells."""

    broker: str
    topic: str
    partition: int
    directory: str
    """The partition's."""
    high_watermark: int | None
    cleaned_to: int | None
    """First offset that compaction has not been through; None for a log that was never compacted."""
    log_start_offset: int
    last_segment: int
    """Base offset of the last segment."""


def broker_of(directory: str) -> str:
    """The broker id in the directory's meta.properties; the directory's name where there is none."""
    data = _read(f"{directory}/{META_PROPERTIES}")
    if data is not None:
        try:
            broker_id = parse_meta_properties(data).broker_id
        except MalformedCheckpoint as error:
            raise InconsistentMetadata(f"{directory}/{META_PROPERTIES}", str(error)) from error
        if broker_id is not None:
            return str(broker_id)
    return os.path.basename(directory)


def by_broker(directories: Sequence[str]) -> dict[str, list[str]]:
    """The log directories of each broker; several of one broker belong together. Raises `ConfigError`."""
    found: dict[str, list[str]] = {}
    for directory in map(os.path.abspath, directories):
        if not os.path.isdir(directory):
            raise ConfigError(f"{directory} is not a directory: expected the log directory of a broker")
        found.setdefault(broker_of(directory), []).append(directory)
    return found


def replicas_in(broker: str, directory: str, topics: Sequence[str]) -> Iterator[Replica]:
    """The partitions in one log directory. `topics`: names or patterns, none are all. Raises `InconsistentMetadata`."""
    high_watermarks = _offsets(directory, HIGH_WATERMARK_CHECKPOINT)
    cleaned = _offsets(directory, CLEANER_OFFSET_CHECKPOINT)
    starts = _offsets(directory, LOG_START_OFFSET_CHECKPOINT)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        named = partition_name(entry.name) if entry.is_dir() else None
        if named is None or named[0] == METADATA_TOPIC:
            continue
        if topics and not any(fnmatchcase(named[0], pattern) for pattern in topics):
            continue
        segments = segment_files(entry.path)
        partition = TopicPartition(*named)
        first = segments[0][0] if segments else 0
        yield Replica(
            broker,
            *named,
            entry.path,
            high_watermarks.get(partition),
            cleaned.get(partition),
            max(first, starts.get(partition, 0)),
            segments[-1][0] if segments else 0,
        )


def _offsets(directory: str, name: str) -> Mapping[TopicPartition, int]:
    data = _read(f"{directory}/{name}")
    if data is None:
        return {}
    try:
        return parse_offsets(data)
    except MalformedCheckpoint as error:
        raise InconsistentMetadata(f"{directory}/{name}", str(error)) from error


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_CHECKPOINT_BYTES)
    except FileNotFoundError:
        return None
