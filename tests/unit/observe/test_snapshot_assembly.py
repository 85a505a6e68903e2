"""What readings of a cluster are put together into: what changed, since when, how fast."""

from __future__ import annotations

from uuid import UUID

from kavka.client.admin import LogDirectory, Reassignment, ReplicaInfo
from kavka.client.cluster import Broker, PartitionMetadata, TopicMetadata
from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.observe.readings import ByBroker, Described
from kavka.observe.snapshot_assembly import SLICE, SnapshotAssembly

FIRST = TopicPartition("orders", 0)


def topic(*leaders: int, isr: tuple[int, ...] = (1, 2), name: str = "orders", number: int = 1) -> TopicMetadata:
    partitions = tuple(PartitionMetadata(i, leader, 0, (1, 2), isr, ()) for i, leader in enumerate(leaders))
    return TopicMetadata(name, UUID(int=number), False, partitions)


def described(*topics: TopicMetadata, brokers: tuple[int, ...] = (1, 2), cluster_id: str = "c") -> Described:
    found = {each: Broker(each, "host", 9000 + each) for each in brokers}
    return Described(cluster_id, 1, found, {each.name: each for each in topics})


def ends(**by_broker: dict[TopicPartition, int]) -> ByBroker[dict[TopicPartition, int]]:
    return ByBroker({int(broker[1:]): found for broker, found in by_broker.items()})


def directory(size: int) -> LogDirectory:
    return LogDirectory("/d", ErrorCode.NONE, 100, 50, (ReplicaInfo(FIRST, size, 0, False),))


def test_what_did_not_change_is_the_very_same_object() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1), topic(2, name="other", number=2)), 1_000)
    topics, brokers, _ = assembly.views()
    assembly.take_metadata(described(topic(1), topic(2, name="other", number=2)), 2_000)
    again, same_brokers, _ = assembly.views()
    assert again is topics
    assert same_brokers is brokers
    assembly.take_high_watermarks(ends(b1={FIRST: 7}), 3_000)
    changed, _, _ = assembly.views()
    assert changed["other"] is topics["other"]
    assert changed["orders"].partitions[0].high_watermark == 7


def test_ones_own_topics_come_before_internal_ones() -> None:
    """Lists, evidence and suggestions follow this order, and often only their beginning is shown."""
    names = ("__consumer_offsets", "__kavka_decisions", "Zebra", "orders", "__own")
    made = [topic(1, name=name, number=number) for number, name in enumerate(names, start=1)]
    internal = [each._replace(is_internal=each.name == "__consumer_offsets") for each in made]
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(*internal), 1_000)
    assert list(assembly.views()[0]) == ["Zebra", "__own", "orders", "__consumer_offsets", "__kavka_decisions"]


def test_a_partition_of_which_nothing_changed_is_the_very_same_object() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1, 2, 1)), 1_000)
    before = assembly.views()[0]["orders"].partitions
    assembly.take_high_watermarks(ends(b2={TopicPartition("orders", 1): 7}), 2_000)
    after = assembly.views()[0]["orders"].partitions
    assert [new is old for new, old in zip(after, before, strict=True)] == [True, False, True]
    assembly.take_metadata(described(topic(1, 2, 2)), 3_000)
    moved = assembly.views()[0]["orders"].partitions
    assert [new is old for new, old in zip(moved, after, strict=True)] == [True, True, False]
    assembly.take_metadata(described(topic(1, 2, 2, 1)), 4_000)
    assert [each.leader for each in assembly.views()[0]["orders"].partitions] == [1, 2, 2, 1]


def test_many_partitions_are_put_together_in_slices_and_are_the_same_as_at_once() -> None:
    count = 3 * SLICE + 7
    everywhere = {TopicPartition("orders", number): number + 5 for number in range(count)}
    at_once, in_slices = SnapshotAssembly(), SnapshotAssembly()
    for assembly in (at_once, in_slices):
        assembly.take_metadata(described(topic(*[1] * count)), 1_000)
        assembly.views()
        assembly.take_high_watermarks(ends(b1=everywhere), 2_000)
    slices = in_slices.prepare()
    next(slices)
    in_slices.take_log_starts(ends(b1={FIRST: 3}))
    in_slices.take_metadata(described(topic(*[1] * (count - 1), 2)), 3_000)
    assert sum(1 for _ in slices) == 3
    at_once.take_log_starts(ends(b1={FIRST: 3}))
    at_once.take_metadata(described(topic(*[1] * (count - 1), 2)), 3_000)
    assert in_slices.views()[0] == at_once.views()[0]
    assert not list(in_slices.prepare())


