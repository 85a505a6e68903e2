"""JobStore: jobs in the ledger, as the state machine that a restart of the console goes on with.

Decides which state follows which, and that two who act at once do not both succeed. Must not know how a step is done.

    state        what is done in it                                   then
    planned      waits for somebody to agree; forgotten after a while    confirmed, discarded
    confirmed    what throttles there were is written down            throttling, moving
    throttling   throttles are set                                    moving, cancelling
    moving       partitions move, a bounded number at a time          clearing, cancelling; throttling for another rate
    cancelling   moves that are under way are called off              clearing
    clearing     throttles are lifted, as they were before            done, partial, cancelled
    done, partial (some partitions were skipped), cancelled, discarded, failed: the end

I1  A step's state is written before what it sends is sent, so after a crash the same step is taken again, never the
    next one without it; steps look at the cluster first, so taking one twice does nothing twice.
I2  Whoever changes a job names the version he saw; another version has been there since, and nothing is changed.
I3  Of one cluster at most one job is active (confirmed to clearing).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from kavka.console.jobs.plan import JobKind, JobPlan, Move
from kavka.console.ledger import transaction
from kavka.model import TopicPartition

FORGET_PLANS_MS = 24 * 60 * 60 * 1000
MOST_PLANS = 200
"""Plans that wait for somebody to agree, of all clusters."""
MOST_EVENTS = 2_000
"""Lines of one job's log."""
LISTED_JOBS = 200


class JobState(Enum):
    PLANNED = "planned"
    CONFIRMED = "confirmed"
    THROTTLING = "throttling"
    MOVING = "moving"
    CANCELLING = "cancelling"
    CLEARING = "clearing"
    DONE = "done"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    FAILED = "failed"

    @property
    def is_active(self) -> bool:
        return self in ACTIVE

    @property
    def is_over(self) -> bool:
        return self is not JobState.PLANNED and self not in ACTIVE


ACTIVE = (JobState.CONFIRMED, JobState.THROTTLING, JobState.MOVING, JobState.CANCELLING, JobState.CLEARING)
FOLLOWS: Mapping[JobState, tuple[JobState, ...]] = {
    JobState.PLANNED: (JobState.CONFIRMED, JobState.DISCARDED),
    JobState.CONFIRMED: (JobState.THROTTLING, JobState.MOVING, JobState.CANCELLING, JobState.FAILED),
    JobState.THROTTLING: (JobState.MOVING, JobState.CANCELLING, JobState.FAILED),
    JobState.MOVING: (JobState.CLEARING, JobState.THROTTLING, JobState.CANCELLING, JobState.FAILED),
    JobState.CANCELLING: (JobState.CLEARING, JobState.FAILED),
    JobState.CLEARING: (JobState.DONE, JobState.PARTIAL, JobState.CANCELLED, JobState.FAILED),
}


class MoveState(Enum):
    """One partition of a job."""

    PENDING = "pending"
    SUBMITTING = "submitting"
    """Sent, or about to be: what became of it is read off the cluster."""
    MOVING = "moving"
    CALLING_OFF = "calling off"
    DONE = "done"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in (MoveState.DONE, MoveState.SKIPPED, MoveState.CANCELLED)


