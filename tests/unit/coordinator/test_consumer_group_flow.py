"""Consumer groups through their coordinator: time-outs, expressions, and groups between the two protocols."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import decode_assignment, encode_assignment
from kavka.coordinator.groups.classic.decide.membership import GroupState, Leaver
from kavka.coordinator.groups.consumer import flow
from kavka.coordinator.groups.consumer.decide.heartbeat import HeartbeatAnswer
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.shared.decide.topic_pattern import TopicPattern
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_case import GROUP, REBALANCE_MS, SESSION_S, Case, told
from tests.kit.group_surroundings import OffsetsLog
from tests.kit.one_by_one import OneByOne
from tests.kit.virtual_time import in_virtual_time


def test_who_is_silent_for_a_session_is_out_and_the_others_get_its_partitions() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        await asyncio.sleep(SESSION_S - 1)
        await case.beat("one", one.member_epoch)
        await asyncio.sleep(2)
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert list(group.members) == ["one"]
        assert await case.refused("two", 3) is ErrorCode.UNKNOWN_MEMBER_ID

    in_virtual_time(scenario)


def test_a_member_whose_heartbeats_cannot_be_written_down_is_not_silent() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        two = await case.beat("two")
        for _ in range(int(2 * SESSION_S / 5)):
            await asyncio.sleep(5)
            assert (await case.beat("two", two.member_epoch)).member_epoch == two.member_epoch
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            assert await case.refused("one", one.member_epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(told(await case.beat("one", one.member_epoch))) == 2

    in_virtual_time(scenario)


def test_a_heartbeat_of_a_group_at_rest_looks_at_no_other_member() -> None:
    """Else the heartbeats of a group cost the square of its members."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        two = await case.beat("two")
        one = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        one = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        two = await case.beat("two", two.member_epoch)
        assert len(told(two)) == 2
        two = await case.beat("two", two.member_epoch, owned=dict(two.assignment or {}))
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert group.state == "Stable"
        group.members, group.deadlines = members, deadlines = OneByOne(group.members), OneByOne(group.deadlines)
        for _ in range(3):
            await asyncio.sleep(5)
            assert (await case.beat("one", one.member_epoch)).member_epoch == one.member_epoch
            assert (await case.beat("two", two.member_epoch)).member_epoch == two.member_epoch
        group.members, group.deadlines = members.whole(), deadlines.whole()
        await asyncio.sleep(SESSION_S - 1)
        await case.beat("one", one.member_epoch)
        await asyncio.sleep(2)
        assert list(group.members) == ["one"], "sessions end as before"

    in_virtual_time(scenario)


def test_who_does_not_give_back_in_time_is_fenced() -> None:
    async def scenario() -> None:
        case = Case(session_timeout_ms=1_000_000)
        await case.start()
        one = await case.beat("one")
        two = await case.beat("two")
        owned = dict(one.assignment or {})
        assert len(told(await case.beat("one", one.member_epoch, owned=owned))) == 2
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        await case.beat("one", one.member_epoch, owned=owned)
        await asyncio.sleep(2)
        assert await case.refused("one", one.member_epoch, owned=owned) is ErrorCode.UNKNOWN_MEMBER_ID
        assert told(await case.beat("two", two.member_epoch, owned={})) == [0, 1, 2, 3]

    in_virtual_time(scenario)


def test_time_to_give_back_begins_when_the_member_is_told_and_not_with_a_refused_heartbeat() -> None:
    async def scenario() -> None:
        case = Case(session_timeout_ms=1_000_000)
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        owned = dict(one.assignment or {})
        case.log.error, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 1
        assert await case.refused("one", one.member_epoch, owned=owned) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        case.log.uncommitted = 0
        left = await case.beat("one", one.member_epoch, owned=owned)
        assert len(told(left)) == 2
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        assert (await case.beat("one", one.member_epoch, owned=left.assignment)).member_epoch == one.member_epoch + 1

    in_virtual_time(scenario)


def test_what_more_is_to_be_given_back_has_its_whole_time_too() -> None:
    async def scenario() -> None:
        case = Case(assignment_interval_ms=1_000_000, session_timeout_ms=1_000_000)
        await case.start()
        of_u, of_v = (case.topics.put(name, 2) for name in ("u", "v"))
        one = await case.beat("one", topics=["t", "u", "v"])
        owned = dict(one.assignment or {})
        await case.beat("one", one.member_epoch, topics=["t", "u"], owned=owned)
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        del owned[of_v]
        await case.beat("one", one.member_epoch, topics=["t"], owned=owned)
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        assert of_u in owned
        assert (await case.beat("one", one.member_epoch, owned=owned)).member_epoch == one.member_epoch
        await asyncio.sleep(2)
        assert await case.refused("one", one.member_epoch, owned=owned) is ErrorCode.UNKNOWN_MEMBER_ID

    in_virtual_time(scenario)


