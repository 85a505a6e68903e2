"""Positions of a share group that an administrator sets or has forgotten: which partitions, and which records."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from kavka.coordinator.groups.consumer.decide.target_assignment import TopicInfo
from kavka.coordinator.groups.share.decide.group import NamedPartitions, ShareGroup, ShareMember, StatePartitions
from kavka.coordinator.groups.share.decide.offsets import (
    decide_alteration,
    decide_offset_deletion,
    decide_state_deletion,
    deleted,
)
from kavka.coordinator.groups.share.decide.records import apply_to, decode_share_group_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version
from kavka.errors import ErrorCode, RequestError

ORDERS, BILLS, GONE = (uuid.UUID(int=number) for number in (1, 2, 3))


class Known:
    """Orders with three partitions, bills with one."""

    version = 1

    def __init__(self) -> None:
        self.all: Mapping[str, TopicInfo] = {"orders": TopicInfo(ORDERS, 3), "bills": TopicInfo(BILLS, 1)}

    def topic(self, name: str) -> TopicInfo | None:
        return self.all.get(name)

    def name(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name, topic in self.all.items() if topic.topic_id == topic_id), None)


def group(states: StatePartitions | None = None) -> ShareGroup:
    made = ShareGroup("workers")
    made.epoch = 4
    made.states = states or StatePartitions()
    return made


def named(name: str, *partitions: int) -> NamedPartitions:
    return NamedPartitions(name, frozenset(partitions))


def replay(of: ShareGroup, *records: CoordinatorRecord) -> ShareGroup:
    for record in records:
        key_version, key = split_version(record.key)
        value = None if record.value is None else split_version(record.value)
        decoded = decode_share_group_record(key_version, key, value)
        assert decoded is not None
        apply_to(of, decoded)
    return of


def test_new_positions_are_set_in_a_new_epoch_and_noted_as_not_there_yet() -> None:
    of = group(StatePartitions(initialized={ORDERS: named("orders", 0, 1, 2)}, deleting={BILLS: "bills"}))
    decision = decide_alteration(of, {"orders": {0: 7, 3: 1}, "bills": {0: 2}, "nowhere": {0: 1}}, Known())
    assert (decision.epoch, decision.offsets) == (5, {ORDERS: {0: 7}, BILLS: {0: 2}})
    assert [(each.topic, each.partition, each.error) for each in decision.refused] == [
        ("orders", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    replay(of, *decision.records)
    assert of.epoch == 5
    assert of.states.initializing == {ORDERS: named("orders", 0), BILLS: named("bills", 0)}
    assert of.states.deleting == {}


def test_where_no_partition_exists_nothing_is_written() -> None:
    decision = decide_alteration(group(), {"orders": {-1: 7}}, Known())
    assert (decision.records, decision.offsets, len(decision.refused)) == ((), {}, 1)


def test_what_is_to_be_deleted_is_noted_before_and_after() -> None:
    of = group(StatePartitions(initialized={ORDERS: named("orders", 0, 1)}, deleting={BILLS: "bills"}))
    decision = decide_offset_deletion(of, ["orders", "bills", "orders", "nowhere"], Known())
    # Of what somebody began to delete, all partitions: which of them are gone, nobody knows.
    assert decision.topics == {ORDERS: named("orders", 0, 1), BILLS: named("bills", 0)}
    assert [each.topic for each in decision.refused] == ["nowhere"]
    replay(of, *decision.records)
    assert (of.states.initialized, of.states.deleting) == ({}, {ORDERS: "orders", BILLS: "bills"})
    replay(of, deleted(of, [BILLS]))
    assert of.states.deleting == {ORDERS: "orders"}


def test_a_topic_without_a_state_has_nothing_to_delete() -> None:
    decision = decide_offset_deletion(group(), ["orders"], Known())
    assert (decision.records, decision.topics) == ((), {})
    assert decision.refused[0].message == "There is no offset information to delete."


def test_with_the_group_go_the_states_that_are_there_that_come_and_that_should_be_gone() -> None:
    of = group(
        StatePartitions(
            initializing={ORDERS: named("orders", 2)},
            initialized={ORDERS: named("orders", 0, 1), GONE: named("gone", 0)},
            deleting={BILLS: "bills", uuid.UUID(int=9): "never-seen"},
        )
    )
    decision = decide_state_deletion(of, Known())
    assert decision.topics == {
        ORDERS: named("orders", 0, 1, 2),
        GONE: named("gone", 0),
        BILLS: named("bills", 0),
    }
    replay(of, *decision.records)
    assert (of.states.initializing, of.states.initialized) == ({}, {})


def test_a_group_with_members_is_left_alone() -> None:
    of = group(StatePartitions(initialized={ORDERS: named("orders", 0)}))
    of.members["m"] = ShareMember("m")
    for decide in (
        lambda: decide_alteration(of, {"orders": {0: 1}}, Known()),
        lambda: decide_offset_deletion(of, ["orders"], Known()),
        lambda: decide_state_deletion(of, Known()),
    ):
        with pytest.raises(RequestError) as refused:
            decide()
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
