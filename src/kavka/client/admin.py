"""The admin client: topics, partitions, configurations, records, the cluster, log directories; groups by `groups`.

Decides which broker each operation goes to (the controller, a partition's leader, one broker or any) and when it is
retried. Must not know how answers are shown.

Operations on several things at once return the failures, by name, as `RequestError`s. An empty dict means that
everything was done. An operation that raises `ConnectionFailed` may have been carried out.

Source: Kafka's Admin interface; KIP-4, KIP-107 (delete records), KIP-113 (log directories), KIP-195 (partitions),
KIP-339 (incremental configurations), KIP-455 (reassignments), KIP-460 (elections), KIP-584
(features), KIP-700 (describe cluster), KIP-860 (replication factors).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kavka import __version__
from kavka.client.answers import error_of, raise_for
from kavka.client.cluster import Broker, Cluster, TopicMetadata, by_leader
from kavka.client.group_admin import GroupAdmin
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kavka.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kavka.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kavka.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.api_versions_response import ApiVersionsResponse
from kavka.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kavka.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kavka.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kavka.protocol.messages.create_topics_response import CreateTopicsResponse
from kavka.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kavka.protocol.messages.delete_records_response import DeleteRecordsResponse
from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kavka.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kavka.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kavka.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kavka.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kavka.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kavka.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kavka.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.metadata_response import MetadataResponse
from kavka.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kavka.protocol.messages.update_features_response import UpdateFeaturesResponse

OPERATION_TIMEOUT_MS = 30_000
"""How long the broker may take to carry out a request."""
HIGHEST_DELETE_TOPICS = 5
"""From version 6 on topics are named in another form, which adds deletion by id."""
UP_TO_HIGH_WATERMARK = -1
"""Offset for `delete_records` that means all present records."""


class ResourceType(IntEnum):
    """Kinds of things that have configurations."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigOperation(IntEnum):
    """What `alter_configs` does with a setting; the last two are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """One thing that has a configuration. The name of a broker is its id; "" means the default of all brokers."""

    resource_type: ResourceType
    name: str


class ConfigSynonym(NamedTuple):
    """One place that a setting may take its value from, in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting with its current value. `value` is None if it is sensitive or has none."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None
    kind: int = 0
    """Kafka's code of the type, as `kavka.config.setting.Type` has it; 0 where the broker does not say."""

    @property
    def is_default(self) -> bool:
        return self.source in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)


class ConfigChange(NamedTuple):
    """What to do with one setting. `value` is None for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class NewTopic(NamedTuple):
    """A topic to create. -1 means the broker's default. `assignments` gives each partition's replicas."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignments: Sequence[Sequence[int]] = ()


class ClusterDescription(NamedTuple):
    cluster_id: str | None
    controller_id: int
    brokers: tuple[Broker, ...]


class ReplicaInfo(NamedTuple):
    """One partition's replica in a log directory."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    """One log directory of one broker. Sizes are -1 if the broker does not report them."""

    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaInfo, ...]
    is_cordoned: bool = False


class LogDirectorySize(NamedTuple):
    """One log directory of one broker, and the bytes of all replicas in it."""

    path: str
    error: ErrorCode
    size_bytes: int


class ElectionType(IntEnum):
    """Which replica may lead: only the preferred one, or, if there is no leader, one that is not in sync."""

    PREFERRED = 0
    UNCLEAN = 1


class FeatureUpdateKind(IntEnum):
    """How the level of a feature may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureDescription(NamedTuple):
    """The cluster's features: the levels in force above 0, and the range of each that a broker supports. Both are
    empty for brokers without features. `epoch` rises with every change."""

    epoch: int
    levels: Mapping[str, int]
    supported: Mapping[str, tuple[int, int]]


