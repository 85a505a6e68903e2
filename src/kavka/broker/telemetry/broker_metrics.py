"""Metrics of the broker, its controller, partitions, logs, groups, quotas and telemetry, under Kafka's names.

Decides which question answers which metric. Nothing is counted for it but topics' traffic (replication/traffic.py), and
it costs nothing until somebody reads it. It must not know who reads.

    I1  What only the controller knows is 0 on every other broker, so that a sum over the brokers is right, as in Kafka.

Source: Kafka's documentation on monitoring; KafkaController, ReplicaManager, AbstractFetcherManager, LogManager,
LogCleaner, LogCleanerManager, ClientMetricsManager, ClientQuotaManager, GroupCoordinatorMetrics, ShareGroupMetrics,
SharePartitionMetrics, ShareSessionCache, ShareCoordinatorMetrics.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kavka.broker.metadata.metadata_cache import SHARE_STATE_TOPIC
from kavka.broker.upkeep.log_cleaner import LogCleaner
from kavka.controller.decide.context import ControllerContext
from kavka.controller.term.controller_term import NotController
from kavka.log.log_manager import LogManager
from kavka.metrics import Counter, Histogram, Member, Registry, Tags
from kavka.replication.decide.partition import Partition

if TYPE_CHECKING:
    from kavka.broker.assembly.broker import Broker
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.late import Late
    from kavka.broker.telemetry.client_telemetry import ClientTelemetry
    from kavka.coordinator.groups.coordinator import GroupCoordinator

_T = TypeVar("_T")

_SERVER: Final = "kafka.server"
_CONTROLLER: Final = ("kafka.controller", "KafkaController")
_REPLICAS: Final = ("kafka.server", "ReplicaManager")
_FETCHERS: Final = ("kafka.server", "ReplicaFetcherManager")
_CLEANER: Final = ("kafka.log", "LogCleaner")
_CLEANER_MANAGER: Final = ("kafka.log", "LogCleanerManager")
_LOGS: Final = ("kafka.log", "LogManager")
_TOPICS: Final = ("kafka.server", "BrokerTopicMetrics")
_PARTITION: Final = ("kafka.cluster", "Partition")
_LOG: Final = ("kafka.log", "Log")
_FETCH_SESSIONS: Final = ("kafka.server", "FetchSessionCache")
_AUTHORIZER: Final = ("kafka.security", "AclAuthorizer")
_TELEMETRY: Final = ("kafka.server", "client-metrics")
_GROUPS: Final = ("kafka.server", "group-coordinator-metrics")
_SHARE: Final = ("kafka.server", "ShareGroupMetrics")
_SHARE_PARTITION: Final = ("kafka.server", "SharePartitionMetrics")
_SHARE_SESSIONS: Final = ("kafka.server", "ShareSessionCache")
_SHARE_STATES: Final = ("kafka.server", "share-coordinator-metrics")
_GROUP_STATES: Final = {
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
"""Kafka shows each state of a kind, also where no group is in it."""
_SAID: Final = {"Accept": 1, "Release": 2, "Reject": 3, "Renew": 4}
"""What members say of records, with the protocol's numbers."""


def register(broker: Broker, registry: Registry) -> None:
    """Has `registry` show the metrics of a broker that has started."""
    _register_controller(broker, registry)
    _register_replicas(broker, registry)
    _register_logs(broker, registry)
    _register_traffic(broker, registry)
    _register_partitions(broker, registry)
    _register_groups(broker.inner.groups, registry)
    _register_share_groups(broker, registry)
    _register_quotas(broker, registry)
    if broker.gates is not None:
        broker.gates.register(registry)
    _register_telemetry(broker.telemetry, registry)
    if broker.authorization is not None:
        _register_authorizer(broker.authorization, registry)


