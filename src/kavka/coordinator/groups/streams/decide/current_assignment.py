"""How a member of a streams group gets from the tasks that it has to those that it is to have.

Decides a member's next step from its state, its target, what it says it owns, and which process has what. Must not know
the group, the log, time.

    I1  an active task is given only when nobody runs it: what one member is to lose it must have given back first (G1)
    I2  a process has a task once: what one of its members still has, as whatever kind, no other member of it gets
    I3  a member reaches the target's epoch only when it has given back all that it must

    from              when                                                    to
    STABLE            the target is of another epoch                          next step
    UNREVOKED_TASKS   it owns nothing of what is revoked any more             next step, one epoch on
    UNRELEASED_TASKS  always                                                  next step

    next step: something to revoke that it may own   UNREVOKED_TASKS, in its epoch
               else something is another's still     UNRELEASED_TASKS, in the target's epoch, with what is free
               else                                  STABLE, in the target's epoch, with all

Source: KIP-1071; Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, assert_never

from kavka.coordinator.groups.streams.decide.group import MemberState, StreamsMember
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, TaskIds, Tasks, tasks_in
from kavka.errors import ErrorCode, RequestError


class Owners(Protocol):
    """Which process has which task now."""

    def active_process(self, task: Task) -> str | None:
        """The process whose member runs the task, or has not given it back yet."""
        ...

    def copies_at(self, task: Task, process_id: str) -> bool:
        """Whether a member of this process has the task as a standby or a warm-up task."""
        ...


def reconcile(
    member: StreamsMember, *, target_epoch: int, target: Tasks, owners: Owners, owned: Tasks | None
) -> StreamsMember:
    """The member after its next step, or as it is. `owned` is what it says it has, None if it does not say.

    Raises `RequestError` (FENCED_MEMBER_EPOCH) for a member whose state the log has under a number not known here.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return _step(member, member.epoch, target_epoch, target, owners, owned)
        case MemberState.UNREVOKED_TASKS:
            if owned is None or owned.has_any(member.revoking):
                return member
            return _step(member, member.epoch + 1, target_epoch, target, owners, owned)
        case MemberState.UNRELEASED_TASKS:
            return _step(member, member.epoch, target_epoch, target, owners, owned)
        case MemberState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise RequestError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
                )
            return _step(member, target_epoch, target_epoch, target, owners, owned)
        case _:
            assert_never(member.state)


def _step(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, owners: Owners, owned: Tasks | None
) -> StreamsMember:
    mine = member.process_id

    def is_active_free(task: Task) -> bool:
        return owners.active_process(task) is None and not owners.copies_at(task, mine)

    def is_copy_free(task: Task) -> bool:
        return owners.active_process(task) != mine and not owners.copies_at(task, mine)

    rules = (is_active_free, is_copy_free, is_copy_free)
    moves = [_Move(has, wanted, is_free) for has, wanted, is_free in zip(member.assigned, target, rules, strict=True)]
    keeps, revokes = Tasks(*(move.keeps for move in moves)), Tasks(*(move.revokes for move in moves))
    if not revokes.is_empty and (owned is None or owned.has_any(revokes)):
        return _moved(member, epoch, MemberState.UNREVOKED_TASKS, keeps, revokes)
    is_waiting = any(move.is_waiting for move in moves)
    state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
    return _moved(member, target_epoch, state, keeps.together(Tasks(*(move.gets for move in moves))), NOTHING)


class _Move:
    """What changes of one kind of tasks."""

    def __init__(self, has: TaskIds, wanted: TaskIds, is_free: Callable[[Task], bool]) -> None:
        self.keeps: dict[str, frozenset[int]] = {}
        self.revokes: dict[str, frozenset[int]] = {}
        self.gets: dict[str, frozenset[int]] = {}
        self.is_waiting = False
        none: frozenset[int] = frozenset()
        for subtopology in dict.fromkeys((*wanted, *has)):
            before, after = has.get(subtopology, none), wanted.get(subtopology, none)
            free = frozenset(number for number in after - before if is_free(Task(subtopology, number)))
            self.is_waiting = self.is_waiting or len(free) < len(after - before)
            for into, numbers in (
                (self.keeps, before & after),
                (self.revokes, before - after),
                (self.gets, free),
            ):
                if numbers:
                    into[subtopology] = numbers


def _moved(member: StreamsMember, epoch: int, state: MemberState, assigned: Tasks, revoking: Tasks) -> StreamsMember:
    """The member in its new epoch. The epoch before is remembered, because the answer with the new one may be lost."""
    held = (*tasks_in(assigned.active), *tasks_in(revoking.active))
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        # What it did not have before it is given in its new epoch.
        assignment_epochs={task: member.assignment_epochs.get(task, epoch) for task in held},
    )
