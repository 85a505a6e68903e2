"""Rules about logs: what a replica's log may hold, lose, and say of itself.

Decides whether a change of one log was right, compared with the other replicas' logs and with its earlier state.

    R2   whom a leader holds for in sync keeps what that leader calls committed
    R4   two logs that have one epoch at one offset are equal below it (log matching, true from KIP-279 on)
    R11  nothing below a replica's high watermark is cut off, but by an unclean election
    R13  epochs do not fall along a log, and the epoch checkpoint says what the log says
    R16  what is acknowledged with acks=all was appended when there were min.insync.replicas in sync
    R22  a restarted log is a prefix of what it was, of whole batches, all of it where no power was lost, and what was
         durable where it was; its checkpoints claim no more than it holds, its producers are what its records say

Source: docs/design/rules.md; RaftEventSimulationTest for the record-wise log matching.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kavka.simulator.rules.log_mirror import LogMirror, differ

if TYPE_CHECKING:
    import uuid

    from kavka.model import LeaderEpoch, Offset, TopicPartition
    from kavka.simulator.rules.replica_view import Look, Seen, View


class _FormerLog(NamedTuple):
    """A log when its broker's life ended."""

    topic_id: uuid.UUID
    mirror: LogMirror
    is_whole: bool
    """Whether nothing of it may be missing later: neither its disk nor its power had failed."""
    had_failed: bool
    """Whether a write had failed, which may be there all the same."""
    durable_to: Offset
    """Its recovery point: a power cut may take nothing below. 0 where nothing of the log is durable."""
    lost_power: bool = False
    lost_disk: bool = False


class _Appended(NamedTuple):
    """What a leader took while its ISR was too small for acks=all."""

    start: Offset
    end: Offset
    leader_epoch: LeaderEpoch


