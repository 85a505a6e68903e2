"""Topics: what may be created, grown or deleted, and which znodes that takes.

Decides on a client's wish from what the controller knows, and returns either what is to be written or the refusal.
It knows no ZooKeeper session and no request form.

Invariants:
I1  A refused wish writes nothing; a wish that is only validated goes through every check.
I2  A topic's znode, its configuration and its first partitions appear in one multi. Partitions that do not fit into
    it follow in further multis, and a controller that starts in between completes them.
I3  Every multi begins with a check of /controller_epoch, so that a controller that was replaced writes nothing.

Source: Kafka's ZkAdminManager, AdminZkClient and Topic; messages are those of Kafka 3.9, which users search for. The
limit of partitions per request, and which of several mistakes is told, are those of Kafka's KRaft controllers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kavka.controller.decide.assignment import (
    Assignment,
    RandomSource,
    added_partitions,
    assign_replicas,
    check_manual_assignment,
)
from kavka.controller.decide.context import ControllerContext, KnownTopic
from kavka.controller.decide.election import Elected, elect_initial
from kavka.errors import ConfigError, ErrorCode, RequestError
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import Check, Create, Delete, Operation, SetData, request_size_bytes
from kavka.zookeeper.znode_paths import (
    CONTROLLER_EPOCH_PATH,
    delete_topic_path,
    partition_path,
    partition_state_path,
    topic_config_path,
    topic_partitions_path,
    topic_path,
)
from kavka.zookeeper.znodes import ConfigEntity, PartitionState, TopicAssignment, random_uuid

MAX_TOPIC_NAME_LENGTH: Final = 249
"""A directory of a partition is named <topic>-<partition> and renamed with a suffix, in 255 bytes at the most."""
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""KRaft's limit: beyond it a request would hold up the controller for seconds."""
MAX_MULTI_BYTES: Final = 900_000
"""What is put into one multi: under ZooKeeper's jute.maxbuffer with room for what a real session adds."""
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""KRaft's own topic, which nobody may create."""
COORDINATORS_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""They do not grow: what coordinators keep in them is found by the number of partitions. Apache Kafka lets them grow,
and loses what groups have committed."""
UNSET: Final = -1
"""As a number of partitions or replicas: the broker's default."""

_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")


class TopicRequest(NamedTuple):
    """What a client wants: counts, or replicas for each partition in `assignment`; settings in `config`."""

    name: str
    partition_count: int = UNSET
    replication_factor: int = UNSET
    assignment: Mapping[int, Sequence[int]] = {}
    config: Mapping[str, str | None] = {}


class PartitionsRequest(NamedTuple):
    """How many partitions a client wants a topic to have; `assignment`: the replicas of each new one, in order."""

    topic: str
    partition_count: int
    assignment: Sequence[Sequence[int]] | None = None


class Refusal(NamedTuple):
    """Why a wish is not granted."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to be created. `states` lacks the partitions none of whose replicas is alive."""

    assignment: TopicAssignment
    config: Mapping[str, str]
    states: Mapping[int, PartitionState]


@dataclass(frozen=True, slots=True)
class PartitionsPlan:
    """A topic to be grown from `known`; `added` are the numbers of the new partitions."""

    known: KnownTopic
    assignment: TopicAssignment
    added: tuple[int, ...]
    states: Mapping[int, PartitionState]


ConfigCheck: TypeAlias = Callable[[Mapping[str, str]], None]
"""Raises ConfigError if a topic may not have these settings."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The settings of the broker that topics obey; `check_config` is the config room's."""

    default_partition_count: int = 1
    default_replication_factor: int = 1
    check_config: ConfigCheck = field(default=lambda config: None)


# -------------------------------------------------------------------------------------------------------------- names


