"""Reassignment: which replicas a partition moves to, and what is next on the way there.

Decides on values only: whether a wish is granted, what a partition's assignment becomes, and which step is next. It
must not know when it is asked, nor how anything is written; `reassignments` carries the steps out.

A partition under reassignment has all its replicas in `replicas`: the target first, then what is left of the origin.
`adding` are those that the origin lacks, `removing` those that the target lacks. Kafka keeps just these three in the
topic's znode, and so they are all that a new controller needs to go on.

    Assignment                       next step, by `next_step`
    not being reassigned             (nothing)
    some target not in the ISR       CATCH_UP     the followers fetch; the next change of the ISR asks again
    all targets in the ISR, and one
      of them alive                  SETTLE       onto the target
      of them none alive             WAIT         until a broker comes back

Every way out of a state goes through one procedure, `settle`: the replicas to keep are named, the leader and the ISR
are brought onto them in one write with a new leader epoch, the others are stopped and deleted, and only then the
topic's znode forgets them. Completion keeps the target, cancellation the origin, and an override what the old and the
new reassignment have in common. A controller that dies in between leaves a znode that still says "being reassigned":
the next one goes on from there, and no half-built replica is forgotten on a disk (KAFKA-13972).

Invariants:
I1  The ISR is never emptied and never added to; a wish that would leave no in-sync replica is refused (R21).
I2  A reassignment is complete only when all its targets are in the ISR.
I3  Every step that takes replicas away, and every beginning, raises the leader epoch: only what a replica fetches in
    the new epoch counts for it (a replica that is removed and added again at once begins from nothing).

Source: KIP-455; Kafka's KafkaController (phases U, A, B) and ReplicaAssignment. There the leader moves and the ISR
shrinks in two writes; cancelling writes the znode first, and refusing to cancel where only new replicas are in sync is
the rule of its KRaft controllers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kavka.controller.decide.election import (
    Elected,
    ElectionResult,
    PartitionChange,
    elect_for_reassignment,
)
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import PartitionState, TopicAssignment


class ReplicaAssignment(NamedTuple):
    """The replicas of one partition, the preferred leader first, and which of them come and go."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """What it is if the reassignment is cancelled."""
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """What it is when the reassignment is complete."""
        return _without(self.replicas, self.removing)

    def moved_to(self, target: Sequence[BrokerId]) -> ReplicaAssignment:
        """The same partition on its way to `target`; a way that it is on already is left for the new one."""
        origin = self.origin
        replicas = (*target, *_without(origin, target))
        return ReplicaAssignment(replicas, _without(replicas, origin), _without(replicas, target))


def assigned(topic: TopicAssignment, partition: int) -> ReplicaAssignment:
    """The partition's assignment as its topic's znode says."""
    return ReplicaAssignment(
        tuple(map(BrokerId, topic.partitions[partition])),
        tuple(map(BrokerId, topic.adding_replicas.get(partition, ()))),
        tuple(map(BrokerId, topic.removing_replicas.get(partition, ()))),
    )


def with_assigned(topic: TopicAssignment, changed: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
    """The topic's znode with other assignments of some of its partitions."""
    adding = {key: replicas for key, replicas in topic.adding_replicas.items() if key not in changed}
    removing = {key: replicas for key, replicas in topic.removing_replicas.items() if key not in changed}
    return TopicAssignment(
        topic.topic,
        {**topic.partitions, **{key: assignment.replicas for key, assignment in changed.items()}},
        topic.topic_id,
        {**adding, **{key: assignment.adding for key, assignment in changed.items() if assignment.adding}},
        {**removing, **{key: assignment.removing for key, assignment in changed.items() if assignment.removing}},
    )


# -------------------------------------------------------------------------------------------------------------- wishes


class ReassignmentRefused(NamedTuple):
    """Why a partition is not reassigned."""

    code: ErrorCode
    message: str


def plan_reassignment(
    current: ReplicaAssignment,
    target: Sequence[int] | None,
    live: Collection[BrokerId],
    *,
    may_change_factor: bool = True,
) -> ReplicaAssignment | ReassignmentRefused:
    """The assignment to begin with, so that the partition moves to `target`; None cancels.

    Brokers that hold no replica yet must be alive. `may_change_factor`: the target may have another number of replicas
    than there are, or will be when the reassignment that is under way is complete.
    """
    if target is None:
        if not current.is_being_reassigned:
            return ReassignmentRefused(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "There is no reassignment in progress to cancel."
            )
        return current.moved_to(current.origin)
    if not target:
        return _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        return _invalid(f"Duplicate replica ids in partition reassignment replica list: {_list(target)}")
    if min(target) < 0:
        return _invalid(f"Invalid broker id in replica list: {_list(target)}")
    planned = current.moved_to(tuple(map(BrokerId, target)))
    dead = [broker_id for broker_id in planned.adding if broker_id not in live]
    if dead:
        return _invalid(
            f"Replica assignment has brokers that are not alive: {_list(dead)}. Replicas to add: "
            f"{_list(planned.adding)}, live brokers: {_list(sorted(live))}"
        )
    if not may_change_factor and len(target) != len(current.target):
        return ReassignmentRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(current.target)} to {len(target)}",
        )
    return planned


