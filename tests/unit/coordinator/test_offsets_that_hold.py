"""Which offset of a partition holds, which may still change, and which are over their retention."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import StoredGroup
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroup, ConsumerMember
from kavka.coordinator.groups.decide.records import NO_EXPIRY, CommittedOffset, OffsetRecord
from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.groups.offsets.decide.expiry import Retention, decide_expiry
from kavka.coordinator.groups.offsets.decide.group_offsets import GroupOffsets, OffsetKey, offset_tombstone
from kavka.model import NO_TOPIC_ID, GoneTopic
from tests.kit.classic_group import LIMITS, Driver

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


def record(
    value: int | None = 5,
    partition: int = 0,
    *,
    group: str = "g",
    topic: str = "t",
    topic_id: uuid.UUID = NO_TOPIC_ID,
    at_ms: int = 0,
    until_ms: int = NO_EXPIRY,
) -> OffsetRecord:
    committed = None if value is None else CommittedOffset(value, -1, "", at_ms, until_ms, topic_id)
    return OffsetRecord(group, topic, partition, committed)


def key(partition: int = 0, *, group: str = "g", topic: str = "t") -> OffsetKey:
    return OffsetKey(group, topic, partition)


def held(offsets: GroupOffsets, partition: int = 0, topic_id: uuid.UUID = NO_TOPIC_ID) -> int | None:
    found = offsets.get("g", "t", partition, topic_id)
    return None if found is None else found.offset


# -- what holds


def test_an_offset_holds_for_the_topic_that_it_was_committed_for() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(5, topic_id=OLD), 1)
    offsets.replay(record(6, 1), 2)
    assert [held(offsets, 0, topic_id) for topic_id in (OLD, NEW, NO_TOPIC_ID)] == [5, None, 5]
    assert [held(offsets, 1, topic_id) for topic_id in (OLD, NO_TOPIC_ID)] == [6, 6]
    assert held(offsets, 2) is None


def test_of_one_batch_the_last_record_of_a_partition_holds() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(5), 1)
    offsets.replay(record(6), 1)
    assert held(offsets) == 6
    assert offsets.has_any("g")
    offsets.hold(7, [record(8), record(9)], 2)
    offsets.end(7, committed=True)
    assert held(offsets) == 9
    offsets.replay(record(None), 3)
    assert (held(offsets), offsets.has_any("g"), offsets.group_ids()) == (None, False, [])


def test_a_deletion_takes_one_partition_s_offset() -> None:
    offsets = GroupOffsets()
    for partition in (2, 0, 1):
        offsets.replay(record(partition, partition), 1)
    offsets.replay(record(None, 1), 2)
    offsets.replay(record(None, 7), 3)
    offsets.replay(record(None, group="nobody"), 4)
    assert [(topic, partition, found.offset) for topic, partition, found in offsets.of_group("g")] == [
        ("t", 0, 0),
        ("t", 2, 2),
    ]
    assert offsets.group_ids() == ["g"]


def test_a_deletion_that_is_told_of_late_takes_nothing() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(5), 2)
    offsets.replay(record(None), 1)
    assert held(offsets) == 5
    offsets.hold(7, [record(6)], 4)
    offsets.replay(record(None), 3)
    assert offsets.is_pending(key())


def test_a_deletion_ends_what_transactions_wrote_before_it_to_its_partition() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5), record(5, 1)], 1)
    offsets.hold(8, [record(6)], 2)
    offsets.hold(9, [record(7, 1)], 3)
    offsets.replay(record(None), 4)
    assert not offsets.is_pending(key())
    assert offsets.is_pending(key(1))
    for producer_id in (7, 8, 9):
        offsets.end(producer_id, committed=True)
    assert (held(offsets), held(offsets, 1)) == (None, 7)
    assert not offsets.has_pending("g")


# -- what may still change


def test_what_one_transaction_holds_another_s_marker_does_not_end() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [record(5), record(5, group="h")], 1)
    offsets.hold(8, [record(6)], 2)
    assert offsets.end(8, committed=False) == ["g"]
    assert offsets.end(9, committed=True) == []
    assert offsets.has_any("g")
    assert (offsets.has_pending("g"), offsets.has_pending("h")) == (True, True)
    assert offsets.end(7, committed=True) == ["g", "h"]
    assert (offsets.has_pending("g"), offsets.has_pending("h")) == (False, False)


def test_a_transaction_that_writes_nothing_is_not_one() -> None:
    offsets = GroupOffsets()
    offsets.hold(7, [], 1)
    offsets.confirm(7, 1)
    offsets.revoke(7, 1)
    assert offsets.end(7, committed=True) == []
    assert not offsets.has_any("g")


def test_what_is_known_to_be_in_the_log_takes_the_place_of_what_its_transaction_wrote_before() -> None:
    """Also where the end of the later one is not known: a marker may come between the two."""
    offsets = GroupOffsets()
    offsets.hold(7, [record(5), record(5, 1)], 1)
    offsets.hold(7, [record(6)], 2)
    offsets.confirm(7, 2)
    offsets.end(7, committed=True, position=2)
    assert (held(offsets), held(offsets, 1)) == (None, 5)
    offsets.end(7, committed=True)
    assert held(offsets) == 6


def test_a_commit_under_way_is_pending_until_all_of_its_kind_are_known() -> None:
    offsets = GroupOffsets()
    first, second = [record(5), record(5, 1)], [record(6)]
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(first)
    assert [offsets.is_pending(key(partition)) for partition in (0, 1)] == [True, False]
    assert (offsets.has_pending("g"), offsets.has_any("g")) == (True, False)
    assert not offsets.is_pending(key(group="h"))
    offsets.finish(second)
    assert not offsets.has_pending("g")
    assert offsets.keys_of("g") == []


def test_a_group_s_keys_are_all_that_it_may_have_each_once() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(), 1)
    offsets.begin([record(), record(5, 1)])
    offsets.doubt([record(5, 3), record(5, 2), record()])
    offsets.hold(7, [record(), record(5, 4), record(5, 5, group="h")], 2)
    offsets.hold(8, [record(5, 6, group="h")], 3)
    assert offsets.keys_of("g") == [key(0), key(1), key(2), key(3), key(4)]
    assert offsets.keys_of("h") == [key(5, group="h"), key(6, group="h")]
    assert offsets.keys_of("nobody") == []


def test_a_doubt_is_over_with_the_next_record_that_is_known() -> None:
    offsets = GroupOffsets()
    offsets.doubt([record(5), record(5, 1)])
    assert (offsets.keys_of("g"), offsets.has_any("g"), offsets.is_pending(key())) == ([key(0), key(1)], False, False)
    offsets.replay(record(None), 1)
    assert offsets.keys_of("g") == [key(1)]
    offsets.replay(record(None, 1), 2)
    assert offsets.keys_of("g") == []


# -- topics that are gone


def ways_to_have(offsets: GroupOffsets, topic_id: uuid.UUID) -> None:
    offsets.replay(record(5, 0, topic_id=topic_id), 1)
    offsets.begin([record(5, 1, topic_id=topic_id)])
    offsets.doubt([record(5, 2, topic_id=topic_id)])
    offsets.hold(7, [record(5, 3, topic_id=topic_id)], 2)
    offsets.replay(record(5, topic="other", topic_id=topic_id), 3)


def test_with_a_topic_all_goes_that_is_or_may_be_committed_for_it() -> None:
    offsets = GroupOffsets()
    ways_to_have(offsets, OLD)
    of_the_old_one = [key(partition) for partition in range(4)]
    assert list(offsets.keys_of_deleted([GoneTopic("t", OLD)])) == of_the_old_one
    assert list(offsets.keys_of_deleted([GoneTopic("t", NEW)])) == []
    assert list(offsets.keys_of_deleted([GoneTopic("t", NEW), GoneTopic("t", OLD)])) == of_the_old_one
    assert list(offsets.keys_of_deleted([GoneTopic("u", OLD)])) == []


@pytest.mark.parametrize("way", [1, 2, 3])
def test_what_may_be_another_topic_s_stays(way: int) -> None:
    """The offset's tombstone would take both: what is committed for the one, and what may be for the other."""
    offsets = GroupOffsets()
    offsets.replay(record(5, way, topic_id=OLD), 1)
    ways_to_have(offsets, NEW)
    assert list(offsets.keys_of_deleted([GoneTopic("t", OLD)])) == []
    gone = list(offsets.keys_of_deleted([GoneTopic("t", OLD), GoneTopic("t", NEW)]))
    assert sorted(gone) == [key(partition) for partition in range(4)]


