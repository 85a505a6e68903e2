"""A member's next step to its target, as Kafka's CurrentAssignmentBuilder takes it."""

from __future__ import annotations

import uuid

import pytest

from kavka.coordinator.groups.consumer.decide.current_assignment import reconcile
from kavka.coordinator.groups.consumer.decide.group import Assignment, ConsumerMember, MemberState
from kavka.errors import ErrorCode, RequestError
from tests.kit.decided_group import part

T = uuid.UUID(int=1)


def step(member: ConsumerMember, target: Assignment, owned: Assignment | None, *taken: int) -> ConsumerMember:
    """The member after its step to a target of epoch 6. `taken`: what others have."""
    return reconcile(
        member,
        target_epoch=6,
        target=target,
        owner_epoch=lambda _topic_id, partition: 5 if partition in taken else -1,
        owned=owned,
    )


@pytest.mark.parametrize(
    ("owned", "taken", "expected"),
    [
        (None, (), (5, MemberState.UNREVOKED_PARTITIONS, part(1, 0), part(1, 1))),
        (part(1, 0, 1), (), (5, MemberState.UNREVOKED_PARTITIONS, part(1, 0), part(1, 1))),
        (part(1, 0), (2,), (6, MemberState.UNRELEASED_PARTITIONS, part(1, 0), {})),
        (part(1, 0), (), (6, MemberState.STABLE, part(1, 0, 2), {})),
    ],
)
@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS])
def test_a_member_gives_back_then_waits_then_has_all(
    state: MemberState,
    owned: Assignment | None,
    taken: tuple[int, ...],
    expected: tuple[int, MemberState, Assignment, Assignment],
) -> None:
    member = ConsumerMember("one", epoch=5, previous_epoch=4, state=state, assigned=part(1, 0, 1))
    after = step(member, part(1, 0, 2), owned, *taken)
    assert (after.epoch, after.state, after.assigned, after.revoking) == expected
    assert after.previous_epoch == 5


@pytest.mark.parametrize("owned", [None, part(1, 0)])
def test_a_member_in_a_state_of_the_future_must_begin_again_without_partitions(owned: Assignment | None) -> None:
    member = ConsumerMember("one", epoch=5, state=MemberState.UNKNOWN, assigned=part(1, 0))
    with pytest.raises(RequestError) as refused:
        step(member, part(1, 0), owned)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused.value.message == (
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
    )


def test_a_member_in_a_state_of_the_future_that_owns_nothing_goes_on() -> None:
    member = ConsumerMember("one", epoch=5, state=MemberState.UNKNOWN, assigned=part(1, 0))
    after = step(member, part(1, 0, 2), {}, 2)
    assert (after.epoch, after.state, after.assigned) == (6, MemberState.UNRELEASED_PARTITIONS, part(1, 0))