def topic_name_error(name: str) -> str | None:
    """Why a topic cannot have this name, in Kafka's words, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{MAX_TOPIC_NAME_LENGTH}"
        )
    if _ILLEGAL.search(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            f"'.', '_' and '-'"
        )
    return None


def colliding_topics(name: str, existing: Iterable[str]) -> list[str]:
    """Topics whose metrics would have the same name, since '.' becomes '_' there; sorted."""
    if "." not in name and "_" not in name:
        return []
    flat = name.replace(".", "_")
    return sorted(other for other in existing if other != name and other.replace(".", "_") == flat)


# ----------------------------------------------------------------------------------------------------------- creation


def plan_topic(
    wish: TopicRequest, context: ControllerContext, rules: TopicRules, rng: RandomSource
) -> TopicPlan | Refusal:
    """The topic that a client wishes for, or why it cannot be had. `rng` gives its id and the place of its replicas."""
    try:
        return _plan_topic(wish, context, rules, rng)
    except RequestError as refused:
        return Refusal(refused.code, refused.message)
    except ConfigError as invalid:
        return Refusal(ErrorCode.INVALID_CONFIG, str(invalid))


def _plan_topic(wish: TopicRequest, context: ControllerContext, rules: TopicRules, rng: RandomSource) -> TopicPlan:
    if wish.name == CLUSTER_METADATA_TOPIC:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {wish.name} is prohibited.")
    if wish.name in context.topics or wish.name in context.topics_to_delete:
        # A topic that is being deleted is in the way until it is gone, as in Kafka.
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wish.name}' already exists.")
    name_error = topic_name_error(wish.name)
    if name_error is not None:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, name_error)
    colliding = colliding_topics(wish.name, context.topics)
    if colliding:
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{wish.name}' collides with existing topics: {', '.join(colliding)}",
        )
    config = _checked_config(wish, rules)
    replicas = _replicas_of(wish, context, rules, rng)
    live = set(context.electable_broker_ids())
    return TopicPlan(
        TopicAssignment(wish.name, replicas, random_uuid(rng.randbytes(16))),
        config,
        initial_states(replicas, live, context.epoch),
    )


def _checked_config(wish: TopicRequest, rules: TopicRules) -> dict[str, str]:
    nulls = [name for name, value in wish.config.items() if value is None]
    if nulls:
        raise ConfigError(f"Null value not supported for topic configs: {','.join(nulls)}")
    config = {name: value for name, value in wish.config.items() if value is not None}
    rules.check_config(config)
    return config


def _replicas_of(
    wish: TopicRequest, context: ControllerContext, rules: TopicRules, rng: RandomSource
) -> Mapping[int, Sequence[BrokerId]]:
    if wish.assignment:
        if wish.partition_count != UNSET or wish.replication_factor != UNSET:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        return _checked(wish.assignment, context, first_partition=0)
    count = rules.default_partition_count if wish.partition_count == UNSET else wish.partition_count
    factor = rules.default_replication_factor if wish.replication_factor == UNSET else wish.replication_factor
    return assign_replicas(context.broker_racks(), count, factor, rng)


def _checked(
    assignment: Mapping[int, Sequence[int]], context: ControllerContext, *, first_partition: int
) -> Assignment:
    named = {broker for replicas in assignment.values() for broker in replicas}
    known = context.brokers.keys()
    return check_manual_assignment(
        assignment,
        known if named <= known else context.known_broker_ids(),
        set(context.live_broker_ids()),
        first_partition=first_partition,
    )


def within_limit(wishes: Sequence[TopicRequest], rules: TopicRules) -> list[TopicRequest | Refusal]:
    """The wishes of one request, or a refusal in the place of each where they ask for more than
    MAX_PARTITIONS_PER_REQUEST together. Those that are refused for another reason count, too."""
    total = 0
    for wish in wishes:
        count = rules.default_partition_count if wish.partition_count == UNSET else wish.partition_count
        total += len(wish.assignment) or max(count, 0)
    return list(wishes) if total <= MAX_PARTITIONS_PER_REQUEST else [_too_many(total)] * len(wishes)


def _too_many(count: int) -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"{count} partitions are more than the {MAX_PARTITIONS_PER_REQUEST} that one request may create.",
    )


def initial_states(
    replicas: Mapping[int, Sequence[BrokerId]], live: set[BrokerId], controller_epoch: int
) -> dict[int, PartitionState]:
    """The first state of each new partition that can have a leader."""
    states = {}
    for partition, assigned in replicas.items():
        elected = elect_initial(assigned, live)
        if isinstance(elected, Elected):
            states[partition] = PartitionState(elected.leader, 0, elected.isr, controller_epoch)
    return states


def topic_operations(plan: TopicPlan, *, config_exists: bool) -> Iterator[Operation]:
    """The writes that create a topic, in order. `config_exists`: a configuration was left behind by a topic of the
    same name, or was written before the topic; the new one replaces it."""
    topic = plan.assignment.topic
    config = ConfigEntity(plan.config).encode()
    yield SetData(topic_config_path(topic), config) if config_exists else Create(topic_config_path(topic), config)
    yield Create(topic_path(topic), plan.assignment.encode())
    yield Create(topic_partitions_path(topic))
    yield from state_operations(topic, plan.states)


def state_operations(topic: str, states: Mapping[int, PartitionState]) -> Iterator[Operation]:
    """The writes that give partitions their first state; their topic's `partitions` node exists."""
    for partition, state in states.items():
        topic_partition = TopicPartition(topic, partition)
        yield Create(partition_path(topic_partition))
        yield Create(partition_state_path(topic_partition), state.encode())