def test_partitions_that_are_added_while_slices_are_made_are_in_their_places() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(*[1] * (2 * SLICE))), 1_000)
    next(assembly.prepare())
    assembly.take_metadata(described(topic(*[1] * (2 * SLICE), 2, 2)), 2_000)
    partitions = assembly.views()[0]["orders"].partitions
    assert [each.partition for each in partitions] == list(range(2 * SLICE + 2))
    assert [each.leader for each in partitions[-3:]] == [1, 2, 2]
    assembly.take_metadata(described(topic(2)), 3_000)
    assert [each.leader for each in assembly.views()[0]["orders"].partitions] == [2]


def test_totals_follow_leaders_isrs_and_settings() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1, 2)), 1_000)
    assert assembly.views()[2].under_replicated == 0
    assembly.take_metadata(described(topic(1, 2, isr=(1,))), 2_000)
    _, brokers, counts = assembly.views()
    assert (counts.under_replicated, counts.under_min_isr, brokers[2].out_of_sync) == (2, 0, 2)
    assembly.take_topic_configs({"orders": {"min.insync.replicas": "2"}})
    assert assembly.views()[2].under_min_isr == 2
    assembly.take_metadata(described(), 3_000)
    _, brokers, counts = assembly.views()
    assert (counts.partitions, brokers[1].leads) == (0, 0)


def test_a_replica_is_out_of_sync_since_it_was_first_seen_so_without_a_break() -> None:
    assembly = SnapshotAssembly()
    for at_ms, isr in ((1_000, (1, 2)), (2_000, (1,)), (3_000, (1,))):
        assembly.take_metadata(described(topic(1, isr=isr)), at_ms)
    assert assembly.views()[0]["orders"].partitions[0].out_of_sync_since_ms == 2_000
    assembly.take_metadata(described(topic(1)), 4_000)
    assert assembly.views()[0]["orders"].partitions[0].out_of_sync_since_ms is None
    assembly.take_metadata(described(topic(1, isr=(1,))), 5_000)
    assert assembly.views()[0]["orders"].partitions[0].out_of_sync_since_ms == 5_000


def test_a_broker_that_left_is_shown_as_gone_while_replicas_are_assigned_to_it() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 1_000)
    assembly.take_metadata(described(topic(1, isr=(1,)), brokers=(1,)), 2_000)
    gone = assembly.views()[1][2]
    assert (gone.is_alive, gone.since_ms, gone.replicas, gone.out_of_sync) == (False, 2_000, 1, 1)
    assembly.take_metadata(described(brokers=(1,)), 3_000)
    assert 2 not in assembly.views()[1]


def test_what_a_broker_leads_is_preferred_for_and_lacks_is_counted() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1, 2, isr=(1,))), 1_000)
    first, second = assembly.views()[1].values()
    assert (first.leads, first.preferred, first.replicas, first.out_of_sync) == (1, 2, 2, 0)
    assert (second.leads, second.preferred, second.replicas, second.out_of_sync) == (1, 0, 2, 2)


def test_a_rate_takes_two_readings_and_a_log_that_shrank_grew_by_nothing() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 0)
    assembly.take_high_watermarks(ends(b1={FIRST: 100}), 1_000)
    assert assembly.views()[0]["orders"].in_records_per_s is None
    assembly.take_high_watermarks(ends(b1={FIRST: 300}), 3_000)
    assert assembly.views()[0]["orders"].in_records_per_s == 100
    assert assembly.records_per_s == 100
    assembly.take_high_watermarks(ends(b1={FIRST: 250}), 4_000)
    assert assembly.views()[0]["orders"].in_records_per_s == 0


def test_bytes_a_second_are_those_of_the_leaders_copy() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 0)
    assembly.take_log_directories(ByBroker({1: [directory(1_000)], 2: [directory(1_000)]}), 10_000)
    assembly.take_log_directories(ByBroker({1: [directory(3_000)], 2: [directory(9_000)]}), 12_000)
    topics, brokers, _ = assembly.views()
    assert topics["orders"].in_bytes_per_s == 1_000
    assert (brokers[1].in_bytes_per_s, brokers[2].in_bytes_per_s) == (1_000, 0)
    assert brokers[1].log_directories[0].used_percent == 50