class LogRules:
    """Gets each replica's life and changes from the observer, after its mirror has followed the log."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._former: dict[tuple[int, TopicPartition], _FormerLog] = {}
        self._cut: dict[tuple[int, TopicPartition], None] = {}
        """Replicas whose log was cut since their machine lost power last: the next time may bring back what it had."""
        self._under_min: dict[TopicPartition, list[_Appended]] = {}

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        for held in [held for held in self._former if held[1].topic == topic]:
            del self._former[held]
        for held in [held for held in self._cut if held[1].topic == topic]:
            del self._cut[held]
        for partition in [partition for partition in self._under_min if partition.topic == topic]:
            del self._under_min[partition]

    # -- lives

    def on_life_over(self, broker_id: int, seen: Seen, *, is_whole: bool) -> None:
        """The broker that had the replica is dead; unless `is_whole` its disk may have lost something."""
        if seen.look is None or seen.is_former or seen.is_leaving:
            return
        failed = seen.look.has_failed or seen.partition.log.failure is not None
        partition = seen.partition
        former = _FormerLog(
            partition.topic_id,
            seen.mirror,
            is_whole=is_whole and not failed,
            had_failed=failed,
            durable_to=_durable_to(seen),
            lost_power=not is_whole,
        )
        self._former[broker_id, partition.topic_partition] = former

    def on_removed(self, broker_id: int, partition: TopicPartition) -> None:
        """The broker is no longer a replica of the partition: its log may be removed."""
        self._former.pop((broker_id, partition), None)
        seen = self._view.replicas.get(partition, {}).get(broker_id)
        if seen is not None:
            seen.is_leaving = True

    def on_lost(self, broker_id: int, *, disk: bool) -> None:
        """What was on the broker's disk may have been lost since it died; also what was durable, where a `disk` was
        replaced or damaged."""
        for held, former in self._former.items():
            if held[0] == broker_id:
                self._former[held] = former._replace(
                    is_whole=False, lost_power=True, lost_disk=former.lost_disk or disk
                )

    def on_return(self, broker_id: int, seen: Seen) -> bool:
        """The replica is looked at for the first time in a life; whether it has less than it had (R22)."""
        view, log, mirror = self._view, seen.partition.log, seen.mirror
        problem = "" if log.recovery_point <= log.log_end_offset else f"recovery point {log.recovery_point}"
        problem = problem or seen.first_damage() or self._epochs_problem(seen, 0) or _producers_problem(seen)
        if problem:
            view.require("R22", holds=False, text=f"{seen.name}, to {log.log_end_offset}: {problem}")
        replica = (broker_id, seen.partition.topic_partition)
        former = self._former.pop(replica, None)
        if former is None or former.topic_id != seen.partition.topic_id:
            return False
        if former.lost_power and self._cut.pop(replica, 0) is None:
            return True  # A truncation that was not synced may be undone, with what was appended after it.
        was = former.mirror
        difference = differ(was, mirror, min(was.end, mirror.end) if former.had_failed else mirror.end)
        if (mirror.end > was.end and not former.had_failed) or difference:
            text = f"{seen.name} is back to {mirror.end}, it was to {was.end}: no prefix of what it was, {difference}"
            view.require("R22", holds=False, text=text)
        kept = was.end if former.is_whole else 0 if former.lost_disk or former.had_failed else former.durable_to
        if mirror.end < kept:
            text = f"{seen.name} is back to {mirror.end}, it was to {was.end}, durable to {former.durable_to}"
            view.require("R22", holds=False, text=text)
        return mirror.end < was.end

    # -- changes

    def on_cut(self, broker_id: int, seen: Seen, before: Look, look: Look) -> None:
        """A log that runs is shorter than it was."""
        view, end = self._view, look.log_end_offset
        partition = seen.partition.topic_partition
        self._cut[broker_id, partition] = None
        if view.allows_loss(partition):
            return
        if end < before.high_watermark:
            view.require("R11", holds=False, text=f"{seen.name} was cut to {end}, committed to {before.high_watermark}")
        for other in view.replicas[partition].values():
            held = other.look
            if other is seen or held is None or not held.is_leader or not other.is_present:
                continue
            if broker_id in held.isr.isr and end < held.high_watermark and (broker_id, partition) not in view.powerless:
                text = f"{seen.name} was cut to {end}; {other.name} has it in sync, committed to {held.high_watermark}"
                view.require("R2", holds=False, text=text)

    def on_change(self, seen: Seen, before: Look | None, look: Look) -> None:
        """A log that runs ends elsewhere, or has others in its place."""
        view, mirror = self._view, seen.mirror
        common = look.log_end_offset if before is None else min(before.log_end_offset, look.log_end_offset)
        problem = self._epochs_problem(seen, bisect_right(mirror.ends, common))
        if problem:
            view.require("R13", holds=False, text=f"{seen.name}: {problem}")
        if before is not None and look.is_leader and before.is_leader and look.log_end_offset > before.log_end_offset:
            self._on_append(seen, before, look)
        if view.allows_loss(seen.partition.topic_partition):
            return
        for other in view.replicas[seen.partition.topic_partition].values():
            if other is not seen and other.is_present:
                difference = _mismatch(mirror, other.mirror)
                if difference:
                    text = f"{seen.name} and {other.name} have one epoch at one offset, but differ {difference}"
                    view.require("R4", holds=False, text=text)

    @staticmethod
    def _epochs_problem(seen: Seen, first: int) -> str:
        """What is wrong with the epochs of the batches from the `first` on; empty if nothing is."""
        mirror, log = seen.mirror, seen.partition.log
        ends, epochs = mirror.ends, mirror.epochs
        for index in range(max(first, 1), len(ends)):
            epoch, previous, start = epochs[index], epochs[index - 1], ends[index - 1]
            if start <= log.log_start_offset:
                continue  # What lay before it was deleted, and is in the mirror still.
            if epoch < previous:
                return f"epoch {epoch} at {start} behind epoch {previous}"
            if epoch != previous and log.leader_epoch_at(start - 1) != previous:
                return f"epoch {previous} ends at {start}, the checkpoint says {log.epoch_entries}"
        if ends and log.leader_epoch_at(ends[-1] - 1) != epochs[-1]:
            return f"the last batch, to {ends[-1]}, is of epoch {epochs[-1]}, the checkpoint says {log.epoch_entries}"
        return ""

    # -- acks=all

    def _on_append(self, seen: Seen, before: Look, look: Look) -> None:
        needed = seen.partition.effective_min_isr
        if len(before.state.isr) < needed and len(look.state.isr) < needed:
            taken = _Appended(before.log_end_offset, look.log_end_offset, look.state.leader_epoch)
            self._under_min.setdefault(seen.partition.topic_partition, []).append(taken)

    def on_acked(self, partition: TopicPartition, offset: Offset) -> None:
        """The record at `offset` was acknowledged with acks=all."""
        appended = self._under_min.get(partition)
        committed = self._view.committed.get(partition)
        if not appended or committed is None or not committed.start <= offset < committed.end:
            return
        epoch = committed.epochs[bisect_right(committed.ends, offset)]
        for taken in appended:
            if taken.start <= offset < taken.end and taken.leader_epoch == epoch:
                text = f"{partition}: {offset} was acknowledged, and appended under too small an ISR: {taken}"
                self._view.require("R16", holds=False, text=text)


def _durable_to(seen: Seen) -> Offset:
    """Where records are deleted, the log's start takes the recovery point along: nothing was synced for that."""
    log = seen.partition.log
    return log.recovery_point if log.recovery_point > log.log_start_offset else 0


def _producers_problem(seen: Seen) -> str:
    """Which producer the log does not know as its last batch in the log says; empty if it knows all."""
    last: dict[int, tuple[int, int]] = {}
    for batch in seen.batches(0, seen.partition.log.log_end_offset):
        header = batch.header
        if header.producer_id >= 0 and not header.is_control:
            last[header.producer_id] = (header.producer_epoch, header.last_sequence)
    for producer_id, (epoch, sequence) in last.items():
        entry = seen.partition.log.producers.entry(producer_id)
        if entry is None or (entry.producer_epoch == epoch and entry.last_sequence != sequence):
            return f"producer {producer_id} wrote to sequence {sequence} in epoch {epoch}, the log knows {entry}"
    return ""


def _mismatch(one: LogMirror, other: LogMirror) -> str:
    """How the logs differ below the last offset at which a batch of one epoch ends in both; empty if they do not."""
    bound = min(one.end, other.end)
    here, there = bisect_right(one.ends, bound) - 1, bisect_right(other.ends, bound) - 1
    while here >= 0 and there >= 0:
        end, its_end = one.ends[here], other.ends[there]
        if end == its_end and one.epochs[here] == other.epochs[there]:
            return differ(one, other, end)
        here, there = here - (end >= its_end), there - (its_end >= end)
    return ""
