"""Damaged bytes for every parser behind a login: messages, records, files, znodes, logs of coordinators.

`make fuzz` runs it.

    python -m tests.fuzz.parsers [--seed 1] [--inputs 20000] [--kind requests ...]

As tests/fuzz/unauthenticated.py, whose rules hold: only the failure that is meant comes out, in bounded time and
memory. Where bytes have a checksum, most inputs get one that fits, or all that is behind it would be left alone.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from crc32c import crc32c

from kavka.coordinator.groups.classic.decide.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    decode_topics,
    encode_assignment,
)
from kavka.coordinator.groups.decide.records import CommittedOffset, decode_record, offset_record
from kavka.coordinator.share_state.decide.records import (
    ShareKey,
    ShareState,
    decode_share_state_record,
    snapshot_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.coordinator.transactions.decide.records import decode_transaction_record, transaction_tombstone
from kavka.errors import ProtocolViolation, RecordsError
from kavka.flight.format import MalformedEntry, blocks, encode_block, encode_fact, entries
from kavka.log.decide.checkpoint import (
    MalformedCheckpoint,
    MetaProperties,
    format_clean_shutdown,
    format_epochs,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_epochs,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from kavka.log.decide.indexes import CorruptIndex, OffsetIndex, TimeIndex, parse_aborted
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.log.decide.producer_state import (
    BatchMetadata,
    CorruptSnapshot,
    ProducerEntry,
    format_snapshot,
    parse_snapshot,
)
from kavka.model import TopicPartition
from kavka.protocol.api import APIS, api
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kavka.protocol.samples import sample
from kavka.records.batch import CRC_OFFSET, CRC_START, HEADER_SIZE, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.records.validation import ProduceRules, validate_produced, validate_replicated
from kavka.zookeeper.access_list_znodes import AccessList
from kavka.zookeeper.decide import jute
from kavka.zookeeper.znodes import (
    BrokerRegistration,
    ClusterId,
    ConfigChange,
    ConfigEntity,
    ControllerNode,
    FeatureNode,
    IsrChangeNotification,
    LogDirEvent,
    MalformedZNode,
    PartitionState,
    PreferredReplicaElection,
    ProducerIdBlock,
    ReassignPartitions,
    TopicAssignment,
    UncleanShutdowns,
    decode_controller_epoch,
)
from tests.fuzz.unauthenticated import Kind, run

T0: Final = TopicPartition("t", 0)
_KEYS: Final = sorted(APIS)


def _messages(name: str, type_of: Callable[[Any], Any]) -> Kind:
    """The first byte names the API, the second its version."""
    rng = random.Random(1)
    good = []
    for number, key in enumerate(_KEYS):
        known = api(key)
        good += [
            bytes([number, version]) + encode(sample(type_of(known), version, rng), version)
            for version in (known.min_version, known.max_version)
        ]

    def read(data: bytes) -> str:
        if len(data) < 2:
            return "short"
        known = api(_KEYS[data[0] % len(_KEYS)])
        version = known.min_version + data[1] % (known.max_version - known.min_version + 1)
        try:
            decode(type_of(known), memoryview(data)[2:], version)
        except ProtocolViolation:
            return "refused"
        return "read"

    return Kind(name, good, read)


def requests() -> Kind:
    return _messages("requests", lambda known: known.request_type)


def responses() -> Kind:
    """What kavka's own client reads."""
    return _messages("responses", lambda known: known.response_type)


def batches() -> Kind:
    """What a client produces, a leader sends, and a reader of a log finds."""
    good = []
    for compression in Compression:
        for stamp in (ProducerStamp(), ProducerStamp(7, 1, 0, is_transactional=True)):
            builder = BatchBuilder(compression)
            for number in range(4):
                builder.append(1_000 + number, b"key" if number % 2 else None, b"value" * number, [("h", b"x")])
            good.append(bytes(builder.build(stamp)))
    good.append(good[0] + good[3])
    rules = ProduceRules(max_message_bytes=1 << 20)

    def read(data: bytes) -> str:
        whole = bytearray(data)
        if len(whole) >= HEADER_SIZE and whole[-1] % 4:
            size = int.from_bytes(whole[8:12], "big", signed=True) + 12
            covered = whole[CRC_START : size if HEADER_SIZE <= size <= len(whole) else len(whole)]
            whole[CRC_OFFSET:CRC_START] = crc32c(bytes(covered)).to_bytes(4, "big")
        said = "refused"
        for work in (_produce, _replicate, _iterate):
            try:
                work(whole, rules)
                said = "read"
            except RecordsError:
                continue
        return said

    return Kind("batches", good, read)


