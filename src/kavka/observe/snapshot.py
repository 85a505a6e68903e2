"""A cluster as it was last seen: values only, each part with the time of its reading and why it is unknown.

Decides what can be asked of a picture of a cluster (who is out of sync, what is below its minimum, how far a group
lags) and nothing about how it was read. Must not know a socket, a page, or the console's extra: the command line uses
it too.

    I1  A snapshot never changes; the next one has a higher `number`.
    I2  A value that was not read is None, never 0; `readings` says of each part why.
    I3  Parts are read one after another, so one snapshot may hold a group's offsets that are newer than the log ends:
        differences that come out negative are shown as 0.

Source: the fields of Metadata, ListOffsets, DescribeLogDirs, DescribeGroups and OffsetFetch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kavka.client.group_admin import SHARE
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.client.admin import Reassignment
    from kavka.client.share_group_admin import ShareRecords

NOT_READ = "not read yet"


class ClusterState(Enum):
    """Whether the cluster answers."""

    CONNECTING = "connecting"
    """It was never reached since the observer started."""
    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"
    """It answered before. All that is shown of it is as old as its readings."""


class Part(Enum):
    """What is read by itself, and therefore is known or unknown by itself."""

    METADATA = "metadata"
    CONTROLLER = "controller"
    OFFSETS = "offsets"
    REPLICA_ENDS = "replica ends"
    LOG_DIRECTORIES = "log directories"
    TOPIC_CONFIGS = "topic configurations"
    BROKER_CONFIGS = "broker configurations"
    GROUPS = "groups"
    REASSIGNMENTS = "reassignments"
    TRANSACTIONS = "transactions"
    DECISIONS = "decisions"
    BROKER_METRICS = "broker metrics"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Reading:
    """When a part was last read whole (`read_at_ms`, wall clock; 0: never), how long that took, and why the last
    attempt brought nothing ('' where it did)."""

    read_at_ms: int = 0
    took_ms: int = 0
    unknown_because: str = NOT_READ

    @property
    def is_known(self) -> bool:
        """Whether there is something, however old."""
        return self.read_at_ms > 0

    @property
    def is_current(self) -> bool:
        return self.read_at_ms > 0 and not self.unknown_because


@dataclass(frozen=True, slots=True)
class LogDirectoryView:
    """A log directory of a broker. Sizes are None if the broker does not report them (before KIP-827)."""

    path: str
    error: str
    total_bytes: int | None
    usable_bytes: int | None
    replica_count: int
    replicas_bytes: int

    @property
    def used_percent(self) -> float | None:
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 100 * (1 - self.usable_bytes / self.total_bytes)


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Where the time of one API's requests on one broker goes: means in ms since the broker started, and how many a
    second there were between the last two readings (None before the second)."""

    api: str
    count: int
    per_second: float | None
    queue_ms: float
    local_ms: float
    remote_ms: float
    response_queue_ms: float
    send_ms: float
    total_ms: float
    total_p99_ms: float | None
    throttle_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """What a broker's own metrics endpoint says. `idle_percent` of the request handlers and of the network."""

    request_times: tuple[RequestTimes, ...] = ()
    handler_idle_percent: float | None = None
    network_idle_percent: float | None = None
    request_queue_size: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """Samples without labels, by their name in Prometheus' form."""
    certificates_left_ms: Mapping[str, float] = field(default_factory=dict)
    """For how long the certificate of each listener with TLS is valid."""


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker that metadata names, or (`is_alive` False) one that replicas are assigned to and that is not there."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_alive: bool
    is_controller: bool
    leads: int = 0
    preferred: int = 0
    replicas: int = 0
    out_of_sync: int = 0
    """Replicas here that are out of sync."""
    size_bytes: int | None = None
    log_directories: tuple[LogDirectoryView, ...] = ()
    log_directories_reading: Reading = Reading()
    configs: Mapping[str, str] = field(default_factory=dict)
    """Settings by name, without sensitive ones."""
    configs_reading: Reading = Reading()
    metrics: BrokerMetrics | None = None
    metrics_reading: Reading = Reading()
    in_bytes_per_s: float | None = None
    """What is appended to the partitions that it leads, from the growth of its logs."""
    since_ms: int = 0
    """Since when it has been alive, or gone, as far as the observer has seen (0: since before it looked)."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}" if self.host else ""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. Offsets and sizes are None where they are unknown."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    log_start_offset: int | None = None
    high_watermark: int | None = None
    log_ends: Mapping[int, int] = field(default_factory=dict)
    """Log end offset by replica, for brokers that answered."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Bytes by replica."""
    min_insync_replicas: int | None = None
    out_of_sync_since_ms: int | None = None
    """Since when replicas have been missing from the ISR without a break, as far as the observer has seen; None where
    none is missing, or nobody knows."""
    offline_since_ms: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    preferred_back_since_ms: int | None = None
    """Since when the preferred leader has been back in the ISR while another one leads, as far as decisions date it."""

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else -1

    @property
    def is_led_by_preferred(self) -> bool:
        return self.leader == self.preferred_leader

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """Replicas - ISR: nothing where all is well."""
        return tuple(replica for replica in self.replicas if replica not in self.in_sync_replicas)

    @property
    def is_offline(self) -> bool:
        return self.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync_replicas) < len(self.replicas)

    @property
    def needed_in_sync(self) -> int | None:
        """Fewer in sync refuse acks=all: min.insync.replicas, but never more than there are replicas."""
        return None if self.min_insync_replicas is None else min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        return self.needed_in_sync is not None and len(self.in_sync_replicas) < self.needed_in_sync

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def log_end_offset(self) -> int | None:
        """The leader's; the high watermark where that is not known."""
        return self.log_ends.get(self.leader, self.high_watermark)

    @property
    def size_bytes(self) -> int | None:
        """The size of the leader's copy, or of another one if the leader does not report it."""
        return self.sizes.get(self.leader, max(self.sizes.values(), default=None))

    @property
    def record_count(self) -> int | None:
        """Offsets in the log; fewer records where it is compacted or has transactions."""
        if self.log_start_offset is None or self.high_watermark is None:
            return None
        return max(self.high_watermark - self.log_start_offset, 0)

    def records_behind(self, replica: int) -> int | None:
        end, own = self.log_ends.get(self.leader), self.log_ends.get(replica)
        return None if end is None or own is None else max(end - own, 0)


