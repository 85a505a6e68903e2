"""States of partitions and replicas as the controller sees them: one table of legal moves each.

Decides which moves are legal and counts who is where. It knows nothing of what a move causes.

Partition    NON_EXISTENT  no assignment: never made, or deleted
             NEW           has replicas, never had a leader
             ONLINE        has a leader
             OFFLINE       had a leader, which is gone

Replica      NON_EXISTENT, NEW, ONLINE, OFFLINE and, for partitions being deleted, DELETION_STARTED,
             DELETION_SUCCESSFUL, DELETION_INELIGIBLE (its broker is down, so deletion waits for it)

Invariants:
I1  A state changes only through `StateTable.move`, and only as the table allows.
I2  An illegal move changes nothing and is returned as `RefusedMove`, for the record: the others of the same call are
    made.

Source: Kafka's PartitionStateMachine and ReplicaStateMachine.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from kavka.model import BrokerId, TopicPartition


class PartitionStatus(Enum):
    """Whether a partition has a leader."""

    __hash__ = object.__hash__  # Enum's own is a Python function, and these are keys by the ten thousand.

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaStatus(Enum):
    """Whether a replica serves, and how far its deletion is."""

    __hash__ = object.__hash__  # Enum's own is a Python function, and these are keys by the ten thousand.

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


_P, _R = PartitionStatus, ReplicaStatus

PARTITION_MOVES: Final[Mapping[PartitionStatus, frozenset[PartitionStatus]]] = {
    # to                 from
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
}

REPLICA_MOVES: Final[Mapping[ReplicaStatus, frozenset[ReplicaStatus]]] = {
    # to                     from
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
}


class Replica(NamedTuple):
    """One replica of a partition: the one on `broker_id`."""

    topic_partition: TopicPartition
    broker_id: BrokerId


K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=Enum)


class RefusedMove(NamedTuple, Generic[K, S]):
    """A move that the table does not allow."""

    key: K
    state: S
    wanted: S


class Moves(NamedTuple, Generic[K, S]):
    """What became of a call of `move`, in the order of its keys."""

    made: tuple[K, ...]
    refused: tuple[RefusedMove[K, S], ...]


class StateTable(Generic[K, S]):
    """The state of each of many things; what is not in it is in the state `absent`."""

    def __init__(self, moves: Mapping[S, frozenset[S]], absent: S) -> None:
        self._moves = moves
        self._absent = absent
        self._states: dict[K, S] = {}
        self._counts: dict[S, int] = dict.fromkeys(moves, 0)

    def state(self, key: K) -> S:
        return self._states.get(key, self._absent)

    def count(self, state: S) -> int:
        """How many are in `state`; those that were never moved are not counted as absent."""
        return self._counts[state]

    def keys(self, state: S) -> list[K]:
        """All that are in `state`, in the order in which they first left `absent`."""
        return [key for key, current in self._states.items() if current is state]

    def move(self, keys: Iterable[K], wanted: S) -> Moves[K, S]:
        """Moves each of `keys` to `wanted` where the table allows it."""
        allowed = self._moves[wanted]
        made: list[K] = []
        refused: list[RefusedMove[K, S]] = []
        for key in keys:
            current = self.state(key)
            if current not in allowed:
                refused.append(RefusedMove(key, current, wanted))
                continue
            self._put(key, current, wanted)
            made.append(key)
        return Moves(tuple(made), tuple(refused))

    def load(self, key: K, state: S) -> None:
        """The state that a new controller finds; no move."""
        self._put(key, self.state(key), state)

    def forget(self, keys: Iterable[K]) -> None:
        """These are gone from the table, whatever their state was."""
        for key in keys:
            self._put(key, self.state(key), self._absent)

    def _put(self, key: K, current: S, state: S) -> None:
        if key in self._states:
            self._counts[current] -= 1
        if state is self._absent:
            self._states.pop(key, None)
            return
        self._states[key] = state
        self._counts[state] += 1


def partition_states() -> StateTable[TopicPartition, PartitionStatus]:
    return StateTable(PARTITION_MOVES, PartitionStatus.NON_EXISTENT)


def replica_states() -> StateTable[Replica, ReplicaStatus]:
    return StateTable(REPLICA_MOVES, ReplicaStatus.NON_EXISTENT)