def _produce(data: bytearray, rules: ProduceRules) -> None:
    validate_produced(memoryview(data), rules, 2_000)


def _replicate(data: bytearray, rules: ProduceRules) -> None:
    validate_replicated(memoryview(data))


def _iterate(data: bytearray, rules: ProduceRules) -> None:
    for batch in iterate_batches(memoryview(data)):
        for _ in batch.records(max_size=1 << 20):
            pass


def zookeeper() -> Kind:
    """Jute, both ways; the first byte says what is read."""
    ops = list(jute.OpCode)
    frames = [
        jute.encode_request(jute.Request(1, jute.OpCode.GET_DATA, jute.WatchedPathRequest("/brokers/ids", True))),
        jute.encode_request(jute.Request(1, jute.OpCode.SET_DATA, jute.SetDataRequest("/a", b"data", 3))),
        jute.encode_event(jute.WatcherEvent(1, 3, "/a/b"), 9),
        jute.encode_connect_request(jute.ConnectRequest(0, 7, 6_000, 5, bytes(16), False)),
    ]
    good = [bytes([number]) + frame[skip:] for number in range(len(ops) + 3) for frame in frames for skip in (0, 4)]

    def read(data: bytes) -> str:
        if not data:
            return "short"
        kind, payload = data[0] % (len(ops) + 3), data[1:]
        try:
            if kind == 0:
                jute.decode_connect_request(payload)
            elif kind == 1:
                jute.decode_request(payload)
            elif kind == 2:
                jute.decode_event(payload)
            else:
                jute.decode_reply(payload, ops[kind - 3])
        except ProtocolViolation:
            return "refused"
        return "read"

    return Kind("zookeeper", good, read)


def consumer_protocol() -> Kind:
    message = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"x", generation_id=3)
    good = [version.to_bytes(2, "big") + encode(message, version) for version in range(4)]
    good += [encode_assignment({"a": [0, 1], "b": []}, version) for version in range(4)]

    def read(data: bytes) -> str:
        said = "refused"
        for work in (decode_subscription, decode_assignment, decode_topics):
            try:
                work(data)
                said = "read"
            except ProtocolViolation:
                continue
        return said

    return Kind("consumer_protocol", good, read)


_ZNODES: Final[Sequence[Callable[[bytes], object]]] = (
    lambda data: AccessList.decode("/kafka-acl/Topic/t", data),
    lambda data: BrokerRegistration.decode(1, data),
    ClusterId.decode,
    lambda data: ConfigChange.decode("/config/changes/1", data),
    lambda data: ConfigEntity.decode("topics/t", data),
    ControllerNode.decode,
    FeatureNode.decode,
    lambda data: IsrChangeNotification.decode("/isr_change_notification/1", data),
    lambda data: LogDirEvent.decode("/log_dir_event_notification/1", data),
    lambda data: PartitionState.decode(T0, data),
    PreferredReplicaElection.decode,
    ProducerIdBlock.decode,
    ReassignPartitions.decode,
    lambda data: TopicAssignment.decode("t", data),
    UncleanShutdowns.decode,
    decode_controller_epoch,
)


def znodes() -> Kind:
    texts: list[object] = [
        {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 3, "isr": [1, 2]},
        {"partitions": {"0": [1, 2]}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "version": 3, "adding_replicas": {}},
        {"version": 1, "config": {"retention.ms": "1"}},
        {"version": 5, "host": "h", "port": 9092, "endpoints": ["PLAINTEXT://h:9092"], "timestamp": "1"},
        {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]},
        {"version": 2, "entity_path": "topics/t"},
        {"version": 1, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1},
        {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
        {"version": 2, "status": 1, "features": {"share.version": 1}},
        {"version": 1, "acls": [{"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"}]},
        7,
    ]
    good = [json.dumps(text).encode() for text in texts]

    def read(data: bytes) -> str:
        said = "refused"
        for work in _ZNODES:
            try:
                work(data)
                said = "read"
            except MalformedZNode:
                continue
        return said

    return Kind("znodes", good, read)