@dataclass(frozen=True)  # without slots: totals over its partitions are worked out when they are asked for, and kept
class TopicView:
    """One topic; `partitions` in order and without gaps."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    configs: Mapping[str, str] | None = None
    """Settings that are the topic's own, and min.insync.replicas, by name; None where they are not known."""
    in_records_per_s: float | None = None
    in_bytes_per_s: float | None = None

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @cached_property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    @cached_property
    def size_bytes(self) -> int | None:
        """Of one copy; None where it is unknown of a partition."""
        return _total(each.size_bytes for each in self.partitions)

    @cached_property
    def record_count(self) -> int | None:
        return _total(each.record_count for each in self.partitions)

    @cached_property
    def under_replicated(self) -> int:
        return sum(each.is_under_replicated for each in self.partitions)

    @cached_property
    def under_min_isr(self) -> int:
        return sum(each.is_under_min_isr for each in self.partitions)

    @cached_property
    def offline(self) -> int:
        return sum(each.is_offline for each in self.partitions)


@dataclass(frozen=True, slots=True)
class MemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where a group stands in one partition; `end` is the high watermark, None where it is unknown."""

    partition: TopicPartition
    committed: int | None
    """None: it is assigned to a member, and nothing was committed for it yet."""
    end: int | None
    member_id: str | None = None
    """Whom the partition is assigned to."""
    lag_ms: int | None = None
    """How long ago the log ended where the group stands now, as far as the observer has seen it grow; 0 at the end."""
    log_start: int | None = None
    """None where it is unknown."""
    not_done: int | None = None
    """Of a share group, whose `committed` is the first record that is not done: how many are not, as its coordinator
    counts them. None where it does not know, and of other groups."""
    still_since_ms: int | None = None
    """Of a share group with members and lag: since when its first record that is not done has been the same one, as far
    as anybody has seen. None of other groups."""

    @property
    def position(self) -> int | None:
        """What was committed, else the start of the log: from where its members begin (auto.offset.reset) only they
        know, and that is the farthest that they may be behind."""
        return self.log_start if self.committed is None else self.committed

    @property
    def lag(self) -> int | None:
        """In records. Without a commit it is the most that it can be."""
        if self.not_done is not None:
            return self.not_done
        return None if self.end is None or self.position is None else max(self.end - self.position, 0)


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group. `kind` is classic, consumer, share or streams ('' where the broker is too old to say); `offsets` by
    partition."""

    group_id: str
    kind: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    epoch: int | None = None
    members: tuple[MemberView, ...] = ()
    offsets: tuple[GroupOffset, ...] = ()
    reading: Reading = Reading()
    rebalances: int = 0
    """How often its members or its generation were seen to change in the last hour."""
    stuck_since_ms: int | None = None
    """Since when it has had members and lag, and has committed nothing."""
    records: Mapping[TopicPartition, ShareRecords] | None = None
    """Of a share group: its records that are in flight. None of other groups, and where brokers do not tell."""

    @property
    def is_share(self) -> bool:
        """Whether it holds single records, and commits no offsets."""
        return self.kind == SHARE

    @property
    def in_flight(self) -> int | None:
        """Records that were delivered and are not done; None where it is unknown."""
        return None if self.records is None else sum(each.in_flight for each in self.records.values())

    @property
    def lag(self) -> int | None:
        """Of all partitions together; None where it is unknown of one."""
        return _total(each.lag for each in self.offsets)

    def lag_of(self, topic: str) -> int | None:
        """Of one topic's partitions; None where it is unknown of one."""
        return _total(each.lag for each in self.offsets if each.partition.topic == topic)

    def is_stuck(self, now_ms: int, after_ms: int) -> bool:
        """Whether it has stood still for so long that something is wrong: between two commits each group stands."""
        return self.stuck_since_ms is not None and now_ms - self.stuck_since_ms > after_ms

    @property
    def uncommitted(self) -> int:
        """Partitions that are to be read, and have no committed offset."""
        return sum(each.committed is None for each in self.offsets)

    def uncommitted_of(self, topic: str) -> int:
        return sum(each.committed is None for each in self.offsets if each.partition.topic == topic)

    @property
    def commits(self) -> bool:
        """Whether it has committed anything at all. One that has not may keep its offsets elsewhere, as Spark does."""
        return self.uncommitted < len(self.offsets)

    @property
    def max_lag(self) -> int | None:
        return max((each.lag for each in self.offsets if each.lag is not None), default=None)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.partition.topic for each in self.offsets))


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transaction that is open. One that `hangs` nobody will end, so readers of committed data wait for ever."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    started_ms: int = -1
    timeout_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class ZooKeeperView:
    """A ZooKeeper server's answer to `mntr`, or why there is none."""

    address: str
    mode: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    reading: Reading = Reading()

    def number(self, name: str) -> float | None:
        try:
            found = float(self.values[name])
        except (KeyError, ValueError):
            return None
        return found if math.isfinite(found) else None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The controllers of a cluster without ZooKeeper; they need not be brokers. `leader` is -1 where none leads."""

    leader: int
    epoch: int
    voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ControllerView:
    """How often another controller was elected within the last hour, as far as was seen or `is_recorded`."""

    elections: int = 0
    watched_since_ms: int = 0
    is_recorded: bool = False
    """The brokers write each election down, so that none is missed."""


class Counts(NamedTuple):
    """Totals over all partitions, counted once for each snapshot."""

    topics: int
    partitions: int
    replicas: int
    offline: int
    under_replicated: int
    under_min_isr: int
    not_led_by_preferred: int
    reassigning: int


NO_COUNTS = Counts(0, 0, 0, 0, 0, 0, 0, 0)


class GivenUp(NamedTuple):
    """Records of one partition that a share group gave up in the last hour, as its leaders have recorded it."""

    group_id: str
    partition: TopicPartition
    at_limit: int
    """Records that were delivered as often as they may be."""
    last_offset: int
    """Of the newest of them."""
    without_letter: int
    """Records whose dead letters were refused, which are archived without."""
    problem: str
    """Why the newest of them was refused."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One cluster at one moment, under the name that it has in the console."""

    name: str
    bootstrap: str
    number: int = 0
    at_ms: int = 0
    state: ClusterState = ClusterState.CONNECTING
    state_since_ms: int = 0
    why: str = ""
    """Why it is not reachable."""
    kind: str = ""
    """kavka, Apache Kafka, or '' where that is not known."""
    cluster_id: str | None = None
    controller_id: int = -1
    """In a cluster without ZooKeeper the leader of the controller quorum, which need not be a broker."""
    quorum: QuorumView | None = None
    controllers: ControllerView = ControllerView()
    brokers: Mapping[int, BrokerView] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    reassignments: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    transactions: tuple[TransactionView, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    zookeeper: tuple[ZooKeeperView, ...] = ()
    in_records_per_s: float | None = None
    in_bytes_per_s: float | None = None
    readings: Mapping[Part, Reading] = field(default_factory=dict)
    counts: Counts = NO_COUNTS

    def reading(self, part: Part) -> Reading:
        return self.readings.get(part, Reading())

    @property
    def is_reachable(self) -> bool:
        return self.state is ClusterState.REACHABLE

    @property
    def alive_brokers(self) -> tuple[BrokerView, ...]:
        return tuple(broker for broker in self.brokers.values() if broker.is_alive)

    @property
    def controller(self) -> BrokerView | None:
        return self.brokers.get(self.controller_id)

    def partition(self, name: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        return topic.partitions[name.partition]

    def partitions(self) -> Iterator[PartitionView]:
        """All of them, topic by topic."""
        for topic in self.topics.values():
            yield from topic.partitions

    @property
    def size_bytes(self) -> int | None:
        """Of all replicas of the brokers that reported."""
        return _total(broker.size_bytes for broker in self.alive_brokers)


def count(topics: Iterable[TopicView]) -> Counts:
    """One pass over all partitions."""
    names = partitions = replicas = offline = behind = below = elsewhere = moving = 0
    for topic in topics:
        names += 1
        partitions += len(topic.partitions)
        for each in topic.partitions:
            replicas += len(each.replicas)
            offline += each.is_offline
            behind += each.is_under_replicated
            below += each.is_under_min_isr
            elsewhere += not each.is_led_by_preferred
            moving += each.is_reassigning
    return Counts(names, partitions, replicas, offline, behind, below, elsewhere, moving)


def _total(values: Iterable[int | None]) -> int | None:
    """The sum; None where one of them is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