# -- expiry

RETENTION = Retention(wall_ms=1_000, offsets_ms=100)


def classic(record_at_ms: int | None = None) -> ClassicGroup:
    """A group without members; `record_at_ms`: since when."""
    group = ClassicGroup("g", LIMITS, 0)
    if record_at_ms is not None:
        group.restore(StoredGroup(1, "consumer", None, None, (), record_at_ms), 0)
    return group


@pytest.mark.parametrize(
    ("since", "until_ms", "is_over"),
    [
        (900, NO_EXPIRY, True),
        (901, NO_EXPIRY, False),
        (0, 1_000, True),
        (0, 1_001, False),
        (999, 0, True),
    ],
)
def test_an_offset_is_over_when_its_time_is_and_takes_its_group_with_it(
    since: int, until_ms: int, is_over: bool
) -> None:
    offsets = GroupOffsets()
    offsets.replay(record(at_ms=since, until_ms=until_ms), 1)
    expiry = decide_expiry(classic(), offsets, RETENTION)
    assert (list(expiry.records), expiry.is_deleted) == ([offset_tombstone(key())] if is_over else [], is_over)


def test_a_group_stays_with_an_offset_that_stays() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(at_ms=0), 1)
    offsets.replay(record(at_ms=999, partition=1), 1)
    expiry = decide_expiry(classic(), offsets, RETENTION)
    assert (list(expiry.records), expiry.is_deleted) == ([offset_tombstone(key())], False)


