"""What became of a job's partitions since they were last looked at, and what is to be sent next.

Decides on values only: rows as they stand in the ledger, the cluster as it stands now. So the same question has the
same answer after a crash, which is how a job is gone on with and nothing is done twice:

    row          the cluster says                               then
    pending      anything                                       submit, while fewer than `MOST_AT_ONCE` are under way
    submitting   on its way to our target                       moving
                 is where it is to be                           done
                 where it was, nothing under way                it was not taken: submit again
    moving       where it was, nothing under way                skipped: somebody called it off
    any of both  on its way elsewhere, or somewhere else        skipped: somebody else moves it
                 gone                                           skipped: deleted
                 a broker that is to copy is away too long      calling off, then skipped
    calling off  nothing under way                              skipped, or cancelled; done where it was too late

Everything pending is cancelled when the job is called off.

What moves is the controller's word, where replicas are is any broker's, and it may be some moments older: what would be
somebody else's doing has to look so for `SETTLE_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.console.jobs.inventory import PartitionStates
from kavka.console.jobs.store import MoveRow, MoveState
from kavka.model import TopicPartition

MOST_AT_ONCE = 50
"""Partitions of a job that move at a time."""
AWAY_MS = 30_000
"""How long a broker that is to copy may be away before its partition is given up: a restart takes less."""
SETTLE_MS = 5_000
LOOKING = "looking again"
STALLED_MS = 60_000
"""How long nothing may be copied before the page says so."""


class Step(NamedTuple):
    """rows: those that changed. submit: to be sent, as rows that are SUBMITTING. call_off: moves to be cancelled."""

    rows: list[MoveRow]
    submit: dict[TopicPartition, tuple[int, ...]]
    call_off: list[TopicPartition]
    is_over: bool


def step(
    rows: Sequence[MoveRow],
    now: PartitionStates,
    *,
    now_ms: int,
    away_since_ms: Mapping[int, int],
    is_cancelled: bool = False,
    refused: Mapping[TopicPartition, str] | None = None,
) -> Step:
    """away_since_ms: brokers that are not alive, and since when. refused: what the cluster would not take, and why."""
    changed: list[MoveRow] = []
    submit: dict[TopicPartition, tuple[int, ...]] = {}
    call_off: list[TopicPartition] = []
    latest: list[MoveRow] = []
    for row in rows:
        new = row
        if not row.state.is_over:
            new = _look(row, now, now_ms, away_since_ms, refused or {}, is_cancelled)
        latest.append(new)
    under_way = sum(row.state in (MoveState.SUBMITTING, MoveState.MOVING, MoveState.CALLING_OFF) for row in latest)
    for place, new in enumerate(latest):
        stands = new.partition in now.partitions and now.partitions[new.partition].replicas == new.before
        if new.state is MoveState.PENDING and stands and not is_cancelled and under_way < MOST_AT_ONCE:
            latest[place] = new = new._replace(state=MoveState.SUBMITTING, changed_ms=now_ms)
            under_way += 1
        if new.state is MoveState.SUBMITTING and stands and new.partition not in now.under_way:
            submit[new.partition] = new.after
        if new.state is MoveState.CALLING_OFF and new.partition in now.under_way:
            call_off.append(new.partition)
        if new != rows[place]:
            changed.append(new)
    return Step(changed, submit, call_off, all(row.state.is_over for row in latest))


def _look(
    row: MoveRow,
    now: PartitionStates,
    now_ms: int,
    away_since_ms: Mapping[int, int],
    refused: Mapping[TopicPartition, str],
    is_cancelled: bool,
) -> MoveRow:
    def become(state: MoveState, remark: str = "") -> MoveRow:
        return row._replace(state=state, remark=remark, changed_ms=now_ms if state is not row.state else row.changed_ms)

    def doubtful(remark: str) -> MoveRow:
        if row.remark != LOOKING:
            return row._replace(remark=LOOKING, changed_ms=now_ms)
        return row if now_ms - row.changed_ms < SETTLE_MS else become(MoveState.SKIPPED, remark)

    found = now.partitions.get(row.partition)
    if found is None:
        return become(MoveState.SKIPPED, "its topic was deleted")
    moving = now.under_way.get(row.partition)
    if moving is None:
        if found.replicas == row.after:
            return become(MoveState.DONE)._replace(copied_bytes=row.total_bytes)
        if row.state is MoveState.CALLING_OFF:
            return become(MoveState.CANCELLED if is_cancelled else MoveState.SKIPPED, row.remark)
        if is_cancelled:
            return become(MoveState.CANCELLED)
        if row.partition in refused:
            return become(MoveState.SKIPPED, refused[row.partition])
        if found.replicas != row.before:
            return doubtful(f"somebody else moved it to {_ids(found.replicas)}")
        if row.state is MoveState.MOVING:
            return doubtful("somebody else cancelled it")
        away = [node_id for node_id in row.adding if node_id not in now.live]
        if away and now_ms - min(away_since_ms.get(each, now_ms) for each in away) >= AWAY_MS:
            return become(MoveState.SKIPPED, f"broker {_ids(away)} is not alive")
        return row._replace(remark="") if row.remark == LOOKING else row
    if row.state is MoveState.PENDING:
        # Not ours: it was begun by somebody else after the plan was made.
        return become(MoveState.CANCELLED if is_cancelled else MoveState.SKIPPED, "somebody else moves it")
    if moving.target != row.after:
        return become(MoveState.SKIPPED, f"somebody else moves it to {_ids(moving.target)}")
    if is_cancelled or row.state is MoveState.CALLING_OFF:
        return become(MoveState.CALLING_OFF, row.remark)
    away = [node_id for node_id in row.adding if node_id not in now.live]
    if away and now_ms - min(away_since_ms.get(each, now_ms) for each in away) >= AWAY_MS:
        return become(MoveState.CALLING_OFF, f"broker {_ids(away)}, which should copy it, is not alive")
    return _progress(row, now, found.leader, found.in_sync_replicas, now_ms, away)


def _progress(
    row: MoveRow, now: PartitionStates, leader: int, in_sync: Sequence[int], now_ms: int, away: Sequence[int]
) -> MoveRow:
    whole = now.sizes.get((row.partition, leader), 0)
    copied = sum(
        whole if node_id in in_sync else min(now.sizes.get((row.partition, node_id), 0), whole)
        for node_id in row.adding
    )
    total = max(whole * len(row.adding), copied)
    has_moved = copied != row.copied_bytes or row.state is not MoveState.MOVING
    changed_ms = now_ms if has_moved else row.changed_ms
    remark = ""
    if away:
        remark = f"broker {_ids(away)} is not alive"
    elif leader < 0:
        remark = "it has no leader"
    elif now_ms - changed_ms >= STALLED_MS:
        remark = f"nothing was copied for {(now_ms - changed_ms) // 1000} s"
    if remark.startswith("nothing") and row.remark.startswith("nothing"):
        remark = row.remark  # Not a new line of the log each time.
    return row._replace(
        state=MoveState.MOVING, remark=remark, copied_bytes=copied, total_bytes=total, changed_ms=changed_ms
    )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
