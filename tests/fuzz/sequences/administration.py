"""Requests of administrators: topics that come, grow and go, settings of all kinds, quotas, passwords, rights, lists.

Administration(Requests) says what their fields say. Where fields belong together (a setting's name and its value, a
kind of resource and its name) a whole list is made at once, in `_TOGETHER`; the rest is as in requests.py.

Left out is what kavka takes or refuses otherwise, because both then know something else: settings that have no effect
here (local.retention.ms, sizes of thread pools), quotas of 0 and below and segments of less than a MiB (which 3.9
takes), min.insync.replicas of a cluster (which KRaft does not let go).

What is everybody's (settings of brokers, quotas of all who have none) is undone at the end by `undo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    alter_client_quotas_request,
    alter_configs_request,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_client_quotas_request,
    describe_configs_request,
    describe_topic_partitions_request,
    elect_leaders_request,
    incremental_alter_configs_request,
    update_features_request,
)
from kavka.protocol.schema import ZERO_UUID, Message, Struct
from tests.fuzz.sequences.knowledge import Subject
from tests.fuzz.sequences.requests import Meaning, Requests

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
Settings = tuple[tuple[str, tuple[str, ...]], ...]
OF_TOPICS: Final[Settings] = (
    ("cleanup.policy", ("compact", "delete", "compact,delete", "delete,compact", "", "none", "nonsense")),
    ("retention.ms", ("604800000", "-1", "-2", "abc", "")),
    ("retention.bytes", ("1073741824", "-1", "-2")),
    ("segment.bytes", ("1048576", "2097152", "13", "9999999999")),
    ("segment.ms", ("604800000", "0", "1")),
    ("segment.index.bytes", ("1048576", "4", "3")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime", "createtime")),
    ("message.timestamp.after.max.ms", ("9223372036854775807", "3600000", "-1")),
    ("message.timestamp.before.max.ms", ("9223372036854775807", "1")),
    ("max.message.bytes", ("500", "100", "1048588", "0", "-1")),
    ("min.cleanable.dirty.ratio", ("0.5", "0", "1", "1.5", "x")),
    ("min.compaction.lag.ms", ("0", "1000", "-1")),
    ("max.compaction.lag.ms", ("9223372036854775807", "1", "0")),
    ("compression.type", ("producer", "lz4", "zstd", "gzip", "uncompressed", "brotli")),
    ("compression.gzip.level", ("1", "9", "-1", "10", "0")),
    ("compression.zstd.level", ("3", "22", "23")),
    ("unclean.leader.election.enable", ("true", "false", "TRUE", "yes")),
    ("preallocate", ("false", "true")),
    ("flush.messages", ("1", "9223372036854775807", "0")),
    ("flush.ms", ("1000", "0", "-1")),
    ("file.delete.delay.ms", ("60000", "0")),
    ("delete.retention.ms", ("86400000", "0", "-1")),
    ("index.interval.bytes", ("4096", "0", "-1")),
    ("leader.replication.throttled.replicas", ("", "*", "0:1", "0:1,1:1", "x")),
    ("follower.replication.throttled.replicas", ("", "*", "0:1", "0-1")),
    ("no.such.setting", ("1",)),
    ("", ("1",)),
)
OF_BROKERS: Final[Settings] = (
    ("log.cleaner.threads", ("1", "2", "0", "x")),
    ("message.max.bytes", ("1048588", "2000000", "-1", "abc")),
    ("log.retention.bytes", ("-1", "1073741824", "-2")),
    ("log.cleaner.backoff.ms", ("15000", "20000", "-1")),
    ("compression.type", ("producer", "lz4", "none")),
    ("log.cleanup.policy", ("delete", "compact", "compact,delete", "x")),
    ("log.segment.bytes", ("1073741824", "1048576", "1")),
    ("log.message.timestamp.type", ("CreateTime", "LogAppendTime", "x")),
    ("max.connections.per.ip", ("2147483647", "1000", "-1")),
    ("unclean.leader.election.enable", ("false", "maybe")),
    ("broker.rack", ("r1",)),
    ("node.id", ("1", "2")),
    ("group.max.size", ("20", "10")),
    ("no.such.setting", ("1",)),
)
OF_GROUPS: Final[Settings] = (
    ("consumer.session.timeout.ms", ("45000", "46000", "1", "600000000", "x")),
    ("consumer.heartbeat.interval.ms", ("500", "5000", "1", "60000")),
    ("consumer.assignment.interval.ms", ("0", "1000", "-1")),
    ("share.session.timeout.ms", ("45000", "50000", "1")),
    ("share.heartbeat.interval.ms", ("500", "1", "15000")),
    ("share.record.lock.duration.ms", ("30000", "15000", "1", "90000")),
    ("share.auto.offset.reset", ("earliest", "latest", "by_duration:PT1H", "by_duration:x", "none")),
    ("share.isolation.level", ("read_committed", "read_uncommitted", "x")),
    ("share.delivery.count.limit", ("5", "2", "1", "11")),
    ("share.partition.max.record.locks", ("2000", "100", "1")),
    ("streams.session.timeout.ms", ("45000", "1")),
    ("streams.heartbeat.interval.ms", ("5000", "1")),
    ("streams.num.standby.replicas", ("0", "1", "2", "9", "-1")),
    ("no.such.setting", ("1",)),
)
OF_CLIENT_METRICS: Final[Settings] = (
    ("interval.ms", ("1000", "100", "99", "3600000", "3600001", "x")),
    ("metrics", ("", "*", "org.apache.kafka.producer.", "a,b")),
    ("match", ("client_id=x", "client_id=[", "client_software_name=kavka,client_id=.*", "nothing", "a=b")),
    ("no.such.setting", ("1",)),
)
SETTINGS_OF: Final[Mapping[int, Settings]] = {
    TOPIC: OF_TOPICS, BROKER: OF_BROKERS, GROUP: OF_GROUPS, CLIENT_METRICS: OF_CLIENT_METRICS,
}  # fmt: skip
KINDS: Final = (TOPIC, TOPIC, TOPIC, TOPIC, BROKER, BROKER, GROUP, GROUP, CLIENT_METRICS, CLIENT_METRICS, 0, 3)
FEATURES: Final = ("group.version", "transaction.version", "streams.version", "no.such", "")
WEIGHTS: Final[dict[ApiKey, float]] = {
    ApiKey.CREATE_TOPICS: 8, ApiKey.CREATE_PARTITIONS: 5, ApiKey.DELETE_TOPICS: 4, ApiKey.DELETE_RECORDS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 9, ApiKey.ALTER_CONFIGS: 4, ApiKey.DESCRIBE_CONFIGS: 9,
    ApiKey.LIST_CONFIG_RESOURCES: 2, ApiKey.ELECT_LEADERS: 2, ApiKey.ALTER_PARTITION_REASSIGNMENTS: 3,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 2, ApiKey.DESCRIBE_TOPIC_PARTITIONS: 5, ApiKey.METADATA: 5,
    ApiKey.DESCRIBE_PRODUCERS: 3, ApiKey.DESCRIBE_TRANSACTIONS: 3, ApiKey.LIST_TRANSACTIONS: 3,
    ApiKey.LIST_GROUPS: 4, ApiKey.DELETE_GROUPS: 3, ApiKey.OFFSET_DELETE: 4, ApiKey.LIST_OFFSETS: 6,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 3, ApiKey.DESCRIBE_LOG_DIRS: 3, ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 5, ApiKey.ALTER_CLIENT_QUOTAS: 5, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 3,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 4, ApiKey.DESCRIBE_ACLS: 4, ApiKey.CREATE_ACLS: 4, ApiKey.DELETE_ACLS: 3,
    ApiKey.UPDATE_FEATURES: 1.5, ApiKey.DESCRIBE_CLUSTER: 1, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 1.5,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.PRODUCE: 9, ApiKey.FETCH: 4, ApiKey.INIT_PRODUCER_ID: 3, ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 1, ApiKey.TXN_OFFSET_COMMIT: 2, ApiKey.END_TXN: 3, ApiKey.OFFSET_COMMIT: 6,
    ApiKey.OFFSET_FETCH: 4, ApiKey.CONSUMER_GROUP_HEARTBEAT: 4, ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 2,
}  # fmt: skip


class Administration(Requests):
    """Draws requests of administrators, and enough of others that there is something to administer."""

    def weight(self, key: ApiKey) -> float:
        return WEIGHTS.get(key, 0)

    def meaning(self, struct: str, name: str) -> Meaning | None:
        own = _TOGETHER.get((struct, name))
        if own is None:
            return super().meaning(struct, name)
        made = own
        return lambda r, s: made(self, s)

    @property
    def suffix(self) -> str:
        return self.knowledge.suffix

    # -- topics

    def some_topic(self, subject: Subject) -> str:
        """One that is there for the most part, or one that may come, or one with a name that none has."""
        draw = self._rng.random()
        if draw < 0.65:
            return subject.topic.name
        if draw < 0.95:
            return self._rng.choice(self.knowledge.topic_names)
        return self._rng.choice((f"new.{self.suffix}", f"new_{self.suffix}", "no spaces", "", ".."))

    def creatable(self, subject: Subject) -> list[Any]:
        made = create_topics_request
        topics = []
        for name in self._some_names(subject):
            assignments: list[Any] = []
            if self._rng.random() < 0.3:
                brokers = self.pick([1], [1], [1], [1], [1, 1], [2], [])
                rows = self.pick((0,), (0, 1), (0, 1, 2), (1,), (0, 2))
                assignments = [
                    made.CreatableReplicaAssignment(partition_index=row, broker_ids=list(brokers)) for row in rows
                ]
            usual = -1 if assignments else self.pick(1, 2, 3, 3, *(-1,) * (self._version >= 4))
            factor = -1 if assignments else self.pick(1, 1, 1, *(-1,) * (self._version >= 4))
            topic = made.CreatableTopic(
                name=name,
                num_partitions=usual if self._rng.random() < 0.93 else self.pick(0, -2, 2, 1),
                replication_factor=factor if self._rng.random() < 0.93 else self.pick(0, -2, 2, 1),
                assignments=assignments,
                configs=[
                    made.CreatableTopicConfig(name=key, value=value)
                    for key, value in self.some_settings(OF_TOPICS, self.pick(0, 0, 1, 2))
                ],
            )
            topics.append(topic)
        return topics

    def growing(self, subject: Subject) -> list[Any]:
        made = create_partitions_request
        topics = []
        for name in self._some_names(subject):
            count = subject.topic.partitions + self.pick(1, 1, 1, 2, 0, -1)
            assignments = None
            if self._rng.random() < 0.4:
                more = max(count - subject.topic.partitions, 0) if self._rng.random() < 0.7 else self.pick(0, 1, 2)
                brokers = self.pick([1], [1], [1], [2], [1, 1], [])
                assignments = [made.CreatePartitionsAssignment(broker_ids=list(brokers)) for _ in range(more)]
            topics.append(made.CreatePartitionsTopic(name=name, count=count, assignments=assignments))
        return topics

    def deletable(self, subject: Subject) -> list[Any]:
        made = delete_topics_request.DeleteTopicState
        topic = subject.topic
        by_id = made(name=None, topic_id=topic.topic_id)
        unknown = made(name=None, topic_id=UUID(int=self._rng.getrandbits(128)))
        both = made(name=topic.name, topic_id=topic.topic_id)
        neither = made(name=None, topic_id=ZERO_UUID)
        by_name = made(name=self.some_topic(subject), topic_id=ZERO_UUID)
        return [self.pick(by_name, by_name, by_name, by_id, by_id, by_id, unknown, both, neither)]

    def _some_names(self, subject: Subject) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(self.some_topic(subject) for _ in range(self.pick(1, 1, 1, 2))))

    def some_partitions(self, subject: Subject) -> list[int]:
        return self._rng.choice(([0], [0, 1], [0, 1, 2], [1], [9], [-1], []))

    # -- settings

    def some_settings(self, known: Settings, count: int) -> Iterator[tuple[str, str | None]]:
        """Each once; valid more often than not."""
        for key, values in self._rng.sample(known, count):
            value = values[0] if self._rng.random() < 0.4 else self.pick(*values)
            yield key, value if self._rng.random() < 0.96 else None

    def resource(self, subject: Subject) -> tuple[int, str, Settings]:
        kind = self.pick(*KINDS)
        if kind == TOPIC:
            return kind, self.some_topic(subject), OF_TOPICS
        if kind == BROKER:
            return kind, self.pick("1", "1", "", "", "2", "x"), OF_BROKERS
        if kind == GROUP:
            return kind, self.pick(subject.member.group, subject.member.group, subject.member.group, ""), OF_GROUPS
        if kind == CLIENT_METRICS:
            return kind, self.pick(*(f"metrics-{n}{self.suffix}" for n in range(3)), ""), OF_CLIENT_METRICS
        return kind, "x", OF_TOPICS

    def _resources(self, subject: Subject) -> Iterator[tuple[int, str, Settings]]:
        found = {row[:2]: row for row in (self.resource(subject) for _ in range(self.pick(1, 1, 1, 2)))}
        yield from next(([row] for row in found.values() if row[0] not in SETTINGS_OF), found.values())

    def incremental(self, subject: Subject) -> list[Any]:
        made = incremental_alter_configs_request
        resources = []
        for kind, name, known in self._resources(subject):
            configs: list[Any] = []
            for key, value in self.some_settings(known, self.pick(1, 1, 1, 2, 0)):
                operation = self.pick(0, 0, 0, 0, 1, 1, *(2, 3) * (kind != CLIENT_METRICS))
                is_without = operation == 1 and self._rng.random() < 0.7
                configs.append(
                    made.AlterableConfig(name=key, config_operation=operation, value=None if is_without else value)
                )
            resources.append(made.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs))
        return resources

    def whole(self, subject: Subject) -> list[Any]:
        made = alter_configs_request
        return [
            made.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    made.AlterableConfig(name=key, value=value)
                    for key, value in self.some_settings(known, self.pick(1, 1, 2, 3, 0))
                ],
            )
            for kind, name, known in self._resources(subject)
            if (kind, name) != (BROKER, "")
        ]

    def described(self, subject: Subject) -> list[Any]:
        """Of brokers some settings: kavka has others, too."""
        made = describe_configs_request
        resources = []
        for kind, name, known in self._resources(subject):
            names = [key for key, _ in self._rng.sample(known, self.pick(1, 3, len(known)))]
            is_all = kind != BROKER and self._rng.random() < 0.4
            keys = None if is_all else names
            resources.append(
                made.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            )
        return resources

    # -- quotas, users, rights

    def entity(self) -> Any:
        user, client = f"user-{self.pick(0, 1)}{self.suffix}", f"client-{self.pick(0, 1)}{self.suffix}"
        return self.pick(
            [("user", user)], [("client-id", client)], [("user", user), ("client-id", client)], [("user", None)],
            [("client-id", None)], [("user", user), ("client-id", None)], [("ip", "10.1.2.3")], [("ip", None)],
            [("ip", "nowhere at all")], [("ip", "10.1.2.3"), ("user", user)], [("group", "x")], [("user", "")], [],
        )  # fmt: skip

    def quotas(self, subject: Subject) -> list[Any]:
        made = alter_client_quotas_request
        entity = self.entity()
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
                "connection_creation_rate", "none")  # fmt: skip
        ops = [
            made.OpData(
                key="connection_creation_rate" if entity[:1] == [("ip", "10.1.2.3")] and draw < 0.5 else key,
                value=self.pick(1e9, 2e9, 3_000_000.5) if entity and entity[0][1] else 1e9,
                remove=self.pick(False, False, True),
            )
            for key, draw in ((key, self._rng.random()) for key in self._rng.sample(keys, self.pick(1, 1, 2)))
        ]
        parts = [made.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        return [made.EntryData(entity=parts, ops=list({op.key: op for op in ops}.values()))]

    def sought(self, subject: Subject) -> list[Any]:
        made = describe_client_quotas_request
        components = []
        for kind, name in self.entity():
            match_type = self.pick(0, 0, 2, 2, 1, 3) if name is not None else self.pick(1, 1, 2)
            components.append(
                made.ComponentData(entity_type=kind, match_type=match_type, match=name if match_type == 0 else None)
            )
        return components

    def features(self) -> list[Any]:
        """Versions that cannot say "only validate" name what no broker has."""
        made = update_features_request.FeatureUpdateKey
        names = FEATURES if self._version >= 1 else ("no.such", "")
        level, kind = self.pick(0, 1, 2, 3, -1), self.pick(1, 1, 2, 3, 0, 4) if self._version >= 1 else 1
        return [made(feature=self.pick(*names), max_version_level=level, upgrade_type=kind)]

    def cursor(self, subject: Subject) -> Struct:
        made = describe_topic_partitions_request.Cursor
        return made(topic_name=self.some_topic(subject), partition_index=self.pick(0, 0, 1, 2, 9, -1))

    def elected(self, subject: Subject) -> list[Any] | None:
        if self._rng.random() < 0.1:
            return None
        made = elect_leaders_request.TopicPartitions
        return [made(topic=name, partitions=self.some_partitions(subject)) for name in self._some_names(subject)]

    def user(self, subject: Subject) -> str:
        return self._rng.choice([*(f"user-{n}{self.suffix}" for n in range(3)), ""])


def undo(suffix: str) -> Iterator[tuple[Message, int]]:
    """Requests, and their versions, that take back what is everybody's."""
    made = incremental_alter_configs_request
    for broker in ("", "1"):
        configs = [made.AlterableConfig(name=key, config_operation=1, value=None) for key, _ in OF_BROKERS[:10]]
        resource = made.AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=configs)
        yield m.IncrementalAlterConfigsRequest(resources=[resource]), 1
    quota = alter_client_quotas_request
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    for kind, name in (("user", None), ("client-id", None), ("ip", None), ("ip", "10.1.2.3")):
        of_kind = ("connection_creation_rate",) if kind == "ip" else keys
        entry = quota.EntryData(
            entity=[quota.EntityData(entity_type=kind, entity_name=name)],
            ops=[quota.OpData(key=key, value=0.0, remove=True) for key in of_kind],
        )
        yield m.AlterClientQuotasRequest(entries=[entry]), 1