@pytest.mark.parametrize("left_at_ms", [900, 901])
def test_a_group_that_was_left_has_its_retention_from_then(left_at_ms: int) -> None:
    offsets = GroupOffsets()
    offsets.replay(record(at_ms=0), 1)
    assert decide_expiry(classic(left_at_ms), offsets, RETENTION).is_deleted == (left_at_ms == 900)


def test_what_may_still_change_is_not_over_and_keeps_its_group() -> None:
    offsets = GroupOffsets()
    offsets.replay(record(at_ms=0), 1)
    offsets.begin([record()])
    assert decide_expiry(classic(), offsets, RETENTION) == ([], False)
    offsets = GroupOffsets()
    offsets.replay(record(at_ms=0), 1)
    offsets.hold(7, [record(5, 1)], 2)
    expiry = decide_expiry(classic(), offsets, RETENTION)
    assert (list(expiry.records), expiry.is_deleted) == ([offset_tombstone(key())], False)


@pytest.mark.parametrize("is_known", [True, False], ids=["has an id", "joins"])
def test_a_group_that_somebody_joins_stays_and_loses_nothing_in_the_rebalance(is_known: bool) -> None:
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    driver.join(new_id="m", known=is_known)
    offsets = GroupOffsets()
    assert decide_expiry(driver.group, offsets, RETENTION) == ([], False)
    offsets.replay(OffsetRecord("orders", "t", 0, CommittedOffset(5, -1, "", 0)), 1)
    over = [offset_tombstone(key(group="orders"))] if is_known else []
    assert decide_expiry(driver.group, offsets, RETENTION) == (over, False)


def test_nothing_is_over_while_members_are_there_of_which_nobody_knows_what_they_read() -> None:
    driver = Driver()
    driver.join(new_id="worker", protocol_type="connect")
    offsets = GroupOffsets()
    offsets.replay(OffsetRecord("orders", "t", 0, CommittedOffset(5, -1, "", 0)), 1)
    assert decide_expiry(driver.group, offsets, RETENTION) == ([], False)


def test_a_client_that_names_no_retention_leaves_it_to_the_broker() -> None:
    """OffsetCommit 2-4 says -1 for it."""
    shard = GroupShard(LIMITS, offset_metadata_max_bytes=9)
    for retention_ms, until_ms in ((-1, NO_EXPIRY), (0, 50), (7, 57)):
        request = CommitRequest("g", "", None, -1, [OffsetToCommit("t", 0, 5, -1, None)], retention_ms=retention_ms)
        decision = shard.commit(request, 0, wall_ms=50, topic_id=lambda _name: None)
        assert [each.committed and each.committed.expire_timestamp_ms for each in decision.offsets] == [until_ms]


def test_a_group_without_offsets_goes_unless_somebody_is_or_is_about_to_be_in_it() -> None:
    offsets = GroupOffsets()
    assert decide_expiry(classic(), offsets, RETENTION) == ([], True)
    consumers = ConsumerGroup("g")
    assert decide_expiry(consumers, offsets, RETENTION).is_deleted
    consumers.put_member(ConsumerMember("m", topics=frozenset({"t"})))
    offsets.replay(record(at_ms=0), 1)
    offsets.replay(record(at_ms=0, topic="u"), 2)
    expiry = decide_expiry(consumers, offsets, RETENTION)
    assert (list(expiry.records), expiry.is_deleted) == ([offset_tombstone(key(topic="u"))], False)
    offsets.replay(record(None), 3)
    offsets.replay(record(None, topic="u"), 4)
    assert not decide_expiry(consumers, offsets, RETENTION).is_deleted