class MoveRow(NamedTuple):
    """A partition of a job: what is wanted, and how far it is. `changed_ms`: when bytes or state last changed."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    state: MoveState
    remark: str
    copied_bytes: int
    total_bytes: int
    changed_ms: int

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.after if each not in self.before)


class Job(NamedTuple):
    """`plan` is the plan as it was shown, in JSON's values; `throttles_before` what stood in its place, None until it
    was looked at. `cancelled_by` is '' where nobody has called it off."""

    number: int
    cluster: str
    cluster_id: str
    kind: JobKind
    title: str
    state: JobState
    version: int
    created_by: str
    created_ms: int
    confirmed_by: str
    confirmed_ms: int | None
    cancelled_by: str
    ended_ms: int | None
    throttle: int | None
    predicted_s: float | None
    remark: str
    plan: Mapping[str, Any]
    throttles_before: Mapping[str, Mapping[str, str | None]] | None


class Stale(Exception):
    """Somebody else has changed the job since it was looked at; nothing was done."""


class Busy(Exception):
    """Another job of this cluster is under way; nothing was done."""

    def __init__(self, other: int) -> None:
        super().__init__(f"job {other} of this cluster is under way")
        self.other = other


_JOB = (
    "number, cluster, cluster_id, kind, title, state, version, created_by, created_ms, confirmed_by, confirmed_ms, "
    "cancelled_by, ended_ms, throttle, predicted_s, remark, plan, throttles_before"
)


class JobStore:
    """The jobs, in the ledger."""

    def __init__(self, ledger: sqlite3.Connection) -> None:
        self._ledger = ledger
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, cluster TEXT NOT NULL, "
            "cluster_id TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, state TEXT NOT NULL, "
            "version INTEGER NOT NULL, created_by TEXT NOT NULL, created_ms INTEGER NOT NULL, "
            "confirmed_by TEXT NOT NULL DEFAULT '', confirmed_ms INTEGER, cancelled_by TEXT NOT NULL DEFAULT '', "
            "ended_ms INTEGER, throttle INTEGER, predicted_s REAL, remark TEXT NOT NULL DEFAULT '', "
            "plan TEXT NOT NULL, throttles_before TEXT) STRICT"
        )
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS job_moves (job INTEGER NOT NULL REFERENCES jobs, topic TEXT NOT NULL, "
            "partition INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL, state TEXT NOT NULL, "
            "remark TEXT NOT NULL DEFAULT '', copied_bytes INTEGER NOT NULL DEFAULT 0, total_bytes INTEGER NOT NULL, "
            "changed_ms INTEGER NOT NULL, PRIMARY KEY (job, topic, partition)) STRICT"
        )
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS job_events (job INTEGER NOT NULL REFERENCES jobs, at_ms INTEGER NOT NULL, "
            "text TEXT NOT NULL) STRICT"
        )
        ledger.execute("CREATE INDEX IF NOT EXISTS job_events_of ON job_events (job)")

    # ------------------------------------------------------------------------------------------------------- questions

    def find(self, number: int) -> Job | None:
        row = self._ledger.execute(f"SELECT {_JOB} FROM jobs WHERE number = ?", (number,)).fetchone()
        return None if row is None else _job(row)

    def of_cluster(self, cluster: str, *, limit: int = LISTED_JOBS) -> list[Job]:
        """The newest first; no plans that were discarded."""
        rows = self._ledger.execute(
            f"SELECT {_JOB} FROM jobs WHERE cluster = ? AND state != ? ORDER BY number DESC LIMIT ?",
            (cluster, JobState.DISCARDED.value, limit),
        )
        return [_job(row) for row in rows]

    def active(self) -> list[Job]:
        """Those that somebody has to go on with, of all clusters."""
        marks = ", ".join("?" * len(ACTIVE))
        rows = self._ledger.execute(
            f"SELECT {_JOB} FROM jobs WHERE state IN ({marks}) ORDER BY number", [state.value for state in ACTIVE]
        )
        return [_job(row) for row in rows]

    def moves(self, number: int) -> list[MoveRow]:
        rows = self._ledger.execute(
            "SELECT topic, partition, before, after, state, remark, copied_bytes, total_bytes, changed_ms "
            "FROM job_moves WHERE job = ? ORDER BY topic, partition",
            (number,),
        )
        return [
            MoveRow(
                TopicPartition(row[0], row[1]),
                tuple(json.loads(row[2])),
                tuple(json.loads(row[3])),
                MoveState(row[4]),
                *tuple(row)[5:],
            )
            for row in rows
        ]

    def events(self, number: int) -> list[tuple[int, str]]:
        """(time in ms, text), the oldest first."""
        rows = self._ledger.execute("SELECT at_ms, text FROM job_events WHERE job = ? ORDER BY rowid", (number,))
        return [(row[0], row[1]) for row in rows]

    # --------------------------------------------------------------------------------------------------------- changes

    def add(self, cluster: str, cluster_id: str, plan: JobPlan, throttle: int | None, *, user: str, now_ms: int) -> int:
        """Writes a plan down; returns the job's number."""
        shown = {
            "skipped": [[str(each.partition), each.why] for each in plan.skipped],
            "risks": [[risk.level, risk.what, [str(each) for each in risk.partitions]] for risk in plan.risks],
            "effects": [list(effect) for effect in plan.effects],
            "bytes_copied": plan.bytes_copied,
            "whys": {str(move.partition): move.why for move in plan.moves if move.why},
        }
        predicted = plan.duration_s if plan.duration_s is not None and plan.duration_s != float("inf") else None
        with transaction(self._ledger):
            self._forget_plans(now_ms)
            cursor = self._ledger.execute(
                "INSERT INTO jobs (cluster, cluster_id, kind, title, state, version, created_by, created_ms, throttle, "
                "predicted_s, plan) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)",
                (
                    cluster,
                    cluster_id,
                    plan.kind.value,
                    plan.title,
                    JobState.PLANNED.value,
                    user,
                    now_ms,
                    throttle,
                    predicted,
                    json.dumps(shown),
                ),
            )
            number = cursor.lastrowid
            assert number is not None
            self._ledger.executemany(
                "INSERT INTO job_moves (job, topic, partition, before, after, state, total_bytes, changed_ms) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [_move_values(number, move, now_ms) for move in plan.moves],
            )
            self._note(number, f"planned by {user}", now_ms)
        return number

    def confirm(self, number: int, version: int, *, user: str, now_ms: int) -> Job:
        """Has it begin. Raises Stale, Busy."""
        with transaction(self._ledger):
            job = self._expect(number, version)
            for other in self.active():
                if other.cluster == job.cluster:
                    raise Busy(other.number)
            self._enter(job, JobState.CONFIRMED, now_ms)
            self._ledger.execute(
                "UPDATE jobs SET confirmed_by = ?, confirmed_ms = ? WHERE number = ?", (user, now_ms, number)
            )
            self._note(number, f"confirmed by {user}", now_ms)
        return self._again(number)

    def discard(self, number: int, version: int, *, user: str, now_ms: int) -> Job:
        """A plan that nobody wants. Raises Stale."""
        with transaction(self._ledger):
            self._enter(self._expect(number, version), JobState.DISCARDED, now_ms)
            self._note(number, f"discarded by {user}", now_ms)
        return self._again(number)

    def cancel(self, number: int, version: int, *, user: str, now_ms: int) -> Job:
        """Has what moves called off, and the throttles lifted. Raises Stale, also where it is over already."""
        with transaction(self._ledger):
            job = self._expect(number, version)
            if JobState.CANCELLING not in FOLLOWS.get(job.state, ()):
                raise Stale(f"job {number} is {job.state.value}")
            self._ledger.execute("UPDATE jobs SET cancelled_by = ? WHERE number = ?", (user, number))
            self._enter(job, JobState.CANCELLING, now_ms)
            self._note(number, f"cancelled by {user}", now_ms)
        return self._again(number)

    def set_throttle(self, number: int, version: int, throttle: int, *, user: str, now_ms: int) -> Job:
        """Another throttle for a job that moves: it is set anew. Raises Stale."""
        with transaction(self._ledger):
            job = self._expect(number, version)
            if job.state is not JobState.MOVING or job.throttles_before is None:
                raise Stale(f"job {number} is {job.state.value}, or has no throttle")
            self._ledger.execute("UPDATE jobs SET throttle = ? WHERE number = ?", (throttle, number))
            self._enter(job, JobState.THROTTLING, now_ms)
            self._note(number, f"throttle changed to {throttle:,} bytes/s by {user}", now_ms)
        return self._again(number)

    def enter(self, job: Job, state: JobState, now_ms: int, *, remark: str | None = None) -> Job:
        """The runner's: the next state. Raises Stale where somebody was faster, by calling it off."""
        with transaction(self._ledger):
            self._enter(self._expect(job.number, job.version), state, now_ms)
            if remark is not None:
                self._ledger.execute("UPDATE jobs SET remark = ? WHERE number = ?", (remark, job.number))
            self._note(job.number, state.value + (f": {remark}" if remark else ""), now_ms)
        return self._again(job.number)

    def remember_throttles(self, job: Job, before: Mapping[str, Mapping[str, str | None]]) -> Job:
        """What stood where this job sets throttles; written before any is set."""
        self._ledger.execute(
            "UPDATE jobs SET throttles_before = ? WHERE number = ? AND throttles_before IS NULL",
            (json.dumps(before), job.number),
        )
        return self._again(job.number)

    def forget_throttle(self, job: Job, resource: str) -> Job:
        """The throttle of one broker or topic is lifted."""
        left = {name: values for name, values in (job.throttles_before or {}).items() if name != resource}
        self._ledger.execute("UPDATE jobs SET throttles_before = ? WHERE number = ?", (json.dumps(left), job.number))
        return self._again(job.number)

    def give_up(self, number: int, version: int, *, user: str, now_ms: int) -> Job:
        """Ends a job that waits to lift throttles of brokers that are down; they stay. Raises Stale."""
        with transaction(self._ledger):
            job = self._expect(number, version)
            if job.state is not JobState.CLEARING:
                raise Stale(f"job {number} is {job.state.value}")
            remark = f"throttles are left on {', '.join(job.throttles_before or {})}"
            self._enter(job, JobState.PARTIAL, now_ms)
            self._ledger.execute("UPDATE jobs SET remark = ? WHERE number = ?", (remark, number))
            self._note(number, f"given up by {user}: {remark}", now_ms)
        return self._again(number)

    def say(self, job: Job, remark: str, now_ms: int) -> Job:
        """A remark for the page, such as what is waited for."""
        if remark != job.remark:
            with transaction(self._ledger):
                self._ledger.execute("UPDATE jobs SET remark = ? WHERE number = ?", (remark, job.number))
                if remark:
                    self._note(job.number, remark, now_ms)
        return self._again(job.number)

    def update_moves(self, number: int, rows: Iterable[MoveRow], now_ms: int) -> None:
        """New states and progress of partitions; each change of a state stands in the job's log."""
        with transaction(self._ledger):
            for row in rows:
                known = self._ledger.execute(
                    "SELECT state, remark FROM job_moves WHERE job = ? AND topic = ? AND partition = ?",
                    (number, *row.partition),
                ).fetchone()
                self._ledger.execute(
                    "UPDATE job_moves SET state = ?, remark = ?, copied_bytes = ?, total_bytes = ?, changed_ms = ? "
                    "WHERE job = ? AND topic = ? AND partition = ?",
                    (
                        row.state.value,
                        row.remark,
                        row.copied_bytes,
                        row.total_bytes,
                        row.changed_ms,
                        number,
                        *row.partition,
                    ),
                )
                if tuple(known) != (row.state.value, row.remark) and row.state is not MoveState.SUBMITTING:
                    text = f"{row.partition}: {row.state.value}" + (f" ({row.remark})" if row.remark else "")
                    self._note(number, text, now_ms)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _expect(self, number: int, version: int) -> Job:
        job = self._again(number)
        if job.version != version:
            raise Stale(f"job {number} is {job.state.value} by now")
        return job

    def _enter(self, job: Job, state: JobState, now_ms: int) -> None:
        if state not in FOLLOWS.get(job.state, ()):
            raise Stale(f"job {job.number} is {job.state.value}, and {state.value} does not follow")
        self._ledger.execute(
            "UPDATE jobs SET state = ?, version = version + 1, ended_ms = ? WHERE number = ?",
            (state.value, now_ms if state.is_over else None, job.number),
        )

    def _note(self, number: int, text: str, now_ms: int) -> None:
        count = self._ledger.execute("SELECT count(*) FROM job_events WHERE job = ?", (number,)).fetchone()[0]
        if count < MOST_EVENTS:
            self._ledger.execute("INSERT INTO job_events VALUES (?, ?, ?)", (number, now_ms, text[:2_000]))

    def _forget_plans(self, now_ms: int) -> None:
        self._ledger.execute(
            "UPDATE jobs SET state = ?, ended_ms = ?, version = version + 1 WHERE state = ? AND (created_ms < ? "
            "OR number IN (SELECT number FROM jobs WHERE state = ? ORDER BY number DESC LIMIT -1 OFFSET ?))",
            (
                JobState.DISCARDED.value,
                now_ms,
                JobState.PLANNED.value,
                now_ms - FORGET_PLANS_MS,
                JobState.PLANNED.value,
                MOST_PLANS - 1,
            ),
        )

    def _again(self, number: int) -> Job:
        job = self.find(number)
        if job is None:
            raise Stale(f"there is no job {number}")
        return job


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    before = values["throttles_before"]
    return Job(
        **{
            **values,
            "kind": JobKind(values["kind"]),
            "state": JobState(values["state"]),
            "plan": json.loads(values["plan"]),
            "throttles_before": None if before is None else json.loads(before),
        }
    )


def _move_values(number: int, move: Move, now_ms: int) -> tuple[object, ...]:
    return (
        number,
        *move.partition,
        json.dumps(move.before),
        json.dumps(move.after),
        MoveState.PENDING.value,
        move.bytes_copied,
        now_ms,
    )