Together = Callable[[Administration, Subject], Any]
_SECRET: Final = bytes(range(32))
_TOGETHER: Final[dict[tuple[str, str], Together]] = {
    ("CreateTopicsRequest", "topics"): Administration.creatable,
    ("CreatePartitionsRequest", "topics"): Administration.growing,
    ("DeleteTopicsRequest", "topics"): Administration.deletable,
    ("DeleteTopicsRequest", "topic_names"): lambda r, s: [r.some_topic(s)],
    ("IncrementalAlterConfigsRequest", "resources"): Administration.incremental,
    ("AlterConfigsRequest", "resources"): Administration.whole,
    ("DescribeConfigsRequest", "resources"): Administration.described,
    ("DescribeConfigsRequest", "include_synonyms"): lambda r, s: r.pick(True, False),
    ("AlterClientQuotasRequest", "entries"): Administration.quotas,
    ("DescribeClientQuotasRequest", "components"): Administration.sought,
    ("DescribeClientQuotasRequest", "strict"): lambda r, s: r.pick(True, False),
    ("ElectLeadersRequest", "topic_partitions"): Administration.elected,
    ("ReassignableTopic", "name"): Administration.some_topic,
    ("ReassignablePartition", "replicas"): lambda r, s: r.pick([1], [1], None, [], [2], [1, 2], [1, 1], [-1]),
    ("AlterPartitionReassignmentsRequest", "allow_replication_factor_change"): lambda r, s: r.pick(True, True, False),
    ("ListPartitionReassignmentsTopics", "name"): Administration.some_topic,
    ("ListPartitionReassignmentsTopics", "partition_indexes"): Administration.some_partitions,
    ("TopicRequest", "name"): Administration.some_topic,
    ("TopicRequest", "partition_indexes"): Administration.some_partitions,
    ("DescribeTopicPartitionsRequest", "response_partition_limit"): lambda r, s: r.pick(2000, 2000, 1, 2, 3, 0, -1),
    ("DescribeTopicPartitionsRequest", "cursor"): lambda r, s: r.cursor(s) if r.pick(0, 0, 1) else None,
    ("MetadataRequest", "allow_auto_topic_creation"): lambda r, s: False,
    ("MetadataRequestTopic", "name"): Administration.some_topic,
    ("DescribeTransactionsRequest", "transactional_ids"): lambda r, s: [
        r.pick(s.transaction.transactional_id or "none", r.some_transactional_id(), "")
    ],
    ("ListTransactionsRequest", "state_filters"): lambda r, s: r.pick(
        [], [], ["Ongoing"], ["Empty", "CompleteCommit"], ["CompleteAbort", "ongoing"], ["none"], ["PrepareCommit"]
    ),
    ("ListTransactionsRequest", "producer_id_filters"): lambda r, s: r.pick([], [], [], [s.transaction.producer_id]),
    ("ListTransactionsRequest", "duration_filter"): lambda r, s: r.pick(-1, -1, -1, 0, 2**40, -5),
    ("ListTransactionsRequest", "transactional_id_pattern"): lambda r, s: r.pick(
        None, None, "", "txn-.*", f"txn-[01]{r.suffix}", "txn", "("
    ),
    ("ListGroupsRequest", "states_filter"): lambda r, s: r.pick(
        [], [], ["Stable"], ["stable"], ["Empty", "Dead"], ["EMPTY"], ["nonsense"], ["Stable", "x"], [""]
    ),
    ("ListGroupsRequest", "types_filter"): lambda r, s: r.pick(
        [], [], ["classic"], ["consumer"], ["Consumer", "share"], ["nonsense"], ["streams"], [""]
    ),
    ("DeleteRecordsPartition", "offset"): lambda r, s: r.pick(-1, 0, 1, r.offset(s), r.offset(s), 99, -2),
    ("ListOffsetsPartition", "timestamp"): lambda r, s: r.pick(
        -1, -2, -3, -4, -5, -6, -7, 0, 1, 1_790_000_000_000, 1_790_000_000_001, 2**62
    ),
    ("OffsetForLeaderPartition", "leader_epoch"): lambda r, s: r.pick(-1, 0, 0, 1, 5),
    ("DescribableLogDirTopic", "topic"): Administration.some_topic,
    ("DescribableLogDirTopic", "partitions"): Administration.some_partitions,
    ("AlterReplicaLogDir", "path"): lambda r, s: r.pick("/no/such/directory", "", "relative"),
    ("AlterReplicaLogDirTopic", "name"): Administration.some_topic,
    ("AlterReplicaLogDirTopic", "partitions"): Administration.some_partitions,
    ("UserName", "name"): Administration.user,
    ("ScramCredentialDeletion", "name"): Administration.user,
    ("ScramCredentialDeletion", "mechanism"): lambda r, s: r.pick(1, 1, 2, 0, 3),
    ("ScramCredentialUpsertion", "name"): Administration.user,
    ("ScramCredentialUpsertion", "mechanism"): lambda r, s: r.pick(1, 1, 2, 2, 0, 3),
    ("ScramCredentialUpsertion", "iterations"): lambda r, s: r.pick(4096, 4096, 8192, 4095, 16384, 16385, 0),
    ("ScramCredentialUpsertion", "salt"): lambda r, s: r.pick(_SECRET, _SECRET, b""),
    ("ScramCredentialUpsertion", "salted_password"): lambda r, s: r.pick(_SECRET, _SECRET, b""),
    **{
        (struct, name + end): made
        for struct, end in (("DescribeAclsRequest", "_filter"), ("DeleteAclsFilter", "_filter"), ("AclCreation", ""))
        for name, made in (
            ("resource_type", lambda r, s: r.pick(2, 2, 3, 4, 5, 6, 7, 1)),
            ("resource_name", lambda r, s: r.pick(s.topic.name, s.member.group, "kafka-cluster", f"t{r.suffix}", "")),
            ("pattern_type", lambda r, s: r.pick(3, 3, 4, 1, 2)),
            ("resource_pattern_type", lambda r, s: r.pick(3, 3, 4, 1, 2)),
            ("principal", lambda r, s: r.pick(f"User:a{r.suffix}", f"User:b{r.suffix}", "nobody", "User:")),
            ("host", lambda r, s: r.pick("*", "10.0.0.1", "")),
        )
    },
    **{
        (struct, name): made
        for struct in ("DescribeAclsRequest", "DeleteAclsFilter", "AclCreation")
        for name, made in (
            ("operation", lambda r, s: r.pick(*range(1, 15))),
            ("permission_type", lambda r, s: r.pick(3, 3, 3, 2, 1)),
        )
    },
    ("UpdateFeaturesRequest", "feature_updates"): lambda r, s: r.features(),
    ("UpdateFeaturesRequest", "validate_only"): lambda r, s: True,
    ("DescribeClusterRequest", "endpoint_type"): lambda r, s: r.pick(1, 1, 1, 0, 3),
    ("GetTelemetrySubscriptionsRequest", "client_instance_id"): lambda r, s: ZERO_UUID,
    ("ListConfigResourcesRequest", "resource_types"): lambda r, s: r.pick(
        [], [2], [4], [8], [16], [32], [16, 32], [0], [7], [2, 2]
    ),
    **{
        (struct, "timeout_ms"): lambda r, s: 10_000
        for struct in (
            "CreateTopicsRequest", "CreatePartitionsRequest", "DeleteTopicsRequest", "DeleteRecordsRequest",
            "ElectLeadersRequest", "AlterPartitionReassignmentsRequest", "ListPartitionReassignmentsRequest",
            "UpdateFeaturesRequest", "ListOffsetsRequest",
        )
    },
}  # fmt: skip