def _register_telemetry(telemetry: Late[ClientTelemetry], registry: Registry) -> None:
    reads: Mapping[str, Callable[[ClientTelemetry], int]] = {
        "instance-count": lambda made: made.client_count,
        "unknown-subscription-request-count": lambda made: made.unknown_subscriptions,
        "throttle-count": lambda made: made.throttled,
        "plugin-export-count": lambda made: made.pushes,
        "plugin-error-count": lambda made: made.refused,
    }

    def count(read: Callable[[ClientTelemetry], int]) -> int:
        return 0 if telemetry.made is None else read(telemetry.made)

    for name, read in reads.items():
        registry.gauge(*_TELEMETRY, name, partial(count, read))


def _register_authorizer(authorization: Authorization, registry: Registry) -> None:
    def denials() -> Counter:
        made = Counter()
        made.value = authorization.denial_count
        return made

    registry.derive(*_AUTHORIZER, "DenialsPerSec", denials)
    acls = authorization.acls
    if acls is not None:
        registry.gauge(*_AUTHORIZER, "AclCount", lambda: sum(map(len, acls.index.lists.values())))
        registry.gauge(*_AUTHORIZER, "AclsStaleMs", acls.stale_ms)


def _register_controller(broker: Broker, registry: Registry) -> None:
    def of_controller(count: Callable[[ControllerContext], int]) -> Callable[[], int]:
        def read() -> int:
            try:
                return count(broker.controller.context)
            except NotController:
                return 0

        return read

    for name, count in (
        ("ActiveControllerCount", lambda context: 1),
        ("ActiveBrokerCount", lambda context: len(context.brokers)),
        ("GlobalTopicCount", lambda context: len(context.topics)),
        ("GlobalPartitionCount", lambda context: sum(len(t.assignment.partitions) for t in context.topics.values())),
        ("OfflinePartitionsCount", _offline_partitions),
        ("PreferredReplicaImbalanceCount", _not_led_by_the_preferred_replica),
        ("TopicsToDeleteCount", lambda context: len(context.topics_to_delete)),
    ):
        registry.gauge(*_CONTROLLER, name, of_controller(count))


def _offline_partitions(context: ControllerContext) -> int:
    """Partitions that no live broker leads, without those of topics that are being deleted."""
    return sum(
        known.state.leader not in context.brokers
        for partition, known in context.states.items()
        if partition.topic not in context.topics_to_delete
    )


def _not_led_by_the_preferred_replica(context: ControllerContext) -> int:
    return sum(
        known.state.leader != context.topics[partition.topic].replicas(partition.partition)[0]
        for partition, known in context.states.items()
        if partition.topic in context.topics and partition.topic not in context.topics_to_delete
    )


def _register_replicas(broker: Broker, registry: Registry) -> None:
    def count(matches: Callable[[Partition], bool]) -> Callable[[], int]:
        return lambda: sum(matches(partition) for partition in broker.replicas.partitions())

    def is_led_with(matches: Callable[[int, int, int], bool]) -> Callable[[], int]:
        """The number of partitions led here that match, by in-sync replicas, replicas and min.insync.replicas."""

        def is_so(partition: Partition) -> bool:
            if not partition.is_leader:
                return False
            return matches(len(partition.state.isr), len(partition.replicas), partition.effective_min_isr)

        return count(is_so)

    for name, read in (
        ("PartitionCount", count(lambda partition: True)),
        ("LeaderCount", count(lambda partition: partition.is_leader)),
        ("UnderReplicatedPartitions", is_led_with(lambda in_sync, replicas, least: in_sync < replicas)),
        ("UnderMinIsrPartitionCount", is_led_with(lambda in_sync, replicas, least: in_sync < least)),
        ("AtMinIsrPartitionCount", is_led_with(lambda in_sync, replicas, least: in_sync == least)),
    ):
        registry.gauge(*_REPLICAS, name, read)
    following = broker.inner.following
    registry.gauge(*_FETCHERS, "FailedPartitionsCount", lambda: following.failed_partitions, clientId="Replica")
    registry.gauge(*_FETCHERS, "MaxLag", lambda: following.max_lag, clientId="Replica")


