"""How a member of a streams group gets from the tasks that it has to its target, and which endpoint serves what.

Steps, epochs and states are those of Kafka's CurrentAssignmentBuilder, endpoints those of EndpointToPartitionsManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kavka.coordinator.groups.streams.decide.current_assignment import reconcile
from kavka.coordinator.groups.streams.decide.endpoints import EndpointPartitions, TopicPartitions, endpoints_of
from kavka.coordinator.groups.streams.decide.group import Endpoint, MemberState, StreamsMember
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, TaskIds, Tasks
from kavka.coordinator.groups.streams.decide.topology import ConfiguredSubtopology
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics
from tests.kit.streams_case import internal


def ids(*numbers: int) -> TaskIds:
    return {"0": frozenset(numbers)} if numbers else {}


def member(
    has: Tasks = NOTHING, *, state: MemberState = MemberState.STABLE, epoch: int = 5, revoking: Tasks = NOTHING
) -> StreamsMember:
    since = {Task("0", number): 3 for each in (has, revoking) for number in each.active.get("0", ())}
    return StreamsMember(
        "one",
        process_id="p",
        epoch=epoch,
        previous_epoch=4,
        state=state,
        assigned=has,
        revoking=revoking,
        assignment_epochs=since,
    )


class Held:
    """Which process has which task of subtopology 0."""

    def __init__(self, active: Mapping[int, str] | None = None, copies: Mapping[int, str] | None = None) -> None:
        self.active, self.copies = active or {}, copies or {}

    def active_process(self, task: Task) -> str | None:
        return self.active.get(task.partition)

    def copies_at(self, task: Task, process_id: str) -> bool:
        return self.copies.get(task.partition) == process_id


def step(
    of: StreamsMember, target: Tasks, owners: Held | None = None, *, owned: Tasks | None = None, epoch: int = 7
) -> StreamsMember:
    return reconcile(of, target_epoch=epoch, target=target, owners=owners or Held(), owned=owned)


def brief(of: StreamsMember) -> tuple[int, int, str, Tasks, Tasks]:
    return of.epoch, of.previous_epoch, of.state.name, of.assigned, of.revoking


def test_a_member_in_the_epoch_of_its_target_stays_as_it_is() -> None:
    one = member(Tasks(ids(0)))
    assert step(one, Tasks(ids(1)), epoch=5) is one


def test_what_nobody_has_is_given_at_once_in_the_epoch_of_the_target() -> None:
    after = step(member(Tasks(ids(0))), Tasks(ids(0, 1), ids(2), ids(3)))
    assert brief(after) == (7, 5, "STABLE", Tasks(ids(0, 1), ids(2), ids(3)), NOTHING)
    assert after.assignment_epochs == {Task("0", 0): 3, Task("0", 1): 7}


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("says", [True, False])
def test_what_it_is_to_lose_it_gives_back_first_in_its_own_epoch(kind: int, says: bool) -> None:
    has = NOTHING._replace(**{Tasks._fields[kind]: ids(0, 1)})
    lost = NOTHING._replace(**{Tasks._fields[kind]: ids(1)})
    target = Tasks(ids(0, 2)) if kind == 0 else Tasks(ids(2))._replace(**{Tasks._fields[kind]: ids(0)})
    keeps = NOTHING._replace(**{Tasks._fields[kind]: ids(0)})
    after = step(member(has), target, owned=lost if says else None)
    assert brief(after) == (5, 5, "UNREVOKED_TASKS", keeps, lost)
    assert set(after.assignment_epochs.values()) <= {3}
    assert set(after.assignment_epochs) == ({Task("0", 0), Task("0", 1)} if kind == 0 else set())


def test_what_it_does_not_say_that_it_has_it_need_not_give_back() -> None:
    after = step(member(Tasks(ids(0, 1))), Tasks(ids(0)), owned=Tasks(ids(0)))
    assert brief(after) == (7, 5, "STABLE", Tasks(ids(0)), NOTHING)
    assert after.assignment_epochs == {Task("0", 0): 3}


def test_while_it_has_what_is_revoked_or_says_nothing_it_stays_as_it_is() -> None:
    one = member(Tasks(ids(0)), state=MemberState.UNREVOKED_TASKS, revoking=Tasks(ids(1, 2)))
    assert step(one, Tasks(ids(0, 3)), owned=Tasks(ids(0, 2))) is one
    assert step(one, Tasks(ids(0, 3))) is one
    after = step(one, Tasks(ids(0, 3)), owned=Tasks(ids(0)))
    assert brief(after) == (7, 5, "STABLE", Tasks(ids(0, 3)), NOTHING)


def test_one_revocation_after_the_other_takes_one_epoch_each() -> None:
    one = member(Tasks(ids(0, 1)), state=MemberState.UNREVOKED_TASKS, revoking=Tasks(ids(2)))
    after = step(one, Tasks(ids(0)), owned=Tasks(ids(0, 1)))
    assert brief(after) == (6, 5, "UNREVOKED_TASKS", Tasks(ids(0)), Tasks(ids(1)))


@pytest.mark.parametrize(
    ("target", "owners", "gets"),
    [
        (Tasks(ids(1, 2)), Held({1: "other"}), Tasks(ids(2))),
        (Tasks(ids(1, 2)), Held({1: "p"}), Tasks(ids(2))),
        (Tasks(ids(1, 2)), Held(copies={1: "p"}), Tasks(ids(2))),
        (Tasks(ids(1, 2)), Held({1: "other", 2: "p"}), NOTHING),
        (Tasks({}, ids(1, 2)), Held({1: "p"}), Tasks({}, ids(2))),
        (Tasks({}, ids(1, 2)), Held(copies={1: "p"}), Tasks({}, ids(2))),
        (Tasks({}, {}, ids(1, 2)), Held({1: "p"}), Tasks({}, {}, ids(2))),
        (Tasks({}, {}, ids(1, 2)), Held(copies={1: "p"}), Tasks({}, {}, ids(2))),
    ],
)
def test_what_another_has_is_waited_for(target: Tasks, owners: Held, gets: Tasks) -> None:
    after = step(member(), target, owners)
    assert brief(after) == (7, 5, "UNRELEASED_TASKS", gets, NOTHING)
    waits = step(after, target, owners)
    assert brief(waits) == (7, 7, "UNRELEASED_TASKS", gets, NOTHING)
    assert brief(step(after, target)) == (7, 7, "STABLE", target, NOTHING)


@pytest.mark.parametrize(
    ("target", "owners"),
    [
        (Tasks(ids(1)), Held(copies={1: "other"})),
        (Tasks({}, ids(1)), Held({1: "other"}, {1: "other"})),
        (Tasks({}, {}, ids(1)), Held({1: "other"}, {1: "other"})),
    ],
)
def test_copies_elsewhere_are_not_waited_for(target: Tasks, owners: Held) -> None:
    assert brief(step(member(), target, owners)) == (7, 5, "STABLE", target, NOTHING)


def test_a_member_that_waits_may_have_to_give_back_first() -> None:
    one = member(Tasks(ids(0, 1)), state=MemberState.UNRELEASED_TASKS)
    after = step(one, Tasks(ids(0)), epoch=5)
    assert brief(after) == (5, 5, "UNREVOKED_TASKS", Tasks(ids(0)), Tasks(ids(1)))


def test_a_member_in_an_unknown_state_must_have_given_back_all() -> None:
    one = member(Tasks(ids(0)), state=MemberState.UNKNOWN)
    for owned in (None, Tasks(ids(0))):
        with pytest.raises(RequestError) as refused:
            step(one, Tasks(ids(0)), owned=owned)
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
        assert "must abandon all its tasks and rejoin" in refused.value.message
    after = step(one, Tasks(ids(0, 1)), owned=NOTHING)
    assert brief(after) == (7, 5, "STABLE", Tasks(ids(0, 1)), NOTHING)


# -- endpoints

HOST, OTHER = Endpoint("h", 1), Endpoint("h", 2)
PARTS = {
    "1": ConfiguredSubtopology(1, ("gone",), (), (), ()),
    "2": ConfiguredSubtopology(3, ("t", "small"), (), (), (internal("r"), internal("t"))),
}


def test_an_endpoint_serves_the_partitions_of_what_its_tasks_read() -> None:
    topics = HandMadeTopics(t=3, small=1, r=2, elsewhere=5)
    has = Tasks({"2": frozenset({2, 0}), "1": frozenset({0}), "0": frozenset({0})}, {"2": frozenset({1})})
    one = replace(member(), assigned=has, endpoint=HOST)
    assert endpoints_of([one, member(), replace(member(), endpoint=OTHER)], PARTS, topics) == [
        EndpointPartitions(
            HOST,
            [TopicPartitions("t", [0, 2]), TopicPartitions("small", [0]), TopicPartitions("r", [0])],
            [TopicPartitions("t", [1]), TopicPartitions("small", []), TopicPartitions("r", [1])],
        ),
        EndpointPartitions(OTHER, [], []),
    ]


def test_while_the_topology_does_not_fit_no_endpoint_is_told() -> None:
    one = replace(member(Tasks(ids(0))), endpoint=HOST)
    assert endpoints_of([one], None, HandMadeTopics(t=3)) == []
