"""JobRunner: carries out what operators agreed to, one step after the other, also over restarts of the console.

Decides which request a job's state asks for next. Must not know plans or pages; what became of partitions is decided in
progress.py.

Every turn reads the job from the ledger and the partitions from the cluster, writes the next state, and only then sends
what belongs to it. A console that is killed anywhere is followed by one that reads the same two and goes on.

I1  One process carries out the jobs of a ledger: it holds a lock, which the kernel gives back with its end.
I2  Throttles are lifted on every way to a job's end, and before it: an end without that is none (but for `give_up`,
    which says what is left).
I3  A cluster that does not answer holds up its own job only, and nothing is given up because of it.
"""

from __future__ import annotations

import asyncio
import fcntl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from kavka.client.admin import Admin, ElectionType
from kavka.client.cluster import Cluster
from kavka.console.jobs import throttle
from kavka.console.jobs.inventory import read_partition_states
from kavka.console.jobs.plan import JobKind
from kavka.console.jobs.progress import step
from kavka.console.jobs.store import Job, JobState, JobStore, MoveRow, MoveState, Stale
from kavka.errors import ConnectionFailed, ErrorCode, KavkaError, RequestError
from kavka.logger import Logger

LOCK = "jobs.lock"
TURN_S = 1.0
"""Between two looks at a job."""
SEND_TIMEOUT_S = 30.0
ELECTED_AT_ONCE = 100
logger = Logger(__name__)
Answer = TypeVar("Answer")


