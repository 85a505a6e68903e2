"""Requests made of what is known: which API comes next, and what each of its fields says.

The fields come from the messages' own tables, so every API and version is covered; what a field says follows from its
name (`_meaning`). A request is careful (all of it is about its subject), careless (some fields are about somebody else)
or wild (some are odd numbers and names).

Left out are orders of a controller (LeaderAndIsr, StopReplica, UpdateMetadata), ControlledShutdown and SASL: a listener
that serves brokers must not be open to clients, and who poses as the controller there does halt nothing but moves
replicas. tools/fuzz_protocol.py sends them all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import Any, Final
from uuid import UUID

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.protocol.api import ApiKey, api
from kavka.protocol.codec import EncodeError, encode
from kavka.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kavka.protocol.schema import ZERO_UUID, Field, Message, Struct
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from tests.fuzz.sequences.knowledge import INSTANCES, Knowledge, Subject
from tests.fuzz.sequences.streams import OF_HEARTBEATS
from tests.kit.believed_batches import KINDS, LATEST_MS, believed, over_the_end

WEIGHTS: Final[dict[ApiKey, float]] = {
    ApiKey.JOIN_GROUP: 10,
    ApiKey.SYNC_GROUP: 8,
    ApiKey.HEARTBEAT: 8,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 14,
    ApiKey.SHARE_GROUP_HEARTBEAT: 6,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 8,
    ApiKey.SHARE_FETCH: 6,
    ApiKey.SHARE_ACKNOWLEDGE: 5,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.OFFSET_DELETE: 2,
    ApiKey.DELETE_GROUPS: 1.5,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 4,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 6,
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 10,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 3,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.FIND_COORDINATOR: 2,
}
"""How often an API is asked for; others 1, RARE ones less."""
RARE: Final = frozenset(
    {
        ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.UPDATE_FEATURES, ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.WRITE_TXN_MARKERS,
        ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS, ApiKey.PUSH_TELEMETRY, ApiKey.ALTER_CONFIGS,
    }
)  # fmt: skip
LEFT_OUT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
    }
)  # fmt: skip
CLASSIC: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP})
SHARE: Final = frozenset({ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
NEVER_ODD: Final = frozenset({"entity_name", "broker_ids", "replicas"})
"""Nor are times: a quota of nobody's (the default's) silences all clients, and a wait of a year is a wait of a year."""
FIRST_OWN_TAG: Final = 10_000
"""kavka's own fields, which Kafka does not read."""
GARBAGE: Final = 0.1
"""How often what only members read has nothing that they could read."""
BELIEVED: Final = 0.01
"""How often a batch is one that the broker does not look into, with records that nobody can read."""
OVER_THE_END: Final = 0.02
"""How often a timestamp is more than 64 bits hold."""
LOST: Final = 0.5
"""How often a member has not had the answer that told it another epoch."""
MISTAKEN: Final = 0.04
"""How often its epoch is another one though nothing was lost."""
ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
ODD_INTEGERS: Final = (0, 1, -1, -2, -3, 2, 127, 255, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**62, 2**63 - 1)
ODD_NAMES: Final = ("", "nobody", "__consumer_offsets", "__transaction_state", "__share_group_state", "..", "x" * 249)
ODD_BYTES: Final = (b"", b"\0", b"\xff\xff", b"\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\1\0\0\0\1\xff\xff")
TOPIC_SETTINGS: Final = (
    ("cleanup.policy", ("compact", "delete", "compact,delete")),
    ("retention.ms", ("1000", "604800000")),
    ("retention.bytes", ("65536", "-1")),
    ("segment.bytes", ("65536", "1048576")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
    ("message.timestamp.after.max.ms", (str(LATEST_MS), str(LATEST_MS), "3600000")),
    ("max.message.bytes", ("500", "1048588")),
    ("consumer.session.timeout.ms", ("1000", "2000")),
    ("share.auto.offset.reset", ("earliest", "latest")),
    ("share.record.lock.duration.ms", ("1000", "2000")),
    ("no.such.setting", ("1",)),
)
FEATURES: Final = (("transaction.version", (0, 1, 2)), ("group.version", (0, 1, 1, 1)), ("share.version", (0, 1, 2, 2)))
RESOURCE_TYPES: Final = (2, 2, 32, 32, 4, 0)
"""Topics and groups, some brokers."""


class Care(Enum):
    """How wrong a request is: the chance of a field about somebody else, and of an odd value."""

    CAREFUL = (0.0, 0.0)
    CARELESS = (0.12, 0.02)
    WILD = (0.2, 0.25)


class Asked:
    """A request that is ready to go."""

    __slots__ = ("body", "care", "key", "message", "subject", "version")

    def __init__(self, key: ApiKey, version: int, message: Any, body: bytes, subject: Subject, care: Care) -> None:
        self.key, self.version, self.message, self.body = key, version, message, body
        self.subject, self.care = subject, care

    def __str__(self) -> str:
        return f"{self.key.name} {self.version} {self.message!r}"[:1500]


class Requests:
    """Draws requests. `served`: versions by API, as the broker tells them."""

    def __init__(
        self, rng: random.Random, knowledge: Knowledge, served: dict[int, tuple[int, int]], *, patience: int = 1
    ) -> None:
        """`patience`: by how much longer than usual members and transactions may be silent."""
        self._rng, self.knowledge, self.patience = rng, knowledge, patience
        self._names = (*knowledge.groups, *knowledge.topic_names, *knowledge.transactional_ids)
        self._versions = {
            ApiKey(key): (max(low, api(key).min_version), min(high, api(key).max_version))
            for key, (low, high) in served.items()
            if key not in LEFT_OUT
        }
        self._keys = list(self._versions)
        self._weights = [self.weight(key) for key in self._keys]
        self._subject = knowledge.subject(None)
        self._care = Care.CAREFUL
        self._key, self._version = ApiKey.METADATA, 0

    def weight(self, key: ApiKey) -> float:
        """How often an API is asked for."""
        return WEIGHTS.get(key, 0.15 if key in RARE else 0.7)

    def meaning(self, struct: str, name: str) -> Meaning | None:
        """What a field says."""
        return _meaning(struct, name)

    def draw(self) -> Asked:
        """The next request of some client."""
        rng = self._rng
        while True:
            if self.knowledge.next and rng.random() < 0.6:
                key, subject = self.knowledge.next.popleft()
            else:
                (key,) = rng.choices(self._keys, self._weights)
                subject = self.knowledge.subject(_kind_of(key))
            if key in self._versions and (made := self._made(key, subject)) is not None:
                return made

    def _made(self, key: ApiKey, subject: Subject) -> Asked | None:
        rng = self._rng
        low, high = self._versions[key]
        self._key, self._subject = key, subject
        self._care = rng.choices((Care.CAREFUL, Care.CARELESS, Care.WILD), (0.6, 0.3, 0.1))[0]
        for _ in range(5):
            version = high if rng.random() < 0.6 else rng.randint(low, high)
            self._version = version
            message: Message = api(key).request_type()
            self._fill(message, version)
            try:
                return Asked(key, version, message, encode(message, version), subject, self._care)
            except EncodeError:
                continue  # A field of later versions: in another one, or with other values, it will do.
        return None

    # -- a message's fields

    def _fill(self, struct: Struct, version: int) -> None:
        for one in struct._fields:
            is_own = one.tag is not None and one.tag >= FIRST_OWN_TAG
            if (
                version in one.versions
                and not (is_own and self.patience > 1)
                and (one.tag is None or self._rng.random() < 0.2)
            ):
                setattr(struct, one.name, self._value(struct, one, version))

    def _value(self, struct: Struct, one: Field, version: int) -> object:
        rng = self._rng
        foreign, odd = self._care.value
        name = one.name.removeprefix("v3_and_below_")
        meaning = self.meaning(type(struct).__name__, name)
        if rng.random() < odd and not (one.name.endswith("_ms") or one.name in NEVER_ODD):
            if version in one.nullable:
                return None
            meaning = None
        if meaning is not None:
            subject = self.knowledge.subject(_kind_of(self._key)) if rng.random() < foreign else self._subject
            return _fitting(meaning(self, subject), one.kind)
        if one.kind == "array":
            count = rng.choice((1, 1, 1, 1, 0, 2))
            return [self._element(one, version) for _ in range(count)]
        if one.kind == "struct":
            return self._struct(one, version)
        return self._scalar(one.kind)

    def _element(self, one: Field, version: int) -> object:
        return self._struct(one, version) if isinstance(one.element, type) else self._scalar(one.element)

    def _struct(self, one: Field, version: int) -> Struct:
        made = one.struct()
        self._fill(made, version)
        return made

    def _scalar(self, kind: str) -> object:
        rng = self._rng
        match kind:
            case "bool":
                return rng.random() < 0.3
            case "string":
                return rng.choice((*ODD_NAMES, *INSTANCES, *self._names))
            case "bytes":
                return rng.choice(ODD_BYTES)
            case "records":
                return self.batch(self._subject)
            case "uuid":
                return rng.choice((ZERO_UUID, UUID(int=rng.getrandbits(128))))
            case "float64":
                return rng.choice((0.0, 1.0, -1.0, 1e300, float("nan")))
            case _:
                return _bounded(rng.choice(ODD_INTEGERS) if rng.random() < 0.4 else rng.randint(0, 4), kind)

    # -- what fields mean

    def batch(self, subject: Subject) -> bytes:
        """Records of the subject's producer, or of none."""
        rng, transaction = self._rng, subject.transaction
        if self.patience == 1 and rng.random() < BELIEVED:
            return believed(rng.choice(tuple(KINDS)))
        if rng.random() < OVER_THE_END:
            return over_the_end()
        compression = rng.choice((Compression.NONE, Compression.NONE, *Compression))
        builder = BatchBuilder(compression)
        now_ms = 1_790_000_000_000
        for _ in range(rng.randint(1, 3)):
            timestamp = now_ms if rng.random() < 0.95 else rng.choice((0, -1, 2**62, LATEST_MS - 1, 1))
            builder.append(timestamp, rng.choice((b"key", b"", None)), rng.choice((b"value", b"", None)))
        if transaction.producer_id < 0 or rng.random() < 0.3:
            return bytes(builder.build())
        place = (subject.topic.name, 0)
        sequence = transaction.sequences.get(place, 0)
        if rng.random() < 0.9:
            transaction.sequences[place] = sequence + builder.record_count
        is_transactional = transaction.transactional_id is not None and rng.random() < 0.95
        stamp = ProducerStamp(transaction.producer_id, transaction.producer_epoch, sequence, is_transactional)
        return bytes(builder.build(stamp=stamp))

    def partition(self, subject: Subject) -> int:
        return self._rng.randrange(max(subject.topic.partitions, 1)) if self._rng.random() < 0.5 else 0

    def offset(self, subject: Subject) -> int:
        end = subject.topic.ends.get(0, 0)
        return self._rng.choice((end, max(end - 1, 0), 0))

    def subscription(self, subject: Subject) -> bytes:
        """As a classic member writes it."""
        rng = self._rng
        topics = [subject.topic.name, *rng.sample(self.knowledge.topic_names, rng.randint(0, 2))]
        message = ConsumerProtocolSubscription(topics=topics, generation_id=subject.member.epoch)
        version = rng.randint(0, 3)
        return version.to_bytes(2, "big") + encode(message, version)

    def assignment(self, subject: Subject) -> bytes:
        """Of a classic member."""
        return encode_assignment({subject.topic.name: [0, 1][: self._rng.randint(0, 2)]}, self._rng.randint(0, 3))

    def is_stranger(self, subject: Subject) -> bool:
        """Whether a commit names no member, as those of an administrator."""
        return self._key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT) and subject.member.epoch % 3 == 0

    def joins(self, subject: Subject) -> bool:
        """Whether a heartbeat is a member's first."""
        return subject.member.epoch <= 0

    def beat_epoch(self, subject: Subject) -> int:
        """The member's; now and then its former one, as where an answer was lost, or one that it was not told."""
        member, draw = subject.member, self._rng.random()
        if draw < 0.06:
            return -1
        if draw < 0.1:
            return -2 if member.instance else 0
        own, draw = max(member.epoch, 0), self._rng.random()
        if member.former_epoch > 0 and draw < (LOST if member.has_new_epoch else MISTAKEN):
            return member.former_epoch
        return self.pick(own - 1, own + 1) if own and draw > 1 - MISTAKEN else own

    def rebalance_timeout_ms(self) -> int:
        """Of patient members so long that none is removed for a sync that it never sends."""
        wait_ms: int = self.pick(20, 100, 400)
        return wait_ms if self.patience == 1 else self.patience * max(wait_ms, 200)

    def subscribed(self, subject: Subject) -> list[str] | None:
        if not self.joins(subject) and self._rng.random() < 0.8:
            return None
        return [subject.topic.name, *self._rng.sample(self.knowledge.topic_names, self._rng.randint(0, 2))]

    def owned(self, subject: Subject) -> list[Struct] | None:
        """What a member of the newer protocol says that it has."""
        if self.joins(subject):
            return []
        if self._rng.random() < 0.4:
            return None
        from kavka.protocol.messages.consumer_group_heartbeat_request import TopicPartitions

        return [TopicPartitions(topic_id=topic, partitions=partitions) for topic, partitions in subject.member.owned]

    def protocols(self, subject: Subject) -> list[Struct]:
        """Another list with each join: a group in a rolling change."""
        from kavka.protocol.messages.join_group_request import JoinGroupRequestProtocol

        names = self._rng.sample(ASSIGNORS, self._rng.randint(1, 3))
        if self._rng.random() < 0.7 and "range" not in names:
            names.append("range")
        garbage = self._rng.random() < GARBAGE
        data = self._rng.choice(ODD_BYTES) if garbage else self.subscription(subject)
        return [JoinGroupRequestProtocol(name=name, metadata=data) for name in names]

    def assignments(self, subject: Subject) -> list[Struct]:
        from kavka.protocol.messages.sync_group_request import SyncGroupRequestAssignment

        garbage = self._rng.random() < GARBAGE
        return [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=self._rng.choice(ODD_BYTES) if garbage else self.assignment(subject),
            )
            for member in subject.member.members
        ]

    def acquired(self, subject: Subject) -> tuple[UUID, int, int, int]:
        """A row of records that a share member holds, or of none."""
        rows = subject.member.acquired
        return rows[-1] if rows else (subject.topic.topic_id, 0, 0, self._rng.randint(0, 3))

    def acknowledgements(self, subject: Subject) -> list[Struct]:
        """Of records that were acquired, of some of them, or of others."""
        rng = self._rng
        if self._key is ApiKey.SHARE_FETCH and rng.random() < 0.7:
            return []
        from kavka.protocol.messages import share_acknowledge_request, share_fetch_request

        made = share_fetch_request if self._key is ApiKey.SHARE_FETCH else share_acknowledge_request
        _, _, first, last = self.acquired(subject)
        if rng.random() < 0.3:
            first = rng.randint(first, last) if first <= last else first
        types = [rng.choice((1, 1, 1, 2, 3, 0, 4))] * rng.choice((1, 1, max(1, min(last - first + 1, 50))))
        return [made.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)]

    def share_epoch(self, subject: Subject) -> int:
        draw = self._rng.random()
        return -1 if draw < 0.05 else 0 if draw < 0.1 else subject.member.share_epoch

    def regex(self) -> str | None:
        return self.pick(*[None] * 20, "topic-.*", "topic-[01]", "(", "") if self.patience == 1 else None

    def some_transactional_id(self) -> str:
        return self._rng.choice(self.knowledge.transactional_ids)

    def setting(self) -> str:
        return self._rng.choice(TOPIC_SETTINGS)[0]

    def value(self) -> str:
        return self._rng.choice(self._rng.choice(TOPIC_SETTINGS)[1])

    def pick(self, *values: Any) -> Any:
        return self._rng.choice(values)

    def topic_settings(self) -> list[Struct]:
        from kavka.protocol.messages.create_topics_request import CreatableTopicConfig

        name, values = self._rng.choice(TOPIC_SETTINGS)
        has_some = self._rng.random() < 0.3
        return [CreatableTopicConfig(name=name, value=self._rng.choice(values))] if has_some else []

    def feature_updates(self) -> list[Struct]:
        from kavka.protocol.messages.update_features_request import FeatureUpdateKey

        name, levels = self._rng.choice(FEATURES)
        level = self._rng.choice(levels)
        return [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=self.pick(1, 2, 2, 3))]


