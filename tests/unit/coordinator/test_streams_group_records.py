"""Records of streams groups: what is written is what is read, what a group becomes of them, and what deletes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.streams.decide.group import (
    Endpoint,
    MemberState,
    StreamsGroup,
    StreamsMember,
)
from kavka.coordinator.groups.streams.decide.records import (
    Change,
    CurrentChange,
    Epoch,
    GroupChange,
    MemberChange,
    StreamsGroupRecord,
    Target,
    TargetChange,
    TargetMemberChange,
    TopologyChange,
    apply_to,
    current_record,
    decode_streams_group_record,
    epoch_record,
    group_tombstones,
    ids_of,
    member_record,
    member_tombstones,
    target_member_record,
    target_record,
    topology_record,
)
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, Tasks
from kavka.coordinator.groups.streams.decide.topology import CopartitionGroup
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version, with_version
from kavka.errors import ProtocolViolation
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import streams_group_current_member_assignment_value as current
from kavka.protocol.messages import streams_group_metadata_value as groups
from kavka.protocol.messages import streams_group_target_assignment_member_value as targets
from kavka.protocol.messages import streams_group_topology_value as topologies
from tests.kit.streams_case import internal, part, topology

PART = Tasks({"1": frozenset({0}), "0": frozenset({5, 0, 33})}, {"2": frozenset({1})}, {"3": frozenset({2})})
GIVES_BACK = Tasks({"1": frozenset({2}), "4": frozenset({1})}, {"5": frozenset({1})}, {"6": frozenset({3})})
SAYS = StreamsMember(
    "one",
    "instance",
    "rack",
    "client",
    "/127.0.0.1",
    20_000,
    3,
    "process",
    Endpoint("h", 9_000),
    (("a", "1"), ("b", "2")),
)
HAS = StreamsMember(
    "one",
    epoch=7,
    previous_epoch=6,
    state=MemberState.UNREVOKED_TASKS,
    assigned=PART,
    revoking=GIVES_BACK,
    assignment_epochs={
        Task("0", 0): 2,
        Task("0", 5): 3,
        Task("0", 33): 7,
        Task("1", 0): 4,
        Task("1", 2): 5,
        Task("4", 1): 6,
    },
)
EPOCH = Epoch(5, -17, 3, {"z": "2", "num.standby.replicas": "1"})
APPLICATION = topology(
    part(
        "1",
        "t",
        "u",
        changelogs=[internal("c", 0, 3, **{"cleanup.policy": "compact"})],
        sinks=["r"],
        repartitions=[internal("q", 4)],
        together=[CopartitionGroup((0, 1), (), (0,))],
    )._replace(source_topic_regex=("x.*",)),
    part("0", repartitions=[internal("r")]),
    epoch=3,
)


def said(record: CoordinatorRecord) -> StreamsGroupRecord:
    version, key = split_version(record.key)
    found = decode_streams_group_record(version, key, None if record.value is None else split_version(record.value))
    assert found is not None
    return found


def replayed(group: StreamsGroup, *changes: Change) -> StreamsGroup:
    for change in changes:
        apply_to(group, change)
    return group


WRITTEN = [
    (17, epoch_record("g", EPOCH), GroupChange(EPOCH)),
    (19, member_record("g", SAYS), MemberChange("one", SAYS)),
    (20, target_record("g", Target(5, 1_700)), TargetChange(Target(5, 1_700))),
    (21, target_member_record("g", "one", PART), TargetMemberChange("one", PART)),
    (22, current_record("g", HAS), CurrentChange("one", HAS)),
    (23, topology_record("g", APPLICATION), TopologyChange(APPLICATION)),
]


@pytest.mark.parametrize(("version", "record", "change"), WRITTEN, ids=lambda each: type(each).__name__)
def test_what_is_written_is_what_is_read(version: int, record: CoordinatorRecord, change: Change) -> None:
    assert said(record) == StreamsGroupRecord("g", change)
    assert split_version(record.key)[0] == version
    assert split_version(record.value or b"")[0] == 0
    assert not said(record).is_deletion


def test_a_member_without_endpoint_rack_and_instance_is_read_as_such() -> None:
    bare = StreamsMember("one", client_id="c", client_host="/h")
    assert said(member_record("g", bare)).change == MemberChange("one", bare)


def test_the_same_group_is_written_in_the_same_bytes() -> None:
    """Settings, tags, subtopologies and partitions stand in order, whatever the order of sets and mappings."""
    epoch = decode(groups.StreamsGroupMetadataValue, (epoch_record("g", EPOCH).value or b"")[2:], 0)
    assert [each.key for each in epoch.last_assignment_configs or ()] == ["num.standby.replicas", "z"]
    unordered = replace(SAYS, tags=SAYS.tags[::-1])
    assert member_record("g", unordered) == member_record("g", SAYS)
    target = decode(
        targets.StreamsGroupTargetAssignmentMemberValue, (target_member_record("g", "one", PART).value or b"")[2:], 0
    )
    assert [(each.subtopology_id, each.partitions) for each in target.active_tasks] == [("0", [0, 5, 33]), ("1", [0])]
    has = decode(current.StreamsGroupCurrentMemberAssignmentValue, (current_record("g", HAS).value or b"")[2:], 0)
    assert [(each.subtopology_id, each.partitions, each.assignment_epochs) for each in has.active_tasks] == [
        ("0", [0, 5, 33], [2, 3, 7]),
        ("1", [0], [4]),
    ]
    pending = has.active_tasks_pending_revocation
    assert [(each.subtopology_id, each.assignment_epochs) for each in pending] == [("1", [5]), ("4", [6])]
    assert [(each.subtopology_id, each.assignment_epochs) for each in has.standby_tasks] == [("2", [])]
    assert has.state == 2


@pytest.mark.parametrize(("epoch", "since"), [(7, 7), (-1, 0)])
def test_of_a_task_whose_epoch_is_not_known_it_is_the_members(epoch: int, since: int) -> None:
    has = StreamsMember("one", epoch=epoch, assigned=Tasks({"0": frozenset({1})}))
    written = decode(current.StreamsGroupCurrentMemberAssignmentValue, (current_record("g", has).value or b"")[2:], 0)
    assert written.active_tasks[0].assignment_epochs == [since]


@pytest.mark.parametrize("epochs", [None, [], [1]])
def test_records_without_the_epochs_of_tasks_are_read(epochs: list[int] | None) -> None:
    """Brokers before Apache Kafka 4.3 did not write them."""
    value = current.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=1,
        active_tasks=[current.TaskIds(subtopology_id="0", partitions=[1, 2], assignment_epochs=epochs)],
        active_tasks_pending_revocation=[],
        standby_tasks=[],
        warmup_tasks=[],
        standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )
    key = current_record("g", HAS).key
    found = said(CoordinatorRecord(key, with_version(0, encode(value, 0)))).change
    assert isinstance(found, CurrentChange)
    assert found.member is not None
    assert found.member.assignment_epochs == {Task("0", 1): 7, Task("0", 2): 7}
    assert (found.member.state, found.member.revoking) == (MemberState.STABLE, NOTHING)


def test_a_state_of_the_future_is_read_as_an_unknown_one() -> None:
    value = decode(current.StreamsGroupCurrentMemberAssignmentValue, (current_record("g", HAS).value or b"")[2:], 0)
    value.state = 9
    found = said(CoordinatorRecord(current_record("g", HAS).key, with_version(0, encode(value, 0)))).change
    assert found == CurrentChange("one", replace(HAS, state=MemberState.UNKNOWN))


def test_settings_that_are_not_there_are_none() -> None:
    value = groups.StreamsGroupMetadataValue(
        epoch=1, metadata_hash=2, validated_topology_epoch=3, last_assignment_configs=None
    )
    record = CoordinatorRecord(epoch_record("g", EPOCH).key, with_version(0, encode(value, 0)))
    assert said(record).change == GroupChange(Epoch(1, 2, 3, {}))


def test_a_topology_with_a_part_twice_is_no_record() -> None:
    value = decode(topologies.StreamsGroupTopologyValue, (topology_record("g", APPLICATION).value or b"")[2:], 0)
    value.subtopologies.append(value.subtopologies[0])
    with pytest.raises(ProtocolViolation, match=r"no topology: Subtopology 1 is there twice\."):
        said(CoordinatorRecord(topology_record("g", APPLICATION).key, with_version(0, encode(value, 0))))


def test_tasks_that_are_listed_in_pieces_are_joined_and_empty_ones_left_out() -> None:
    pieces = [
        targets.TaskIds(subtopology_id=name, partitions=partitions)
        for name, partitions in (("0", [1]), ("1", []), ("0", [2, 3]))
    ]
    assert ids_of(pieces) == {"0": frozenset({1, 2, 3})}


@pytest.mark.parametrize("version", [16, 18, 24, 0, -1])
def test_keys_of_other_groups_are_not_read(version: int) -> None:
    assert decode_streams_group_record(version, epoch_record("g", EPOCH).key[2:], None) is None


@pytest.mark.parametrize(("version", "record", "_change"), WRITTEN, ids=lambda each: type(each).__name__)
def test_what_is_no_such_record_is_refused(version: int, record: CoordinatorRecord, _change: Change) -> None:
    with pytest.raises(ProtocolViolation):
        decode_streams_group_record(version, b"\xff", None)
    with pytest.raises(ProtocolViolation, match="has no version 1"):
        decode_streams_group_record(version, record.key[2:], (1, b""))


# -- deletions


def tombstones(records: Sequence[CoordinatorRecord]) -> list[tuple[int, Change]]:
    assert all(record.value is None for record in records)
    assert all(said(record).is_deletion and said(record).group_id == "g" for record in records)
    return [(split_version(record.key)[0], said(record).change) for record in records]


def test_a_member_is_deleted_in_the_order_of_apache_kafka() -> None:
    assert tombstones(member_tombstones("g", "one")) == [
        (22, CurrentChange("one", None)),
        (21, TargetMemberChange("one", None)),
        (19, MemberChange("one", None)),
    ]


def test_a_group_is_deleted_in_the_order_of_apache_kafka_with_parts_of_members_that_are_gone() -> None:
    group = StreamsGroup("g")
    group.put_member(SAYS)
    group.target = {"gone": PART, "one": PART}
    assert tombstones(group_tombstones(group)) == [
        (22, CurrentChange("one", None)),
        (21, TargetMemberChange("one", None)),
        (21, TargetMemberChange("gone", None)),
        (20, TargetChange(None)),
        (19, MemberChange("one", None)),
        (17, GroupChange(None)),
        (23, TopologyChange(None)),
    ]


# -- what a group becomes of them


def test_a_group_is_what_its_records_say() -> None:
    group = replayed(
        StreamsGroup("g"),
        GroupChange(EPOCH),
        MemberChange("one", SAYS),
        TargetChange(Target(4, 1_700)),
        TargetMemberChange("one", PART),
        CurrentChange("one", HAS),
        TopologyChange(APPLICATION),
    )
    assert (group.epoch, group.metadata_hash, group.validated_epoch, dict(group.configs)) == tuple(EPOCH)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (4, 1_700)
    assert (group.target, group.topology) == ({"one": PART}, APPLICATION)
    whole = replace(
        SAYS,
        epoch=7,
        previous_epoch=6,
        state=MemberState.UNREVOKED_TASKS,
        assigned=PART,
        revoking=GIVES_BACK,
        assignment_epochs=HAS.assignment_epochs,
    )
    assert group.members == {"one": whole}
    replayed(group, MemberChange("one", replace(SAYS, rack_id="other")))
    assert group.members == {"one": replace(whole, rack_id="other")}, "its progress stays"


def test_progress_is_known_before_the_member_says_something_of_itself() -> None:
    """A compacted log may have the records in this order."""
    group = replayed(StreamsGroup("g"), CurrentChange("one", HAS))
    assert group.members == {"one": HAS}


def test_deletions_take_away_what_they_name_and_make_nothing() -> None:
    group = replayed(
        StreamsGroup("g"),
        GroupChange(EPOCH),
        MemberChange("one", SAYS),
        CurrentChange("one", HAS),
        TargetChange(Target(4, 1_700)),
        TargetMemberChange("one", PART),
        TopologyChange(APPLICATION),
    )
    replayed(group, CurrentChange("one", None), CurrentChange("two", None), TargetMemberChange("two", None))
    assert group.members == {"one": SAYS}
    replayed(group, TargetMemberChange("one", None), TargetChange(None), TopologyChange(None), GroupChange(None))
    assert (group.target, group.assignment_epoch, group.assignment_timestamp_ms) == ({}, -1, 0)
    assert group.topology is None
    assert group.epoch == 5, "who holds the groups removes it"
    replayed(group, MemberChange("one", None), MemberChange("two", None))
    assert group.members == {}