def _counter(read: Callable[[], int]) -> Callable[[], Counter]:
    def make() -> Counter:
        made = Counter()
        made.value = read()
        return made

    return make


def _register_traffic(broker: Broker, registry: Registry) -> None:
    traffic = broker.replicas.traffic

    def by_topic(count: str) -> Callable[[], list[Member]]:
        def read() -> list[Member]:
            return [((("topic", name),), getattr(each, count)) for name, each in sorted(traffic.topics.items())]

        return read

    for name, count in (
        ("MessagesInPerSec", "messages_in"),
        ("BytesInPerSec", "bytes_in"),
        ("BytesOutPerSec", "bytes_out"),
        ("ReplicationBytesOutPerSec", "replication_bytes_out"),
        ("TotalProduceRequestsPerSec", "produces"),
        ("TotalFetchRequestsPerSec", "fetches"),
        ("FailedProduceRequestsPerSec", "failed_produces"),
        ("FailedFetchRequestsPerSec", "failed_fetches"),
    ):
        registry.derive(*_TOPICS, name, _counter(partial(traffic.total, count)))
        registry.family(*_TOPICS, name, by_topic(count), is_counter=True)
    for name, read in (
        ("IsrShrinksPerSec", lambda: traffic.isr_shrinks),
        ("IsrExpandsPerSec", lambda: traffic.isr_expands),
        ("FailedIsrUpdatesPerSec", lambda: traffic.failed_isr_updates),
    ):
        registry.derive(*_REPLICAS, name, _counter(read))
    sessions = broker.fetch_sessions
    registry.gauge(*_FETCH_SESSIONS, "NumIncrementalFetchSessions", lambda: len(sessions))
    registry.gauge(*_FETCH_SESSIONS, "NumIncrementalFetchPartitionsCached", lambda: sessions.partition_count)
    registry.derive(*_FETCH_SESSIONS, "IncrementalFetchSessionEvictionsPerSec", _counter(lambda: sessions.evictions))
    registry.gauge(*_REPLICAS, "OfflineReplicaCount", lambda: broker.replicas.offline_count)
    for purgatory in (broker.replicas.produce_purgatory, broker.replicas.fetch_purgatory):
        size = partial(getattr, purgatory, "size")
        registry.gauge(
            "kafka.server", "DelayedOperationPurgatory", "PurgatorySize", size, delayedOperation=purgatory.name
        )


def _register_partitions(broker: Broker, registry: Registry) -> None:
    """Numbers of each partition: of all that are hosted, and of those that are led here."""

    def members(value_of: Callable[[Partition], float], *, led: bool) -> Callable[[], list[Member]]:
        def read() -> list[Member]:
            return [
                ((("topic", topic), ("partition", str(number))), value_of(partition))
                for (topic, number), partition in sorted(
                    ((each.topic_partition, each) for each in broker.replicas.partitions()), key=lambda item: item[0]
                )
                if partition.is_leader or not led
            ]

        return read

    for name, value_of in (
        ("Size", lambda partition: partition.log.size_bytes),
        ("LogStartOffset", lambda partition: partition.log.log_start_offset),
        ("LogEndOffset", lambda partition: partition.log.log_end_offset),
        ("NumLogSegments", lambda partition: len(partition.log.segments)),
    ):
        registry.family(*_LOG, name, members(value_of, led=False))
    for name, value_of in (
        ("InSyncReplicasCount", lambda partition: len(partition.state.isr)),
        ("ReplicasCount", lambda partition: len(partition.replicas)),
        ("UnderReplicated", lambda partition: len(partition.state.isr) < len(partition.replicas)),
        ("UnderMinIsr", lambda partition: len(partition.state.isr) < partition.effective_min_isr),
        ("AtMinIsr", lambda partition: len(partition.state.isr) == partition.effective_min_isr),
    ):
        registry.family(*_PARTITION, name, members(value_of, led=True))