def test_a_static_member_that_is_away_has_its_session_to_come_back_in_whatever_it_had_to_give_back() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one", instance_id="a")
        two = await case.beat("two")
        shown = await case.beat("one", one.member_epoch, instance_id="a", owned=dict(one.assignment or {}))
        await case.beat("one", -2, instance_id="a")
        await asyncio.sleep(REBALANCE_MS / 1000 + 1)
        await case.beat("two", two.member_epoch)
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert list(group.members) == ["one", "two"]
        assert (await case.beat("uno", instance_id="a")).assignment == shown.assignment
        assert list(group.members) == ["two", "uno"]

    in_virtual_time(scenario)


def test_who_was_told_of_a_failure_is_told_the_assignment_by_the_next_heartbeat() -> None:
    """A write of unknown outcome counts, so the next heartbeat changes nothing; and librdkafka repeats no full one."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        case.log.error = ErrorCode.REQUEST_TIMED_OUT
        assert await case.refused("one", one.member_epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = await case.beat("one", one.member_epoch)
        assert len(told(again)) == 2
        assert (await case.beat("one", one.member_epoch)).assignment is None

    in_virtual_time(scenario)


def test_a_new_coordinator_tells_each_member_its_assignment_once() -> None:
    """What the one before wrote may be committed without its answer having arrived."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        assert len(told(await case.beat("one", one.member_epoch))) == 2
        await case.start()
        assert len(told(await case.beat("one", one.member_epoch))) == 2
        assert (await case.beat("one", one.member_epoch)).assignment is None

    in_virtual_time(scenario)


def test_a_regular_expression_follows_the_topics() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one", topics=None, topic_regex="t.*")
        assert told(one) == [0, 1, 2, 3]
        added = case.topics.put("t2", 1)
        case.topics.put("other", 1)
        await asyncio.sleep(11)
        after = await case.beat("one", one.member_epoch)
        assert after.assignment is not None
        assert added in after.assignment
        assert len(after.assignment) == 2
        restarted = await case.start()
        group = restarted.describe_consumer_group(GROUP)
        assert group is not None
        assert group.regexes["t.*"].topics == {"t", "t2"}
        await case.beat("one", after.member_epoch, topics=["t"], topic_regex="", rebalance_timeout_ms=-1)
        assert group.regexes == {}

    in_virtual_time(scenario)