class JobRunner:
    """Runs the jobs of one ledger. cluster_of: the client of the cluster that a name stands for, None for none."""

    def __init__(
        self,
        store: JobStore,
        directory: Path,
        cluster_of: Callable[[str], Cluster | None],
        on_change: Callable[[Job], None],
        *,
        turn_s: float = TURN_S,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._store = store
        self._lock_path = directory / LOCK
        self._cluster_of = cluster_of
        self._on_change = on_change
        self._turn_s = turn_s
        self._now_ms = now_ms
        self._lock: IO[bytes] | None = None
        self._is_refused = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._away: dict[tuple[str, int], int] = {}
        """Since when brokers that a job needs are away."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether another console with the same ledger carries out the jobs, as far as was tried."""
        return self._is_refused

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="jobs")

    async def stop(self) -> None:
        """Jobs stay as they are, for the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def wake(self) -> None:
        """Somebody agreed to something, or called it off."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            active = self._store.active()
            if active and self._takes_lock():
                await asyncio.gather(*map(self._turn, active))
            try:
                async with asyncio.timeout(self._turn_s if active else None):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _takes_lock(self) -> bool:
        if self._lock is None:
            file = self._lock_path.open("ab")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                self._is_refused = True
                return False
            self._lock, self._is_refused = file, False
        return True

    async def _turn(self, job: Job) -> None:
        """One step. What goes wrong in it is said on the job's page, and it is taken again at the next turn."""
        try:
            await self._step(job)
        except Stale:
            pass  # Somebody called it off while we were asking: the next turn sees that.
        except (KavkaError, TimeoutError) as problem:
            why = str(problem) or "it did not answer in time"
            self._say(job, f"the cluster cannot do this now: {why}")
        except Exception as bug:  # noqa: BLE001  # a boundary between jobs, see below
            # Named boundary: a bug in one job's step must not end the others.
            logger.error("job failed", job=job.number, error=repr(bug), next="this is a bug: report it")
            self._say(job, f"an error in the console: {bug!r}; see its log")
        current = self._store.find(job.number)
        if current is not None:
            self._on_change(current)

    def _say(self, job: Job, remark: str) -> None:
        current = self._store.find(job.number)
        if current is not None and current.state.is_active:
            self._store.say(current, remark, self._now_ms())

    async def _step(self, job: Job) -> None:
        cluster = self._cluster_of(job.cluster)
        if cluster is None:
            self._say(job, f"this console no longer knows cluster {job.cluster}")
            return
        if cluster.cluster_id is None:
            raise ConnectionFailed("it was not reached yet")
        if job.cluster_id and cluster.cluster_id != job.cluster_id:
            text = f"another cluster ({cluster.cluster_id}) answers under this name: nothing is sent to it"
            if job.state is JobState.CONFIRMED:
                self._store.enter(job, JobState.FAILED, self._now_ms(), remark=text)
            else:
                # The one that it was begun on may still have its throttles: the job waits for it.
                self._say(job, text)
            return
        admin = Admin(cluster)
        match job.state:
            case JobState.CONFIRMED:
                await self._look_at_throttles(job, cluster, admin)
            case JobState.THROTTLING:
                await self._throttle(job, admin)
            case JobState.MOVING | JobState.CANCELLING:
                if job.kind is JobKind.ELECTION:
                    await self._elect(job, cluster, admin)
                else:
                    await self._move(job, cluster, admin)
            case JobState.CLEARING:
                await self._clear(job, admin)
            case _:
                raise AssertionError(f"job {job.number} is {job.state.value}, which is not active")

    # ------------------------------------------------------------------------------------------------------- throttles

    async def _look_at_throttles(self, job: Job, cluster: Cluster, admin: Admin) -> None:
        moves = self._store.moves(job.number)
        if job.throttle is None or not any(move.adding for move in moves):
            self._store.enter(job, JobState.MOVING, self._now_ms())
            return
        async with asyncio.timeout(SEND_TIMEOUT_S):
            live = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
        before = await throttle.look(admin, throttle.resources(moves, live))
        job = self._store.remember_throttles(job, before)
        self._store.enter(job, JobState.THROTTLING, self._now_ms())

    async def _throttle(self, job: Job, admin: Admin) -> None:
        assert job.throttle is not None
        assert job.throttles_before is not None
        moves = [move for move in self._store.moves(job.number) if not move.state.is_over]
        left = []
        for name, settings in throttle.throttles(moves, job.throttle, job.throttles_before).items():
            try:
                await throttle.put(admin, name, settings)
            except RequestError as refused:
                if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                text = f"the throttle of {name} was refused ({refused}): nothing is moved without it"
                self._store.enter(job, JobState.CANCELLING, self._now_ms(), remark=text)
                return
            except (ConnectionFailed, TimeoutError):
                left.append(name)  # It died meanwhile: it copies nothing now, and its setting is put back at the end.
        remark = f"without a throttle on {', '.join(left)}, which does not answer" if left else ""
        self._store.enter(job, JobState.MOVING, self._now_ms(), remark=remark)

    async def _clear(self, job: Job, admin: Admin) -> None:
        waiting = []
        before = job.throttles_before or {}
        if before:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                live = {f"broker {broker.node_id}" for broker in (await admin.describe_cluster()).brokers}
            for name, settings in before.items():
                if name.startswith("broker ") and name not in live:
                    waiting.append(name)
                    continue
                try:
                    await throttle.lift(admin, name, settings)
                except (ConnectionFailed, TimeoutError):
                    waiting.append(name)
                    continue
                job = self._store.forget_throttle(job, name)
        if waiting:
            text = f"{', '.join(waiting)} is down: its throttle is lifted when it is back"
            self._store.say(job, text, self._now_ms())
            return
        self._end(job)

    def _end(self, job: Job) -> None:
        skipped = [move for move in self._store.moves(job.number) if move.state is MoveState.SKIPPED]
        if job.cancelled_by:
            self._store.enter(job, JobState.CANCELLED, self._now_ms(), remark=f"cancelled by {job.cancelled_by}")
        elif skipped:
            text = f"partitions skipped: {len(skipped)}, {skipped[0].partition} first: {skipped[0].remark}"
            self._store.enter(job, JobState.PARTIAL, self._now_ms(), remark=text)
        elif job.remark.startswith("the throttle of"):
            self._store.enter(job, JobState.FAILED, self._now_ms(), remark=job.remark)
        else:
            self._store.enter(job, JobState.DONE, self._now_ms(), remark="")

    # ----------------------------------------------------------------------------------------------------------- moves

    async def _move(self, job: Job, cluster: Cluster, admin: Admin) -> None:
        rows = self._store.moves(job.number)
        open_rows = [row for row in rows if not row.state.is_over]
        if not open_rows:
            self._store.enter(job, JobState.CLEARING, self._now_ms(), remark=job.remark)
            return
        involved = {node_id for row in open_rows for node_id in (*row.before, *row.after)}
        now = await read_partition_states(cluster, [row.partition for row in open_rows], sizes_of=involved)
        next_step = step(
            rows,
            now,
            now_ms=self._now_ms(),
            away_since_ms=self._away_since(job.cluster, involved, now.live),
            is_cancelled=job.state is JobState.CANCELLING,
        )
        self._check_version(job)
        self._store.update_moves(job.number, next_step.rows, self._now_ms())
        if next_step.submit:
            refused = await self._bounded(
                admin.alter_partition_reassignments(next_step.submit), "what became of it is looked at again"
            )
            self._refuse(job, {str(partition): str(error) for partition, error in refused.items()})
        if next_step.call_off:
            await self._bounded(
                admin.alter_partition_reassignments(dict.fromkeys(next_step.call_off)), "it is called off again"
            )
        if job.remark.startswith("the cluster cannot do this now"):
            job = self._store.say(job, "", self._now_ms())
        if next_step.is_over:
            self._store.enter(job, JobState.CLEARING, self._now_ms(), remark=job.remark)

    async def _elect(self, job: Job, cluster: Cluster, admin: Admin) -> None:
        rows = self._store.moves(job.number)
        open_rows = [row for row in rows if not row.state.is_over]
        if not open_rows:
            self._store.enter(job, JobState.CLEARING, self._now_ms())
            return
        now = await read_partition_states(cluster, [row.partition for row in open_rows], sizes_of=())
        self._check_version(job)
        decided = []
        asked: list[MoveRow] = []
        for row in open_rows:
            found = now.partitions.get(row.partition)
            if found is None:
                decided.append(row._replace(state=MoveState.SKIPPED, remark="its topic was deleted"))
            elif found.leader == row.after[0]:
                decided.append(row._replace(state=MoveState.DONE))
            elif job.state is JobState.CANCELLING:
                decided.append(row._replace(state=MoveState.CANCELLED))
            elif found.replicas[0] != row.after[0]:
                decided.append(row._replace(state=MoveState.SKIPPED, remark="another broker is preferred by now"))
            elif len(asked) < ELECTED_AT_ONCE:
                asked.append(row._replace(state=MoveState.SUBMITTING))
        self._store.update_moves(job.number, [*decided, *asked], self._now_ms())
        if not asked:
            return
        outcomes = await self._bounded(
            admin.elect_leaders(ElectionType.PREFERRED, [row.partition for row in asked]), "who leads is looked at"
        )
        elected = []
        for row in asked:
            error = outcomes.get(row.partition)
            if error is None or error.code is ErrorCode.ELECTION_NOT_NEEDED:
                elected.append(row._replace(state=MoveState.DONE))
            else:
                elected.append(row._replace(state=MoveState.SKIPPED, remark=str(error)))
        self._store.update_moves(job.number, elected, self._now_ms())

    async def _bounded(self, request: Awaitable[Answer], then: str) -> Answer:
        """A write with an end. Its outcome is unknown where it raises: the next turn reads what became of it."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                return await request
        except TimeoutError:
            raise ConnectionFailed(f"no answer in {SEND_TIMEOUT_S:g} s; {then}") from None

    def _refuse(self, job: Job, refused: Mapping[str, str]) -> None:
        rows = [row for row in self._store.moves(job.number) if str(row.partition) in refused]
        self._store.update_moves(
            job.number,
            [row._replace(state=MoveState.SKIPPED, remark=refused[str(row.partition)]) for row in rows],
            self._now_ms(),
        )

    def _check_version(self, job: Job) -> None:
        """Nothing is sent for a job that was called off while the cluster was asked."""
        current = self._store.find(job.number)
        if current is None or current.version != job.version:
            raise Stale(f"job {job.number} changed")

    def _away_since(self, cluster: str, brokers: Sequence[int] | set[int], live: frozenset[int]) -> dict[int, int]:
        now_ms = self._now_ms()
        for node_id in brokers:
            if node_id in live:
                self._away.pop((cluster, node_id), None)
            else:
                self._away.setdefault((cluster, node_id), now_ms)
        return {node_id: since for (name, node_id), since in self._away.items() if name == cluster}
