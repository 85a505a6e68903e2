"""Adoption: log directories of an earlier life are taken into a ZooKeeper that does not know their topics.

The earlier life was Apache Kafka's, in ZooKeeper mode (meta.properties version 0) or KRaft mode (version 1, and a
__cluster_metadata-0 that is left alone), or a kavka whose ZooKeeper directory was lost. What the directories say
themselves is taken over; what only the lost metadata said is not known any more:

| found in the log directories          | registered in ZooKeeper                                                  |
|---------------------------------------|--------------------------------------------------------------------------|
| meta.properties: cluster.id           | /cluster/id                                                              |
| meta.properties: broker.id, node.id   | must be this broker's                                                    |
| TOPIC-N with a log                    | the topic with partitions 0..highest N, each with this broker as replica |
| TOPIC-N, an empty directory           | a partition that nothing was written to yet, if TOPIC-0 .. N-1 are there |
| a gap in the numbers                  | a partition all the same; it is empty, and one log line tells            |
| partition.metadata: topic id          | the topic's id; drawn where no partition has one (Kafka before 2.8)      |
| leader-epoch-checkpoint               | the last one is the leader epoch: the same leader goes on with its log   |
| -                                     | settings: what keeps all records (KEEP_ALL); __consumer_offsets as made  |

Settings: the defaults, except for retention. Kafka's default removes what is older than a week, within minutes of the
start; a topic whose owner had set another limit would lose its records for good. So adopted topics keep everything
until somebody sets a limit, and a log line says so.

Decides which topics are there, and whether they are to be taken in (`plan`); the flow (`adopt`) only reads and creates.
Must not know how logs are loaded. A broker does this alone, for a cluster of one: other brokers' replicas are not seen.

When    A tree without /cluster/id has served nobody. A tree without topics, whose cluster id differs from that of the
        directories, has served nobody who is still served: it gives way. In all other cases what ZooKeeper knows holds,
        and logs that no topic claims are strays, which the log manager names and leaves alone: a topic that was deleted
        does not come back.

Invariants
  I1  Nothing in a log directory is changed here, and none is read that another broker has locked.
  I2  /cluster/id comes last: the tree that has it is complete. An adoption that was interrupted is done again, and
      keeps what it has already created.
  I3  No leader epoch goes back. Nor is it raised, because Kafka could not have the directory back: Kafka in ZooKeeper
      mode would continue with its old epoch, and Java's consumers wait for ever for the epoch in which an offset was
      committed.
  I4  All directories or none: if one cannot be read, nothing is adopted, because a topic would lose partitions.
  I5  Logs with records in a message format before 2 are refused: loading them would take these records for damage.

Source: KIP-516 (topic ids), Kafka's LogManager and MetaPropertiesEnsemble.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.broker.membership.registration import MAX_ATTEMPTS
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kavka.config.broker import BrokerConfig
from kavka.controller.decide.topic_plans import (
    CLUSTER_METADATA_TOPIC,
    MAX_MULTI_BYTES,
    MAX_PARTITIONS_PER_REQUEST,
    TopicPlan,
    topic_name_error,
    topic_operations,
)
from kavka.errors import (
    ConfigError,
    CorruptRecords,
    DamagedMetadata,
    InconsistentMetadata,
    LogDirectoryLocked,
    LogsContradict,
    StorageError,
)
from kavka.filesystem import File, FileSystem
from kavka.log.decide.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    MalformedCheckpoint,
    MetaProperties,
    parse_epochs,
    parse_meta_properties,
    parse_partition_metadata,
)
from kavka.log.decide.directory_names import parse_directory_name
from kavka.log.record_scan import scan_headers
from kavka.log.segment import LOG_SUFFIX
from kavka.logger import Logger
from kavka.model import NO_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from kavka.records.batch import MAGIC
from kavka.zookeeper.port import Create, Delete, NodeExists, NoNode, Operation, OutcomeUnknown, ZooKeeper
from kavka.zookeeper.port import request_size_bytes as size_bytes
from kavka.zookeeper.znode_paths import CLUSTER_ID_PATH, TOPICS_PATH, topic_path
from kavka.zookeeper.znodes import ClusterId, MalformedZNode, PartitionState, TopicAssignment, random_uuid

logger = Logger(__name__)

MAX_PARTITIONS: Final = MAX_PARTITIONS_PER_REQUEST
"""Partitions of a topic that is adopted; a directory with a higher number is left alone, as a date is no partition."""
MISSING_NAMED: Final = 20
"""Partitions without a log that the line about them names, of one topic."""
KEEP_ALL: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic whose own are not known."""
COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
_INITIAL_CONTROLLER_EPOCH = 0
_MAX_LEADER_EPOCH = 2**31 - 1
"""What a batch and a znode can hold; a checkpoint that says more is no checkpoint."""
_OFFSET_DIGITS = 20
_MAGIC_POSITION = 16
"""Where the first batch or message of a segment says its format: the same place in all of them."""