def test_a_topic_that_comes_soon_after_a_match_is_matched_when_its_time_has_come() -> None:
    """An expression is matched every ten seconds at the most. A heartbeat within them had noted that the topics were
    looked at, and the next match came after group.consumer.regex.refresh.interval.ms, ten minutes."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one", topics=None, topic_regex="t.*")
        one = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        await asyncio.sleep(3)
        added = case.topics.put("t2", 1)
        given: set[uuid.UUID] = set()
        for _ in range(4):
            await asyncio.sleep(3)
            one = await case.beat("one", one.member_epoch)
            given |= set(one.assignment or {})
        assert added in given, "as Apache Kafka, which keeps the version of the last match"

    in_virtual_time(scenario)


def test_a_topic_that_comes_while_an_expression_is_matched_is_matched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.coordinator.groups.consumer.flow.NAMES_AT_ONCE", 1)

    async def scenario() -> None:
        case = Case()
        await case.start()
        case.topics.put("other", 1)
        one = await case.beat("one", topics=None, topic_regex="t.*")
        one = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        await asyncio.sleep(11)
        case.topics.put("more", 1)
        beating = asyncio.ensure_future(case.beat("one", one.member_epoch))
        await asyncio.sleep(0)
        added = case.topics.put("t2", 1)
        assert (await beating).assignment is None
        await asyncio.sleep(11)
        assert added in ((await case.beat("one", one.member_epoch)).assignment or {})

    in_virtual_time(scenario)


def test_expressions_are_matched_once_for_each_change_of_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    matches: list[str] = []
    match = flow._matching

    async def counted(pattern: TopicPattern, names: Sequence[str]) -> list[str]:
        matches.append("match")
        return list(await match(pattern, names))

    monkeypatch.setattr(flow, "_matching", counted)

    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one", topics=None, topic_regex="t.*")
        case.topics.put("other", 1)
        for _ in range(20):
            await asyncio.sleep(3)
            await case.beat("one", one.member_epoch)
        assert len(matches) == 2

    in_virtual_time(scenario)


def test_a_regular_expression_matches_only_what_the_member_may_know_of() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        seen, hidden = case.topics.put("t2", 1), case.topics.put("t-secret", 1)
        one = await case.beat("one", topics=None, topic_regex="t.*", sees=lambda topic: topic != "t-secret")
        assert one.assignment is not None
        assert seen in one.assignment
        assert hidden not in one.assignment
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert group.regexes["t.*"].topics == {"t", "t2"}

    in_virtual_time(scenario)


def test_members_that_come_at_once_are_assigned_together() -> None:
    async def scenario() -> None:
        case = Case(assignment_interval_ms=1_000)
        await case.start()
        one = await case.beat("one")
        two = await case.beat("two")
        assert told(two) == []
        assert two.member_epoch == one.member_epoch
        assert case.state == "Assigning"
        await asyncio.sleep(1.1)
        await case.beat("two", two.member_epoch, owned={})
        assert case.state == "Reconciling"

    in_virtual_time(scenario)


def test_a_group_is_no_larger_than_it_may_be() -> None:
    async def scenario() -> None:
        case = Case(max_size=1)
        await case.start()
        one = await case.beat("one")
        assert await case.refused("two") is ErrorCode.GROUP_MAX_SIZE_REACHED
        await case.beat("one", one.member_epoch)

    in_virtual_time(scenario)


def test_a_classic_group_is_upgraded_with_its_partitions_and_back() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        committed = [OffsetToCommit("t", 0, 5, -1, "")]
        await groups.offsets.commit(CommitRequest(GROUP, old.member_id, None, old.generation, committed))
        new = await case.beat("new")
        assert told(new) == [], "the old member has all of them still"
        assert new.member_epoch > old.generation
        with pytest.raises(RequestError) as rebalance:
            groups.heartbeat(GROUP, old.member_id, None, old.generation)
        assert rebalance.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        again = await case.join(old.member_id, owned={"t": [0, 1, 2, 3]})
        first = decode_assignment((await case.sync(again)).assignment).partitions["t"]
        assert len(first) == 2
        with pytest.raises(RequestError):
            groups.heartbeat(GROUP, old.member_id, None, again.generation)
        again = await case.join(old.member_id, owned={"t": first})
        assert decode_assignment((await case.sync(again)).assignment).partitions["t"] == first
        groups.heartbeat(GROUP, old.member_id, None, again.generation)
        assert set(told(await case.beat("new", new.member_epoch, owned={}))) == {0, 1, 2, 3} - set(first)
        assert case.state == "Stable"

        restarted = await case.start()
        assert case.state == "Stable"
        assert [offset.offset for _topic, _index, offset in restarted.offsets.fetch_all(GROUP)] == [5]

        await case.beat("new", -1)
        group = restarted.describe_group(GROUP)
        assert group is not None
        assert case.state == "none"
        assert group.generation == again.generation, "the rebalance raises it"
        assert group.state is GroupState.PREPARING_REBALANCE
        back = await case.join(old.member_id)
        assert (back.leader, back.generation) == (old.member_id, again.generation + 1)
        assert restarted.offsets.fetch(GROUP, "t", 0) is not None
        once_more = await case.start()
        assert once_more.describe_group(GROUP) is not None
        assert case.state == "none"

    in_virtual_time(scenario)


def test_an_upgrade_that_could_not_be_written_leaves_the_classic_group_and_its_members() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await case.refused("new") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        group = groups.describe_group(GROUP)
        assert group is not None
        assert group.state is GroupState.PREPARING_REBALANCE
        again = await case.join(old.member_id)
        assert (again.error, again.generation) == (ErrorCode.NONE, old.generation + 1)

    in_virtual_time(scenario)


@pytest.mark.parametrize("direction", ["upgrade_allowed", "downgrade_allowed"])
def test_a_group_does_not_change_over_where_that_is_not_allowed(direction: str) -> None:
    async def scenario() -> None:
        case = Case(**{direction: False})
        await case.start()
        if direction == "upgrade_allowed":
            await case.classic_member()
            assert await case.refused("new") is ErrorCode.GROUP_ID_NOT_FOUND
        else:
            await case.beat("new")
            await case.join()
            await case.beat("new", -1)
            assert case.state != "none"

    in_virtual_time(scenario)


def test_an_empty_group_changes_over_for_whoever_comes() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        await groups.leave(GROUP, [Leaver(old.member_id)])
        await asyncio.sleep(0.01)
        await case.beat("new")
        assert groups.describe_group(GROUP) is None
        await case.beat("new", -1)
        joined = await case.join()
        assert joined.leader == joined.member_id
        assert case.state == "none"

    in_virtual_time(scenario)


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    async def scenario() -> None:
        case = Case(session_timeout_ms=1_000_000)
        groups = await case.start()
        old = await case.classic_member()
        new = await case.beat("new")
        for _ in range(7):
            await asyncio.sleep(4)
            with pytest.raises(RequestError):
                groups.heartbeat(GROUP, old.member_id, None, old.generation)
        with pytest.raises(RequestError) as refused:
            groups.heartbeat(GROUP, old.member_id, None, old.generation)
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert told(await case.beat("new", new.member_epoch, owned={})) == [0, 1, 2, 3]

    in_virtual_time(scenario)


@pytest.mark.parametrize("steps", range(6))
def test_a_member_that_is_removed_while_it_joins_leaves_no_deadline(steps: int) -> None:
    """A deadline of nobody is one that nothing comes of: the group's timer would fire for it for ever.

    The log answers at once, so that the removal, which waits for its turn, may be done before the join is answered.
    """

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("new")
        case.log.delay_s = None
        joining = asyncio.ensure_future(case.join("", instance="i"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await groups.leave(GROUP, [Leaver("", "i")])
        await joining
        group = groups.describe_consumer_group(GROUP)
        assert group is not None
        assert set(group.deadlines) <= set(group.members)
        await asyncio.sleep(2 * SESSION_S)
        assert not group.members

    in_virtual_time(scenario)


def test_members_are_answered_while_their_large_group_is_being_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records take several batches, and members are there from the first one on."""
    monkeypatch.setattr("kavka.coordinator.groups.shard_writer.BATCH_BYTES", 1)

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        half = encode_assignment({"t": [0, 1]}, 1), encode_assignment({"t": [2, 3]}, 1)
        members = await case.two_classic_members(*half)
        case.log.delay_s = 0.1
        upgrading = asyncio.ensure_future(case.beat("new"))
        answers: set[ErrorCode] = set()
        while not upgrading.done():
            await asyncio.sleep(0.05)
            for member in members:
                try:
                    answers.add((await case.sync(member)).error)
                    groups.heartbeat(GROUP, member.member_id, None, member.generation)
                except RequestError as refused:
                    answers.add(refused.code)
        assert (await upgrading).member_epoch > members[0].generation
        assert answers <= {
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }

    in_virtual_time(scenario)


