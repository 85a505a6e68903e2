"""Kafka's znodes: the form of what stands in each. Where they stand is `znode_paths`' matter.

It knows forms, not what they mean for the cluster, and no I/O: values in, bytes out, and back.

Each znode is a frozen value with `encode()` to the bytes that Apache Kafka 3.9 writes (its
order of keys, no spaces) and `decode(data)`, which takes any order and unknown keys. What cannot be read raises
`MalformedZNode`; a znode that Kafka itself wrote in an older version of the form is read as Kafka 3.9 reads it.

One difference to Kafka's bytes is kept on purpose: where Kafka writes a map of more than four entries of its own
(partitions of a topic, names of a configuration), its order is that of a Scala hash map; here it is sorted by
partition, or as given. Readers of JSON cannot tell.

Source: the tree of a running Apache Kafka 3.9.2 in ZooKeeper mode (the conformance test compares with one).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kavka.errors import ZooKeeperError
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.zookeeper.znode_paths import (
    CLUSTER_ID_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    FEATURE_PATH,
    LOG_DIRECTORIES_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    PRODUCER_ID_BLOCK_PATH,
    REASSIGN_PARTITIONS_PATH,
    UNCLEAN_SHUTDOWNS_PATH,
    UNKNOWN_USERS_PATH,
    USERS_ENTITY,
    broker_path,
    entity_config_path,
    partition_state_path,
    topic_path,
)

# ------------------------------------------------------------------------------------------------------------- ids


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's text form of an id: base64 for URLs, without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str, where: str = "uuid") -> uuid.UUID:
    """Raises MalformedZNode."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}", text):
        raise MalformedZNode(where, f"{text!r} is no base64 of 16 bytes")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def random_uuid(random_bytes: bytes) -> uuid.UUID:
    """A version 4 id for a topic or cluster out of 16 random bytes. Its text form never begins with a dash, which
    command lines would take for an option."""
    value = uuid.UUID(bytes=random_bytes, version=4)
    if encode_uuid(value).startswith("-"):
        value = uuid.UUID(bytes=bytes([value.bytes[0] ^ 0x80]) + value.bytes[1:])
    return value


# ----------------------------------------------------------------------------------------------------------- forms


