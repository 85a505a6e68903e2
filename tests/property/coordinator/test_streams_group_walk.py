"""Random walks of streams groups (KIP-1071): honest members, lost answers, crashes, failed writes, topics that go and
come back, other numbers of standbys, new coordinators.

ST1 no active task is run by two members that the group still knows
ST5 a process has a task once
G2  a group's epoch only rises, and a member's but when it begins anew
G6  left alone, the group is Stable, with every task active somewhere
and what a new coordinator reads from the log is what the one before had.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kavka.coordinator.groups.streams.decide.group import StreamsGroup
from kavka.coordinator.groups.streams.decide.heartbeat import StreamsAnswer
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, tasks_in
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import OffsetsLog
from tests.kit.streams_case import APPLICATION, CHANGELOG, COUNTS, REPARTITION, StreamsCase
from tests.kit.virtual_time import in_virtual_time

NOT_A_MEMBER = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
TASKS = 8


class Member:
    """An honest member: it gives back before it says that it has no more. `slow` ones need a heartbeat for that."""

    def __init__(self, name: str, process: str) -> None:
        self.name = name
        self.process = process
        self.begin_anew()

    def begin_anew(self) -> None:
        self.epoch = 0
        self.told = self.runs = NOTHING

    def take(self, answer: StreamsAnswer, *, slow: bool) -> None:
        assert self.epoch == 0 or answer.member_epoch >= self.epoch, "a member's epoch fell"
        self.epoch = answer.member_epoch
        if answer.tasks is not None:
            self.told = answer.tasks
        if not slow:
            self.runs = self.told


class Walk:
    def __init__(self) -> None:
        self.case = StreamsCase(session_timeout_ms=30_000, standby_replicas=1)
        self.case.log = OffsetsLog(delay_s=0.002, keeps_failed=True)
        self.members: dict[int, Member] = {}
        self.epoch = 0
        self.named = 0
        for name in (CHANGELOG, REPARTITION):
            self.case.topics.put(name, 4)

    def group(self) -> StreamsGroup | None:
        return self.case.groups.describe_streams_group(APPLICATION)

    async def beat(self, place: int, *, loses_answer: bool = False, slow: bool = False) -> None:
        member = self.members[place]
        if member.epoch == 0:
            member.begin_anew()
        try:
            answer = await self.case.beat(
                member.name,
                member.epoch,
                application=COUNTS,
                active=member.runs.active,
                standby=member.runs.standby,
                warmup={},
                process_id=member.process,
            )
        except RequestError as refused:
            if refused.code in NOT_A_MEMBER:
                member.begin_anew()
            elif refused.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            return
        if not loses_answer:
            member.take(answer, slow=slow)

    async def act(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("beat", place, loses_answer, slow):
                if place not in self.members:
                    self.named += 1
                    self.members[place] = Member(f"m{self.named}", f"process-{place // 2}")
                await self.beat(place, loses_answer=loses_answer, slow=slow)
            case ("all beat", times):
                for _ in range(times):
                    for place in list(self.members):
                        await self.beat(place)
                        self.check()
            case ("leave", place) if place in self.members:
                member = self.members.pop(place)
                try:
                    await self.case.beat(member.name, -1)
                except RequestError as refused:
                    if refused.code not in (*NOT_A_MEMBER, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                        raise
            case ("crash", place):
                self.members.pop(place, None)
            case ("fail", error):
                self.case.log.error = error
            case ("standbys", count):
                self.case.limits["standby_replicas"] = count
            case ("lose topic", name):
                if self.case.topics.topic(name) is not None:
                    self.case.topics.remove(name)
            case ("make topics",):
                self.make_topics()
            case ("sleep", seconds):
                await asyncio.sleep(seconds)
            case ("new coordinator",):
                await self.start_again()
        self.check()

    def make_topics(self) -> None:
        for name in (CHANGELOG, REPARTITION):
            if self.case.topics.topic(name) is None:
                self.case.topics.put(name, 4)

    async def start_again(self) -> None:
        await asyncio.sleep(1)
        await self.case.log.at_rest()
        before = self.group()
        self.case.groups.shut_down()  # its timers would write into the log that is the next one's
        await self.case.start()
        after = self.group()
        if before is None or after is None:
            assert before is after
            return
        for name in ("epoch", "assignment_epoch", "metadata_hash", "validated_epoch", "topology", "members", "target"):
            assert getattr(after, name) == getattr(before, name), name

    def check(self) -> None:
        group = self.group()
        if group is None:
            return
        assert group.epoch >= self.epoch, "the group's epoch fell"
        self.epoch = group.epoch
        known = [member for member in self.members.values() if member.name in group.members and member.epoch > 0]
        running = Counter(task for member in known for task in tasks_in(member.runs.active))
        assert all(count == 1 for count in running.values()), f"two members run one task: {running}"
        held = Counter(
            (member.process_id, task)
            for member in group.members.values()
            for part in (member.assigned, member.revoking)
            for ids in part
            for task in tasks_in(ids)
        )
        assert all(count == 1 for count in held.values()), f"a process has a task twice: {held}"

    async def settle(self) -> None:
        self.case.log.error = ErrorCode.NONE
        self.make_topics()
        await asyncio.sleep(35)  # who is gone is out
        if not self.members:
            return
        for _ in range(12):
            for place in list(self.members):
                await self.beat(place)
                self.check()
        group = self.group()
        assert group is not None
        assert group.state == "Stable", group.state
        active = Counter(task for member in group.members.values() for task in tasks_in(member.assigned.active))
        assert len(active) == TASKS, "every task is active"
        wanted = group.configs["num.standby.replicas"]
        processes = len({member.process_id for member in group.members.values()})
        copies = Counter(task for member in group.members.values() for task in tasks_in(member.assigned.standby))
        expected = min(int(wanted), processes - 1)
        assert set(copies.values()) == ({expected} if expected else set()), copies
        assert all(member.runs == group.members[member.name].assigned for member in self.members.values())


PLACES = st.integers(0, 4)
ACTIONS = st.one_of(
    st.tuples(st.just("beat"), PLACES, st.booleans(), st.booleans()),
    st.tuples(st.just("beat"), PLACES, st.just(False), st.just(False)),
    st.tuples(st.just("beat"), PLACES, st.just(False), st.just(True)),
    st.tuples(st.just("all beat"), st.integers(1, 3)),
    st.tuples(st.just("leave"), PLACES),
    st.tuples(st.just("crash"), PLACES),
    st.tuples(st.just("fail"), st.sampled_from([ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS])),
    st.tuples(st.just("standbys"), st.integers(0, 2)),
    st.tuples(st.just("lose topic"), st.sampled_from([CHANGELOG, REPARTITION])),
    st.tuples(st.just("make topics")),
    st.tuples(st.just("sleep"), st.sampled_from([1, 10, 31])),
    st.tuples(st.just("new coordinator")),
)


BEAT = ("beat", 0, False, False)
TIMER_WRITES_AS_IT_ENDS: list[tuple[Any, ...]] = [
    *[BEAT, BEAT, ("beat", 1, False, False), BEAT, ("all beat", 1), ("lose topic", CHANGELOG)],
    *[("beat", 0, False, True), ("beat", 1, False, False), ("beat", 2, False, False)],
    *[("fail", ErrorCode.REQUEST_TIMED_OUT), ("sleep", 10), ("sleep", 10), ("new coordinator",)],
]
"""A member's time is up in the moment in which the coordinator is asked what it knows."""


@settings(max_examples=60, deadline=None)
@example(TIMER_WRITES_AS_IT_ENDS)
@given(st.lists(ACTIONS, min_size=20, max_size=40))
def test_no_walk_gives_a_task_to_two_members_and_all_end_stable(actions: list[tuple[Any, ...]]) -> None:
    async def scenario() -> None:
        walk = Walk()
        await walk.case.start()
        for action in actions:
            await walk.act(action)
        await walk.settle()

    in_virtual_time(scenario)
