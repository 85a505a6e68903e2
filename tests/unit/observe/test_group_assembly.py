"""Groups between readings: how old a position is, who is stuck, who rebalances."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.client.group_admin import ListedGroup, ShownGroup, ShownMember
from kavka.client.share_group_admin import RecordRun, SharePosition, ShareRecords
from kavka.model import TopicPartition
from kavka.observe.group_assembly import MAX_SAMPLED, GroupAssembly
from kavka.observe.group_readings import GroupReading
from kavka.observe.snapshot import GroupView

FIRST = TopicPartition("orders", 0)


def reading(at_ms: int, committed: int | None, members: Sequence[str] = ("m1",), *, problem: str = "") -> GroupReading:
    listed = ListedGroup("g", "classic", "consumer", "Stable", 1)
    shown = tuple(ShownMember(name, None, "c", "/h", (FIRST,), None) for name in members)
    described = ShownGroup("g", "classic", "Stable", "range", 1, None, None, shown)
    return GroupReading(listed, described, {} if committed is None else {FIRST: committed}, at_ms, problem)


def share_reading(at_ms: int, start: int, lag: int | None) -> GroupReading:
    """A share group that two members read `FIRST` for."""
    listed = ListedGroup("g", "share", "share", "Stable", 1)
    members = tuple(ShownMember(name, None, "c", "/h", (FIRST,), 1) for name in ("m1", "m2"))
    described = ShownGroup("g", "share", "Stable", "simple", 1, 1, 1, members)
    runs = (RecordRun(start, start, "acquired", 1, "m1", 9_000, None),)
    return GroupReading(
        listed,
        described,
        read_at_ms=at_ms,
        shares={FIRST: SharePosition(start, lag)},
        records={FIRST: ShareRecords(start, start + 1, 1, 1, runs)},
    )


class Ends:
    def __init__(self) -> None:
        self.start: int | None = 0
        self.end: int | None = 0

    def high_watermark(self, partition: TopicPartition) -> int | None:
        return self.end if partition == FIRST else None

    def log_start(self, partition: TopicPartition) -> int | None:
        return self.start if partition == FIRST else None

    def partition_numbers(self, topic: str) -> list[int]:
        return [0] if topic == "orders" else []


class Grown(Ends):
    """Two partitions, of ten records each."""

    def high_watermark(self, partition: TopicPartition) -> int | None:
        return 10

    def log_start(self, partition: TopicPartition) -> int | None:
        return 0

    def partition_numbers(self, topic: str) -> list[int]:
        return [0, 1]


def view(assembly: GroupAssembly, ends: Ends, now_ms: int) -> GroupView:
    return assembly.views(ends, now_ms)["g"]


def test_lag_in_ms_is_how_long_the_next_record_has_been_waiting() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 10
    assembly.take({"g": reading(1, 10)}, ends)
    for at_ms, end in ((10_000, 10), (20_000, 15), (30_000, 40)):
        ends.end = end
        assembly.sample(ends, at_ms)
    (offset,) = view(assembly, ends, 32_000).offsets
    assert (offset.lag, offset.lag_ms, offset.member_id) == (30, 12_000, "m1")
    assembly.take({"g": reading(2, 40)}, ends)
    assert view(assembly, ends, 33_000).offsets[0].lag_ms == 0


def test_lag_in_ms_is_unknown_where_the_record_was_there_before_the_console_looked() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100
    assembly.take({"g": reading(1, 10)}, ends)
    assembly.sample(ends, 10_000)
    assert view(assembly, ends, 11_000).offsets[0].lag_ms is None
    assert view(assembly, ends, 11_000).lag == 90


def test_a_group_stands_still_since_the_reading_after_which_nothing_moved() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100
    for at_ms, committed in ((1_000, 10), (2_000, 20), (3_000, 20), (4_000, 20)):
        assembly.take({"g": reading(at_ms, committed)}, ends)
    assert view(assembly, ends, 5_000).stuck_since_ms == 2_000
    assembly.take({"g": reading(5_000, 21)}, ends)
    assert view(assembly, ends, 5_000).stuck_since_ms is None


def test_a_group_between_two_commits_is_not_stuck_yet() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100
    for at_ms in (1_000, 3_000, 5_000):
        assembly.take({"g": reading(at_ms, 10)}, ends)
    found = view(assembly, ends, 6_000)
    assert found.stuck_since_ms == 1_000
    assert not found.is_stuck(6_000, 120_000)
    assert found.is_stuck(121_001, 120_000)


def test_a_group_at_the_end_or_without_members_is_not_stuck() -> None:
    for end, members in ((20, ("m1",)), (100, ())):
        assembly, ends = GroupAssembly(), Ends()
        ends.end = end
        for at_ms in (1_000, 2_000, 3_000):
            assembly.take({"g": reading(at_ms, 20, members)}, ends)
        assert view(assembly, ends, 4_000).stuck_since_ms is None


def test_other_members_are_a_rebalance_and_those_of_more_than_an_hour_ago_do_not_count() -> None:
    assembly, ends = GroupAssembly(), Ends()
    for at_ms, members in ((1_000, ("a",)), (2_000, ("a", "b")), (3_000, ("a", "b")), (4_000, ("b",))):
        assembly.take({"g": reading(at_ms, 0, members)}, ends)
    assert view(assembly, ends, 5_000).rebalances == 2
    assert view(assembly, ends, 3_602_500).rebalances == 1


def test_a_group_that_could_not_be_read_is_as_old_as_its_reading_and_says_why() -> None:
    assembly, ends = GroupAssembly(), Ends()
    assembly.take({"g": reading(1_000, 5, problem="broker 2 did not answer")}, ends)
    found = view(assembly, ends, 9_000)
    assert (found.reading.read_at_ms, found.reading.unknown_because) == (1_000, "broker 2 did not answer")


def test_a_group_that_is_gone_leaves_nothing_behind() -> None:
    assembly, ends = GroupAssembly(), Ends()
    assembly.take({"g": reading(1_000, 5)}, ends)
    assembly.take({}, ends)
    assert assembly.views(ends, 2_000) == {}


def test_ends_are_sampled_of_a_bounded_number_of_partitions() -> None:
    assembly = GroupAssembly()
    many = reading(1, 0, ())
    many.committed = {TopicPartition("t", number): 0 for number in range(MAX_SAMPLED + 50)}

    class Tens(Ends):
        def high_watermark(self, partition: TopicPartition) -> int:
            return 10

    assembly.take({"g": many}, Tens())
    assembly.sample(Tens(), 1_000)
    assembly.sample(Tens(), 9_000)
    known = [each.lag_ms for each in assembly.views(Tens(), 10_000)["g"].offsets]
    assert len(known) == MAX_SAMPLED + 50
    assert assembly.sampled == MAX_SAMPLED


def test_a_partition_that_a_member_has_and_nothing_is_committed_for_counts_from_the_start_of_its_log() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.start, ends.end = 30, 100
    assembly.take({"g": reading(1_000, None)}, ends)
    found = view(assembly, ends, 2_000)
    (offset,) = found.offsets
    assert (offset.committed, offset.lag, offset.member_id) == (None, 70, "m1")
    assert (found.lag, found.lag_of("orders"), found.topics, found.uncommitted) == (70, 70, ("orders",), 1)
    assert not found.commits
    assembly.take({"g": reading(3_000, 90)}, ends)
    assert (view(assembly, ends, 4_000).lag, view(assembly, ends, 4_000).uncommitted) == (10, 0)


def test_a_partition_that_was_added_while_no_member_was_there_counts() -> None:
    assembly, ends = GroupAssembly(), Grown()
    assembly.take({"g": reading(1_000, 8, members=())}, ends)
    found = view(assembly, ends, 2_000)
    assert [(each.partition.partition, each.committed, each.lag) for each in found.offsets] == [
        (0, 8, 2),
        (1, None, 10),
    ]
    assert (found.lag, found.uncommitted) == (12, 1)
    assembly.take({"g": reading(3_000, 8)}, ends)
    assert view(assembly, ends, 4_000).uncommitted == 0, "its member has the other one alone"


def test_who_names_their_partitions_is_about_those_alone() -> None:
    assembly, ends = GroupAssembly(), Grown()
    simple = reading(1_000, 8, members=())
    simple.listed = simple.listed._replace(protocol_type="")
    assembly.take({"g": simple}, ends)
    assert [each.partition.partition for each in view(assembly, ends, 2_000).offsets] == [0]


def test_its_lag_is_unknown_while_the_start_of_its_log_is() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.start, ends.end = None, 100
    assembly.take({"g": reading(1_000, None)}, ends)
    assert view(assembly, ends, 2_000).lag is None


def test_its_lag_in_ms_is_known_for_records_that_came_while_the_console_watched() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.start = ends.end = 10
    assembly.take({"g": reading(1, None)}, ends)
    for at_ms, end in ((10_000, 10), (20_000, 15)):
        ends.end = end
        assembly.sample(ends, at_ms)
    assert view(assembly, ends, 32_000).offsets[0].lag_ms == 12_000


def test_a_group_that_committed_nothing_is_not_called_stuck() -> None:
    # Its members may have begun at the end, or keep their offsets elsewhere.
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100
    for at_ms in (1_000, 2_000, 3_000):
        assembly.take({"g": reading(at_ms, None)}, ends)
    assert view(assembly, ends, 4_000).stuck_since_ms is None


def test_the_assignments_of_what_is_no_consumer_are_no_partitions_without_a_commit() -> None:
    assembly, ends = GroupAssembly(), Ends()
    share = reading(1_000, None)
    share.listed = share.listed._replace(protocol_type="share")
    assembly.take({"g": share}, ends)
    assert view(assembly, ends, 2_000).offsets == ()


def test_a_share_groups_lag_is_what_its_coordinator_counts() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100
    assembly.take({"g": share_reading(1_000, 10, 7)}, ends)
    found = view(assembly, ends, 2_000)
    (offset,) = found.offsets
    assert (found.is_share, found.in_flight, found.lag, offset.committed, offset.lag) == (True, 1, 7, 10, 7)
    assembly.take({"g": share_reading(3_000, 10, None)}, ends)
    assert view(assembly, ends, 4_000).lag == 90, "the most that it can be, where nobody counts"


def test_a_share_group_that_does_records_behind_its_start_is_not_stuck() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100
    for at_ms, lag in ((1_000, 90), (2_000, 80), (3_000, 70)):
        assembly.take({"g": share_reading(at_ms, 10, lag)}, ends)
        assert view(assembly, ends, 5_000).stuck_since_ms is None
    assembly.take({"g": share_reading(4_000, 10, 70)}, ends)
    assert view(assembly, ends, 5_000).stuck_since_ms == 3_000


def test_a_share_group_stands_still_since_its_first_record_that_is_not_done_is_the_same() -> None:
    assembly, ends = GroupAssembly(), Ends()
    ends.end = 100

    def since(at_ms: int, start: int, lag: int) -> int | None:
        assembly.take({"g": share_reading(at_ms, start, lag)}, ends)
        return view(assembly, ends, at_ms).offsets[0].still_since_ms

    assert since(1_000, 10, 90) == 1_000
    assert since(2_000, 10, 80) == 1_000, "records behind it were done, and it was not"
    assert since(3_000, 11, 79) == 3_000
    assert since(4_000, 11, 0) is None
    assert since(5_000, 11, 3) == 4_000, "its next record came after everything was done"


def test_a_reading_that_failed_keeps_what_was_known_of_a_share_group() -> None:
    assembly, ends = GroupAssembly(), Ends()
    before = share_reading(1_000, 10, 7)
    assembly.take({"g": before.failed(before.listed, "broker 2 did not answer")}, ends)
    found = view(assembly, ends, 9_000)
    assert (found.lag, found.in_flight, found.reading.unknown_because) == (7, 1, "broker 2 did not answer")