def test_each_epoch_of_the_group_says_what_it_comes_from() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        first = await case.beat("one")
        await case.beat("two")
        case.topics.put("t", 6)
        await case.beat("one", first.member_epoch)
        await case.beat("two", -1)
        await asyncio.sleep(SESSION_S + 1)
        told = case.rebalances
        assert [each.why for each in told[:4]] == [
            "member one joins from /127.0.0.1",
            "member two joins from /127.0.0.1",
            "the topics that its members read have changed",
            "member two leaves",
        ]
        assert told[4].why.startswith("member one is removed: ")
        assert [(each.members_before, each.members) for each in told] == [(0, 1), (1, 2), (2, 2), (2, 1), (1, 0)]
        assert [each.generation for each in told[:-1]] == [each.generation_before for each in told[1:]]

    in_virtual_time(scenario)


def test_administrators_take_members_of_both_protocols_out_at_once() -> None:
    """As removeMembersFromConsumerGroup asks: a static member by its instance id, with no member id."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("dynamic")
        await case.beat("static", instance_id="i")
        await case.beat("other", instance_id="j")
        await case.beat("stays")
        old = await case.join(instance="k")
        group = groups.describe_consumer_group(GROUP)
        assert group is not None
        epoch = group.epoch
        leavers = {
            Leaver("", "i"): ErrorCode.NONE,
            Leaver("", "nobody"): ErrorCode.UNKNOWN_MEMBER_ID,
            Leaver("stranger"): ErrorCode.UNKNOWN_MEMBER_ID,
            Leaver("stranger", "j"): ErrorCode.FENCED_INSTANCE_ID,
            Leaver(""): ErrorCode.UNKNOWN_MEMBER_ID,
            Leaver("dynamic", None, "too slow"): ErrorCode.NONE,
            Leaver(old.member_id, "k"): ErrorCode.NONE,
            Leaver("static", "i"): ErrorCode.NONE,
        }
        assert await groups.leave(GROUP, list(leavers)) == list(leavers.values())
        assert set(group.members) == {"other", "stays"}
        assert group.epoch == epoch + 1, "one rebalance for all"
        assert (
            case.rebalances[-1].why
            == f"member static leaves; member dynamic leaves: too slow; member {old.member_id} leaves"
        )
        assert await groups.leave(GROUP, [Leaver("", "i")]) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert group.epoch == epoch + 1
        assert await groups.leave(GROUP, []) == []
        assert set((await case.start()).describe_consumer_group(GROUP).members) == {"other", "stays"}  # type: ignore[union-attr]

    in_virtual_time(scenario)


def test_a_group_that_only_classic_members_are_left_of_is_a_classic_one() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("static", instance_id="i")
        kept, gone = await case.join(), await case.join()
        leavers = [Leaver("", "i"), Leaver(gone.member_id)]
        assert await groups.leave(GROUP, leavers) == [ErrorCode.NONE, ErrorCode.NONE]
        group = groups.describe_group(GROUP)
        assert group is not None
        assert list(group.members) == [kept.member_id]

    in_virtual_time(scenario)


def test_a_removal_that_could_not_be_written_is_refused_for_all() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("static", instance_id="i")
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(RequestError) as refused:
            await groups.leave(GROUP, [Leaver("", "i")])
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert case.state == "Stable"

    in_virtual_time(scenario)


async def committed(case: Case, member: str, epoch: int, *partitions: int, topic: str = "t") -> ErrorCode:
    """What the member is told who commits these partitions in one request."""
    offsets = [OffsetToCommit(topic, partition, 5, -1, "") for partition in partitions]
    try:
        (answer, *others) = await case.groups.offsets.commit(CommitRequest(GROUP, member, None, epoch, offsets))
    except RequestError as refused:
        return refused.code
    assert others == [answer] * len(others)
    return answer


def test_who_has_not_heard_of_its_epoch_yet_may_commit_what_it_has_had_since() -> None:
    """KIP-1251: a commit on its way while the epoch rises is of partitions that nobody else has had meanwhile."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        before = one.member_epoch
        two = await case.beat("two")
        shown = await case.beat("one", before, owned=dict(one.assignment or {}))
        keeps = told(shown)
        gives = [number for number in range(4) if number not in keeps]
        assert await committed(case, "one", before, *gives) is ErrorCode.NONE, "it has not given them back yet"
        after = await case.beat("one", before, owned=dict(shown.assignment or {}))
        assert after.member_epoch > before
        assert await committed(case, "one", before, *keeps) is ErrorCode.NONE
        for refused in (gives[:1], [keeps[0], gives[0]], [99]):
            assert await committed(case, "one", before, *refused) is ErrorCode.STALE_MEMBER_EPOCH
        assert await committed(case, "one", before, 0, topic="gone") is ErrorCode.STALE_MEMBER_EPOCH
        assert await committed(case, "one", before - 1, *keeps) is ErrorCode.STALE_MEMBER_EPOCH
        assert await committed(case, "one", after.member_epoch + 1, *keeps) is ErrorCode.STALE_MEMBER_EPOCH
        two = await case.beat("two", two.member_epoch)
        assert told(two) == gives
        assert await committed(case, "two", two.member_epoch - 1, *gives) is ErrorCode.STALE_MEMBER_EPOCH
        await case.start()  # The epochs are in the log.
        assert await committed(case, "one", before, *keeps) is ErrorCode.NONE
        assert await committed(case, "one", before, *gives) is ErrorCode.STALE_MEMBER_EPOCH

    in_virtual_time(scenario)


