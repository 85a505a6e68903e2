"""SnapshotAssembly: puts what has been read of a cluster's brokers and topics together into snapshots.

Decides what each reading changes, since when something is so (a replica missing, a broker gone), and how fast logs
grow. Values and `now_ms` in, views out: no clock, no socket.

    I1  Only partitions that a reading changed are put together anew: ten thousand of which none changed cost nothing.
    I2  What a topic's or a broker's end leaves behind is forgotten with it.
    I3  A rate is growth between two readings of the same part, divided by the time between them; a log that shrank grew
        by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from kavka.client.admin import LogDirectory, Reassignment
from kavka.client.cluster import PartitionMetadata, TopicMetadata
from kavka.decisions import DECISIONS_TOPIC
from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.observe.readings import ByBroker, Described
from kavka.observe.snapshot import (
    NO_COUNTS,
    NOT_READ,
    BrokerMetrics,
    BrokerView,
    Counts,
    LogDirectoryView,
    PartitionView,
    QuorumView,
    Reading,
    TopicView,
    count,
)

NEVER_READ: Final = Reading()
_NOTHING: Final[Mapping[int, int]] = {}
SLICE: Final = 500
"""Partitions that are put together in one turn: three milliseconds."""
KEPT_BROKERS: Final = 1_000
"""Brokers that were there once and are remembered as gone."""


@dataclass(slots=True)
class _Topic:
    """What is known of one topic; mappings are by partition."""

    metadata: TopicMetadata
    high_watermarks: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, dict[int, int]] = field(default_factory=dict)
    sizes: dict[int, dict[int, int]] = field(default_factory=dict)
    behind_since: dict[int, int] = field(default_factory=dict)
    offline_since: dict[int, int] = field(default_factory=dict)
    moves: dict[int, Reassignment] = field(default_factory=dict)
    configs: dict[str, str] | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    view: TopicView | None = None
    counts: Counts = NO_COUNTS
    stale: set[int] = field(default_factory=set)
    """Partitions whose view is not what is known."""
    is_stale: bool = True
    """All of them are."""
    is_counted: bool = False
    """Whether `counts` is what is known: offsets and sizes do not change it."""
    parts: list[PartitionView] = field(default_factory=list)
    """The views of the partitions, in their places; those that are stale are as they were before."""
    parts_changed: bool = False
    """Since the topic's view was made."""


@dataclass(slots=True)
class _Broker:
    """What is known of one broker."""

    host: str = ""
    port: int = -1
    rack: str | None = None
    is_alive: bool = False
    since_ms: int = 0
    directories: tuple[LogDirectoryView, ...] = ()
    directories_reading: Reading = NEVER_READ
    configs: Mapping[str, str] = field(default_factory=dict)
    configs_reading: Reading = NEVER_READ
    metrics: BrokerMetrics | None = None
    metrics_reading: Reading = NEVER_READ
    bytes_per_s: float | None = None

    def age_size(self, why: str) -> None:
        """The size is as it was last read, and `why` it is no newer."""
        self.directories_reading = Reading(self.directories_reading.read_at_ms, 0, why)


@dataclass(slots=True)
class _Tally:
    """What a broker has of all partitions."""

    leads: int = 0
    preferred: int = 0
    replicas: int = 0
    out_of_sync: int = 0