def test_log_ends_of_a_broker_that_does_not_answer_are_unknown_again() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 0)
    assembly.take_log_ends(ends(b1={FIRST: 5}, b2={FIRST: 3}))
    before = assembly.views()[0]["orders"].partitions[0]
    assert before.records_behind(2) == 2
    assembly.take_log_ends(ByBroker({1: {FIRST: 9}}, {2: "no answer"}))
    after = assembly.views()[0]["orders"].partitions[0]
    assert after.log_ends == {1: 9}
    assert after.records_behind(2) is None
    assert before.log_ends == {1: 5, 2: 3}, "a snapshot that is out was changed"


def test_a_broker_that_does_not_tell_its_directories_keeps_the_old_ones_with_the_reason() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 0)
    assembly.take_log_directories(ByBroker({1: [directory(10)]}, {2: "timed out"}), 1_000)
    assembly.take_log_directories(ByBroker({}, {1: "gone", 2: "timed out"}), 2_000)
    first, second = assembly.views()[1].values()
    assert (first.size_bytes, first.log_directories_reading.read_at_ms) == (10, 1_000)
    assert first.log_directories_reading.unknown_because == "gone"
    assert second.size_bytes is None


def test_a_topic_that_is_made_again_under_its_name_begins_anew() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 0)
    assembly.take_high_watermarks(ends(b1={FIRST: 100}), 1_000)
    assembly.take_metadata(described(topic(1, number=2)), 2_000)
    assert assembly.views()[0]["orders"].partitions[0].high_watermark is None


def test_another_cluster_id_is_another_cluster() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1), cluster_id="old"), 0)
    assembly.take_metadata(described(brokers=(7,), cluster_id="new"), 1_000)
    topics, brokers, counts = assembly.views()
    assert (list(topics), list(brokers), counts.partitions) == ([], [7], 0)


def test_a_reassignment_is_shown_until_it_is_over() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 0)
    assembly.take_reassignments({FIRST: Reassignment((1, 2, 3), (3,), (1,))})
    moving = assembly.views()[0]["orders"].partitions[0]
    assert (moving.adding, moving.removing, assembly.views()[2].reassigning) == ((3,), (1,), 1)
    assembly.take_reassignments({})
    assert not assembly.views()[0]["orders"].partitions[0].is_reassigning


def test_settings_of_a_topic_tell_its_minimum() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1, isr=(1,))), 0)
    assert assembly.views()[0]["orders"].partitions[0].min_insync_replicas is None
    assembly.take_topic_configs({"orders": {"min.insync.replicas": "2"}, "unknown": {}})
    assert assembly.views()[0]["orders"].under_min_isr == 1


def test_the_size_of_a_broker_that_left_is_as_old_as_its_last_reading() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1)), 1_000)
    assembly.take_log_directories(ByBroker({1: [directory(10)], 2: [directory(10)]}), 2_000)
    assert assembly.views()[1][2].log_directories_reading.is_current
    assembly.take_metadata(described(topic(1), brokers=(1,)), 3_000)
    assembly.take_log_directories(ByBroker({1: [directory(20)]}), 4_000)
    gone = assembly.views()[1][2]
    assert (gone.size_bytes, gone.log_directories_reading.read_at_ms) == (10, 2_000)
    assert gone.log_directories_reading.unknown_because == "the broker does not answer"
    assembly.take_metadata(described(topic(1)), 5_000)
    assert not assembly.views()[1][2].log_directories_reading.is_current
    assembly.take_log_directories(ByBroker({1: [directory(20)], 2: [directory(20)]}), 6_000)
    assert assembly.views()[1][2].log_directories_reading.is_current


def test_a_broker_that_tells_of_partitions_that_cannot_be_changes_nothing() -> None:
    assembly = SnapshotAssembly()
    assembly.take_metadata(described(topic(1, 2)), 1_000)
    for number in (-1, -7, 5):
        odd = TopicPartition("orders", number)
        for size in (10, 20):
            told = LogDirectory("/d", ErrorCode.NONE, 100, 50, (ReplicaInfo(odd, size, 0, False),))
            assembly.take_log_directories(ByBroker({1: [told]}), 2_000 + size)
        assembly.take_high_watermarks(ends(b1={odd: 7}), 3_000)
        assembly.take_log_ends(ends(b1={odd: 7}))
        assert [each.partition for each in assembly.views()[0]["orders"].partitions] == [0, 1]