def test_a_member_has_what_it_is_to_give_back_until_it_has() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        shown = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert group.members["one"].held == one.assignment
        await case.beat("one", one.member_epoch, owned=dict(shown.assignment or {}))
        assert group.members["one"].held == shown.assignment

    in_virtual_time(scenario)


def test_a_member_that_was_of_a_classic_group_has_what_it_had_since_its_generation() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        old = await case.classic_member()
        await case.beat("new")
        assert await committed(case, old.member_id, old.generation, 0, 1, 2, 3) is ErrorCode.NONE
        joined = await case.join(old.member_id, owned={"t": [0, 1, 2, 3]})
        keeps = list(decode_assignment((await case.sync(joined)).assignment).partitions["t"])
        again = await case.join(old.member_id, owned={"t": keeps})
        assert again.generation > old.generation
        assert await committed(case, old.member_id, old.generation, *keeps) is ErrorCode.NONE
        gone = [number for number in range(4) if number not in keeps]
        assert await committed(case, old.member_id, old.generation, *gone) is ErrorCode.ILLEGAL_GENERATION

    in_virtual_time(scenario)


def topics_told(answer: HeartbeatAnswer) -> set[uuid.UUID]:
    assert answer.assignment is not None
    return set(answer.assignment)


def test_who_reads_a_topic_no_more_gives_it_back_at_once_however_long_the_next_assignment_takes() -> None:
    async def scenario() -> None:
        case = Case(assignment_interval_ms=60_000, session_timeout_ms=1_000_000)
        await case.start()
        of_t = uuid.UUID(int=1)
        of_u, of_v = (case.topics.put(name, 2) for name in ("u", "v"))
        one = await case.beat("one", topics=["t", "u", "v"])
        epoch, has = one.member_epoch, dict(one.assignment or {})
        assert topics_told(one) == {of_t, of_u, of_v}
        # More to read is no reason to give anything back.
        assert (await case.beat("one", epoch, topics=["t", "u", "v", "w"])).assignment is None
        less = await case.beat("one", epoch, topics=["t", "u"], owned=has)
        assert (less.member_epoch, topics_told(less)) == (epoch, {of_t, of_u})
        # Even less, before it has given back the first.
        least = await case.beat("one", epoch, topics=["t"], owned=has)
        assert (least.member_epoch, topics_told(least)) == (epoch, {of_t})
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert group.members["one"].held == has
        await case.beat("one", epoch, owned={of_t: has[of_t]})
        assert group.members["one"].held == {of_t: has[of_t]}
        assert case.state == "Assigning"

    in_virtual_time(scenario)


