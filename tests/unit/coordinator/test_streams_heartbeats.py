"""What a heartbeat makes of a streams group: who may join, when epochs rise, when tasks are assigned, what is told.

Epochs, refusals, statuses and the order of records are those of Kafka 4.3's GroupMetadataManager.streamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.consumer.decide.target_assignment import metadata_hash
from kavka.coordinator.groups.streams.decide.endpoints import EndpointPartitions, TopicPartitions
from kavka.coordinator.groups.streams.decide.group import Endpoint, MemberState, StreamsGroup, StreamsMember
from kavka.coordinator.groups.streams.decide.heartbeat import (
    STANDBYS,
    Decision,
    StreamsHeartbeat,
    StreamsNow,
    check_request,
    decide_delayed,
    decide_heartbeat,
    decide_leave,
)
from kavka.coordinator.groups.streams.decide.records import (
    Change,
    CurrentChange,
    Epoch,
    GroupChange,
    MemberChange,
    Target,
    TargetChange,
    TargetMemberChange,
    TopologyChange,
    apply_to,
    decode_streams_group_record,
)
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, TaskIds, Tasks
from kavka.coordinator.groups.streams.decide.topology import Status, StatusCode, Topology
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics
from tests.kit.streams_case import CHANGELOG, COUNTS, LIMITS, REPARTITION, STATELESS, part, topology

WALL_MS = 1_700_000_000_000
HOST = Endpoint("h", 9_000)


def changes(records: Sequence[CoordinatorRecord]) -> list[Change]:
    found = []
    for record in records:
        version, key = split_version(record.key)
        said = decode_streams_group_record(version, key, None if record.value is None else split_version(record.value))
        assert said is not None
        found.append(said.change)
    return found


def heartbeat(
    sender: str, epoch: int = 0, *, has: Tasks | None = None, application: Topology = STATELESS, **fields: object
) -> StreamsHeartbeat:
    """A first heartbeat says all; a later one says nothing new, but for `has` and `fields`."""
    joins = epoch == 0
    owned: Sequence[TaskIds | None] = ({}, {}, {}) if joins else (None, None, None) if has is None else has
    request = StreamsHeartbeat(
        "g",
        sender,
        epoch,
        0,
        None,
        None,
        300 if joins else -1,
        application if joins else None,
        *owned,
        f"process-of-{sender}" if joins else None,
        None,
        () if joins else None,
        False,
        False,
        False,
        "client",
        "/127.0.0.1",
    )
    return request._replace(**fields)  # type: ignore[arg-type]  # names of fields


def tasks(*numbers: int) -> Tasks:
    return Tasks({"0": frozenset(numbers)}) if numbers else NOTHING


class Decided:
    """A group g whose decisions are replayed at once, with a topic t of four partitions."""

    def __init__(self, **limits: int) -> None:
        self.group = StreamsGroup("g")
        self.topics = HandMadeTopics(t=4)
        self.now = StreamsNow(WALL_MS, 1_000, self.topics, replace(LIMITS, **limits))
        self.said: list[Change] = []

    def beat(self, sender: str, epoch: int = 0, **fields: object) -> Decision:
        decision = decide_heartbeat(self.group, heartbeat(sender, epoch, **fields), self.now)  # type: ignore[arg-type]
        self.said = changes(decision.records)
        self.replay(self.said)
        self.group.configured, self.group.checked_version = decision.configured, self.topics.version
        self.group.delayed_until_ms, self.group.endpoint_epoch = decision.delayed_until_ms, decision.endpoint_epoch
        return decision

    def replay(self, several: Sequence[Change]) -> None:
        for change in several:
            apply_to(self.group, change)

    def refused(self, sender: str, epoch: int = 0, **fields: object) -> tuple[str, str]:
        with pytest.raises(RequestError) as refusal:
            self.beat(sender, epoch, **fields)
        return refusal.value.code.name, refusal.value.message or ""

    def epochs(self) -> tuple[int, int]:
        return self.group.epoch, self.group.assignment_epoch


def codes(decision: Decision) -> list[str]:
    return [status.code.name for status in decision.answer.statuses]


# -- whether a request can be meant


@pytest.mark.parametrize(
    ("epoch", "fields", "why"),
    [
        (0, {}, ""),
        (1, {}, ""),
        (-1, {}, ""),
        (1, {"has": tasks(0)}, ""),
        (0, {"rack_id": "r"}, ""),
        (0, {"instance_id": "i"}, "Static membership is not yet supported."),
        (0, {"has_offsets": True}, "TaskOffsets are not supported yet."),
        (0, {"has_end_offsets": True}, "TaskEndOffsets are not supported yet."),
        (1, {"has": Tasks({}, {}, {"0": frozenset({1})})}, "WarmupTasks are not supported yet."),
        (
            0,
            {"application": topology(part("0", "t"), part("1")._replace(source_topic_regex=("x",)))},
            "Regular expressions for source topics are not supported yet.",
        ),
        (0, {"member_id": " "}, "MemberId can't be empty."),
        (0, {"group_id": " "}, "GroupId can't be empty."),
        (0, {"rack_id": " "}, "RackId can't be empty."),
        (0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"active": None}, "ActiveTasks must be empty when (re-)joining."),
        (0, {"active": {"0": frozenset({0})}}, "ActiveTasks must be empty when (re-)joining."),
        (0, {"standby": None}, "StandbyTasks must be empty when (re-)joining."),
        (0, {"standby": {"0": frozenset({0})}}, "StandbyTasks must be empty when (re-)joining."),
        (0, {"warmup": None}, "WarmupTasks must be empty when (re-)joining."),
        (0, {"topology": None}, "Topology must be non-null when (re-)joining."),
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (1, {"active": {}}, "If one task-type is non-null, all must be non-null."),
        (1, {"standby": {}}, "If one task-type is non-null, all must be non-null."),
        (1, {"warmup": {}}, "If one task-type is non-null, all must be non-null."),
        (1, {"standby": {}, "warmup": {}}, "If one task-type is non-null, all must be non-null."),
        (1, {"active": {}, "warmup": {}}, "If one task-type is non-null, all must be non-null."),
        (1, {"active": {}, "standby": {}}, "If one task-type is non-null, all must be non-null."),
        (1, {"topology": STATELESS}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_requests_that_cannot_be_meant_are_refused_in_kafkas_words(
    epoch: int, fields: dict[str, object], why: str
) -> None:
    request = heartbeat("one", epoch, **fields)  # type: ignore[arg-type]
    if not why:
        check_request(request)
        return
    with pytest.raises(RequestError) as refused:
        check_request(request)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, why)


def test_a_topology_that_cannot_be_meant_is_refused_before_anybody_joins() -> None:
    with pytest.raises(RequestError) as refused:
        check_request(heartbeat("one", application=topology(part("0", "t"), epoch=-1)))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


# -- joining


def test_a_first_member_gets_every_task_in_epoch_2() -> None:
    """A group begins with epoch 1, as in Kafka."""
    case = Decided()
    news = {"rack_id": "r", "endpoint": HOST, "tags": (("zone", "a"),)}
    decision = case.beat("one", **news)
    said = StreamsMember("one", None, "r", "client", "/127.0.0.1", 300, 0, "process-of-one", HOST, (("zone", "a"),))
    moved = StreamsMember(
        "one", epoch=2, assigned=tasks(0, 1, 2, 3), assignment_epochs={Task("0", number): 2 for number in range(4)}
    )
    assert case.said == [
        MemberChange("one", said),
        TopologyChange(STATELESS),
        GroupChange(Epoch(2, metadata_hash(["t"], case.topics), 0, {STANDBYS: "0"})),
        TargetMemberChange("one", tasks(0, 1, 2, 3)),
        TargetChange(Target(2, WALL_MS)),
        CurrentChange("one", moved),
    ]
    assert STANDBYS == "num.standby.replicas"
    assert decision.member == case.group.members["one"] == moved.with_news_of(said)
    answer = decision.answer
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("one", 2, 5_000)
    assert (list(answer.statuses), answer.tasks, dict(answer.missing)) == ([], tasks(0, 1, 2, 3), {})


def test_a_heartbeat_that_says_nothing_new_changes_and_tells_nothing() -> None:
    case = Decided()
    case.beat("one")
    stays = case.beat("one", 2, has=tasks(0, 1, 2, 3))
    assert (stays.records, stays.answer) == ([], ("one", 2, 5_000, [], None, 0, None, {}))
    assert case.epochs() == (2, 2)


@pytest.mark.parametrize(
    "news",
    [
        {"rack_id": "r"},
        {"client_id": "other"},
        {"client_host": "/h"},
        {"rebalance_timeout_ms": 301},
        {"process_id": "p"},
        {"endpoint": HOST},
        {"tags": (("a", "1"),)},
    ],
)
def test_what_a_member_says_anew_is_a_new_epoch_and_stays(news: dict[str, object]) -> None:
    case = Decided()
    case.beat("one")
    before = case.group.members["one"]
    case.beat("one", 2, **news)
    assert case.epochs() == (3, 3)
    after = case.group.members["one"]
    assert after == replace(before, epoch=3, previous_epoch=2, **news)  # type: ignore[arg-type]
    stays = {name: value for name, value in news.items() if name.startswith("client")}
    assert case.beat("one", 3, **stays).records == [], "who names nothing says nothing new"


def test_who_joins_again_is_told_all_and_raises_no_epoch() -> None:
    case = Decided()
    case.beat("one")
    again = case.beat("one")
    assert (again.records, again.answer.member_epoch, again.answer.tasks) == ([], 2, tasks(0, 1, 2, 3))


def test_tasks_are_given_only_when_they_are_given_back() -> None:
    case = Decided()
    case.beat("one")
    two = case.beat("two")
    assert (two.answer.member_epoch, two.answer.tasks) == (3, NOTHING)
    assert case.group.members["two"].state is MemberState.UNRELEASED_TASKS
    asked = case.beat("one", 2, has=tasks(0, 1, 2, 3))
    assert (asked.answer.member_epoch, asked.answer.tasks) == (2, tasks(0, 1))
    assert case.beat("two", 3, has=NOTHING).answer.tasks is None
    assert case.beat("one", 2, has=tasks(0, 1)).answer.member_epoch == 3
    assert case.beat("two", 3, has=NOTHING).answer.tasks == tasks(2, 3)


def test_a_full_group_takes_nobody_else() -> None:
    case = Decided(max_size=1)
    case.beat("one")
    assert case.refused("two") == (
        "GROUP_MAX_SIZE_REACHED",
        "The streams group has reached its maximum capacity of 1 members.",
    )
    assert case.beat("one").answer.member_epoch == 2
    assert case.refused("two", 2)[0] == "UNKNOWN_MEMBER_ID"


# -- epochs and tasks of a member


def test_who_comes_with_its_former_epoch_must_have_no_more_than_its_tasks() -> None:
    case = Decided()
    case.beat("one")
    member = replace(case.group.members["one"], epoch=7, previous_epoch=5, assigned=tasks(0, 1))
    case.group.assignment_epoch = case.group.epoch = 7

    def at(epoch: int, has: Tasks | None) -> str:
        case.group.put_member(member)
        try:
            told = case.beat("one", epoch, has=has).answer
        except RequestError as refused:
            return f"{refused.code.name}: {refused.message}"
        assert (told.member_epoch, told.tasks) == (7, None if epoch == 7 else tasks(0, 1))
        return ""

    fenced = "than the one known by the group coordinator (7). The member must abandon all its partitions and rejoin."
    smaller = "FENCED_MEMBER_EPOCH: The streams group member has a smaller member epoch"
    assert at(7, None) == at(7, tasks(3)) == ""
    assert at(5, tasks(0)) == at(5, tasks(0, 1)) == at(5, NOTHING) == ""
    assert at(5, tasks(0, 2)) == at(5, None) == f"{smaller} (5) {fenced}"
    assert at(6, tasks(0)) == f"{smaller} (6) {fenced}"
    assert at(8, tasks(0)) == f"FENCED_MEMBER_EPOCH: The streams group member has a greater member epoch (8) {fenced}"
    member = replace(member, previous_epoch=8)
    assert at(8, tasks(0)).startswith("FENCED_MEMBER_EPOCH"), "the one before is never above the present"


@pytest.mark.parametrize("kind", [0, 1])
def test_tasks_that_the_application_does_not_have_are_refused(kind: int) -> None:
    case = Decided()
    case.beat("one")

    def has(name: str, *numbers: int) -> Tasks:
        return NOTHING._replace(**{Tasks._fields[kind]: {name: frozenset(numbers)}})

    unknown = ("INVALID_REQUEST", "Subtopology 9 does not exist in the topology.")
    assert case.refused("one", 2, has=has("9", 0)) == case.refused("one", 2, has=has("9")) == unknown
    for wrong, numbers in ((4, (4, 0)), (-1, (3, -1)), (4, (5, 4))):
        assert case.refused("one", 2, has=has("0", *numbers)) == (
            "INVALID_REQUEST",
            f"Task {wrong} for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
        )
    case.beat("one", 2, has=has("0", 0, 3))


def test_while_the_topology_does_not_fit_tasks_are_not_looked_at() -> None:
    case = Decided()
    case.beat("one", application=COUNTS)
    assert case.beat("one", 2, has=Tasks({"9": frozenset({0})})).records == []


# -- the topology


def test_another_topology_is_refused_and_an_older_one_told_so() -> None:
    case = Decided()
    newer = topology(part("0", "t"), epoch=2)
    case.beat("one", application=newer)
    refused = ("INVALID_REQUEST", "Topology updates are not supported yet.")
    assert case.refused("two", application=topology(part("other", "t"), epoch=2)) == refused
    assert case.refused("two", application=replace(newer, epoch=3)) == refused
    older = case.beat("two", application=topology(part("other", "t"), epoch=1))
    assert list(older.answer.statuses) == [
        Status(StatusCode.STALE_TOPOLOGY, "The member's topology epoch 1 is behind the group's topology epoch 2.")
    ]
    assert case.group.topology == newer
    assert codes(case.beat("two", 3)) == ["STALE_TOPOLOGY"]
    assert codes(case.beat("three", application=newer)) == []


def test_a_log_without_a_topology_is_a_failure_of_the_broker() -> None:
    case = Decided()
    case.beat("one")
    case.group.put_topology(None)
    assert case.refused("one", 2) == ("UNKNOWN_SERVER_ERROR", "The log of group g has no topology.")


def test_tasks_are_given_once_the_internal_topics_are_there() -> None:
    case = Decided()
    one = case.beat("one", application=COUNTS)
    assert (codes(one), one.answer.tasks, set(one.answer.missing)) == (
        ["MISSING_INTERNAL_TOPICS"],
        NOTHING,
        {CHANGELOG, REPARTITION},
    )
    assert (case.epochs(), case.group.validated_epoch, case.group.state) == ((2, 2), -1, "NotReady")
    case.topics.put("elsewhere", 1)
    assert case.beat("one", 2).records == [], "a topic that the application does not need"
    for name in (CHANGELOG, REPARTITION):
        case.topics.put(name, 4)
    ready = case.beat("one", 2)
    whole = Tasks({"0": frozenset(range(4)), "1": frozenset(range(4))})
    assert (codes(ready), ready.answer.tasks, dict(ready.answer.missing)) == ([], whole, {})
    assert (case.epochs(), case.group.validated_epoch) == ((3, 3), 0)
    assert case.group.metadata_hash == metadata_hash(["t", CHANGELOG, REPARTITION], case.topics)
    case.topics.remove(CHANGELOG)
    lost = case.beat("one", 3)
    assert (codes(lost), lost.answer.tasks) == (["MISSING_INTERNAL_TOPICS"], NOTHING)
    assert case.group.validated_epoch == -1


def test_topics_are_compared_only_when_they_changed() -> None:
    case = Decided()
    case.beat("one")
    case.group.metadata_hash = 99
    assert case.beat("one", 2).records == []
    case.topics.put("elsewhere", 1)
    case.beat("one", 2)
    assert (case.epochs(), case.group.metadata_hash) == ((3, 3), metadata_hash(["t"], case.topics))
    case.group.configured = None
    assert case.beat("one", 3).records == [], "it is compared, and the same"


def test_a_topology_that_fits_now_is_a_new_epoch_though_the_topics_are_the_same() -> None:
    case = Decided()
    case.beat("one")
    case.group.validated_epoch = -1
    case.beat("one", 2)
    assert (case.epochs(), case.group.validated_epoch) == ((3, 3), 0)


def test_standbys_that_are_asked_for_are_another_assignment() -> None:
    case = Decided()
    for name in (CHANGELOG, REPARTITION):
        case.topics.put(name, 4)
    case.beat("one", application=COUNTS)
    case.beat("two", application=COUNTS)
    case.now = case.now._replace(limits=replace(case.now.limits, standby_replicas=1))
    case.beat("two", 3)
    assert (case.epochs(), dict(case.group.configs)) == ((4, 4), {STANDBYS: "1"})
    one, two = (case.group.target_of(name) for name in ("one", "two"))
    assert (one.standby, two.standby) == ({"1": two.active["1"]}, {"1": one.active["1"]})


# -- when tasks are assigned


def test_the_first_assignment_waits_for_members() -> None:
    case = Decided(initial_delay_ms=3_000)
    one = case.beat("one")
    assert list(one.answer.statuses) == [
        Status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
    ]
    assert (one.answer.member_epoch, one.answer.tasks, case.epochs()) == (1, NOTHING, (2, 1))
    assert case.group.delayed_until_ms == 4_000
    case.now = case.now._replace(now_ms=2_000)
    assert codes(case.beat("two")) == ["ASSIGNMENT_DELAYED"]
    assert case.group.delayed_until_ms == 4_000, "from when the first one came"
    records, configured = decide_delayed(case.group, case.now)
    assert configured == case.group.configured
    assert changes(records) == [
        TargetMemberChange("one", tasks(0, 2)),
        TargetMemberChange("two", tasks(1, 3)),
        TargetChange(Target(3, WALL_MS)),
    ]
    case.replay(changes(records))
    case.group.delayed_until_ms = None
    assert case.beat("one", 1, has=NOTHING).answer.tasks == tasks(0, 2)
    assert decide_delayed(case.group, case.now)[0] == [], "it is assigned"


def test_the_shortest_wait_is_a_millisecond() -> None:
    case = Decided(initial_delay_ms=1)
    assert codes(case.beat("one")) == ["ASSIGNMENT_DELAYED"]
    assert case.group.delayed_until_ms == 1_001


def test_topics_that_came_while_the_first_assignment_waited_count() -> None:
    case = Decided(initial_delay_ms=3_000)
    case.beat("one", application=COUNTS)
    for name in (CHANGELOG, REPARTITION):
        case.topics.put(name, 4)
    records, configured = decide_delayed(case.group, case.now)
    assert configured is not None
    assert configured.is_ready
    whole = Tasks({"0": frozenset(range(4)), "1": frozenset(range(4))})
    hashed = metadata_hash(["t", CHANGELOG, REPARTITION], case.topics)
    assert changes(records) == [
        GroupChange(Epoch(3, hashed, 0, {STANDBYS: "0"})),
        TargetMemberChange("one", whole),
        TargetChange(Target(3, WALL_MS)),
    ]


def test_a_group_that_is_left_before_its_first_assignment_gets_none() -> None:
    case = Decided(initial_delay_ms=3_000)
    case.beat("one")
    case.group.put_topology(None)
    assert decide_delayed(case.group, case.now) == ([], None)
    case.group.put_topology(STATELESS)
    case.group.remove_member("one")
    assert decide_delayed(case.group, case.now) == ([], None)


def test_assignments_are_an_interval_apart() -> None:
    case = Decided(assignment_interval_ms=1_000)
    case.beat("one")
    for wall_ms in (WALL_MS, WALL_MS + 999):
        case.now = case.now._replace(wall_ms=wall_ms)
        two = case.beat("two")
        assert list(two.answer.statuses) == [
            Status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
        ]
        assert (two.answer.member_epoch, two.answer.tasks, case.epochs()) == (2, NOTHING, (3, 2))
    case.now = case.now._replace(wall_ms=WALL_MS + 1_000)
    two = case.beat("two", 2)
    assert (codes(two), two.answer.member_epoch, case.epochs()) == ([], 3, (3, 3))
    assert case.group.assignment_timestamp_ms == WALL_MS + 1_000


def test_a_clock_that_went_back_does_not_hold_assignments_up() -> None:
    case = Decided(assignment_interval_ms=1_000)
    case.beat("one")
    case.now = case.now._replace(wall_ms=WALL_MS - 1)
    assert codes(case.beat("two")) == []


def test_a_group_that_was_never_assigned_need_not_wait() -> None:
    case = Decided(assignment_interval_ms=1_000)
    case.now = case.now._replace(wall_ms=999)
    assert codes(case.beat("one")) == []


def test_who_is_new_has_a_record_of_where_it_stands() -> None:
    case = Decided(initial_delay_ms=3_000)
    case.beat("one")
    assert case.said[-1] == CurrentChange("one", StreamsMember("one", epoch=1))


# -- what is told


def test_who_may_not_know_its_tasks_is_told() -> None:
    case = Decided()
    case.beat("one")
    case.group.untold.add("one")
    assert case.beat("one", 2).answer.tasks == tasks(0, 1, 2, 3)
    case.group.untold.clear()
    assert case.beat("one", 2).answer.tasks is None


def test_endpoints_are_told_to_who_does_not_know_them() -> None:
    """The epoch of a group that is being made stays 0, as in Kafka; then it rises with each change of such a member."""
    case = Decided()
    served = EndpointPartitions(HOST, [TopicPartitions("t", [0, 1, 2, 3])], [])
    one = case.beat("one", endpoint=HOST)
    assert (one.answer.endpoint_epoch, one.answer.endpoints, one.endpoint_epoch) == (0, [served], 0)
    again = case.beat("one", endpoint=HOST)
    assert (again.answer.endpoint_epoch, again.answer.endpoints, again.endpoint_epoch) == (1, [served], 1)
    assert case.beat("one", 2, endpoint_epoch=1).answer.endpoints is None
    assert case.beat("one", 2, endpoint_epoch=2).answer.endpoints == [served], "any other epoch"
    two = case.beat("two", endpoint_epoch=1)
    assert (two.answer.endpoint_epoch, two.answer.endpoints) == (1, None), "it has no endpoint"
    asked = case.beat("one", 2, has=tasks(0, 1, 2, 3), endpoint_epoch=1)
    served = EndpointPartitions(HOST, [TopicPartitions("t", [0, 1])], [])
    assert (asked.answer.endpoint_epoch, asked.answer.endpoints) == (2, [served])


def test_who_fails_for_all_has_all_stop() -> None:
    case = Decided()
    case.beat("one")
    told = case.beat("one", 2, wants_shutdown=True)
    detail = "encountered a fatal error and requested a shutdown for the entire application."
    assert list(told.answer.statuses) == [Status(StatusCode.SHUTDOWN_APPLICATION, f"Streams group member one {detail}")]
    case.group.shutdown_asked_by = "one"
    for asks in (False, True):
        two = case.beat("two", wants_shutdown=asks)
        assert list(two.answer.statuses) == [
            Status(StatusCode.SHUTDOWN_APPLICATION, f"Streams group member one {detail}")
        ]


def test_statuses_come_in_kafkas_order() -> None:
    case = Decided(initial_delay_ms=3_000)
    case.beat("one", application=replace(COUNTS, epoch=1))
    two = case.beat("two", application=COUNTS, wants_shutdown=True)
    assert codes(two) == ["STALE_TOPOLOGY", "ASSIGNMENT_DELAYED", "MISSING_INTERNAL_TOPICS", "SHUTDOWN_APPLICATION"]


# -- leaving


def test_who_leaves_raises_the_epoch_for_the_others() -> None:
    case = Decided()
    case.beat("one")
    case.beat("two")
    kept = Epoch(4, case.group.metadata_hash, 0, {STANDBYS: "0"})
    left = changes(decide_leave(case.group, ["one", "two"]))
    gone: Mapping[str, list[Change]] = {
        name: [CurrentChange(name, None), TargetMemberChange(name, None), MemberChange(name, None)]
        for name in ("one", "two")
    }
    assert left == [*gone["one"], *gone["two"], GroupChange(kept)]
    case.replay(changes(decide_leave(case.group, ["one"])))
    assert case.beat("two", 3, has=NOTHING).answer.tasks == tasks(0, 1, 2, 3)