def _register_groups(groups: Late[GroupCoordinator], registry: Registry) -> None:
    def by_kind() -> list[Member]:
        counts: Counts[str] = Counts()
        for (kind, _state), count in census().items():
            counts[kind] += count
        return [((("protocol", kind),), counts[kind]) for kind in ("classic", *_GROUP_STATES)]

    def by_state(kind: str) -> list[Member]:
        counts = census()
        return [((("state", state),), counts[kind, state]) for state in sorted(_GROUP_STATES[kind])]

    def census() -> Counts[tuple[str, str]]:
        return Counts() if groups.made is None else groups.made.census()

    def rebalances(kind: str) -> int:
        return 0 if groups.made is None else groups.made.rebalances[kind]

    registry.family(*_GROUPS, "group-count", by_kind)
    for kind in _GROUP_STATES:
        registry.family(*_GROUPS, f"{kind}-group-count", partial(by_state, kind))
        registry.gauge(*_GROUPS, f"{kind}-group-rebalance-count", partial(rebalances, kind))


def _register_share_groups(broker: Broker, registry: Registry) -> None:
    """Of share-partitions those are shown whose group has a member with a session here."""
    share, states = broker.inner.share, broker.inner.share_states

    def said() -> list[Member]:
        counts = {} if share.made is None else share.made.leaders.counts.acknowledged
        return [((("ackType", name),), counts.get(kind, 0)) for name, kind in sorted(_SAID.items())]

    def load_ms() -> Histogram:
        return Histogram() if share.made is None else share.made.leaders.counts.load_ms

    def of_groups(name: str) -> list[tuple[Tags, Histogram]]:
        found = {} if share.made is None else share.made.leaders.counts.by_group
        return [((("group", group),), getattr(times, name)) for group, times in sorted(found.items())]

    registry.family(*_SHARE, "RecordAcknowledgementsPerSec", said, is_counter=True)
    _register_dead_letters(broker, registry)
    registry.derive(*_SHARE, "PartitionLoadTimeMs", load_ms)
    registry.summaries(*_SHARE, "RequestTopicPartitionsFetchRatio", partial(of_groups, "fetch_ratio"))
    registry.summaries(*_SHARE, "TopicPartitionsAcquireTimeMs", partial(of_groups, "acquire_ms"))

    def timeouts() -> list[Member]:
        return [] if share.made is None else share.made.leaders.members(lambda led: led.lock_timeouts)

    def in_flight() -> list[Member]:
        return [] if share.made is None else share.made.leaders.members(lambda led: led.records.in_flight)

    def runs() -> list[Member]:
        return [] if share.made is None else share.made.leaders.members(lambda led: len(led.records.spans))

    registry.family(*_SHARE_PARTITION, "AcquisitionLockTimeoutPerSec", timeouts, is_counter=True)
    registry.family(*_SHARE_PARTITION, "InFlightMessageCount", in_flight)
    registry.family(*_SHARE_PARTITION, "InFlightBatchCount", runs)
    for name, read in (
        ("ShareSessionsCount", lambda room: len(room.sessions)),
        ("SharePartitionsCount", lambda room: room.sessions.partition_count),
    ):
        registry.gauge(*_SHARE_SESSIONS, name, partial(_of_late, share, read))
    evictions = _counter(lambda: 0 if share.made is None else share.made.sessions.lost)
    registry.derive(*_SHARE_SESSIONS, "ShareSessionEvictionsPerSec", evictions)
    for name, read_states in (
        ("write-total", lambda made: made.write_ms.count),
        ("write-latency-avg", lambda made: made.write_ms.mean),
        ("write-latency-max", lambda made: made.write_ms.maximum),
    ):
        registry.gauge(*_SHARE_STATES, name, partial(_of_late, states, read_states))

    def cuts() -> list[Member]:
        found = {} if states.made is None else states.made.cuts
        return [
            ((("topic", SHARE_STATE_TOPIC), ("partition", str(partition))), offset)
            for partition, offset in sorted(found.items())
        ]

    registry.family(*_SHARE_STATES, "last-pruned-offset", cuts)