def test_who_comes_back_to_a_topic_before_it_was_assigned_anew_is_given_it_again() -> None:
    async def scenario() -> None:
        case = Case(assignment_interval_ms=60_000, session_timeout_ms=1_000_000)
        await case.start()
        of_t, of_u = uuid.UUID(int=1), case.topics.put("u", 2)
        one = await case.beat("one", topics=["t", "u"])
        epoch = one.member_epoch
        await case.beat("one", epoch, topics=["t"], owned={of_t: frozenset(range(4))})
        await case.beat("one", epoch, topics=["t", "u"], owned={of_t: frozenset(range(4))})
        await asyncio.sleep(61)
        last = await case.beat("one", epoch, owned={of_t: frozenset(range(4))})
        assert topics_told(last) == {of_t, of_u}
        assert case.state == "Stable"

    in_virtual_time(scenario)


def test_who_gives_back_more_and_more_of_one_assignment_stays_in_its_epoch() -> None:
    """It got ahead of the assignment's, and fell back to that in the end. Whoever missed the last answer was fenced."""

    async def scenario() -> None:
        case = Case(assignment_interval_ms=60_000, session_timeout_ms=1_000_000)
        await case.start()
        of_u, of_v = (case.topics.put(name, 2) for name in ("u", "v"))
        one = await case.beat("one", topics=["t", "u", "v"])
        epoch, has = one.member_epoch, dict(one.assignment or {})
        await case.beat("one", epoch, topics=["t", "u"], owned=has)
        del has[of_v]
        less = await case.beat("one", epoch, topics=["t"], owned=has)
        assert less.member_epoch == epoch
        del has[of_u]
        for _ in ("the answer is lost", "asked again"):
            assert (await case.beat("one", less.member_epoch, owned=has)).member_epoch == epoch
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert group.members["one"].held == has

    in_virtual_time(scenario)


def test_who_has_given_back_what_it_is_to_have_again_gets_it_with_the_answer() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        left = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        keeps = told(left)
        await case.beat("two", -1)
        again = await case.beat("one", one.member_epoch, owned=left.assignment)
        assert told(again) == [0, 1, 2, 3]
        assert case.state == "Stable"
        # What it was given anew it has since then, and the rest since before.
        assert await committed(case, "one", one.member_epoch, *keeps) is ErrorCode.NONE
        gone = [number for number in range(4) if number not in keeps]
        assert await committed(case, "one", one.member_epoch, *gone) is ErrorCode.STALE_MEMBER_EPOCH

    in_virtual_time(scenario)