class Reassignment(NamedTuple):
    """A partition that moves to other replicas: all its present replicas, those being added and those being
    removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class Admin:
    """Administration of one cluster, over its connections."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.groups = GroupAdmin(cluster)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, RequestError]:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics], timeout_ms=OPERATION_TIMEOUT_MS, validate_only=validate_only
        )

        async def create() -> dict[str, RequestError]:
            answer = await self._cluster.ask(
                ApiKey.CREATE_TOPICS, request, CreateTopicsResponse, to_controller=True, timeout_ms=_patience_ms()
            )
            return _failures((t.name, t.error_code, t.error_message) for t in answer.topics)

        return await self._cluster.retry(create, what="create topics")

    async def delete_topics(self, names: Sequence[str]) -> dict[str, RequestError]:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=OPERATION_TIMEOUT_MS)

        async def delete() -> dict[str, RequestError]:
            answer = await self._cluster.ask(
                ApiKey.DELETE_TOPICS,
                request,
                DeleteTopicsResponse,
                to_controller=True,
                highest=HIGHEST_DELETE_TOPICS,
                timeout_ms=_patience_ms(),
            )
            return _failures((t.name or "", t.error_code, t.error_message) for t in answer.responses)

        return await self._cluster.retry(delete, what="delete topics")

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, RequestError]:
        """Raises each topic's number of partitions to the given one."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=n, count=c, assignments=None) for n, c in counts.items()],
            timeout_ms=OPERATION_TIMEOUT_MS,
            validate_only=validate_only,
        )

        async def create() -> dict[str, RequestError]:
            answer = await self._cluster.ask(
                ApiKey.CREATE_PARTITIONS,
                request,
                CreatePartitionsResponse,
                to_controller=True,
                timeout_ms=_patience_ms(),
            )
            return _failures((t.name, t.error_code, t.error_message) for t in answer.results)

        return await self._cluster.retry(create, what="create partitions")

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicMetadata]:
        """All topics, by name."""
        found = await self._describe(None)
        return [topic for topic in found if include_internal or not topic.is_internal]

    async def describe_topics(self, names: Sequence[str]) -> list[TopicMetadata]:
        """These topics, by name. Raises `RequestError` if one does not exist."""
        return await self._cluster.retry(
            lambda: self._describe(names),
            what="describe topics",
            patience_ms={ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: self._cluster.settings.topic_propagation_ms},
        )

    async def describe_cluster(self) -> ClusterDescription:
        async def describe() -> ClusterDescription:
            answer = await self._cluster.ask(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), DescribeClusterResponse)
            raise_for(answer.error_code, "cluster", answer.error_message)
            brokers = tuple(Broker(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers)
            return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(sorted(brokers)))

        return await self._cluster.retry(describe, what="describe the cluster")

    async def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """Every setting of each resource, by name. Raises `RequestError` if a resource does not exist."""

        async def describe(node_id: int | None, group: Sequence[ConfigResource]) -> DescribeConfigsResponse:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=r.resource_type, resource_name=r.name, configuration_keys=None
                    )
                    for r in group
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            answer = await self._cluster.ask(ApiKey.DESCRIBE_CONFIGS, request, DescribeConfigsResponse, node_id=node_id)
            for result in answer.results:
                kind = "group " if result.resource_type == ResourceType.GROUP else ""
                raise_for(result.error_code, f"configuration of {kind}{result.resource_name!r}", result.error_message)
            return answer

        found: dict[ConfigResource, list[ConfigEntry]] = {}
        for node_id, group in _by_broker(resources).items():
            answer = await self._cluster.retry(
                lambda node_id=node_id, group=group: describe(node_id, group),  # type: ignore[misc]  # typed above
                what="describe configurations",
                patience_ms={ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: self._cluster.settings.topic_propagation_ms},
            )
            for result in answer.results:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                found[resource] = sorted(_entry(config) for config in result.configs)
        return found

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, RequestError]:
        """Changes the given settings and leaves the others unchanged."""
        failures: dict[ConfigResource, RequestError] = {}
        for node_id, group in _by_broker(list(changes)).items():
            resources = [_altered(resource, changes[resource]) for resource in group]
            request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
            answer = await self._cluster.retry(
                lambda node_id=node_id, request=request: self._cluster.ask(  # type: ignore[misc]  # typed above
                    ApiKey.INCREMENTAL_ALTER_CONFIGS, request, IncrementalAlterConfigsResponse, node_id=node_id
                ),
                what="alter configurations",
            )
            for result in answer.responses:
                if result.error_code:
                    resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                    failures[resource] = RequestError(error_of(result.error_code), result.error_message or "")
        return failures

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes all records before the given offset of each partition. Returns the new log start offsets.

        Raises `RequestError` if a partition refuses. Others may be done by then.
        """
        for topic in {partition.topic: None for partition in before}:
            await self._cluster.topic(topic)
        done: dict[TopicPartition, int] = {}

        async def delete() -> None:
            missing = [partition for partition in before if partition not in done]
            for node_id, group in by_leader(self._cluster, missing).items():
                if node_id < 0:
                    await self._cluster.refresh()
                    raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{group[0]} has no leader")
                answer = await self._cluster.ask(
                    ApiKey.DELETE_RECORDS,
                    _delete_request({partition: before[partition] for partition in group}),
                    DeleteRecordsResponse,
                    node_id=node_id,
                    timeout_ms=_patience_ms(),
                )
                for topic in answer.topics:
                    for result in topic.partitions:
                        name = TopicPartition(topic.name, result.partition_index)
                        if error_of(result.error_code).retriable:
                            await self._cluster.refresh_quietly()
                        raise_for(result.error_code, f"delete records of {name}")
                        done[name] = result.low_watermark

        await self._cluster.retry(delete, what="delete records")
        return done

    async def describe_log_dirs(self, broker_ids: Iterable[int] | None = None) -> dict[int, list[LogDirectory]]:
        """The log directories of these brokers, or of all."""
        if broker_ids is None:
            await self._cluster.refresh([])
            broker_ids = sorted(self._cluster.brokers)
        ids = list(broker_ids)
        return dict(zip(ids, await asyncio.gather(*map(self._log_dirs, ids)), strict=True))

    async def move_replicas(
        self, broker_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, RequestError]:
        """Makes a broker move its replicas of these partitions to others of its log directories. Returns the failures.

        On return the moves have begun. `describe_log_dirs` shows the replicas that are still moving.
        """
        by_path: dict[str, list[TopicPartition]] = {}
        for partition, path in directories.items():
            by_path.setdefault(path, []).append(partition)
        dirs = [
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=list(numbers))
                    for name, numbers in _by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
        answer = await self._cluster.ask(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            AlterReplicaLogDirsRequest(dirs=dirs),
            AlterReplicaLogDirsResponse,
            node_id=broker_id,
        )
        failures: dict[TopicPartition, RequestError] = {}
        for result in answer.results:
            for each in result.partitions:
                if each.error_code:
                    moved = TopicPartition(result.topic_name, each.partition_index)
                    error = error_of(each.error_code)
                    failures[moved] = RequestError(error, f"{moved}: {error.name}")
        return failures

    async def describe_features(self) -> FeatureDescription:
        """The levels in force, and what the controller supports."""

        async def describe() -> FeatureDescription:
            request = ApiVersionsRequest(client_software_name="kavka", client_software_version=__version__)
            answer = await self._cluster.ask(ApiKey.API_VERSIONS, request, ApiVersionsResponse, to_controller=True)
            raise_for(answer.error_code, "features")
            return FeatureDescription(
                answer.finalized_features_epoch,
                {each.name: each.max_version_level for each in answer.finalized_features},
                {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
            )

        return await self._cluster.retry(describe, what="describe features")

    async def update_features(
        self, levels: Mapping[str, int], kind: FeatureUpdateKind, *, validate_only: bool = False
    ) -> dict[str, RequestError]:
        """Changes the levels of features. 0 with a downgrade turns a feature off. Returns the refusals."""

        def request(version: int) -> UpdateFeaturesRequest:
            if version < 1 and (validate_only or kind is FeatureUpdateKind.UNSAFE_DOWNGRADE):
                raise RequestError(ErrorCode.UNSUPPORTED_VERSION, "the broker is too old for this operation (KIP-778)")
            return UpdateFeaturesRequest(
                timeout_ms=OPERATION_TIMEOUT_MS,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=level,
                        upgrade_type=kind,
                        allow_downgrade=version < 1 and kind is not FeatureUpdateKind.UPGRADE,
                    )
                    for name, level in levels.items()
                ],
                validate_only=validate_only,
            )

        async def update() -> dict[str, RequestError]:
            answer = await self._cluster.ask(
                ApiKey.UPDATE_FEATURES,
                request,
                UpdateFeaturesResponse,
                to_controller=True,
                timeout_ms=_patience_ms(),
            )
            raise_for(answer.error_code, "features", answer.error_message)
            return _failures((each.feature, each.error_code, each.error_message) for each in answer.results)

        return await self._cluster.retry(update, what="update features")

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, RequestError | None]:
        """Elects leaders for these partitions, or wherever an election is needed. The result is None for an elected
        partition.

        A partition that needs no election has ELECTION_NOT_NEEDED. It is left out if no partitions were given.
        """
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if partitions is None
            else [TopicPartitions(topic=name, partitions=numbers) for name, numbers in _by_topic(partitions).items()],
            timeout_ms=OPERATION_TIMEOUT_MS,
        )

        async def elect() -> dict[TopicPartition, RequestError | None]:
            answer = await self._cluster.ask(
                ApiKey.ELECT_LEADERS, request, ElectLeadersResponse, to_controller=True, timeout_ms=_patience_ms()
            )
            raise_for(answer.error_code, "elections")
            outcomes: dict[TopicPartition, RequestError | None] = {}
            for topic in answer.replica_election_results:
                for each in topic.partition_result:
                    name = TopicPartition(topic.topic, each.partition_id)
                    outcomes[name] = _failure(each.error_code, each.error_message, str(name))
            return outcomes

        return await self._cluster.retry(elect, what="elect leaders")

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, RequestError]:
        """Starts to move each partition to these brokers, the preferred leader first. None cancels a move. Returns the
        failures.

        On return the moves have begun and are not done. `list_partition_reassignments` shows those still running.
        """

        def request(version: int) -> AlterPartitionReassignmentsRequest:
            if version < 1 and not allow_replication_factor_change:
                message = "the broker is too old to refuse another replication factor (KIP-860)"
                raise RequestError(ErrorCode.UNSUPPORTED_VERSION, message)
            topics: dict[str, ReassignableTopic] = {}
            for (name, number), replicas in targets.items():
                topic = topics.setdefault(name, ReassignableTopic(name=name, partitions=[]))
                wanted = None if replicas is None else list(replicas)
                topic.partitions.append(ReassignablePartition(partition_index=number, replicas=wanted))
            return AlterPartitionReassignmentsRequest(
                timeout_ms=OPERATION_TIMEOUT_MS,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=list(topics.values()),
            )

        async def alter() -> dict[TopicPartition, RequestError]:
            answer = await self._cluster.ask(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                request,
                AlterPartitionReassignmentsResponse,
                to_controller=True,
                timeout_ms=_patience_ms(),
            )
            raise_for(answer.error_code, "reassignments", answer.error_message)
            failures: dict[TopicPartition, RequestError] = {}
            for topic in answer.responses:
                for each in topic.partitions:
                    name = TopicPartition(topic.name, each.partition_index)
                    failure = _failure(each.error_code, each.error_message, str(name))
                    if failure is not None:
                        failures[name] = failure
            return failures

        return await self._cluster.retry(alter, what="reassign partitions")

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions that are moving to other replicas, among these or among all."""
        request = ListPartitionReassignmentsRequest(
            timeout_ms=OPERATION_TIMEOUT_MS,
            topics=None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in _by_topic(partitions).items()
            ],
        )

        async def ask() -> dict[TopicPartition, Reassignment]:
            answer = await self._cluster.ask(
                ApiKey.LIST_PARTITION_REASSIGNMENTS,
                request,
                ListPartitionReassignmentsResponse,
                to_controller=True,
                timeout_ms=_patience_ms(),
            )
            raise_for(answer.error_code, "reassignments", answer.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): Reassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self._cluster.retry(ask, what="list reassignments")

    async def _describe(self, names: Sequence[str] | None) -> list[TopicMetadata]:
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        answer = await self._cluster.ask(ApiKey.METADATA, request, MetadataResponse)
        self._cluster.take_metadata(answer)
        for topic in answer.topics:
            if names is not None:
                raise_for(topic.error_code, f"topic {topic.name!r}")
        described = sorted(topic.name for topic in answer.topics if topic.name is not None and not topic.error_code)
        return [self._cluster.topics[name] for name in described]

    async def log_directory_sizes(self, broker_id: int) -> list[LogDirectorySize]:
        """The log directories of one broker, without their replicas: a broker may have a hundred thousand."""
        answer = await self._ask_log_dirs(broker_id)
        return [
            LogDirectorySize(
                directory.log_dir,
                error_of(directory.error_code),
                sum(each.partition_size for topic in directory.topics for each in topic.partitions),
            )
            for directory in answer.results
        ]

    async def _ask_log_dirs(self, node_id: int) -> DescribeLogDirsResponse:
        answer = await self._cluster.retry(
            lambda: self._cluster.ask(
                ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, node_id=node_id
            ),
            what=f"describe log directories of broker {node_id}",
        )
        raise_for(answer.error_code, f"log directories of broker {node_id}")
        return answer

    async def _log_dirs(self, node_id: int) -> list[LogDirectory]:
        answer = await self._ask_log_dirs(node_id)
        return [
            LogDirectory(
                directory.log_dir,
                error_of(directory.error_code),
                directory.total_bytes,
                directory.usable_bytes,
                tuple(
                    ReplicaInfo(
                        TopicPartition(topic.name, p.partition_index), p.partition_size, p.offset_lag, p.is_future_key
                    )
                    for topic in directory.topics
                    for p in topic.partitions
                ),
                directory.is_cordoned,
            )
            for directory in answer.results
        ]


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partition_count,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.assignments)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _failures(results: Iterable[tuple[str, int, str | None]]) -> dict[str, RequestError]:
    """What failed; a retriable failure is raised, so that all of it is asked again: what was done then says so."""
    failures: dict[str, RequestError] = {}
    for name, code, message in results:
        if code:
            error = RequestError(error_of(code), message or f"{name!r}: {error_of(code).name}")
            if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
                raise error
            failures[name] = error
    return failures


def _failure(code: int, message: str | None, what: str) -> RequestError | None:
    """One partition's failure; a retriable one is raised, as in `_failures`."""
    if not code:
        return None
    error = RequestError(error_of(code), message or f"{what}: {error_of(code).name}")
    if error.code is ErrorCode.NOT_CONTROLLER:
        raise error
    return error


def _altered(resource: ConfigResource, changes: Sequence[ConfigChange]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.name,
        configs=[
            AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
            for change in changes
        ],
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _by_broker(resources: Sequence[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Resources by the broker that alone knows them; None: any does."""
    grouped: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
        if own and not resource.name.isdigit():
            raise RequestError(ErrorCode.INVALID_REQUEST, f"a broker's name is its id, not {resource.name!r}")
        grouped.setdefault(int(resource.name) if own else None, []).append(resource)
    return grouped


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        _source(config.config_source),
        config.read_only,
        config.is_sensitive,
        tuple(ConfigSynonym(s.name, s.value, _source(s.source)) for s in config.synonyms),
        config.documentation,
        config.config_type,
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _delete_request(offsets: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (topic, partition), offset in offsets.items():
        entry = topics.setdefault(topic, DeleteRecordsTopic(name=topic, partitions=[]))
        entry.partitions.append(DeleteRecordsPartition(partition_index=partition, offset=offset))
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=OPERATION_TIMEOUT_MS)


def _patience_ms() -> int:
    """How long to wait for an answer that the broker may take OPERATION_TIMEOUT_MS to give."""
    return OPERATION_TIMEOUT_MS + 5_000
