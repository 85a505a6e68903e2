"""A log of groups with anything in it: what can be read is served, the rest is passed over, nobody is stopped by it."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import AsyncIterator, Awaitable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol, JoinRequest
from kavka.coordinator.groups.consumer.decide.group import ConsumerMember, MemberState, ResolvedRegex
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat
from kavka.coordinator.groups.consumer.decide.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.decide.records import CommittedOffset, group_tombstone, offset_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics, group_surroundings

GROUPS = st.sampled_from(["g", "h"])
MEMBERS = st.sampled_from(["a", "b", "c"])
ASSIGNMENTS = st.dictionaries(
    st.integers(0, 3).map(lambda number: uuid.UUID(int=number)),
    st.frozensets(st.integers(-1, 9), min_size=1, max_size=3),
    max_size=2,
)


@st.composite
def members(draw: st.DrawFn) -> ConsumerMember:
    return ConsumerMember(
        draw(MEMBERS),
        draw(st.sampled_from([None, "i"])),
        topics=draw(st.frozensets(st.sampled_from(["a", "b", "gone"]))),
        topic_regex=draw(st.sampled_from(["", "a.*", "("])),
        rebalance_timeout_ms=draw(st.integers(-1, 60_000)),
        assignor=draw(st.sampled_from([None, "range", "nope"])),
        epoch=draw(st.integers(-3, 5)),
        previous_epoch=draw(st.integers(-3, 5)),
        state=draw(st.sampled_from(MemberState)),
        assigned=draw(ASSIGNMENTS),
        revoking=draw(ASSIGNMENTS),
    )


def resolved(topics: frozenset[str]) -> ResolvedRegex:
    return ResolvedRegex(topics, 1, 1)


RECORDS = st.one_of(
    st.builds(epoch_record, GROUPS, st.integers(0, 9), st.integers(-5, 5)),
    st.builds(member_record, GROUPS, members()),
    st.builds(current_record, GROUPS, members()),
    st.builds(target_record, GROUPS, st.integers(0, 9), st.integers(0, 5)),
    st.builds(target_member_record, GROUPS, MEMBERS, ASSIGNMENTS),
    st.builds(regex_record, GROUPS, st.sampled_from(["a.*", "("]), st.frozensets(st.just("a")).map(resolved)),
    st.builds(lambda group, member: member_tombstones(group, [member])[0], GROUPS, MEMBERS),
    st.builds(lambda group, member: member_tombstones(group, [member])[2], GROUPS, MEMBERS),
    st.builds(group_tombstone, GROUPS),
    st.builds(offset_record, GROUPS, st.just("a"), st.integers(0, 3), st.just(CommittedOffset(1, 0, "", 1))),
    st.builds(
        lambda version, key, value: CoordinatorRecord(struct.pack(">h", version) + key, value),
        st.integers(-1, 18),
        st.binary(max_size=30),
        st.one_of(st.none(), st.binary(max_size=40), st.binary(max_size=40).map(lambda data: b"\0\0" + data)),
    ),
)


class Log:
    def __init__(self, records: list[CoordinatorRecord]) -> None:
        self.records = records

    def append(
        self, partition: int, records: Sequence[CoordinatorRecord], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> Awaitable[ErrorCode]:
        return self._append(records)

    async def _append(self, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        self.records.extend(records)
        return ErrorCode.NONE

    def ends(self, partition: int) -> tuple[int, int]:
        return len(self.records), len(self.records)

    async def settle(self, partition: int) -> bool:
        return True

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        yield list(self.records)


@settings(max_examples=200)
@given(st.lists(RECORDS, max_size=25))
def test_members_join_and_commit_whatever_the_log_says(records: list[CoordinatorRecord]) -> None:
    async def scenario() -> None:
        groups = GroupCoordinator(
            asyncio.get_running_loop(),
            Log(records),
            group_surroundings(HandMadeTopics(a=3, b=4)),
            offset_metadata_max_bytes=16,
        )
        groups.set_partition_count(1)
        await groups.load(0, leader_epoch=0)
        groups.list_groups()
        for group in ("g", "h"):
            for member in ("a", "new"):
                request = ConsumerHeartbeat(
                    group, member, 0, None, None, 1_000, ["a", "b"], None, None, {}, "client", "/127.0.0.1"
                )
                try:
                    answer = await groups.consumer_heartbeat(request)
                except RequestError:
                    continue
                assert answer.member_epoch > 0
            groups.describe_consumer_group(group)
            try:
                await groups.join(group, JoinRequest("", None, "c", "/", 5, 5, "x", [JoinProtocol("p", b"")], False))
            except RequestError:
                pass
        await groups.offsets.expire(1)
        groups.shut_down()

    asyncio.run(scenario())
