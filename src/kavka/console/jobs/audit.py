"""A job in the audit log: an entry when somebody acts on it, closed when the job is over.

Decides what of a job is written down, and which outcome its end is. Must not know pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.console.access.audit import AuditRecord, Outcome
from kavka.console.jobs.store import Job, JobState, MoveRow

if TYPE_CHECKING:
    from kavka.console.access.audit import AuditLog

OUTCOMES = {
    JobState.DONE: Outcome.COMMITTED,
    JobState.PARTIAL: Outcome.COMMITTED,
    JobState.CANCELLED: Outcome.REJECTED,
    JobState.FAILED: Outcome.REJECTED,
}


class JobAction(NamedTuple):
    """What somebody does to a job. `key` is unique for each confirmation."""

    key: str
    name: str
    user: str
    address: str


def open_entry(audit: AuditLog, job: Job, moves: Sequence[MoveRow], action: JobAction, now_ms: int) -> int:
    """Writes down that `action` is about to be done; returns the entry's number. Raises AlreadyDone."""
    record = AuditRecord(
        action.key,
        action.user,
        action.address,
        job.cluster,
        f"job {action.name}",
        f"job {job.number}: {job.title}",
        "\n".join(f"{row.partition} {row.before}" for row in moves),
        "\n".join(f"{row.partition} {row.after}" for row in moves),
        "",
    )
    return audit.begin(record, now_ms)


def close_entry(audit: AuditLog, job: Job, moves: Sequence[MoveRow], now_ms: int) -> None:
    """The job is over: so is the entry of its run, if it is still open."""
    entry = audit.with_key(run_key(job))
    if entry is None or entry.outcome is not None:
        return
    after = "\n".join(f"{row.partition} {row.state.value} {row.remark}".rstrip() for row in moves)
    outcome = OUTCOMES.get(job.state, Outcome.UNKNOWN)
    remark = f"{job.state.value}: {job.remark}" if job.remark else job.state.value
    audit.end(entry.number, outcome, now_ms, after=after, remark=remark)


def run_key(job: Job) -> str:
    """The key of the entry for the job's run."""
    return f"job {job.number} run"