def _invalid(message: str) -> ReassignmentRefused:
    return ReassignmentRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


# --------------------------------------------------------------------------------------------------------------- steps


class Step(Enum):
    """What is next for a partition under reassignment."""

    CATCH_UP = "catch up"
    SETTLE = "settle"
    WAIT = "wait"


def next_step(assignment: ReplicaAssignment, isr: Sequence[BrokerId], live: Collection[BrokerId]) -> Step:
    """The step of the table above; `assignment` is being reassigned."""
    target = assignment.target
    if not all(replica in isr for replica in target):
        return Step.CATCH_UP
    return Step.SETTLE if any(replica in live for replica in target) else Step.WAIT


def begin(state: PartitionState, controller_epoch: int) -> PartitionChange:
    """The same leader and ISR in a new leader epoch (I3)."""
    return PartitionChange(_next_epoch(state, state.leader, state.isr, controller_epoch), None)


def settle(
    keep: Sequence[BrokerId], state: PartitionState, live: Collection[BrokerId], controller_epoch: int
) -> PartitionChange | ReassignmentRefused:
    """The partition's state with only the replicas of `keep`.

    The leader stays if it is kept and alive; else the first live in-sync replica of `keep` leads. Where there is none
    but the leader was gone already, the partition stays without one.
    """
    isr = tuple(replica for replica in state.isr if replica in keep)
    if not isr:
        return _invalid(
            f"No replica in sync would be left: in sync are {_list(state.isr)}, to be kept {_list(keep)}. "
            "Wait until one of these has caught up."
        )
    if state.leader in keep and state.leader in live:
        gone = [member for member in state.isr if member not in isr]
        leave = f"replicas {gone} leave; leader {state.leader} goes on with {list(isr)}"
        why = f"the partition moves to {list(keep)}: {leave}" if gone else ""
        return PartitionChange(_next_epoch(state, state.leader, isr, controller_epoch), None, why, tuple(keep))
    election: ElectionResult = elect_for_reassignment(keep, isr, live)
    if isinstance(election, Elected):
        return PartitionChange(
            _next_epoch(state, election.leader, isr, controller_epoch), election, staying=tuple(keep)
        )
    if state.leader == NO_LEADER:
        return PartitionChange(_next_epoch(state, NO_LEADER, isr, controller_epoch), election, staying=tuple(keep))
    return _invalid(
        f"No replica could lead: alive are {_list(election.live)} of {_list(keep)}, in sync {_list(isr)}. "
        "Wait until one of these is back."
    )


class Beginning(NamedTuple):
    """A `Question`: a reassignment begins."""

    controller_epoch: int

    def answer(self, state: PartitionState) -> PartitionChange:
        return begin(state, self.controller_epoch)


class Settling(NamedTuple):
    """A `Question`: only the replicas of `keep` are left."""

    keep: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]
    controller_epoch: int

    def result(self, state: PartitionState) -> PartitionChange | ReassignmentRefused:
        return settle(self.keep, state, self.live, self.controller_epoch)

    def answer(self, state: PartitionState) -> PartitionChange | None:
        result = self.result(state)
        return None if isinstance(result, ReassignmentRefused) else result


def _next_epoch(
    state: PartitionState, leader: BrokerId, isr: tuple[BrokerId, ...], controller_epoch: int
) -> PartitionState:
    return PartitionState(leader, state.leader_epoch + 1, isr, controller_epoch, state.leader_recovery_state)


def dropped(before: ReplicaAssignment, after: ReplicaAssignment) -> tuple[BrokerId, ...]:
    """Replicas that are stopped and deleted between the two."""
    return _without(before.replicas, after.replicas)


def _without(replicas: Sequence[BrokerId], others: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    return tuple(replica for replica in replicas if replica not in others)


def _list(replicas: Sequence[int]) -> str:
    return f"[{', '.join(map(str, replicas))}]"