class MalformedZNode(ZooKeeperError):
    """A znode whose content is not what it should be: garbage, or of a newer form. `path` names it."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: malformed: {detail}")
        self.path = path


def sequence_number(path_or_name: str) -> int:
    """The number that ZooKeeper gave a sequential znode. Raises MalformedZNode."""
    match = re.search(r"(\d{10,})\Z", path_or_name)
    if match is None:
        raise MalformedZNode(path_or_name, "no sequence number at its end")
    return int(match[1])


def numbered(names: Iterable[str]) -> list[tuple[int, str]]:
    """Sequential znodes with their numbers, in order. A name without a number is left out: somebody else made it."""
    found = []
    for name in names:
        with contextlib.suppress(MalformedZNode):
            found.append((sequence_number(name), name))
    return sorted(found)


@dataclass(frozen=True, slots=True)
class ClusterId:
    """/cluster/id: the cluster's id, 22 characters."""

    PATH: ClassVar[str] = CLUSTER_ID_PATH

    id: str

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.id})

    @staticmethod
    def decode(data: bytes | None) -> ClusterId:
        return ClusterId(ZNodeObject(CLUSTER_ID_PATH, data).text("id"))


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """One address of a broker, under the name of its listener."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """/brokers/ids/<id>, ephemeral: a live broker. The znode's czxid is its broker epoch."""

    broker_id: BrokerId
    endpoints: tuple[BrokerEndpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name to (lowest, highest) supported version."""
    is_unclean: bool = False
    """The broker's stop before this start was not clean, and no controller has acted on that yet. Kavka's own field,
    written only with kavka.eligible.leader.replicas.enable."""

    def encode(self) -> bytes:
        # host and port are for readers older than listeners: those of the plaintext one.
        plain = next((endpoint for endpoint in self.endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
        return encode_json(
            {
                "features": {
                    name: {"min_version": low, "max_version": high} for name, (low, high) in self.features.items()
                },
                "listener_security_protocol_map": {
                    endpoint.listener_name: endpoint.security_protocol for endpoint in self.endpoints
                },
                "endpoints": [str(endpoint) for endpoint in self.endpoints],
                **({"rack": self.rack} if self.rack is not None else {}),
                "jmx_port": self.jmx_port,
                "port": plain.port if plain else -1,
                "host": plain.host if plain else None,
                "version": 5,
                "timestamp": str(self.timestamp_ms),
                **({"unclean_shutdown": True} if self.is_unclean else {}),
            }
        )

    @staticmethod
    def decode(broker_id: int, data: bytes | None) -> BrokerRegistration:
        znode = ZNodeObject(broker_path(broker_id), data)
        version = znode.integer("version")
        if version < 1:
            raise znode.malformed(f"version {version}")
        if version == 1:
            host, port = znode.text("host"), znode.integer("port")
            endpoints: tuple[BrokerEndpoint, ...] = (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", host, port),)
        else:
            protocols = znode.mapping("listener_security_protocol_map") if version >= 4 else {}
            endpoints = tuple(_endpoint(znode, text, protocols) for text in znode.texts("endpoints"))
        features = znode.mapping("features") if "features" in znode else {}
        return BrokerRegistration(
            BrokerId(broker_id),
            endpoints,
            timestamp_ms=int(znode.text("timestamp")) if znode.matches("timestamp", r"-?\d+") else -1,
            rack=znode.text("rack") if znode.get("rack") is not None else None,
            jmx_port=znode.integer("jmx_port") if "jmx_port" in znode else -1,
            features={name: _feature_range(znode, name, value) for name, value in features.items()},
            is_unclean=znode.get("unclean_shutdown") is True,
        )


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """/brokers/topics/<T>: the replicas of each partition.

    `partitions`, `adding_replicas` and `removing_replicas` go from a partition to broker ids; the first replica is the
    preferred leader. The latter two are not empty only while partitions are being reassigned. `topic_id` is None for
    a topic made before Kafka 2.8.
    """

    topic: str
    partitions: Mapping[int, Sequence[int]]
    topic_id: uuid.UUID | None
    adding_replicas: Mapping[int, Sequence[int]] = field(default_factory=dict)
    removing_replicas: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return encode_json(
            {
                "partitions": _replica_lists(self.partitions),
                **({"topic_id": encode_uuid(self.topic_id)} if self.topic_id is not None else {}),
                "adding_replicas": _replica_lists(self.adding_replicas),
                "removing_replicas": _replica_lists(self.removing_replicas),
                "version": 3,
            }
        )

    @staticmethod
    def decode(topic: str, data: bytes | None) -> TopicAssignment:
        znode = ZNodeObject(topic_path(topic), data)
        return TopicAssignment(
            topic,
            partitions=znode.replica_lists("partitions"),
            topic_id=decode_uuid(znode.text("topic_id"), znode.path) if znode.get("topic_id") is not None else None,
            adding_replicas=znode.replica_lists("adding_replicas") if "adding_replicas" in znode else {},
            removing_replicas=znode.replica_lists("removing_replicas") if "removing_replicas" in znode else {},
        )


RECOVERED: Final = 0
RECOVERING: Final = 1
"""leader_recovery_state of a partition whose leader was elected uncleanly."""


_USUAL_STATE: Final = re.compile(
    rb'\{"controller_epoch":(0|[1-9]\d{0,8}),"leader":(-1|0|[1-9]\d{0,8}),"version":1,"leader_epoch":(0|[1-9]\d{0,8}),'
    rb'"isr":\[((?:0|[1-9]\d{0,8})(?:,(?:0|[1-9]\d{0,8}))*)\]\}'
)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """/brokers/topics/<T>/partitions/<P>/state: who leads. The znode's version is the partition epoch.

    `leader` is -1 where there is none; `isr` is never empty. The last two fields are kavka's own, written only with
    kavka.eligible.leader.replicas.enable and where they are not empty: who left the ISR and still has every committed
    record (KIP-966), and the last leader of a partition that has none.
    """

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    leader_recovery_state: int = RECOVERED
    eligible_leader_replicas: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()

    def encode(self) -> bytes:
        # Written by hand: at 1.5 us a quarter of json's time, and a topic may have ten thousand of them.
        recovering = '"leader_recovery_state":1,' if self.leader_recovery_state != RECOVERED else ""
        isr = ",".join(map(str, self.isr))
        own = ""
        if self.eligible_leader_replicas:
            own = f',"eligible_leader_replicas":[{",".join(map(str, self.eligible_leader_replicas))}]'
        if self.last_known_elr:
            own += f',"last_known_elr":[{",".join(map(str, self.last_known_elr))}]'
        return (
            f'{{"controller_epoch":{self.controller_epoch},"leader":{self.leader},"version":1,{recovering}'
            f'"leader_epoch":{self.leader_epoch},"isr":[{isr}]{own}}}'
        ).encode()

    def leader_and_isr(self, partition_epoch: int) -> LeaderAndIsr:
        """The part that replicas care about; `partition_epoch` is the version of the znode."""
        return LeaderAndIsr(self.leader, self.leader_epoch, self.isr, partition_epoch)

    @staticmethod
    def decode(partition: TopicPartition, data: bytes | None) -> PartitionState:
        # As `encode` writes most of them: a quarter of json's time, and a controller reads all of a cluster's.
        if data is not None and (usual := _USUAL_STATE.fullmatch(data)):
            controller_epoch, leader, leader_epoch = map(int, usual.group(1, 2, 3))
            return PartitionState(
                BrokerId(leader), leader_epoch, tuple(map(BrokerId, map(int, usual[4].split(b",")))), controller_epoch
            )
        znode = ZNodeObject(partition_state_path(partition), data)
        return PartitionState(
            leader=BrokerId(znode.integer("leader")),
            leader_epoch=znode.integer("leader_epoch"),
            isr=tuple(map(BrokerId, znode.integers("isr"))),
            controller_epoch=znode.integer("controller_epoch"),
            leader_recovery_state=znode.integer("leader_recovery_state") if "leader_recovery_state" in znode else 0,
            eligible_leader_replicas=_own_replicas(znode, "eligible_leader_replicas"),
            last_known_elr=_own_replicas(znode, "last_known_elr"),
        )


def _own_replicas(znode: ZNodeObject, name: str) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, znode.integers(name))) if name in znode else ()


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """/controller, ephemeral: which broker is the controller."""

    PATH: ClassVar[str] = CONTROLLER_PATH

    broker_id: BrokerId
    timestamp_ms: int

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": -1,
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> ControllerNode:
        znode = ZNodeObject(CONTROLLER_PATH, data)
        timestamp_ms = int(znode.text("timestamp")) if znode.matches("timestamp", r"-?\d+") else -1
        return ControllerNode(BrokerId(znode.integer("brokerid")), timestamp_ms)


@dataclass(frozen=True, slots=True)
class UncleanShutdowns:
    """/kavka_unclean_shutdowns, kavka's own: brokers whose last stop was not clean, with the broker epoch for which a
    controller acted on that. Only with kavka.eligible.leader.replicas.enable."""

    PATH: ClassVar[str] = UNCLEAN_SHUTDOWNS_PATH

    acted_on: Mapping[BrokerId, int]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "acted_on": {str(key): self.acted_on[key] for key in sorted(self.acted_on)}})

    @staticmethod
    def decode(data: bytes | None) -> UncleanShutdowns:
        znode = ZNodeObject(UNCLEAN_SHUTDOWNS_PATH, data)
        found = znode.mapping("acted_on")
        if not all(re.fullmatch(r"[0-9]{1,9}", key) and type(value) is int for key, value in found.items()):
            raise znode.malformed(f"{found!r} are no broker ids with epochs")
        return UncleanShutdowns({BrokerId(int(key)): value for key, value in found.items()})


@dataclass(frozen=True, slots=True)
class LogDirectories:
    """/kavka_log_directories/ID, kavka's own: where broker ID had its logs when it last started, as absolute paths."""

    directories: tuple[str, ...]

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{LOG_DIRECTORIES_PATH}/{broker_id}"

    def encode(self) -> bytes:
        return encode_json({"version": 1, "directories": list(self.directories)})

    @staticmethod
    def decode(broker_id: int, data: bytes | None) -> LogDirectories:
        return LogDirectories(tuple(ZNodeObject(LogDirectories.path(broker_id), data).texts("directories")))


@dataclass(frozen=True, slots=True)
class UnknownUsers:
    """/kavka_unknown_users, kavka's own: the secret, in base64, from which salts of users are made that do not exist,
    so that nobody learns who exists. Only with a listener that authenticates by SCRAM."""

    PATH: ClassVar[str] = UNKNOWN_USERS_PATH

    secret: str = field(repr=False)

    def encode(self) -> bytes:
        return encode_json({"version": 1, "secret": self.secret})

    @staticmethod
    def decode(data: bytes | None) -> UnknownUsers:
        return UnknownUsers(ZNodeObject(UNKNOWN_USERS_PATH, data).text("secret"))


def encode_controller_epoch(epoch: int) -> bytes:
    """/controller_epoch: the number as text."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    return _number(CONTROLLER_EPOCH_PATH, data)


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """/isr_change_notification/isr_change_N, sequential: partitions whose ISR a leader changed."""

    partitions: tuple[TopicPartition, ...]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "partitions": _partition_list(self.partitions)})

    @staticmethod
    def decode(path: str, data: bytes | None) -> IsrChangeNotification:
        return IsrChangeNotification(ZNodeObject(path, data).partition_list())


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection:
    """/admin/preferred_replica_election: partitions that an operator wants led by their first replica."""

    PATH: ClassVar[str] = PREFERRED_REPLICA_ELECTION_PATH

    partitions: tuple[TopicPartition, ...]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "partitions": _partition_list(self.partitions)})

    @staticmethod
    def decode(data: bytes | None) -> PreferredReplicaElection:
        return PreferredReplicaElection(ZNodeObject(PREFERRED_REPLICA_ELECTION_PATH, data).partition_list())


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    """/admin/reassign_partitions: where an operator wants replicas to be."""

    PATH: ClassVar[str] = REASSIGN_PARTITIONS_PATH

    replicas: Mapping[TopicPartition, Sequence[int]]

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "partitions": [
                    {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
                    for partition, replicas in self.replicas.items()
                ],
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> ReassignPartitions:
        znode = ZNodeObject(REASSIGN_PARTITIONS_PATH, data)
        entries = [znode.child("partitions", entry) for entry in znode.sequence("partitions")]
        return ReassignPartitions(
            {
                TopicPartition(entry.text("topic"), entry.integer("partition")): entry.integers("replicas")
                for entry in entries
            }
        )


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """/config/<entity path>: settings of a topic, broker, user, client id or address; names to text values."""

    config: Mapping[str, str]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "config": dict(self.config)})

    @staticmethod
    def decode(entity_path: str, data: bytes | None) -> ConfigEntity:
        """A node without data (/config/users/U that only holds /clients) has no settings. What is wrong with a user's
        is told without its content, which may be a credential."""
        if not data:
            return ConfigEntity({})
        try:
            return ConfigEntity._decode(entity_path, data)
        except MalformedZNode as malformed:
            if not entity_path.startswith(f"{USERS_ENTITY}/"):
                raise
            raise MalformedZNode(malformed.path, "no JSON object whose config has texts for values") from None

    @staticmethod
    def _decode(entity_path: str, data: bytes) -> ConfigEntity:
        znode = ZNodeObject(entity_config_path(entity_path), data)
        config = znode.mapping("config")
        for name, value in config.items():
            if not isinstance(value, str):
                raise znode.malformed(f"the value of {name!r} is not a text: {value!r}")
        return ConfigEntity(config)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """/config/changes/config_change_N, sequential: the settings at `entity_path` changed; brokers read them anew."""

    entity_path: str

    def encode(self) -> bytes:
        return encode_json({"version": 2, "entity_path": self.entity_path})

    @staticmethod
    def decode(path: str, data: bytes | None) -> ConfigChange:
        znode = ZNodeObject(path, data)
        version = znode.integer("version")
        if version == 1:  # Written before Kafka 0.10.1.
            return ConfigChange(f"{znode.text('entity_type')}/{znode.text('entity_name')}")
        if version != 2:
            raise znode.malformed(f"version {version}")
        return ConfigChange(znode.text("entity_path"))


LOG_DIR_FAILURE: Final = 1


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """/log_dir_event_notification/log_dir_event_N, sequential: a log directory of a broker failed."""

    broker_id: BrokerId
    event: int = LOG_DIR_FAILURE

    def encode(self) -> bytes:
        return encode_json({"version": 1, "broker": self.broker_id, "event": self.event})

    @staticmethod
    def decode(path: str, data: bytes | None) -> LogDirEvent:
        znode = ZNodeObject(path, data)
        return LogDirEvent(BrokerId(znode.integer("broker")), znode.integer("event"))


PRODUCER_ID_BLOCK_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """/latest_producer_id_block: the last block of producer ids that was given away, and to which broker."""

    PATH: ClassVar[str] = PRODUCER_ID_BLOCK_PATH

    broker_id: BrokerId
    first: int
    last: int

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> ProducerIdBlock:
        """The znode is empty, and so malformed here, until the first block is given away."""
        znode = ZNodeObject(PRODUCER_ID_BLOCK_PATH, data)
        for name in ("block_start", "block_end"):
            if not znode.matches(name, r"\d{1,19}"):
                raise znode.malformed(f"{name} is not a number: {znode.get(name)!r}")
        return ProducerIdBlock(
            BrokerId(znode.integer("broker")), int(znode.text("block_start")), int(znode.text("block_end"))
        )


@dataclass(frozen=True, slots=True)
class FeatureNode:
    """/feature: the feature levels that were set (KIP-584), each at least 1.

    `held_at_zero`, kavka's own and written only where it is not empty, names features that were switched off: a level
    of 0 has no place among Kafka's. What is in neither has its default.
    """

    PATH: ClassVar[str] = FEATURE_PATH

    enabled: bool
    features: Mapping[str, int] = field(default_factory=dict)
    held_at_zero: tuple[str, ...] = ()

    def encode(self) -> bytes:
        own = {"kavka_held_at_zero": list(self.held_at_zero)} if self.held_at_zero else {}
        return encode_json({"features": dict(self.features), "version": 2, "status": int(self.enabled), **own})

    @staticmethod
    def decode(data: bytes | None) -> FeatureNode:
        znode = ZNodeObject(FEATURE_PATH, data)
        version, status = znode.integer("version"), znode.integer("status")
        if version < 1 or status not in (0, 1):
            raise znode.malformed(f"version {version}, status {status}")
        features: dict[str, int] = {}
        for name, value in znode.mapping("features").items():
            level = value.get("max_version_level") if isinstance(value, dict) else value
            if type(level) is not int or level < 1:
                raise znode.malformed(f"the level of {name!r} is {value!r}")
            features[name] = level
        held = tuple(znode.texts("kavka_held_at_zero")) if "kavka_held_at_zero" in znode else ()
        return FeatureNode(enabled=status == 1, features=features, held_at_zero=held)


# ------------------------------------------------------------------------------------------------- reading, writing


def encode_json(value: Mapping[str, object]) -> bytes:
    """As Kafka writes it, with the keys in the order that they are given in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _replica_lists(lists: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(lists[partition]) for partition in sorted(lists)}


def _partition_list(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


def text_of(path: str, data: bytes | None) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedZNode(path, f"no UTF-8: {error}") from error


def _number(path: str, data: bytes | None) -> int:
    text = text_of(path, data)
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        raise MalformedZNode(path, f"no number: {text[:40]!r}")
    return int(text)


def _endpoint(znode: ZNodeObject, text: str, protocols: Mapping[str, Any]) -> BrokerEndpoint:
    match = re.fullmatch(r"([^:]+)://(?:\[([^\]]*)\]|([^:\[\]]*)):(-?\d{1,5})", text)
    if match is None:
        raise znode.malformed(f"no endpoint: {text!r}")
    name = match[1].upper()
    protocol = protocols.get(name, name)
    if not isinstance(protocol, str):
        raise znode.malformed(f"security protocol {protocol!r}")
    return BrokerEndpoint(name, protocol, match[2] or match[3] or "", int(match[4]))


def _feature_range(znode: ZNodeObject, name: str, value: object) -> tuple[int, int]:
    entry = znode.child(f"features.{name}", value)
    return entry.integer("min_version"), entry.integer("max_version")


class ZNodeObject:
    """A JSON object of a znode, read with checks: what is missing or of another type raises MalformedZNode."""

    __slots__ = ("_values", "path")

    def __init__(self, path: str, data: bytes | None) -> None:
        self.path = path
        text = text_of(path, data)
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MalformedZNode(path, f"no JSON: {error}: {text[:80]!r}") from error
        if not isinstance(values, dict):
            raise MalformedZNode(path, f"no JSON object: {text[:80]!r}")
        self._values: dict[str, Any] = values

    def child(self, name: str, values: object) -> ZNodeObject:
        """An object within this one."""
        if not isinstance(values, dict):
            raise self.malformed(f"{name} holds no object: {values!r}")
        child = object.__new__(ZNodeObject)
        child.path, child._values = self.path, values
        return child

    def malformed(self, detail: str) -> MalformedZNode:
        return MalformedZNode(self.path, detail)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> object:
        return self._values.get(name)

    def _require(self, name: str) -> object:
        if name not in self._values:
            raise self.malformed(f"no {name!r}")
        return self._values[name]

    def matches(self, name: str, pattern: str) -> bool:
        value = self._values.get(name)
        return isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None

    def text(self, name: str) -> str:
        value = self._require(name)
        if not isinstance(value, str):
            raise self.malformed(f"{name!r} is not a text: {value!r}")
        return value

    def integer(self, name: str) -> int:
        value = self._require(name)
        if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
            raise self.malformed(f"{name!r} is no 32-bit number: {value!r}")
        return value

    def long(self, name: str) -> int:
        value = self._require(name)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise self.malformed(f"{name!r} is no 64-bit number: {value!r}")
        return value

    def sequence(self, name: str) -> list[Any]:
        value = self._require(name)
        if not isinstance(value, list):
            raise self.malformed(f"{name!r} is not a list: {value!r}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._require(name)
        if not isinstance(value, dict):
            raise self.malformed(f"{name!r} is no object: {value!r}")
        return value

    def texts(self, name: str) -> list[str]:
        values = self.sequence(name)
        if not all(isinstance(value, str) for value in values):
            raise self.malformed(f"{name!r} holds other things than text: {values!r}")
        return values

    def integers(self, name: str) -> list[int]:
        return self._all_integers(name, self.sequence(name))

    def replica_lists(self, name: str) -> dict[int, tuple[int, ...]]:
        lists = {}
        for partition, replicas in self.mapping(name).items():
            if not re.fullmatch(r"[0-9]{1,9}", partition) or not isinstance(replicas, list):
                raise self.malformed(f"{name!r} has {partition!r}: {replicas!r}")
            lists[int(partition)] = tuple(self._all_integers(name, replicas))
        return dict(sorted(lists.items()))

    def partition_list(self) -> tuple[TopicPartition, ...]:
        entries = [self.child("partitions", entry) for entry in self.sequence("partitions")]
        return tuple(TopicPartition(entry.text("topic"), entry.integer("partition")) for entry in entries)

    def _all_integers(self, name: str, values: list[Any]) -> list[int]:
        if values and set(map(type, values)) != {int}:
            raise self.malformed(f"{name!r} holds other things than numbers: {values!r}")
        return values
