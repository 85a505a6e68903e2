"""The groups and offsets of one partition: which kind a group is, who may commit, what goes with what. As Kafka's
GroupCoordinatorShard."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from kavka.coordinator.groups.classic.decide.membership import (
    Effects,
    GroupLimits,
    GroupState,
    JoinProtocol,
    JoinRequest,
    Member,
    StoredGroup,
)
from kavka.coordinator.groups.consumer.decide.group import ConsumerMember
from kavka.coordinator.groups.consumer.decide.records import EpochRecord, MemberRecord, TargetRecord, group_tombstones
from kavka.coordinator.groups.decide.records import (
    NO_EXPIRY,
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    decode_record,
    group_tombstone,
    offset_record,
)
from kavka.coordinator.groups.decide.shard import MAX_NEW_GROUPS, GroupShard
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.groups.share.decide.records import ShareEpochRecord, ShareTargetRecord
from kavka.coordinator.groups.streams.decide.group import StreamsMember
from kavka.coordinator.groups.streams.decide.records import (
    Epoch,
    GroupChange,
    MemberChange,
    StreamsGroupRecord,
    TargetChange,
)
from kavka.coordinator.groups.streams.decide.records import group_tombstones as streams_tombstones
from kavka.errors import ErrorCode, RequestError
from kavka.model import GoneTopic
from kavka.protocol.messages.group_metadata_value import GroupMetadataValue
from tests.kit.group_case import subscription

LIMITS = GroupLimits(1, 100_000, 0, 10)
T = uuid.UUID(int=1)
CONSUMERS = EpochRecord("g", 5, 0)
STREAMS = StreamsGroupRecord("g", GroupChange(Epoch(5, 0, 0, {})))
SHARE = ShareEpochRecord("g", 5, 0)
KEPT = OffsetRecord("g", "t", 0, CommittedOffset(5, -1, "", 100))


def a_shard() -> GroupShard:
    return GroupShard(LIMITS, offset_metadata_max_bytes=4)


def replay(shard: GroupShard, *records: object, loading: bool = False, now_ms: int = 1_000) -> None:
    for position, record in enumerate(records):
        shard.replay(record, position, now_ms, loading=loading)  # type: ignore[arg-type]  # records of all kinds


def kinds(shard: GroupShard) -> list[str]:
    """As which kinds the shard has the group g."""
    held = {
        "classic": "g" in shard.groups,
        "consumer": "g" in shard.consumer_groups,
        "share": "g" in shard.share_groups,
        "streams": "g" in shard.streams_groups,
    }
    return [kind for kind, is_there in held.items() if is_there]


def refused(ask: Callable[..., object], *arguments: object, **named: object) -> ErrorCode:
    with pytest.raises(RequestError) as refusal:
        ask(*arguments, **named)
    return refusal.value.code


def with_member(shard: GroupShard, *, protocol_type: str = "consumer", topics: bytes | None = None) -> None:
    """g, a classic group in its generation 3 with a member."""
    protocols = [JoinProtocol("range", subscription("t") if topics is None else topics)]
    member = Member("one", "i", "c", "h", 10_000, 20_000, protocol_type, protocols)
    shard.group_or_new("g", 0).restore(StoredGroup(3, protocol_type, "range", "one", [member], None), 0)


# -- which groups there are


def test_a_group_is_made_for_who_names_it_and_asked_for_by_who_knows_it() -> None:
    shard = a_shard()
    assert refused(shard.group, "g") is ErrorCode.UNKNOWN_MEMBER_ID
    made = shard.group_or_new("g", 7)
    assert (made.group_id, made.limits, made.state_since_ms) == ("g", LIMITS, 7)
    assert shard.group_or_new("g", 8) is shard.group("g") is made


def test_groups_that_nobody_has_joined_are_bounded_and_the_oldest_go() -> None:
    shard = a_shard()
    replay(shard, KEPT._replace(group_id="kept"))
    shard.group_or_new("joined", 0).restore(StoredGroup(1, "consumer", None, None, [], None), 0)
    for number in range(MAX_NEW_GROUPS):
        shard.group_or_new(f"g{number}", 0)
    assert len(shard.groups) == MAX_NEW_GROUPS + 2, "the two that went first are groups"
    shard.group_or_new("one more", 0)
    assert "g0" not in shard.groups
    assert {"kept", "joined", "g1", "one more"} <= set(shard.groups)
    assert MAX_NEW_GROUPS == 1_000


def test_a_group_that_is_forgotten_takes_no_place_among_the_new_ones() -> None:
    shard = a_shard()
    shard.group_or_new("first", 0)
    for number in range(2 * MAX_NEW_GROUPS):
        shard.group_or_new(f"g{number}", 0)
        shard.forget_if_nothing(f"g{number}")
    assert list(shard.groups) == ["first"]


def test_only_a_group_that_never_was_anything_is_forgotten() -> None:
    shard = a_shard()
    shard.forget_if_nothing("g")
    with_member(shard)
    shard.forget_if_nothing("g")
    assert kinds(shard) == ["classic"]
    shard = a_shard()
    replay(shard, KEPT)
    shard.forget_if_nothing("g")
    assert kinds(shard) == ["classic"]
    replay(shard, KEPT._replace(committed=None))
    shard.forget_if_nothing("g")
    assert kinds(shard) == []


# -- the log


@pytest.mark.parametrize(("record", "kind"), [(CONSUMERS, "consumer"), (STREAMS, "streams"), (SHARE, "share")])
def test_a_record_of_a_newer_kind_makes_the_group_one_of_it(record: object, kind: str) -> None:
    shard = a_shard()
    shard.group_or_new("g", 0)
    replay(shard, record)
    assert kinds(shard) == [kind]
    newer = {**shard.consumer_groups, **shard.streams_groups, **shard.share_groups}
    assert [group.epoch for group in newer.values()] == [5]
    replay(shard, record, KEPT)
    assert kinds(shard) == [kind], "what has offsets is this group"


@pytest.mark.parametrize(
    ("made", "gone", "offsets_make_a_group"),
    [
        (CONSUMERS, EpochRecord("g", None, 0), True),
        (STREAMS, StreamsGroupRecord("g", GroupChange(None)), True),
        (SHARE, ShareEpochRecord("g", None, 0), False),
    ],
)
def test_a_group_that_is_deleted_with_offsets_left_is_an_empty_one(
    made: object, gone: object, offsets_make_a_group: bool
) -> None:
    shard = a_shard()
    replay(shard, made, gone)
    assert kinds(shard) == []
    replay(shard, gone)
    assert kinds(shard) == [], "it may not be there: the log is compacted"
    replay(shard, made, KEPT, gone)
    assert kinds(shard) == (["classic"] if offsets_make_a_group else [])


@pytest.mark.parametrize(
    "record",
    [
        MemberRecord("g", "one", None),
        TargetRecord("g", None, 0),
        StreamsGroupRecord("g", MemberChange("one", None)),
        StreamsGroupRecord("g", TargetChange(None)),
        ShareTargetRecord("g", None, 0),
    ],
)
def test_a_record_that_only_takes_something_away_makes_no_group(record: object) -> None:
    shard = a_shard()
    shard.group_or_new("g", 0)
    replay(shard, record)
    assert kinds(shard) == ["classic"]


def test_a_group_s_record_brings_it_back_while_the_log_is_loaded_and_only_then() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol=None, leader=None, current_state_timestamp=50, members=[]
    )
    shard = a_shard()
    replay(shard, GroupRecord("g", value))
    assert kinds(shard) == [], "what is live is there already"
    for before in (CONSUMERS, STREAMS, SHARE):
        shard = a_shard()
        replay(shard, before, GroupRecord("g", value), loading=True)
        assert kinds(shard) == ["classic"]
    group = shard.group("g")
    assert (group.generation, group.state, group.written_at_wall_ms) == (7, GroupState.EMPTY, 50)
    replay(shard, GroupRecord("g", None))
    assert kinds(shard) == []
    replay(shard, GroupRecord("g", None))


def test_what_is_loaded_is_told_to_the_groups_that_are_something() -> None:
    shard = a_shard()
    shard.group_or_new("nothing", 0)
    with_member(shard)
    shard.group("g").leader_id = None
    effects = Effects()
    shard.on_loaded(1_000, effects)
    assert list(shard.groups) == ["g"]
    assert shard.group("g").state is GroupState.PREPARING_REBALANCE, "it had just become classic"


def test_the_end_of_a_transaction_makes_a_group_of_its_offsets_or_forgets_it() -> None:
    shard = a_shard()
    shard.offsets.hold(7, [KEPT], 1)
    shard.end_transaction(7, 1_000, committed=True)
    assert kinds(shard) == ["classic"]
    shard = a_shard()
    shard.group_or_new("g", 0)
    shard.offsets.hold(7, [KEPT], 5)
    shard.end_transaction(7, 1_000, committed=False, position=4)
    assert kinds(shard) == ["classic"], "the marker is of an earlier transaction"
    shard.end_transaction(7, 1_000, committed=False, position=6)
    assert kinds(shard) == []


# -- commits


def request(
    member_id: str = "", generation: int = -1, *, metadata: str = "", instance: str | None = None, **fields: object
) -> CommitRequest:
    offsets = [OffsetToCommit("t", 0, 5, 3, metadata, T)]
    return CommitRequest("g", member_id, instance, generation, offsets)._replace(**fields)  # type: ignore[arg-type]


def commit(shard: GroupShard, asked: CommitRequest, *, transactional: bool = False) -> list[ErrorCode]:
    decide = shard.commit_transactional if transactional else shard.commit
    decision = decide(asked, 1_000, wall_ms=50_000, topic_id={"t": T}.get)
    return list(decision.errors)


def test_a_commit_is_written_with_the_broker_s_time() -> None:
    decision = a_shard().commit(request(metadata="abcd"), 0, wall_ms=50_000, topic_id={"t": T}.get)
    expected = OffsetRecord("g", "t", 0, CommittedOffset(5, 3, "abcd", 50_000, NO_EXPIRY, T))
    assert decision == ([ErrorCode.NONE], [expected])


@pytest.mark.parametrize(
    ("retention_ms", "expires_at_ms"), [(-1, -1), (0, 50_000), (7, 50_007), (2**63 - 1, 2**63 - 1)]
)
def test_a_client_s_retention_counts_from_the_broker_s_time(retention_ms: int, expires_at_ms: int) -> None:
    for transactional in (False, True):
        shard = a_shard()
        decide = shard.commit_transactional if transactional else shard.commit
        asked = request(retention_ms=retention_ms)
        (record,) = decide(asked, 0, wall_ms=50_000, topic_id=lambda _name: None).offsets
        assert record.committed is not None
        assert record.committed.expire_timestamp_ms == (-1 if transactional else expires_at_ms)


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [
        (None, True),
        ("abcd", True),
        ("abcde", False),
        ("äöüß", True),
        ("😀😀", True),
        ("😀😀a", False),
        ("\ud800abc", True),
    ],
)
def test_metadata_has_as_many_of_java_s_characters_as_are_allowed(metadata: str | None, fits: bool) -> None:
    """The others of the request are committed."""
    offsets = [OffsetToCommit("t", 0, 5, 3, metadata), OffsetToCommit("t", 1, 6, 3, "")]
    decision = a_shard().commit(request(offsets=offsets), 0, wall_ms=0, topic_id=lambda _name: None)
    assert decision.errors == [ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert [record.partition for record in decision.offsets] == ([0, 1] if fits else [1])
    if metadata is None:
        assert decision.offsets[0].committed is not None
        assert decision.offsets[0].committed.metadata == ""


@pytest.mark.parametrize("transactional", [False, True])
def test_who_commits_for_a_group_that_is_not_there(transactional: bool) -> None:
    shard = a_shard()
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert refused(commit, shard, request("one", 0), transactional=transactional) is illegal
    assert kinds(shard) == []
    assert commit(shard, request(), transactional=transactional) == [ErrorCode.NONE]
    assert kinds(shard) == ["classic"], "a simple group is made"
    shard = a_shard()
    replay(shard, SHARE)
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(commit, shard, request(), transactional=transactional) is not_found


def test_a_classic_member_commits_in_its_generation_and_is_alive() -> None:
    shard = a_shard()
    with_member(shard)
    assert commit(shard, request("one", 3, instance="i")) == [ErrorCode.NONE]
    assert shard.group("g").members["one"].session_deadline_ms == 11_000
    assert commit(shard, request("one", 3), transactional=True) == [ErrorCode.NONE]
    for transactional in (False, True):
        assert refused(commit, shard, request("one", 2), transactional=transactional) is (ErrorCode.ILLEGAL_GENERATION)
        assert refused(commit, shard, request("uno", 3, instance="i"), transactional=transactional) is (
            ErrorCode.FENCED_INSTANCE_ID
        )


def with_newer(kind: str) -> GroupShard:
    shard = a_shard()
    if kind == "consumer":
        replay(shard, CONSUMERS, MemberRecord("g", "one", ConsumerMember("one", epoch=5)))
        shard.consumer_groups["g"].put_member(ConsumerMember("one", epoch=5, assignment_epochs={(T, 0): 4}))
    else:
        replay(shard, STREAMS, StreamsGroupRecord("g", MemberChange("one", StreamsMember("one"))))
        shard.streams_groups["g"].put_member(StreamsMember("one", epoch=5))
    return shard


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_member_of_a_newer_kind_commits_in_its_epoch(kind: str) -> None:
    shard = with_newer(kind)
    assert commit(shard, request("one", 5)) == [ErrorCode.NONE]
    assert commit(shard, request("one", 5, api_version=8), transactional=True) == [ErrorCode.NONE]
    assert refused(commit, shard, request("one", 5, api_version=8)) is ErrorCode.UNSUPPORTED_VERSION
    assert refused(commit, shard, request("one", 6)) is ErrorCode.STALE_MEMBER_EPOCH
    assert refused(commit, shard, request("one", 6), transactional=True) is ErrorCode.ILLEGAL_GENERATION
    assert refused(commit, shard, request("two", 5), transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(commit, shard, request()) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shard, request(), transactional=True) == [ErrorCode.NONE], "a producer of before KIP-447"
    for named in (request("one"), request("", 0), request(instance="i")):
        assert refused(commit, shard, named, transactional=True)


def test_what_a_consumer_was_given_in_its_epoch_it_may_commit_later() -> None:
    shard = with_newer("consumer")
    for transactional in (False, True):
        assert commit(shard, request("one", 4), transactional=transactional) == [ErrorCode.NONE]
        for asked in (request("one", 3), request("one", 4, offsets=[OffsetToCommit("u", 0, 5, 3, "")])):
            assert refused(commit, shard, asked, transactional=transactional)


# -- deletion


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    shard = a_shard()
    assert refused(shard.delete_group, "g") is ErrorCode.GROUP_ID_NOT_FOUND
    replay(shard, KEPT)
    shard.offsets.hold(7, [KEPT._replace(partition=1)], 1)
    tombstones = [offset_record("g", "t", partition, None) for partition in (0, 1)]
    assert shard.delete_group("g") == [*tombstones, group_tombstone("g")]
    replay(shard, CONSUMERS)
    assert shard.delete_group("g") == [*tombstones, *group_tombstones(shard.consumer_groups["g"])]
    replay(shard, EpochRecord("g", None, 0), STREAMS)
    assert shard.delete_group("g") == [*tombstones, *streams_tombstones(shard.streams_groups["g"])]


def test_a_group_with_members_is_not_deleted_and_one_at_its_end_is_not_there() -> None:
    shard = a_shard()
    with_member(shard)
    assert refused(shard.delete_group, "g") is ErrorCode.NON_EMPTY_GROUP
    shard.group("g").die(0, ErrorCode.NONE, Effects())
    assert refused(shard.delete_group, "g") is ErrorCode.GROUP_ID_NOT_FOUND
    for kind in ("consumer", "streams"):
        assert refused(with_newer(kind).delete_group, "g") is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_topics_that_nobody_reads_are_deleted_where_they_are() -> None:
    shard = a_shard()
    with_member(shard)
    replay(shard, KEPT, KEPT._replace(topic="u"), KEPT._replace(topic="u", partition=1))
    errors, records = shard.delete_offsets("g", [("t", 0), ("u", 0), ("u", 0), ("u", 9), ("v", 0)])
    read, none = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE
    assert errors == [read, none, none, none, none]
    assert records == [offset_record("g", "u", 0, None)]


def test_offsets_are_not_deleted_of_no_group_or_of_members_that_are_no_consumers() -> None:
    shard = a_shard()
    assert refused(shard.delete_offsets, "g", []) is ErrorCode.GROUP_ID_NOT_FOUND
    with_member(shard, protocol_type="connect")
    assert refused(shard.delete_offsets, "g", []) is ErrorCode.NON_EMPTY_GROUP
    shard.group("g").die(0, ErrorCode.NONE, Effects())
    assert refused(shard.delete_offsets, "g", []) is ErrorCode.GROUP_ID_NOT_FOUND
    shard = a_shard()
    shard.group_or_new("g", 0).protocol_type = "connect"
    assert shard.delete_offsets("g", [("t", 0)]) == ([ErrorCode.NONE], []), "it has no members any more"
    shard = a_shard()
    replay(shard, CONSUMERS, MemberRecord("g", "one", ConsumerMember("one", topics=frozenset({"t"}))))
    assert shard.delete_offsets("g", [("t", 0)])[0] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_deleted_topics_go() -> None:
    shard = a_shard()
    replay(shard, KEPT, KEPT._replace(topic="u"))
    assert shard.forget_topics([GoneTopic("u")]) == [offset_record("g", "u", 0, None)]


# -- retention


def test_offsets_over_their_retention_go_and_with_the_last_one_the_group() -> None:
    shard = a_shard()
    nothing = ((), False)
    assert shard.expire("g", wall_ms=9_999, retention_ms=1) == nothing
    replay(shard, KEPT, KEPT._replace(partition=1, committed=CommittedOffset(5, -1, "", 200)))
    assert shard.expire("g", wall_ms=299, retention_ms=200) == ([], False)
    assert shard.expire("g", wall_ms=300, retention_ms=200) == ([offset_record("g", "t", 0, None)], False)
    both = [offset_record("g", "t", partition, None) for partition in (0, 1)]
    assert shard.expire("g", wall_ms=400, retention_ms=200) == ([*both, group_tombstone("g")], True)
    replay(shard, CONSUMERS)
    gone = group_tombstones(shard.consumer_groups["g"])
    assert shard.expire("g", wall_ms=400, retention_ms=200) == ([*both, *gone], True)
    replay(shard, EpochRecord("g", None, 0), STREAMS)
    ended = streams_tombstones(shard.streams_groups["g"])
    assert shard.expire("g", wall_ms=400, retention_ms=200) == ([*both, *ended], True)
    shard = a_shard()
    replay(shard, KEPT)
    shard.group("g").die(0, ErrorCode.NONE, Effects())
    assert shard.expire("g", wall_ms=9_999, retention_ms=1) == nothing


def test_a_group_s_record_is_of_what_it_is_now() -> None:
    shard = a_shard()
    with_member(shard)
    record = shard.record_of(shard.group("g"), wall_ms=1_234)
    read = decode_record(*record)
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert (read.value.generation, read.value.current_state_timestamp) == (3, 1_234)


def test_a_new_member_of_a_new_group_is_under_way_and_so_the_group_is_kept() -> None:
    shard = a_shard()
    join = JoinRequest("", None, "c", "h", 10_000, 20_000, "consumer", [JoinProtocol("range", b"")], True)
    shard.group_or_new("g", 0).join(join, 1, "one", 0, Effects())
    shard.forget_if_nothing("g")
    assert kinds(shard) == ["classic"]
