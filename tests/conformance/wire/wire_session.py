"""WireSession: one scenario's talk with one broker, and the normalised record of what was answered.

It decides what of an answer may differ between two brokers that behave alike: ids, addresses, times and the wording of
messages. Everything else is recorded as it came.

Normalised, by the field's name or the value:
    throttle_time_ms, features   left out: quotas have tests of their own; features are those of a cluster's software
    names of this session        its random part becomes *
    host, port, cluster, broker  <host>, <port>, <cluster>, <broker> where they are the broker's own
    ids of topics, producers     <id of the topic's name>, <id>, <producer>; zero and -1 stay
    ids of members               their random parts become <id 1>, <id 2> in the order of their appearance
    messages, documentation      <text>; null and the empty string stay
    times of now                 <now>; times that a scenario chose stay
    directories, disk sizes      <dir>, <size>
    record batches               the fields of their headers
    lists of structs             sorted: Kafka's order is that of its hash maps; of numbers of partitions, too
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.messages import create_topics_request, list_offsets_request, metadata_request, produce_request
from kavka.protocol.schema import ZERO_UUID, Field, Message, Struct
from kavka.records.batch import TimestampType, batch_at
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from tests.conformance.wire.wire_connection import Closed, WireConnection

SETTLE_TIMEOUT_S = 20.0
DAY_MS = 86_400_000
LEFT_OUT = frozenset(
    {
        "throttle_time_ms",
        "supported_features",
        "finalized_features",
        "finalized_features_epoch",
        "zk_migration_ready",
    }
)
TEXTS = frozenset({"error_message", "acknowledge_error_message", "batch_index_error_message", "documentation"})
BROKER_IDS = frozenset({"node_id", "leader_id", "controller_id", "broker_id", "replica_nodes", "isr_nodes"})
TIMES = frozenset({"log_append_time_ms", "timestamp", "last_timestamp", "transaction_start_time_ms"})
IN_ORDER = frozenset({"synonyms", "batches"})
IN_NO_ORDER = frozenset({"partitions"})
NAMES = ("name", "topic", "group_id", "topic_name", "group")
UUID_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
FIRST_OWN_TAG = 10_000
NO_BROKER = -2
"""No broker has this id, and no field this value."""
TOPIC_ALREADY_EXISTS = 36
BASE_TIMESTAMP_MS = 1_700_000_000_000

# Versions that every broker compared here serves, for the requests that prepare a scenario.
CREATE_TOPICS, METADATA, PRODUCE, LIST_OFFSETS, FIND_COORDINATOR = 5, 9, 8, 5, 3


class WireSession:
    """Asks the broker at host:port; `recorded` holds each named step's normalised answer."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self._connections: list[WireConnection] = []
        self.connection = self.connect()
        self._random = uuid.uuid4().hex[:10]
        self._ids: dict[str, str] = {}
        self._topic_ids: dict[uuid.UUID, str] = {}
        self.recorded: dict[str, Any] = {}
        self.broker_id, self._host, self._port, self._cluster = NO_BROKER, "", 0, ""
        self._learn(self.connection.ask(m.MetadataRequest(topics=[]), METADATA))

    def _learn(self, about: Any) -> None:
        """Of the cluster, which has one broker."""
        (broker,) = about.brokers
        self.broker_id = broker.node_id
        self._host, self._port, self._cluster = broker.host, broker.port, about.cluster_id

    def connect(self) -> WireConnection:
        connection = WireConnection(*self.address)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    # ---- asking ---------------------------------------------------------------------------------------------------

    def record(
        self,
        step: str,
        request: Message,
        version: int,
        *,
        connection: WireConnection | None = None,
        keep: Callable[[Any], bool] | None = None,
    ) -> Any:
        """Asks and keeps the answer under the name `step`. `keep` chooses among the structs of every list.

        A broker that closes the connection has answered "closed"; the session goes on with a new one.
        """
        asked = connection or self.connection
        try:
            answer = asked.ask(request, version)
        except Closed:
            self.recorded[step] = "closed"
            if connection is None:
                self.connection = self.connect()
            return None
        self.keep_answer(step, answer, version, keep=keep)
        return answer

    def keep_answer(
        self, step: str, answer: Message, version: int, *, keep: Callable[[Any], bool] | None = None
    ) -> None:
        assert step not in self.recorded, f"two steps are named {step!r}"
        self.recorded[step] = self.normalised(answer, version, keep)

    def ours(self, struct: Any) -> bool:
        """For `keep`: whether a topic or a group is this session's; other structs stay."""
        for name in NAMES:
            value = getattr(struct, name, None)
            if isinstance(value, str) and name in type(struct).__slots__:
                return self._random in value or type(struct).__name__ in ("DescribeConfigsResult",)
        return True

    # ---- preparing ------------------------------------------------------------------------------------------------

    def name(self, prefix: str) -> str:
        """A name that nobody else uses."""
        return f"{prefix}-{self._random}"

    def topic(self, prefix: str = "topic", partitions: int = 1, **configs: str) -> str:
        """Creates a topic that serves; config names have _ for the dots."""
        name = self.name(prefix)
        settings = [
            create_topics_request.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()
        ]
        topic = create_topics_request.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=settings
        )
        request = m.CreateTopicsRequest(topics=[topic], timeout_ms=15_000)

        def created() -> bool:
            code = self.connection.ask(request, CREATE_TOPICS).topics[0].error_code
            assert code in (0, TOPIC_ALREADY_EXISTS), code
            return code == 0  # 3.9 says that a topic exists until its deletion is through

        self.until(created)
        self.until_it_serves(name, partitions)
        return name

    def until_it_serves(self, topic: str, partitions: int = 1) -> None:
        self.until(lambda: all(self.end_offset(topic, p) is not None for p in range(partitions)))

    def end_offset(self, topic: str, partition: int = 0) -> int | None:
        """The end of a partition's log, None while it has no leader that serves."""
        lo = list_offsets_request
        wanted = lo.ListOffsetsPartition(partition_index=partition, timestamp=-1)
        request = m.ListOffsetsRequest(replica_id=-1, topics=[lo.ListOffsetsTopic(name=topic, partitions=[wanted])])
        answer = self.connection.ask(request, LIST_OFFSETS).topics[0].partitions[0]
        return answer.offset if answer.error_code == 0 else None

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for what a broker does after it has answered."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {SETTLE_TIMEOUT_S} s"
            time.sleep(0.01)

    def topic_id(self, topic: str) -> uuid.UUID:
        request = m.MetadataRequest(
            topics=[metadata_request.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        found: uuid.UUID = self.connection.ask(request, 10).topics[0].topic_id
        self._topic_ids[found] = f"<id of {topic.replace(self._random, '*')}>"
        return found

    def produced(self, topic: str, batch: bytes, partition: int = 0) -> int:
        """Appends a batch and returns its first offset."""
        pr = produce_request
        data = pr.PartitionProduceData(index=partition, records=batch)
        request = m.ProduceRequest(
            acks=-1, timeout_ms=15_000, topic_data=[pr.TopicProduceData(name=topic, partition_data=[data])]
        )
        answer = self.connection.ask(request, PRODUCE).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        return answer.base_offset

    def coordinator_serves(self, group: str) -> None:
        """Waits until the group's coordinator has loaded what it coordinates."""

        def found() -> bool:
            answer = self.connection.ask(m.FindCoordinatorRequest(key=group, key_type=0), FIND_COORDINATOR)
            if answer.error_code:
                return False
            beat = self.connection.ask(m.HeartbeatRequest(group_id=group, generation_id=1, member_id="x"), 3)
            return beat.error_code == 25  # UNKNOWN_MEMBER_ID: it knows its groups

        self.until(found)

    # ---- normalising ----------------------------------------------------------------------------------------------

    def normalised(self, value: Any, version: int, keep: Callable[[Any], bool] | None = None) -> Any:
        if isinstance(value, Struct):
            return {
                field.name: self._field(field.name, getattr(value, field.name), version, keep)
                for field in type(value)._fields
                if version in field.versions and field.name not in LEFT_OUT and not _is_silent(field, value)
            }
        if isinstance(value, list):
            return [self.normalised(item, version, keep) for item in value if keep is None or keep(item)]
        return self._scalar("", value)

    def _field(self, name: str, value: Any, version: int, keep: Callable[[Any], bool] | None) -> Any:
        if name == "records":
            return None if value is None else self._batches(memoryview(value))
        if isinstance(value, list):
            if value and not isinstance(value[0], Struct):
                items = [self._scalar(name, item) for item in value]
                return sorted(items) if name in IN_NO_ORDER else items
            items = self.normalised(value, version, keep)
            return items if name in IN_ORDER else sorted(items, key=_by_name)
        if isinstance(value, Struct):
            return self.normalised(value, version, keep)
        return self._scalar(name, value)

    def _scalar(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if name in TEXTS:
            return "<text>" if value else ""
        if name == "host" and value == self._host:
            return "<host>"
        if name == "port" and value == self._port:
            return "<port>"
        if name == "cluster_id" and value == self._cluster:
            return "<cluster>"
        if name in BROKER_IDS and value == self.broker_id:
            return "<broker>"
        if name == "producer_id" and value >= 0:
            return "<producer>"
        if name == "session_id" and value > 0:
            return "<session>"
        if name in TIMES and abs(value - time.time() * 1000) < DAY_MS:
            return "<now>"
        if name in ("total_bytes", "usable_bytes") and value > 0:
            return "<size>"
        if name == "log_dir" and value:
            return "<dir>"
        if isinstance(value, uuid.UUID):
            return "0" if value == ZERO_UUID else self._topic_ids.get(value, "<id>")
        if isinstance(value, str):
            text = value.replace(self._random, "*")
            return UUID_PATTERN.sub(lambda match: self._id(match.group()), text)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        return value

    def _id(self, text: str) -> str:
        return self._ids.setdefault(text, f"<id {len(self._ids) + 1}>")

    def _batches(self, view: memoryview) -> list[dict[str, Any]]:
        described = []
        position = 0
        while (found := batch_at(view, position)) is not None:
            described.append(self._batch(found.header))
            position += found.header.size_bytes
        if position < len(view):
            # The last batch may be cut where the room of the answer ended (not by kavka).
            described.append({"cut short": True})
        return described

    def _batch(self, header: Any) -> dict[str, Any]:
        described = {
            "base_offset": header.base_offset,
            "last_offset_delta": header.last_offset_delta,
            "partition_leader_epoch": header.partition_leader_epoch,
            "attributes": header.attributes,
            "record_count": header.record_count,
            "base_sequence": header.base_sequence,
            "producer_epoch": header.producer_epoch,
        }
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return described | {"max_timestamp": self._scalar("timestamp", header.max_timestamp)}
        if header.producer_id >= 0:
            return described
        # The checksum stands for all bytes of the batch behind it, which a broker must not touch.
        return described | {"crc": header.crc}


def _is_silent(field: Field, struct: Struct) -> bool:
    """A field of kavka's own that has its default: it is not in the bytes."""
    is_own = field.tag is not None and field.tag >= FIRST_OWN_TAG
    return is_own and bool(getattr(struct, field.name) == field.new_default())


def _by_name(item: dict[str, Any]) -> tuple[bool, str]:
    """Names and partitions first, so that two lists lie beside each other even where their entries differ."""
    names = [item[key] for key in ("partition_index", "partition", "index", *NAMES) if key in item]
    return not names, canonical([*names, item])


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def batch(
    values: Iterable[bytes | None] = (b"a", b"b", b"c"),
    *,
    key: bytes | None = None,
    compression: Compression = Compression.NONE,
    timestamp_ms: int = BASE_TIMESTAMP_MS,
    stamp: ProducerStamp = NO_STAMP,
) -> bytes:
    """A batch of records one second apart."""
    builder = BatchBuilder(compression)
    for number, value in enumerate(values):
        builder.append(timestamp_ms + number * 1000, key, value)
    return builder.build(stamp)
