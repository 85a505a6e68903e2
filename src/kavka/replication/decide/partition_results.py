"""What a call of a `Partition` did, as values: what changed, and the decisions that the caller is to record.

They decide nothing. NamedTuples: some are made per request. `decisions` are the why-records in the order in which they
were decided; whoever calls the partition records them before anything else follows from the change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.model import LeaderEpoch, Offset

if TYPE_CHECKING:
    from kavka.decisions import Decision
    from kavka.log.log_results import AppendResult
    from kavka.replication.decide.isr_states import IsrProposal


class PartitionRefusal(RequestError):
    """A request that the partition refuses for a reason worth a why-record. Most refusals are plain RequestErrors."""

    def __init__(self, code: ErrorCode, message: str, decisions: tuple[Decision, ...]) -> None:
        super().__init__(code, message)
        self.decisions = decisions


class PartitionAppend(NamedTuple):
    """What an append did: the log's result, and whether the high watermark rose with it."""

    result: AppendResult
    high_watermark_advanced: bool


class EpochEndOffset(NamedTuple):
    """The answer to OffsetForLeaderEpoch: the largest epoch not above the one asked for, and where it ends."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class LeadershipChange(NamedTuple):
    """What `become_leader` did. Where `is_stale` nothing was changed."""

    is_stale: bool
    is_new_epoch: bool = False
    was_leader: bool = False
    high_watermark_advanced: bool = False
    decisions: tuple[Decision, ...] = ()


class FollowingChange(NamedTuple):
    """What `become_follower` did. Where `is_stale` nothing was changed.

    `needs_truncation`: the leader epoch is another one, so what is fetched next must begin with the check where the
    logs part, even if the leader is the same as before (KAFKA-7164). The fetcher must be started again with it.
    """

    is_stale: bool
    needs_truncation: bool = False
    was_leader: bool = False
    decisions: tuple[Decision, ...] = ()


class FollowerFetchResult(NamedTuple):
    """What a follower's fetch moved. `log_start_moved`: the follower's own, and with it maybe the low watermark."""

    high_watermark_advanced: bool
    proposal: IsrProposal | None
    log_start_moved: bool = False


NOTHING_MOVED: Final = FollowerFetchResult(False, None)


class Resignation(NamedTuple):
    """The partition led, and leads no longer."""

    decisions: tuple[Decision, ...]


class IsrChange(NamedTuple):
    """What the answer to a proposal changed. `lost_leadership`: it showed that another broker leads."""

    isr_changed: bool = False
    high_watermark_advanced: bool = False
    lost_leadership: bool = False
    decisions: tuple[Decision, ...] = ()
