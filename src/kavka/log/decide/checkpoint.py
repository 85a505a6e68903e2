"""The small text files beside the logs: their bytes, to and fro.

Decides whether a file's text is what Kafka writes there. It must not know where the files lie or what a caller does
without one: every parser raises `MalformedCheckpoint`, and the file is then rebuilt, ignored or refused by its reader.

Invariants
  I1  `parse(format(x)) == x`; Kafka 3.9 reads what `format` returns.
  I2  A checkpoint or partition.metadata that was cut anywhere is malformed, never half-read: a count or a length says
      what must be there. meta.properties cannot tell, and is replaced whole.

Source: Kafka's CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile, MetaProperties,
CleanShutdownFileHandler.

| leader-epoch-checkpoint                     | "0", count, then "EPOCH START_OFFSET" lines               |
| recovery-point-offset-checkpoint            | "0", count, then "TOPIC PARTITION OFFSET" lines           |
| replication-offset-checkpoint (HW)          | the same                                                  |
| log-start-offset-checkpoint                 | the same                                                  |
| cleaner-offset-checkpoint                   | the same: up to where each compacted log is clean         |
| partition.metadata                          | "version: 0", "topic_id: BASE64"                          |
| meta.properties                             | a Java properties file: version, broker.id, cluster.id;   |
|                                             | version 1, of a KRaft broker: node.id for broker.id       |
| .kafka_cleanshutdown                        | {"version":0,"brokerEpoch":N}                             |
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.log.decide.leader_epochs import EpochEntry
from kavka.model import Offset, TopicPartition

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
_VERSION = 0
_MAX_INT = (1 << 31) - 1
_MAX_LONG = (1 << 63) - 1
_NAME_OF_THE_ID = {"0": "broker.id", "1": "node.id"}
"""In meta.properties, by its version."""


class MalformedCheckpoint(ValueError):
    """The text is not what Kafka writes into such a file."""


class MetaProperties(NamedTuple):
    """Which broker and cluster a log directory belongs to. None for what the file does not say."""

    broker_id: int | None
    cluster_id: str | None


def format_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """An offset checkpoint's bytes, sorted by partition."""
    return join_lines([offset_lines(sorted(offsets.items()))], len(offsets))


def offset_lines(entries: Iterable[tuple[TopicPartition, Offset]]) -> str:
    """The lines of an offset checkpoint about these partitions."""
    return "".join([f"{topic} {partition} {offset}\n" for (topic, partition), offset in entries])


def join_lines(blocks: Iterable[str], count: int) -> bytes:
    """An offset checkpoint's bytes, of blocks of lines that are `count` in all."""
    return f"{_VERSION}\n{count}\n{''.join(blocks)}".encode()


def parse_offsets(data: bytes) -> dict[TopicPartition, Offset]:
    """What an offset checkpoint says. No bytes at all, as in a new directory, are no offsets."""
    offsets: dict[TopicPartition, Offset] = {}
    for line in _entries(data) if data else ():
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, _number(partition, _MAX_INT))] = _number(offset, _MAX_LONG)
        except ValueError as error:
            raise MalformedCheckpoint(f"expected TOPIC PARTITION OFFSET, found {line!r}") from error
    return offsets


def format_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """A leader epoch checkpoint's bytes."""
    lines = [f"{entry.epoch} {entry.start_offset}\n" for entry in entries]
    return f"{_VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def parse_epochs(data: bytes) -> list[EpochEntry]:
    """What a leader epoch checkpoint says, in its order."""
    entries = []
    for line in _entries(data):
        try:
            epoch, start_offset = line.split(" ")
            entries.append(EpochEntry(_number(epoch, _MAX_INT), _number(start_offset, _MAX_LONG)))
        except ValueError as error:
            raise MalformedCheckpoint(f"expected EPOCH START_OFFSET, found {line!r}") from error
    return entries


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=")
    return b"version: 0\ntopic_id: " + text


def parse_partition_metadata(data: bytes) -> uuid.UUID:
    lines = _text(data).split("\n")
    if len(lines) < 2 or lines[0] != "version: 0" or not lines[1].startswith("topic_id: "):
        raise MalformedCheckpoint(f"expected version 0 and a topic id, found {lines[:2]!r}")
    encoded = lines[1].removeprefix("topic_id: ").strip()
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(encoded + "=="))
    except (ValueError, binascii.Error) as error:
        raise MalformedCheckpoint(f"{encoded!r} is not a topic id") from error


def format_meta_properties(properties: MetaProperties) -> bytes:
    lines = ["version=0"]
    if properties.broker_id is not None:
        lines.append(f"broker.id={properties.broker_id}")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    return ("#\n" + "\n".join(lines) + "\n").encode()


def parse_meta_properties(data: bytes) -> MetaProperties:
    """What meta.properties says: version 0 is what brokers on ZooKeeper write, 1 what KRaft brokers do."""
    values: dict[str, str] = {}
    for line in _text(data).split("\n"):
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, separator, value = stripped.partition("=")
            if not separator:
                raise MalformedCheckpoint(f"expected NAME=VALUE, found {stripped!r}")
            values[name.strip()] = value.strip().replace("\\", "")
    version = values.get("version", "0")
    if version not in _NAME_OF_THE_ID:
        raise MalformedCheckpoint(f"version {version!r}, expected 0 or 1")
    name = _NAME_OF_THE_ID[version]
    broker_id = values.get(name)
    try:
        return MetaProperties(None if broker_id is None else _number(broker_id, _MAX_INT), values.get("cluster.id"))
    except ValueError as error:
        raise MalformedCheckpoint(f"{name} {broker_id!r} is not a number") from error


def format_clean_shutdown(broker_epoch: int = -1) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(data: bytes) -> int:
    """The broker epoch in a clean-shutdown mark, -1 if there is none (older releases of Kafka leave the file empty)."""
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return -1
    return epoch if isinstance(epoch, int) else -1


def _entries(data: bytes) -> list[str]:
    lines = _text(data).split("\n")
    try:
        version, announced, *entries, rest = lines
        count = _number(announced, _MAX_INT)
    except ValueError as error:
        raise MalformedCheckpoint(f"expected a version and a number of entries, found {lines[:2]!r}") from error
    if version != str(_VERSION):
        raise MalformedCheckpoint(f"version {version!r}, expected {_VERSION}")
    if rest or len(entries) != count:
        raise MalformedCheckpoint(f"the header announces {count} entries, but {len(entries)} complete lines follow")
    return entries


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"not text: {error.reason} at byte {error.start}") from error


def _number(text: str, most: int) -> int:
    """As Java reads an int or a long: what does not fit into it is no number."""
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise ValueError(f"{text!r} is not a number up to {most}")
    return int(text)