def _register_dead_letters(broker: Broker, registry: Registry) -> None:
    share = broker.inner.share

    def by_group(name: str) -> list[Member]:
        found = {} if share.made is None else getattr(share.made.leaders.counts, name)
        return [((("group", group),), count) for group, count in sorted(found.items())]

    for metric, name in (
        ("DeadLetterQueueRecordCount", "dead_letters"),
        ("DeadLetterQueueTotalProduceRequestsPerSec", "dead_letter_requests"),
        ("DeadLetterQueueFailedProduceRequestsPerSec", "dead_letter_failures"),
    ):
        registry.family(*_SHARE, metric, partial(by_group, name), is_counter=True)


def _of_late(part: Late[_T], read: Callable[[_T], float]) -> float:
    """0 as long as the part was not needed."""
    return 0 if part.made is None else read(part.made)


def _register_quotas(broker: Broker, registry: Registry) -> None:
    """By user and client id, as those who share a quota have them. Nothing is shown while no quota is set."""
    quotas = broker.quotas

    def show(kind: str, name: str) -> None:
        def read() -> list[Member]:
            made = quotas.made
            return [] if made is None else made.measured(kind, name)

        registry.family(_SERVER, kind, name, read)

    for kind, names in (
        ("Produce", ("byte-rate", "throttle-time")),
        ("Fetch", ("byte-rate", "throttle-time")),
        ("Request", ("request-time", "throttle-time")),
        ("ControllerMutation", ("mutation-rate", "tokens", "throttle-time")),
    ):
        for name in names:
            show(kind, name)
    registry.gauge(
        _SERVER, "Request", "exempt-request-time", lambda: 0.0 if quotas.made is None else quotas.made.exempt_time()
    )


def _register_logs(broker: Broker, registry: Registry) -> None:
    logs, cleaner = broker.logs, broker.cleaner
    registry.gauge(*_LOGS, "OfflineLogDirectoryCount", lambda: len(logs.offline_directories))
    registry.gauge(*_LOGS, "CordonedLogDirectoryCount", lambda: len(logs.cordoned))
    for directory in broker.config.log_directories:
        read_state = partial(_is_offline, logs, directory)
        registry.gauge(*_LOGS, "LogDirectoryOffline", read_state, logDirectory=directory)
        read_cordon = partial(_is_cordoned, logs, directory)
        registry.gauge(*_LOGS, "LogDirectoryCordoned", read_cordon, logDirectory=directory)
    if cleaner is None:
        return
    for name, read in (
        ("cleaner-recopy-percent", lambda: cleaner.last_recopied_percent),
        ("max-buffer-utilization-percent", lambda: cleaner.highest_utilization_percent),
        ("max-clean-time-secs", lambda: int(cleaner.longest_pass_s)),
    ):
        registry.gauge(*_CLEANER, name, read)
    registry.gauge(*_CLEANER_MANAGER, "max-dirty-percent", cleaner.max_dirty_percent)
    registry.gauge(
        *_CLEANER_MANAGER,
        "time-since-last-run-ms",
        lambda: broker.wall_ms() - cleaner.last_look_ms if cleaner.last_look_ms >= 0 else 0,
    )
    for directory in broker.config.log_directories:
        count, size = partial(_uncleanable, cleaner, directory), partial(cleaner.uncleanable_bytes, directory)
        registry.gauge(*_CLEANER_MANAGER, "uncleanable-partitions-count", count, logDirectory=directory)
        registry.gauge(*_CLEANER_MANAGER, "uncleanable-bytes", size, logDirectory=directory)


def _is_cordoned(logs: LogManager, directory: str) -> int:
    return int(directory in logs.cordoned)


def _is_offline(logs: LogManager, directory: str) -> int:
    return int(directory in logs.offline_directories)


def _uncleanable(cleaner: LogCleaner, directory: str) -> int:
    return len(cleaner.uncleanable(directory))