class FoundPartition(NamedTuple):
    """A log in a log directory. `leader_epoch` is the last one that it knows, -1 for none.

    A directory that is not written yet may be no partition at all, but a date in somebody's name for a directory.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    leader_epoch: LeaderEpoch
    is_written: bool = True


class FoundDirectory(NamedTuple):
    """A log directory; `identity` is None if there is no meta.properties."""

    path: str
    identity: MetaProperties | None
    partitions: tuple[FoundPartition, ...]


class FoundTopic(NamedTuple):
    """A topic to be registered. `leader_epochs` has the partitions with a log; `partition_count` counts all."""

    name: str
    topic_id: uuid.UUID | None
    partition_count: int
    leader_epochs: Mapping[int, LeaderEpoch]

    @property
    def missing(self) -> list[int]:
        """The partitions without a log."""
        return [partition for partition in range(self.partition_count) if partition not in self.leader_epochs]


class Plan(NamedTuple):
    """What is to be registered. `cluster_id` is None if no directory says."""

    cluster_id: str | None
    topics: tuple[FoundTopic, ...]


class Claims:
    """The partitions that have a replica on this broker; a log of any other is a stray.

    A partition may have been moved away from a broker that was down; nobody informs it when it is back.
    """

    def __init__(self, broker_id: int, topics: Mapping[str, TopicAssignment | None]) -> None:
        """None means that the topic's znode could not be read. Then every partition counts as the topic's, with a
        replica here."""
        self._broker_id = broker_id
        self._topics = topics

    @staticmethod
    async def read(zookeeper: ZooKeeper, broker_id: int, topics: Sequence[str]) -> Claims:
        """What ZooKeeper says of these topics. Raises ZooKeeperError."""
        nodes = await zookeeper.get_many([topic_path(name) for name in topics])
        assignments = {name: _assignment(name, node[0]) for name, node in zip(topics, nodes, strict=True) if node}
        return Claims(broker_id, assignments)

    def any_here(self) -> bool:
        """Whether any partition has a replica here. Looks at all of them."""
        return any(
            assignment is None or any(self._broker_id in replicas for replicas in assignment.partitions.values())
            for assignment in self._topics.values()
        )

    def include(self, partition: TopicPartition) -> bool:
        """Whether a topic has this partition, with a replica here."""
        if partition.topic not in self._topics:
            return False
        assignment = self._topics[partition.topic]
        return assignment is None or self._broker_id in assignment.partitions.get(partition.partition, ())


def _assignment(topic: str, data: bytes | None) -> TopicAssignment | None:
    try:
        return TopicAssignment.decode(topic, data)
    except MalformedZNode:
        return None  # The controller tells of it.


# ---------------------------------------------------------------------------------------------------------- decisions


def plan(directories: Sequence[FoundDirectory], broker_id: int) -> Plan:
    """What is to be registered of the directories, whose metadata is lost. Topics are sorted by name.

    Raises ConfigError if they are another broker's, InconsistentMetadata where they contradict each other.
    """
    cluster_ids: dict[str, str] = {}
    for directory in directories:
        if directory.identity is None:
            continue
        path = f"{directory.path}/{META_PROPERTIES}"
        found = directory.identity.broker_id
        if found is not None and found != broker_id:
            raise ConfigError(
                f"{path} belongs to broker {found}, and this broker is {broker_id}: start it with `--set "
                f"broker.id={found}` to take over its topics, or name another directory in log.dirs"
            )
        if directory.identity.cluster_id is not None:
            cluster_ids.setdefault(directory.identity.cluster_id, path)
    if len(cluster_ids) > 1:
        (first, first_path), (second, second_path) = list(cluster_ids.items())[:2]
        raise InconsistentMetadata(
            second_path, f"cluster.id is {second}, and {first} in {first_path}: they cannot both be in log.dirs"
        )
    return Plan(next(iter(cluster_ids), None), tuple(_topics(directories)))


def is_unknown(planned: Plan, *, cluster_id: str | None, topics: Sequence[str]) -> bool:
    """True if ZooKeeper, with this cluster id and these topics, knows nothing of the plan (see "When")."""
    return cluster_id is None or (not topics and planned.cluster_id not in (None, cluster_id))


def is_partition_directory(name: str, files: Sequence[str]) -> bool:
    """Whether a directory of this name with these files may be the log of a partition that a topic can have."""
    partition = parse_directory_name(name)
    return (
        partition is not None
        and name == str(partition)
        and partition.topic != CLUSTER_METADATA_TOPIC
        and topic_name_error(partition.topic) is None
        and partition.partition < MAX_PARTITIONS
        and (not files or any(file == PARTITION_METADATA or _is_segment(file) for file in files))
    )


def _is_segment(file: str) -> bool:
    base_offset = file.removesuffix(LOG_SUFFIX)
    return base_offset != file and len(base_offset) == _OFFSET_DIGITS and base_offset.isdigit()


def settings_of(topic: str, config: BrokerConfig) -> Mapping[str, str]:
    """The settings of a topic whose own are not known."""
    if topic == GROUP_METADATA_TOPIC:
        return offsets_topic_settings(config)
    if topic == SHARE_STATE_TOPIC:
        return share_topic_settings(config)
    return transaction_topic_settings(config) if topic == TRANSACTION_STATE_TOPIC else KEEP_ALL


def offsets_topic_settings(config: BrokerConfig) -> Mapping[str, str]:
    """The settings that `__consumer_offsets` is made with."""
    return {
        **COMPACTED,
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }


def transaction_topic_settings(config: BrokerConfig) -> Mapping[str, str]:
    """The settings that `__transaction_state` is made with."""
    return {
        **COMPACTED,
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.transaction_state_log_min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


def share_topic_settings(config: BrokerConfig) -> Mapping[str, str]:
    """The settings that `__share_group_state` is made with."""
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


def operations(
    topic: FoundTopic, settings: Mapping[str, str], broker_id: BrokerId, drawn_id: uuid.UUID
) -> Iterator[Operation]:
    """The writes that register a topic, in order; all of them create. `drawn_id` is for a topic without an id."""
    states = {}
    for number in range(topic.partition_count):
        leader_epoch = max(topic.leader_epochs.get(number, NO_EPOCH), 0)
        states[number] = PartitionState(broker_id, leader_epoch, (broker_id,), _INITIAL_CONTROLLER_EPOCH)
    assignment = TopicAssignment(topic.name, dict.fromkeys(states, (broker_id,)), topic.topic_id or drawn_id)
    return topic_operations(TopicPlan(assignment, settings, states), config_exists=False)


def _topics(directories: Sequence[FoundDirectory]) -> Iterator[FoundTopic]:
    homes: dict[TopicPartition, str] = {}
    logs: dict[str, list[FoundPartition]] = {}
    for directory in directories:
        for found in directory.partitions:
            home = homes.setdefault(found.topic_partition, directory.path)
            if home != directory.path:
                raise LogsContradict(
                    f"{directory.path}/{found.topic_partition}",
                    f"{found.topic_partition} is also in {home}: remove one of the two",
                )
            logs.setdefault(found.topic_partition.topic, []).append(found)
    for name in sorted(logs):
        count = _partition_count(logs[name])
        if count:
            yield _topic(name, count, [log for log in logs[name] if log.topic_partition.partition < count], homes)


def _partition_count(logs: Sequence[FoundPartition]) -> int:
    """One more than the highest number of a written log, plus the directories that follow without a gap."""
    unwritten = {log.topic_partition.partition for log in logs if not log.is_written}
    count = max((log.topic_partition.partition + 1 for log in logs if log.is_written), default=0)
    while count in unwritten:
        count += 1
    return count


def _topic(
    name: str, partition_count: int, logs: Sequence[FoundPartition], homes: Mapping[TopicPartition, str]
) -> FoundTopic:
    with_id = [log for log in logs if log.topic_id is not None]
    for log in with_id:
        if log.topic_id != with_id[0].topic_id:
            raise LogsContradict(
                f"{homes[log.topic_partition]}/{log.topic_partition}",
                f"belongs to another topic {name!r} than "
                f"{homes[with_id[0].topic_partition]}/{with_id[0].topic_partition}, their topic ids differ: move "
                "away the logs of the deleted topic",
            )
    return FoundTopic(
        name,
        with_id[0].topic_id if with_id else None,
        partition_count,
        {log.topic_partition.partition: log.leader_epoch for log in logs},
    )


# --------------------------------------------------------------------------------------------------------------- flow


async def adopt(
    zookeeper: ZooKeeper, filesystem: FileSystem, config: BrokerConfig, broker_id: BrokerId, rng: random.Random
) -> Plan | None:
    """Registers what lies in the log directories, if ZooKeeper knows nothing of it; what was registered, or None.

    Call it before /cluster/id is created and after the persistent paths are. Raises ConfigError, StorageError
    (LogDirectoryLocked, InconsistentMetadata), ZooKeeperError; the next call goes on then.
    """
    cluster_id = await _cluster_id(zookeeper)
    topics = await zookeeper.children(TOPICS_PATH)
    if cluster_id is not None and topics:
        return None
    planned = plan(survey(filesystem, config.log_directories), broker_id)
    if not is_unknown(planned, cluster_id=cluster_id, topics=topics):
        return None
    if cluster_id is not None:
        await _delete_if_there(zookeeper, CLUSTER_ID_PATH)
    for topic in planned.topics:
        drawn = random_uuid(rng.randbytes(16))
        await _create_missing(zookeeper, operations(topic, settings_of(topic.name, config), broker_id, drawn))
    if planned.cluster_id is not None:
        await _create_missing(zookeeper, [Create(CLUSTER_ID_PATH, ClusterId(planned.cluster_id).encode())])
    _log_adopted(planned)
    return planned


def survey(filesystem: FileSystem, log_directories: Sequence[str]) -> list[FoundDirectory]:
    """What lies in those of the directories that exist. Raises StorageError if a partition cannot be read, or a
    directory beside one that has partitions."""
    found: list[FoundDirectory] = []
    unreadable: StorageError | None = None
    for path in log_directories:
        if not filesystem.exists(path):
            continue
        try:
            lock = filesystem.lock(f"{path}/{LOCK}")
            names = filesystem.list_directories(path)
        except LogDirectoryLocked:
            raise
        except StorageError as error:
            unreadable = unreadable or error
            continue
        partitions = [_partition(filesystem, path, name) for name in names]
        found.append(
            FoundDirectory(path, _identity(filesystem, path), tuple(one for one in partitions if one is not None))
        )
        lock.close()
    if unreadable is not None and any(directory.partitions for directory in found):
        raise unreadable
    return found


def recorded_broker_id(filesystem: FileSystem, log_directories: Sequence[str]) -> int | None:
    """The broker id in the first meta.properties that has one. The start will report what cannot be read."""
    for path in log_directories:
        try:
            identity = _identity(filesystem, path)
        except StorageError:
            continue
        if identity is not None and identity.broker_id is not None:
            return identity.broker_id
    return None


def _identity(filesystem: FileSystem, path: str) -> MetaProperties | None:
    file_path = f"{path}/{META_PROPERTIES}"
    try:
        return parse_meta_properties(filesystem.read(file_path))
    except FileNotFoundError:
        return None
    except MalformedCheckpoint as error:
        raise DamagedMetadata(file_path, f"damaged: {error}") from error


def _partition(filesystem: FileSystem, home: str, name: str) -> FoundPartition | None:
    partition = parse_directory_name(name)
    path = f"{home}/{name}"
    if partition is None:
        return None
    files = filesystem.list_files(path)
    if not is_partition_directory(name, files):
        return None
    _require_readable(filesystem, path, files)
    epoch = _checkpointed_epoch(filesystem, path)
    return FoundPartition(
        partition,
        _topic_id(filesystem, path),
        _recorded_epoch(filesystem, path, files) if epoch is None else epoch,
        bool(files),
    )


def _require_readable(filesystem: FileSystem, path: str, files: Iterable[str]) -> None:
    """Raises StorageError if a segment begins with a message format that kavka cannot read."""
    for name in filter(_is_segment, files):
        file = filesystem.open(f"{path}/{name}", read_only=True)
        magic = file.read_at(_MAGIC_POSITION, 1)
        file.close()
        if magic and magic[0] < MAGIC:
            raise StorageError(
                f"{path}/{name}",
                f"has records in message format {magic[0]}, of Kafka before 0.11, but only format {MAGIC} can be read: "
                "move the partition's directory away to start without it",
            )


def _topic_id(filesystem: FileSystem, path: str) -> uuid.UUID | None:
    try:
        return parse_partition_metadata(filesystem.read(f"{path}/{PARTITION_METADATA}"))
    except FileNotFoundError:
        return None
    except MalformedCheckpoint as error:
        logger.warning("topic id unknown", path=f"{path}/{PARTITION_METADATA}", why=str(error))
        return None


def _checkpointed_epoch(filesystem: FileSystem, path: str) -> LeaderEpoch | None:
    """The last epoch in the checkpoint; None if it is missing, empty or malformed."""
    try:
        entries = parse_epochs(filesystem.read(f"{path}/{LEADER_EPOCH_CHECKPOINT}"))
    except (FileNotFoundError, MalformedCheckpoint):
        return None
    last = max((entry.epoch for entry in entries), default=None)
    return None if last is None or last > _MAX_LEADER_EPOCH else last


def _recorded_epoch(filesystem: FileSystem, path: str, files: Iterable[str]) -> LeaderEpoch:
    """The last epoch that records were written in: epochs never fall, so that of the last batch that can be read."""
    for name in sorted(filter(_is_segment, files), reverse=True):
        file = filesystem.open(f"{path}/{name}", read_only=True)
        epoch = _last_epoch(file)
        file.close()
        if epoch != NO_EPOCH:
            return epoch
    return NO_EPOCH


def _last_epoch(file: File) -> LeaderEpoch:
    epoch = NO_EPOCH
    try:
        for _, header in scan_headers(file, 0, file.size()):
            epoch = max(epoch, header.partition_leader_epoch)
    except CorruptRecords:
        pass  # A torn end: recovery cuts it off.
    return epoch


async def _cluster_id(zookeeper: ZooKeeper) -> str | None:
    try:
        data, _stat = await zookeeper.get(CLUSTER_ID_PATH)
    except NoNode:
        return None
    return ClusterId.decode(data).id


async def _delete_if_there(zookeeper: ZooKeeper, path: str) -> None:
    for attempt in range(MAX_ATTEMPTS):
        try:
            await zookeeper.multi([Delete(path)])
        except NoNode:
            return
        except OutcomeUnknown:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            continue
        return


async def _create_missing(zookeeper: ZooKeeper, wanted: Iterable[Operation]) -> None:
    """Creates those of the nodes that do not exist, in multis that fit."""
    todo = list(wanted)
    for attempt in range(MAX_ATTEMPTS):
        nodes = await zookeeper.get_many([operation.path for operation in todo])
        todo = [operation for operation, node in zip(todo, nodes, strict=True) if node is None]
        try:
            for batch in _batches(todo):
                await zookeeper.multi(batch)
        except (NodeExists, OutcomeUnknown):
            if attempt == MAX_ATTEMPTS - 1:
                raise
            continue
        return


def _batches(todo: Sequence[Operation]) -> Iterator[list[Operation]]:
    batch: list[Operation] = []
    total_bytes = 0
    for operation in todo:
        if batch and total_bytes + size_bytes(operation) > MAX_MULTI_BYTES:
            yield batch
            batch, total_bytes = [], 0
        batch.append(operation)
        total_bytes += size_bytes(operation)
    if batch:
        yield batch


def _log_adopted(planned: Plan) -> None:
    if planned.topics:
        logger.warning(
            "topics adopted",
            topics=len(planned.topics),
            partitions=sum(topic.partition_count for topic in planned.topics),
            cluster_id=planned.cluster_id,
            why="the log directories have them, but ZooKeeper had no topic",
            next_step="they keep all records, because their settings are unknown: set retention.ms for those that "
            "may lose old ones",
        )
    for topic in planned.topics:
        missing = topic.missing
        if missing:
            logger.warning(
                "partitions without a log",
                topic=topic.name,
                count=len(missing),
                partitions=missing[:MISSING_NAMED],
                why="no log directory has them; they start empty",
            )