# ------------------------------------------------------------------------------------------------ growth and deletion


def plan_partitions(
    wish: PartitionsRequest, context: ControllerContext, *, most: int = MAX_PARTITIONS_PER_REQUEST
) -> PartitionsPlan | Refusal:
    """The partitions that a client wants a topic to have more, or why they cannot be had. `most`: how many its request
    may still add."""
    try:
        return _plan_partitions(wish, context, most)
    except RequestError as refused:
        return Refusal(refused.code, refused.message)


def _plan_partitions(wish: PartitionsRequest, context: ControllerContext, most: int) -> PartitionsPlan:
    known = context.topics.get(wish.topic)
    if known is None or wish.topic in context.topics_to_delete:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wish.topic}' does not exist.")
    if known.assignment.adding_replicas or known.assignment.removing_replicas:
        raise RequestError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{wish.topic}'.",
        )
    existing = len(known.assignment.partitions)
    if wish.topic in COORDINATORS_TOPICS:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{wish.topic}' must keep its {existing} partitions: brokers place groups and transactional ids by "
            "their number, and would find nothing of them with another one.",
        )
    increase = wish.partition_count - existing
    if increase < 0:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {existing} partitions, which is higher than the requested {wish.partition_count}.",
        )
    if increase == 0:
        raise RequestError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partitions.")
    if increase > most:
        raise RequestError(*_too_many(increase + MAX_PARTITIONS_PER_REQUEST - most))
    added = _added_replicas(wish, context, known, existing, increase)
    assignment = TopicAssignment(wish.topic, {**known.assignment.partitions, **added}, known.assignment.topic_id)
    states = initial_states(added, set(context.electable_broker_ids()), context.epoch)
    return PartitionsPlan(known, assignment, tuple(added), states)


def _added_replicas(
    wish: PartitionsRequest, context: ControllerContext, known: KnownTopic, existing: int, increase: int
) -> Assignment:
    first_replicas = known.replicas(0)
    if wish.assignment is None:
        return added_partitions(context.broker_racks(), first_replicas, existing, increase)
    if len(wish.assignment) != increase:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Increasing the number of partitions by {increase} but {len(wish.assignment)} assignments provided.",
        )
    numbered = {existing + index: replicas for index, replicas in enumerate(wish.assignment)}
    checked = _checked(numbered, context, first_partition=existing)
    if len(checked[existing]) != len(first_replicas):
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Inconsistent replication factor between partitions, partition 0 has {len(first_replicas)} while "
            f"partitions [{', '.join(map(str, checked))}] have replication factors "
            f"[{', '.join(str(len(replicas)) for replicas in checked.values())}], respectively.",
        )
    return checked


def partitions_operations(plan: PartitionsPlan) -> Iterator[Operation]:
    """The writes that grow a topic, in order."""
    topic = plan.assignment.topic
    yield SetData(topic_path(topic), plan.assignment.encode(), plan.known.version)
    yield from state_operations(topic, plan.states)


class TopicZNodes(NamedTuple):
    """Which znodes of a topic exist: numbers of the partitions with a state node, and of those with a node at all; the
    parent of these, the topic's configuration, its own znode, and the mark of its deletion."""

    state_partitions: Sequence[int]
    partition_nodes: Sequence[int]
    partitions_node: bool
    config: bool
    topic_node: bool = True
    mark: bool = True


def deletion_operations(topic: str, found: TopicZNodes) -> Iterator[Operation]:
    """The writes that remove what there is of a topic, children before parents and the mark of its deletion last."""
    for partition in found.state_partitions:
        yield Delete(partition_state_path(TopicPartition(topic, partition)))
    for partition in found.partition_nodes:
        yield Delete(partition_path(TopicPartition(topic, partition)))
    if found.partitions_node:
        yield Delete(topic_partitions_path(topic))
    if found.topic_node:
        yield Delete(topic_path(topic))
    if found.config:
        yield Delete(topic_config_path(topic))
    if found.mark:
        yield Delete(delete_topic_path(topic))


def guarded_multis(operations: Iterable[Operation], epoch_version: int) -> Iterator[list[Operation]]:
    """The operations in as few multis as they fit, each behind a check that the controller is still this one."""
    guard = Check(CONTROLLER_EPOCH_PATH, epoch_version)
    batch: list[Operation] = [guard]
    size_bytes = request_size_bytes(guard)
    for operation in operations:
        operation_bytes = request_size_bytes(operation)
        if len(batch) > 1 and size_bytes + operation_bytes > MAX_MULTI_BYTES:
            yield batch
            batch, size_bytes = [guard], request_size_bytes(guard)
        batch.append(operation)
        size_bytes += operation_bytes
    if len(batch) > 1:
        yield batch
