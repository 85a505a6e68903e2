"""How a member of a consumer group gets from what it has to what it is to have (KIP-848's reconciliation).

Decides a member's next step from its state, its target, what it says it owns, and which partitions somebody still has.
Must not know the group, the log, time.

    I1  a partition is assigned only when nobody has it: what one member is to lose it must have given back first (G1).
        What it has just given back may be its own again
    I2  a member reaches the target's epoch only when it has given back all that it must
    I3  what a member does not read any more it is not given, and gives back, whatever the target says: it may be of
        before
    I4  a member that has to give back more and more of one target stays in its epoch. Else it would get ahead of the
        target, and fall back to it in the end: 1. the answer with the lower epoch is lost; 2. the member repeats the
        higher one, and is fenced

    from                   when                                              to
    STABLE                 the target is of another epoch                    next step
    UNREVOKED_PARTITIONS   it owns nothing of what is revoked any more       next step
    UNRELEASED_PARTITIONS  always                                            next step
    STABLE                 it reads no more what it has                      next step
    UNREVOKED_PARTITIONS   it reads no more what it has                      UNREVOKED_PARTITIONS, with more to revoke

    next step: something to revoke that it may own   UNREVOKED_PARTITIONS, in its epoch
               else something is another's still     UNRELEASED_PARTITIONS, in the target's epoch, with what is free
               else                                  STABLE, in the target's epoch, with all

Source: KIP-848; Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from kavka.coordinator.groups.consumer.decide.group import NOTHING, Assignment, ConsumerMember, MemberState
from kavka.errors import ErrorCode, RequestError


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Assignment,
    owner_epoch: Callable[[uuid.UUID, int], int],
    owned: Assignment | None,
    is_read: Callable[[uuid.UUID], bool] | None = None,
) -> ConsumerMember:
    """The member after its next step, or as it is.

    `owned` is what it says it has, None if it does not say; `owner_epoch` gives -1 for a partition that nobody has.
    `is_read`: whether it reads a topic, None if the target is made of what it reads.
    Raises `RequestError` (FENCED_MEMBER_EPOCH) for a member whose state the log has under a name not known here.
    """
    gives_up = frozenset[uuid.UUID]()
    if is_read is not None:
        gives_up = frozenset(topic_id for topic_id in member.assigned if not is_read(topic_id))
        target = {topic_id: partitions for topic_id, partitions in target.items() if is_read(topic_id)}
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                if not gives_up:
                    return member
                # It has got all of this target: what it reads besides, the next one gives.
                target = {topic_id: has for topic_id, has in member.assigned.items() if topic_id not in gives_up}
            return _step(member, member.epoch, target_epoch, target, owner_epoch, owned)
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(owned, member.revoking):
                return _revoking_more(member, gives_up) if gives_up else member
            return _step(member, member.epoch, target_epoch, target, owner_epoch, owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _step(member, member.epoch, target_epoch, target, owner_epoch, owned)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise RequestError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _step(member, target_epoch, target_epoch, target, owner_epoch, owned)
        case _:
            assert_never(member.state)


def _revoking_more(member: ConsumerMember, topics: frozenset[uuid.UUID]) -> ConsumerMember:
    """The member, in its epoch, with these topics' partitions to give back as well."""
    keeps = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id not in topics}
    revoking = dict(member.revoking)
    for topic_id in topics:
        revoking[topic_id] = revoking.get(topic_id, frozenset()) | member.assigned[topic_id]
    return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, keeps, revoking)


def _step(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owner_epoch: Callable[[uuid.UUID, int], int],
    owned: Assignment | None,
) -> ConsumerMember:
    keeps: dict[uuid.UUID, frozenset[int]] = {}
    revokes: dict[uuid.UUID, frozenset[int]] = {}
    gets: dict[uuid.UUID, frozenset[int]] = {}
    is_waiting = False
    for topic_id in dict.fromkeys((*target, *member.assigned)):
        wanted = target.get(topic_id, frozenset())
        has = member.assigned.get(topic_id, frozenset())
        kept = has & wanted
        given_back = member.revoking.get(topic_id, frozenset())
        free = frozenset(
            partition
            for partition in wanted - kept
            if partition in given_back or owner_epoch(topic_id, partition) == -1
        )
        is_waiting = is_waiting or len(kept) + len(free) < len(wanted)
        for into, partitions in ((keeps, kept), (revokes, has - kept), (gets, free)):
            if partitions:
                into[topic_id] = partitions
    if revokes and _owns_any(owned, revokes):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, keeps, revokes)
    for topic_id, partitions in gets.items():
        keeps[topic_id] = keeps.get(topic_id, frozenset()) | partitions
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _moved(member, target_epoch, state, keeps, NOTHING)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
) -> ConsumerMember:
    """The member in its new epoch. The epoch before is remembered, because the answer with the new one may be lost."""
    had = member.assignment_epochs
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        # What it did not have before it is given in its new epoch, also what it had given back.
        assignment_epochs={
            **{partition: had.get(partition, epoch) for partition in _partitions_of(revoking)},
            **{
                (topic_id, number): had.get((topic_id, number), epoch)
                if number in member.assigned.get(topic_id, ())
                else epoch
                for topic_id, number in _partitions_of(assigned)
            },
        },
    )


def _partitions_of(part: Assignment) -> Iterator[tuple[uuid.UUID, int]]:
    return ((topic_id, number) for topic_id, numbers in part.items() for number in numbers)


def _owns_any(owned: Assignment | None, partitions: Assignment) -> bool:
    """Whether a member has some of `partitions`; who does not say what it has may have all."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(wanted) for topic_id, wanted in partitions.items())