Meaning = Callable[[Requests, Subject], Any]


def _kind_of(key: ApiKey) -> ApiKey | None:
    if key in CLASSIC:
        return ApiKey.JOIN_GROUP
    if key in SHARE:
        return ApiKey.SHARE_GROUP_HEARTBEAT
    return key if key in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT) else None


def _bounded(value: int, kind: str) -> int:
    bits = int(kind.lstrip("uint"))
    low, high = (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return max(low, min(value, high))


def _fitting(value: Any, kind: str) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and "int" in kind
    return _bounded(value, kind) if is_number else value


def _topic_name(requests: Requests, subject: Subject) -> str:
    return subject.topic.name


_EVERYWHERE: Final[dict[str, Meaning]] = {
    "group_id": lambda r, s: s.member.group,
    "member_id": lambda r, s: "" if r.is_stranger(s) else s.member.member_id,
    "group_instance_id": lambda r, s: s.member.instance,
    "instance_id": lambda r, s: s.member.instance,
    "generation_id": lambda r, s: -1 if r.is_stranger(s) else s.member.epoch,
    "generation_id_or_member_epoch": lambda r, s: -1 if r.is_stranger(s) else s.member.epoch,
    "member_epoch": lambda r, s: s.member.epoch,
    "protocol_type": lambda r, s: "consumer",
    "protocol_name": lambda r, s: s.member.protocol,
    "protocols": lambda r, s: r.protocols(s),
    "assignments": lambda r, s: r.assignments(s),
    "session_timeout_ms": lambda r, s: r.patience * r.pick(200, 1_000, 3_000),
    "rebalance_timeout_ms": lambda r, s: r.rebalance_timeout_ms(),
    "groups_names": lambda r, s: [s.member.group],
    "coordinator_keys": lambda r, s: [s.member.group],
    "key": lambda r, s: s.member.group,
    "key_type": lambda r, s: r.pick(0, 0, 1, 2),
    "transactional_id": lambda r, s: s.transaction.transactional_id or r.some_transactional_id(),
    "transactional_ids": lambda r, s: [s.transaction.transactional_id or "none"],
    "transaction_timeout_ms": lambda r, s: r.patience * r.pick(100, 1_000, 5_000),
    "producer_id": lambda r, s: s.transaction.producer_id,
    "producer_epoch": lambda r, s: s.transaction.producer_epoch,
    "committed": lambda r, s: r.pick(True, False),
    "transaction_result": lambda r, s: r.pick(True, False),
    "topic": _topic_name,
    "topic_name": _topic_name,
    "topic_names": lambda r, s: [s.topic.name],
    "topic_id": lambda r, s: s.topic.topic_id,
    "partition": lambda r, s: r.partition(s),
    "partition_index": lambda r, s: r.partition(s),
    "index": lambda r, s: r.partition(s),
    "partition_indexes": lambda r, s: [0, r.partition(s)],
    "current_leader_epoch": lambda r, s: r.pick(-1, -1, -1, 0, 1),
    "leader_epoch": lambda r, s: r.pick(-1, 0, 0, 1),
    "last_fetched_epoch": lambda r, s: r.pick(-1, -1, 0),
    "fetch_offset": lambda r, s: r.offset(s),
    "committed_offset": lambda r, s: r.offset(s),
    "committed_leader_epoch": lambda r, s: r.pick(-1, 0),
    "committed_metadata": lambda r, s: r.pick("", "note", None),
    "offset": lambda r, s: r.pick(-1, 0, r.offset(s)),
    "timestamp": lambda r, s: r.pick(-1, -2, -3, -4, -5, 0, 1_790_000_000_000),
    "partition_max_bytes": lambda r, s: r.pick(1 << 16, 1 << 20, 1, 0),
    "max_bytes": lambda r, s: r.pick(1 << 16, 1 << 20, 1, 0),
    "min_bytes": lambda r, s: r.pick(0, 1, 1),
    "max_wait_ms": lambda r, s: r.pick(0, 0, 10, 100),
    "timeout_ms": lambda r, s: r.pick(100, 1_000, 3_000),
    "replica_id": lambda r, s: -1,
    "replica_state": lambda r, s: None,
    "isolation_level": lambda r, s: r.pick(0, 1),
    "session_id": lambda r, s: s.session.session_id,
    "session_epoch": lambda r, s: r.pick(s.session.epoch, s.session.epoch, s.session.epoch, 0, -1),
    "share_session_epoch": lambda r, s: r.share_epoch(s),
    "max_records": lambda r, s: r.pick(1, 10, 500),
    "batch_size": lambda r, s: r.pick(1, 10, 500),
    "share_acquire_mode": lambda r, s: r.pick(0, 1),
    "is_renew_ack": lambda r, s: False,
    "acknowledgement_batches": lambda r, s: r.acknowledgements(s),
    "forgotten_topics_data": lambda r, s: [],
    "records": lambda r, s: r.batch(s),
    "acks": lambda r, s: r.pick(-1, -1, -1, 1, 1, 0),
    "subscribed_topic_names": lambda r, s: r.subscribed(s),
    "server_assignor": lambda r, s: r.pick(None, None, None, "uniform", "range", "none"),
    "rack_id": lambda r, s: r.pick(*[None] * 10, "rack-1"),
    "state_epoch": lambda r, s: r.pick(0, s.member.epoch, s.member.epoch + 1),
    "start_offset": lambda r, s: r.pick(-1, 0, r.offset(s)),
    "delivery_state": lambda r, s: r.pick(0, 2, 4),
    "delivery_count": lambda r, s: r.pick(0, 1, 2),
    "coordinator_epoch": lambda r, s: r.pick(0, 1, 2),
    "num_partitions": lambda r, s: r.pick(1, 2, 3),
    "replication_factor": lambda r, s: r.pick(1, -1),
    "count": lambda r, s: s.topic.partitions + r.pick(0, 1),
    "broker_ids": lambda r, s: [1],
    "broker_id": lambda r, s: 1,
    "replicas": lambda r, s: r.pick([1], None),
    "validate_only": lambda r, s: r.pick(False, False, True),
    "allow_auto_topic_creation": lambda r, s: r.pick(False, True),
    "election_type": lambda r, s: r.pick(0, 1),
    "resource_type": lambda r, s: r.pick(*RESOURCE_TYPES),
    "resource_name": lambda r, s: r.pick(s.topic.name, s.member.group),
    "config_operation": lambda r, s: r.pick(0, 0, 1, 2, 3),
    "configuration_keys": lambda r, s: None,
    "feature_updates": lambda r, s: r.feature_updates(),
    "iterations": lambda r, s: 4096,
    "entity_type": lambda r, s: r.pick("user", "client-id"),
    "entity_name": lambda r, s: r.pick("somebody", "somebody else"),
}
_IN_STRUCTS: Final[dict[tuple[str, str], Meaning | None]] = {
    ("JoinGroupRequest", "protocol_type"): lambda r, s: r.pick(*["consumer"] * 12, "connect"),
    ("ConsumerGroupHeartbeatRequest", "member_epoch"): lambda r, s: r.beat_epoch(s),
    ("ShareGroupHeartbeatRequest", "member_epoch"): lambda r, s: r.beat_epoch(s),
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"): lambda r, s: r.owned(s),
    ("ConsumerGroupHeartbeatRequest", "rebalance_timeout_ms"): lambda r, s: (
        400 * r.patience if r.joins(s) else r.pick(-1, 400 * r.patience)
    ),
    ("ConsumerGroupHeartbeatRequest", "subscribed_topic_regex"): lambda r, s: r.regex(),
    ("ProduceRequest", "transactional_id"): lambda r, s: s.transaction.transactional_id,
    ("InitProducerIdRequest", "transactional_id"): lambda r, s: s.transaction.transactional_id,
    ("InitProducerIdRequest", "producer_id"): lambda r, s: r.pick(-1, -1, s.transaction.producer_id),
    ("InitProducerIdRequest", "producer_epoch"): lambda r, s: r.pick(-1, -1, s.transaction.producer_epoch),
    ("ShareFetchRequest", "max_wait_ms"): lambda r, s: r.pick(0, 0, 10, 100) if r.patience == 1 else 500,
    ("FetchRequest", "rack_id"): lambda r, s: r.pick("", "rack-1"),
    ("FindCoordinatorRequest", "key"): lambda r, s: s.member.group,
    ("OpData", "key"): lambda r, s: r.pick("producer_byte_rate", "consumer_byte_rate", "request_percentage", "none"),
    ("CreatableTopic", "assignments"): lambda r, s: [],
    ("CreatableTopic", "configs"): lambda r, s: r.topic_settings(),
    ("CreatePartitionsTopic", "assignments"): lambda r, s: None,
    ("AlterableConfig", "name"): lambda r, s: r.setting(),
    ("AlterableConfig", "value"): lambda r, s: r.value(),
    ("MetadataRequestTopic", "topic_id"): lambda r, s: r.pick(ZERO_UUID, ZERO_UUID, s.topic.topic_id),
    ("DeleteTopicState", "name"): _topic_name,
    ("DeleteTopicState", "topic_id"): lambda r, s: ZERO_UUID,
    ("OffsetCommitRequestPartition", "committed_metadata"): lambda r, s: r.pick("", "note", None),
    **OF_HEARTBEATS,
}


def _meaning(struct: str, name: str) -> Meaning | None:
    if (struct, name) in _IN_STRUCTS:
        return _IN_STRUCTS[struct, name]
    if name == "name" and "Topic" in struct:
        return _topic_name
    if name == "partitions" and struct in ("AddPartitionsToTxnTopic", "ForgottenTopic", "TopicPartitions"):
        return lambda r, s: [0, r.partition(s)]
    return _EVERYWHERE.get(name)