class SnapshotAssembly:
    """One cluster's brokers and topics."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.quorum: QuorumView | None = None
        self._knows_controller = False
        self.reassignments: Mapping[TopicPartition, Reassignment] = {}
        self._topics: dict[str, _Topic] = {}
        self._brokers: dict[int, _Broker] = {}
        self._changed: set[str] = set()
        self._views: dict[str, TopicView] = {}
        self._broker_views: dict[int, BrokerView] = {}
        self._brokers_changed = True
        self._tallies: dict[int, _Tally] | None = None
        """None where leaders or replicas are others than when they were counted."""
        self._counts = NO_COUNTS
        self._watermarks_ms = 0
        self._sizes_ms = 0

    # -- readings

    def take_metadata(self, described: Described, now_ms: int) -> None:
        """Brokers, topics, leaders, ISRs. Another cluster id is another cluster: nothing of the old one is kept."""
        if self.cluster_id is not None and described.cluster_id != self.cluster_id:
            self.__init__()  # type: ignore[misc]  # all that is kept is of the cluster that was there
        self.cluster_id = described.cluster_id
        if self._knows_controller and self.quorum is None:
            self._take_controller_id(described.controller_id)
        for name in [name for name in self._topics if name not in described.topics]:
            del self._topics[name]
            self._changed.add(name)
            self._tallies = None
        for name, metadata in described.topics.items():
            known = self._topics.get(name)
            if known is None or known.metadata.topic_id != metadata.topic_id:
                known = self._topics[name] = _Topic(metadata)
                self._changed.add(name)
                self._tallies = None
                self._note_since(known, now_ms)
            elif known.metadata.partitions != metadata.partitions:
                before = known.metadata.partitions
                known.is_stale |= len(before) != len(metadata.partitions)
                known.stale.update(
                    new.partition for old, new in zip(before, metadata.partitions, strict=False) if old != new
                )
                known.metadata = metadata
                known.is_counted = False
                self._changed.add(name)
                self._tallies = None
                self._note_since(known, now_ms)
        self._take_brokers(described, now_ms)

    def take_controller(self, quorum: QuorumView | None, named: int) -> None:
        """Who the controller is: the leader of the quorum, where there is one, else the one whom Metadata `named`. In a
        cluster with a quorum Metadata names anybody."""
        self._knows_controller = True
        self.quorum = quorum
        self._take_controller_id(named if quorum is None else quorum.leader)

    def _take_controller_id(self, found: int) -> None:
        if found != self.controller_id:
            self.controller_id = found
            self._brokers_changed = True

    def _note_since(self, topic: _Topic, now_ms: int) -> None:
        for each in topic.metadata.partitions:
            for since, is_so in (
                (topic.behind_since, len(each.in_sync_replicas) < len(each.replicas)),
                (topic.offline_since, each.leader < 0),
            ):
                if is_so:
                    since.setdefault(each.partition, now_ms)
                else:
                    since.pop(each.partition, None)

    def _take_brokers(self, described: Described, now_ms: int) -> None:
        is_first = not self._brokers
        for broker_id, (_, host, port, rack) in described.brokers.items():
            known = self._brokers.setdefault(broker_id, _Broker())
            if not known.is_alive:
                known.is_alive = True
                known.since_ms = 0 if is_first else now_ms
                known.age_size(NOT_READ)
                self._brokers_changed = True
            if (known.host, known.port, known.rack) != (host, port, rack):
                known.host, known.port, known.rack = host, port, rack
                self._brokers_changed = True
        for broker_id, known in self._brokers.items():
            if known.is_alive and broker_id not in described.brokers:
                known.is_alive = False
                known.since_ms = now_ms
                known.bytes_per_s = None
                known.age_size("the broker does not answer")
                self._brokers_changed = True

    def take_high_watermarks(self, found: ByBroker[dict[TopicPartition, int]], now_ms: int) -> None:
        passed_s = (now_ms - self._watermarks_ms) / 1000
        grown: dict[str, int] = {}
        for offsets in found.found.values():
            for (name, partition), offset in offsets.items():
                topic = self._topics.get(name)
                if topic is None:
                    continue
                before = topic.high_watermarks.get(partition)
                if before is not None:
                    grown[name] = grown.get(name, 0) + max(offset - before, 0)
                if before != offset:
                    topic.high_watermarks[partition] = offset
                    topic.stale.add(partition)
                    self._changed.add(name)
        if self._watermarks_ms and passed_s > 0:
            for name, topic in self._topics.items():
                rate = grown[name] / passed_s if name in grown else None
                if rate != topic.records_per_s:
                    topic.records_per_s = rate
                    self._changed.add(name)
        self._watermarks_ms = now_ms

    def take_log_starts(self, found: ByBroker[dict[TopicPartition, int]]) -> None:
        for offsets in found.found.values():
            for (name, partition), offset in offsets.items():
                topic = self._topics.get(name)
                if topic is not None and topic.starts.get(partition) != offset:
                    topic.starts[partition] = offset
                    topic.stale.add(partition)
                    self._changed.add(name)

    def take_log_ends(self, found: ByBroker[dict[TopicPartition, int]]) -> None:
        for broker, offsets in found.found.items():
            for (name, partition), offset in offsets.items():
                topic = self._topics.get(name)
                if topic is None:
                    continue
                ends = topic.ends.get(partition, {})
                if ends.get(broker) != offset:
                    # A new mapping: the one before belongs to snapshots that are out.
                    topic.ends[partition] = {**ends, broker: offset}
                    topic.stale.add(partition)
                    self._changed.add(name)
        self._forget_ends(found.silent)

    def _forget_ends(self, brokers: Iterable[int]) -> None:
        """A broker that does not answer has no known log ends: its old ones would look as if it stood still."""
        for broker in brokers:
            for name, topic in self._topics.items():
                for partition, ends in topic.ends.items():
                    if broker in ends:
                        topic.ends[partition] = {each: end for each, end in ends.items() if each != broker}
                        topic.stale.add(partition)
                        self._changed.add(name)

    def take_log_directories(self, found: ByBroker[list[LogDirectory]], now_ms: int) -> None:
        passed_s = (now_ms - self._sizes_ms) / 1000 if self._sizes_ms else 0.0
        by_topic: dict[str, int] = {}
        for broker_id, directories in found.found.items():
            grown = self._take_sizes(broker_id, directories, by_topic)
            broker = self._brokers.setdefault(broker_id, _Broker())
            broker.directories = tuple(_directory(each) for each in directories)
            broker.directories_reading = Reading(now_ms, 0, "")
            if passed_s > 0:
                broker.bytes_per_s = grown / passed_s
        for broker_id, why in found.silent.items():
            broker = self._brokers.setdefault(broker_id, _Broker())
            broker.age_size(why)
            broker.bytes_per_s = None
        if passed_s > 0:
            for name, topic in self._topics.items():
                rate = by_topic[name] / passed_s if name in by_topic else None
                if rate != topic.bytes_per_s:
                    topic.bytes_per_s = rate
                    self._changed.add(name)
        self._sizes_ms = now_ms
        self._brokers_changed = True

    def _take_sizes(self, broker: int, directories: Iterable[LogDirectory], by_topic: dict[str, int]) -> int:
        """Takes the sizes over; returns by how much what the broker leads has grown, and adds it by topic."""
        grown = 0
        for directory in directories:
            for (name, partition), size, _, is_future in directory.replicas:
                topic = self._topics.get(name)
                if topic is None or is_future:
                    continue
                sizes = topic.sizes.get(partition, {})
                before = sizes.get(broker)
                if before == size:
                    by_topic.setdefault(name, 0)
                    continue
                topic.sizes[partition] = {**sizes, broker: size}
                topic.stale.add(partition)
                self._changed.add(name)
                described = topic.metadata.partitions
                if before is None or not 0 <= partition < len(described):
                    continue
                if described[partition].leader == broker:
                    grown += max(size - before, 0)
                    by_topic[name] = by_topic.get(name, 0) + max(size - before, 0)
        return grown

    def take_topic_configs(self, found: Mapping[str, dict[str, str]]) -> None:
        for name, configs in found.items():
            topic = self._topics.get(name)
            if topic is not None and topic.configs != configs:
                topic.configs = configs
                topic.is_stale, topic.is_counted = True, False
                self._changed.add(name)

    def take_broker_configs(self, found: ByBroker[dict[str, str]], now_ms: int) -> None:
        for broker_id, configs in found.found.items():
            broker = self._brokers.setdefault(broker_id, _Broker())
            broker.configs, broker.configs_reading = configs, Reading(now_ms, 0, "")
        for broker_id, why in found.silent.items():
            broker = self._brokers.setdefault(broker_id, _Broker())
            broker.configs_reading = Reading(broker.configs_reading.read_at_ms, 0, why)
        self._brokers_changed = True

    def take_broker_metrics(self, found: ByBroker[BrokerMetrics], now_ms: int) -> None:
        for broker_id, metrics in found.found.items():
            broker = self._brokers.setdefault(broker_id, _Broker())
            broker.metrics, broker.metrics_reading = metrics, Reading(now_ms, 0, "")
        for broker_id, why in found.silent.items():
            broker = self._brokers.setdefault(broker_id, _Broker())
            broker.metrics_reading = Reading(broker.metrics_reading.read_at_ms, 0, why)
        self._brokers_changed = True

    def take_reassignments(self, found: Mapping[TopicPartition, Reassignment]) -> None:
        if found == self.reassignments:
            return
        self.reassignments = found
        moving: dict[str, dict[int, Reassignment]] = {}
        for (name, partition), move in found.items():
            moving.setdefault(name, {})[partition] = move
        for name, topic in self._topics.items():
            if topic.moves != moving.get(name, {}):
                topic.moves = moving.get(name, {})
                topic.is_stale, topic.is_counted = True, False
                self._changed.add(name)

    # -- questions

    @property
    def topic_names(self) -> list[str]:
        return sorted(self._topics)

    @property
    def broker_ids(self) -> list[int]:
        """Those alive."""
        return sorted(broker_id for broker_id, broker in self._brokers.items() if broker.is_alive)

    def by_leader(self) -> dict[int, list[TopicPartition]]:
        """Partitions by the live broker that leads them."""
        found: dict[int, list[TopicPartition]] = {broker: [] for broker in self.broker_ids}
        for name, topic in self._topics.items():
            for each in topic.metadata.partitions:
                if each.leader in found:
                    found[each.leader].append(TopicPartition(name, each.partition))
        return {broker: partitions for broker, partitions in found.items() if partitions}

    def by_replica(self) -> dict[int, list[TopicPartition]]:
        """Partitions by the live brokers that hold them."""
        found: dict[int, list[TopicPartition]] = {broker: [] for broker in self.broker_ids}
        for name, topic in self._topics.items():
            for each in topic.metadata.partitions:
                for replica in each.replicas:
                    if replica in found:
                        found[replica].append(TopicPartition(name, each.partition))
        return {broker: partitions for broker, partitions in found.items() if partitions}

    def high_watermark(self, partition: TopicPartition) -> int | None:
        topic = self._topics.get(partition.topic)
        return None if topic is None else topic.high_watermarks.get(partition.partition)

    def log_start(self, partition: TopicPartition) -> int | None:
        topic = self._topics.get(partition.topic)
        return None if topic is None else topic.starts.get(partition.partition)

    def partition_numbers(self, topic: str) -> list[int]:
        found = self._topics.get(topic)
        return [] if found is None else [each.partition for each in found.metadata.partitions]

    def configs_of(self, broker_id: int) -> Mapping[str, str]:
        broker = self._brokers.get(broker_id)
        return {} if broker is None else broker.configs

    @property
    def records_per_s(self) -> float | None:
        return _sum(topic.records_per_s for topic in self._topics.values())

    @property
    def bytes_per_s(self) -> float | None:
        return _sum(topic.bytes_per_s for topic in self._topics.values())

    # -- views

    def prepare(self) -> Iterator[None]:
        """Makes ready what `views` will ask for, a SLICE of partitions at a time, so that others get a turn between."""
        for name in list(self._changed):
            while (topic := self._topics.get(name)) is not None and _bring_up_to_date(topic, SLICE):
                yield

    def views(self) -> tuple[Mapping[str, TopicView], Mapping[int, BrokerView], Counts]:
        """All topics by name, one's own before internal ones, all brokers by id, and the totals; what did not change is
        the very same object."""
        if self._changed or self._brokers_changed:
            for name in self._changed:
                topic = self._topics.get(name)
                if topic is not None:
                    topic.view = _topic_view(topic)
                    if not topic.is_counted:
                        topic.counts, topic.is_counted = count([topic.view]), True
            views = [topic.view for topic in self._topics.values() if topic.view is not None]
            views.sort(key=lambda view: (view.is_internal, view.name))
            self._views = {view.name: view for view in views}
            self._counts = (
                Counts(*(sum(column) for column in zip(*(t.counts for t in self._topics.values()), strict=True)))
                if self._topics
                else NO_COUNTS
            )
            self._broker_views = self._make_broker_views()
            self._changed = set()
            self._brokers_changed = False
        return self._views, self._broker_views, self._counts

    def _make_broker_views(self) -> dict[int, BrokerView]:
        if self._tallies is None:
            self._tallies = self._tally()
        tallies = self._tallies
        for broker_id in [each for each, broker in self._brokers.items() if not broker.is_alive]:
            if broker_id not in tallies or len(self._brokers) > KEPT_BROKERS:
                del self._brokers[broker_id]  # Gone, and nobody waits for its return.
        return {
            broker_id: self._broker_view(broker_id, tallies.get(broker_id, _Tally()))
            for broker_id in sorted({*self._brokers, *tallies})
        }

    def _tally(self) -> dict[int, _Tally]:
        tallies: dict[int, _Tally] = {}
        for topic in self._topics.values():
            for each in topic.metadata.partitions:
                in_sync = each.in_sync_replicas
                for place, replica in enumerate(each.replicas):
                    tally = tallies.get(replica)
                    if tally is None:
                        tally = tallies[replica] = _Tally()
                    tally.replicas += 1
                    tally.preferred += not place
                    tally.leads += each.leader == replica
                    tally.out_of_sync += replica not in in_sync
        return tallies

    def _broker_view(self, broker_id: int, tally: _Tally) -> BrokerView:
        broker = self._brokers.get(broker_id) or _Broker()
        return BrokerView(
            broker_id,
            broker.host,
            broker.port,
            broker.rack,
            broker.is_alive,
            broker.is_alive and broker_id == self.controller_id,
            tally.leads,
            tally.preferred,
            tally.replicas,
            tally.out_of_sync,
            sum(each.replicas_bytes for each in broker.directories) if broker.directories_reading.is_known else None,
            broker.directories,
            broker.directories_reading,
            broker.configs,
            broker.configs_reading,
            broker.metrics,
            broker.metrics_reading,
            broker.bytes_per_s,
            broker.since_ms,
        )


def _topic_view(topic: _Topic) -> TopicView:
    """The topic as it is known now; partitions of which nothing changed are those of the view before."""
    metadata, view = topic.metadata, topic.view
    while _bring_up_to_date(topic, len(metadata.partitions)):
        pass
    is_known = view is not None and not topic.parts_changed
    partitions = view.partitions if view is not None and is_known else tuple(topic.parts)
    topic.parts_changed = False
    return TopicView(
        metadata.name,
        str(metadata.topic_id),
        # Brokers do not call it so: whoever may read it reads it as any other topic. It is nobody's data all the same.
        metadata.is_internal or metadata.name == DECISIONS_TOPIC,
        partitions,
        topic.configs,
        topic.records_per_s,
        topic.bytes_per_s,
    )


def _bring_up_to_date(topic: _Topic, most: int) -> bool:
    """Puts together anew at most so many partitions of which something changed; whether there were any."""
    partitions, configs = topic.metadata.partitions, topic.configs
    if topic.is_stale:
        topic.is_stale = False
        topic.stale = set(range(len(partitions)))
        del topic.parts[len(partitions) :]
    if not topic.stale:
        return False
    least = None
    if configs is not None and configs.get("min.insync.replicas", "").isdecimal():
        least = int(configs["min.insync.replicas"])
    for place in sorted(topic.stale)[:most] if len(topic.parts) < len(partitions) else list(islice(topic.stale, most)):
        topic.stale.discard(place)
        if 0 <= place < len(partitions):
            view = _partition_view(topic, partitions[place], least)
            topic.parts[place : place + 1] = [view]
    topic.parts_changed = True
    return True


def _partition_view(topic: _Topic, described: PartitionMetadata, least: int | None) -> PartitionView:
    number, leader, epoch, replicas, in_sync, offline = described
    move = topic.moves.get(number)
    return PartitionView(
        topic.metadata.name,
        number,
        leader,
        epoch,
        replicas,
        in_sync,
        offline,
        topic.starts.get(number),
        topic.high_watermarks.get(number),
        topic.ends.get(number, _NOTHING),
        topic.sizes.get(number, _NOTHING),
        least,
        topic.behind_since.get(number),
        topic.offline_since.get(number),
        () if move is None else move.adding,
        () if move is None else move.removing,
    )


def _directory(described: LogDirectory) -> LogDirectoryView:
    return LogDirectoryView(
        described.path,
        "" if described.error is ErrorCode.NONE else described.error.name,
        described.total_bytes if described.total_bytes >= 0 else None,
        described.usable_bytes if described.usable_bytes >= 0 else None,
        len(described.replicas),
        sum(each.size_bytes for each in described.replicas),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