_FILES: Final[Sequence[Callable[[bytes], object]]] = (
    parse_offsets,
    parse_epochs,
    parse_partition_metadata,
    parse_meta_properties,
    parse_clean_shutdown,
    lambda data: OffsetIndex.parse(data, 0, 1 << 20),
    lambda data: TimeIndex.parse(data, 0),
    lambda data: parse_aborted(data, 0),
    lambda data: list(parse_snapshot(data)),
)


def files() -> Kind:
    """What lies beside a log's records."""
    entry = ProducerEntry(7, producer_epoch=1, batches=[BatchMetadata(0, 5, 2, 1_000)])
    snapshot = format_snapshot([entry])
    index = b"".join(number.to_bytes(4, "big") * 2 for number in range(1, 6))
    good = [
        format_offsets({T0: 5, TopicPartition("u", 3): 0}),
        format_epochs([EpochEntry(0, 0), EpochEntry(3, 9)]),
        format_partition_metadata(uuid.UUID(int=5)),
        format_meta_properties(MetaProperties(1, "cluster")),
        format_clean_shutdown(3),
        index,
        bytes(8) + index,
        snapshot,
    ]

    def read(data: bytes) -> str:
        if len(data) > 6 and data[-1] % 4:  # version (2 bytes), CRC-32C of what follows (4)
            data = data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]
        refusals = 0
        for work in _FILES:
            try:
                work(data)
            except (MalformedCheckpoint, CorruptIndex, CorruptSnapshot):
                refusals += 1
        return f"refused by {refusals} of {len(_FILES)}"

    return Kind("files", good, read)


def coordinator_logs() -> Kind:
    """Records of groups, transactions and share states: a byte with the key's length, the key, the value."""
    key = ShareKey("g", uuid.UUID(int=3), 0)
    state = ShareState(1, 1, 0, 5, 0, 1_000, 1_000)
    records = [
        offset_record("g", "t", 0, CommittedOffset(5, 1, "note", 1_000)),
        offset_record("g", "t", 0, None),
        transaction_tombstone("txn"),
        snapshot_record(key, state),
    ]
    good = [bytes([len(each.key)]) + each.key + (each.value or b"") for each in records]

    def read(data: bytes) -> str:
        if not data:
            return "short"
        parts = data[1 : 1 + data[0]], data[1 + data[0] :] or None
        said = "refused"
        for work in (
            lambda: decode_record(*parts),
            lambda: decode_transaction_record(*parts),
            lambda: decode_share_state_record(CoordinatorRecord(*parts)),
        ):
            try:
                work()
                said = "read"
            except ProtocolViolation:
                continue
        return said

    return Kind("coordinator_logs", good, read)


def flights() -> Kind:
    """What a broker recorded of its inputs."""
    block = encode_block(encode_fact({"kind": "x", "partition": "t-0"}), 1_000, 5)
    good = [block, block * 3]

    def read(data: bytes) -> str:
        said = "nothing"
        for each in blocks(data):
            try:
                for _ in entries(getattr(each, "entries", b"")):
                    said = "read"
            except MalformedEntry:
                said = "refused"
        return said

    return Kind("flights", good, read)


KINDS: Final[Sequence[Callable[[], Kind]]] = (
    requests, responses, batches, zookeeper, consumer_protocol, znodes, files, coordinator_logs, flights,
)  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=20_000, help="of each kind")
    parser.add_argument("--kind", action="append", choices=[each.__name__ for each in KINDS])
    wanted = parser.parse_args(words)
    failed = False
    for make in KINDS:
        if wanted.kind and make.__name__ not in wanted.kind:
            continue
        report = run(make(), wanted.inputs, wanted.seed)
        outcomes = ", ".join(f"{word} {count}" for word, count in report.said.most_common(4))
        print(
            f"{make.__name__:<18} {sum(report.said.values()):>7} inputs  {report.cpu_s:6.1f} s  longest "
            f"{report.longest_ms:5.1f} ms  grew {report.grown_mib:4.1f} MiB  {outcomes}",
            flush=True,
        )
        for finding in report.findings:
            failed = True
            print("    ", finding[:600], flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
