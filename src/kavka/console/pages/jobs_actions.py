"""The pages of jobs: what is to be planned, a plan with its effect, a job under way, and what may be done with it.

Decides what is asked and shown. Must not know how a plan is made (jobs/plan.py) nor how a job is carried
out (jobs/runner.py).

A plan is written down before anybody agrees to it, so two operators look at the same one; whoever acts names the
version he saw, and the second is told what the first did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kavka.console.access.audit import AlreadyDone, Outcome
from kavka.console.access.guard import address_of
from kavka.console.actions.action import ActionRefused, Field, Values, text, whole
from kavka.console.jobs.audit import JobAction, close_entry, open_entry, run_key
from kavka.console.jobs.inventory import read_inventory
from kavka.console.jobs.plan import (
    Impossible,
    Inventory,
    JobKind,
    JobPlan,
    Move,
    command_lines,
    plan_decommission,
    plan_election,
    plan_file,
    plan_reassign,
    plan_replication_factor,
    plan_undo,
    undo_file,
)
from kavka.console.jobs.store import Busy, Job, JobState, MoveState, Stale
from kavka.console.look.format import path_part, visible
from kavka.console.look.view import cut, links
from kavka.console.pages.actions import check_reachable, check_writable, form_values
from kavka.errors import KavkaError

if TYPE_CHECKING:
    from starlette.requests import Request

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

MIB = 1 << 20
DEFAULT_THROTTLE_MIB = "50"
MOST_THROTTLE_MIB = 1_000_000
TITLES = {
    JobKind.REASSIGN: "Reassign partitions",
    JobKind.REPLICATION_FACTOR: "Change the replication factor",
    JobKind.DECOMMISSION: "Decommission a broker",
    JobKind.ELECTION: "Preferred leaders lead again",
}


def routes(console: Console) -> list[Route]:
    found = []
    for kind in TITLES:
        pages = _PlanPages(console, kind)
        path = f"/c/{{cluster}}/do/{kind.value}"
        found += [Route(path, pages.form, methods=["GET"]), Route(path, pages.submitted, methods=["POST"])]

    async def job(request: Request) -> Response:
        return _job(console, request, _found(console, request))

    async def act(request: Request) -> Response:
        return await _act(console, request)

    async def plan(request: Request) -> Response:
        chosen = _found(console, request)
        moves = [Move(row.partition, row.before, row.after) for row in console.jobs.moves(chosen.number)]
        body = undo_file(moves) if request.path_params["file"] == "undo" else plan_file(moves)
        name = f"job-{chosen.number}-{request.path_params['file']}.json"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(body, media_type="application/json", headers=headers)

    path = "/c/{cluster}/jobs/{number:int}"
    return [
        *found,
        Route(path, job, methods=["GET"]),
        Route(f"{path}/files/{{file}}", plan, methods=["GET"]),
        Route(f"{path}/{{what}}", act, methods=["POST"]),
    ]


# ------------------------------------------------------------------------------------------------------------ planning


class _PlanPages:
    """Form and plan of one kind of job."""

    def __init__(self, console: Console, kind: JobKind) -> None:
        self._console = console
        self._kind = kind

    async def form(self, request: Request) -> Response:
        watch = self._console.cluster(request)
        check_writable(watch)
        return self._form(request, watch, dict(request.query_params))

    async def submitted(self, request: Request) -> Response:
        watch = self._console.cluster(request)
        check_writable(watch)
        values = await form_values(request)
        check_reachable(watch)
        try:
            throttle = None if self._kind is JobKind.ELECTION else said_throttle(values)
            return await keep_plan(
                self._console, request, watch, throttle, lambda found: self._plan(found, values, throttle)
            )
        except NothingToMove:
            return self._form(request, watch, values, problem=_nothing(self._kind), status=200)
        except (ActionRefused, Impossible) as refused:
            return self._form(request, watch, values, problem=str(refused), status=400)
        except (KavkaError, TimeoutError) as failed:
            text_ = f"the cluster could not be read: {failed or 'it did not answer in time'}"
            return self._form(request, watch, values, problem=text_, status=503)

    def _plan(self, found: Inventory, values: Values, throttle: int | None) -> JobPlan:
        match self._kind:
            case JobKind.REASSIGN:
                return plan_reassign(found, _topics(values), _brokers(values), throttle=throttle)
            case JobKind.REPLICATION_FACTOR:
                factor = whole(values, "factor", "the number of replicas", least=1, most=1_000)
                return plan_replication_factor(found, _topics(values), factor, throttle=throttle)
            case JobKind.DECOMMISSION:
                return plan_decommission(found, whole(values, "broker", "the broker"), throttle=throttle)
            case JobKind.ELECTION:
                return plan_election(found, _topics(values, may_be_empty=True))
            case JobKind.MOVE:
                raise AssertionError("pages/move_replicas.py has a form of its own for it")

    def _fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        topics = values.get("topics") or values.get("topic", "")
        of_topics = Field("topics", "Topics", "area", topics, "One in each line.", required=True)
        throttle = Field(
            "throttle",
            "Throttle, MiB/s for each broker",
            "decimal",
            values.get("throttle", DEFAULT_THROTTLE_MIB),
            "Copying uses no more than this of each broker. Empty: no limit.",
        )
        match self._kind:
            case JobKind.REASSIGN:
                hint = "For example 1,2,3. Empty: all live brokers."
                return of_topics, Field("brokers", "Brokers", "text", values.get("brokers", ""), hint), throttle
            case JobKind.REPLICATION_FACTOR:
                factor = Field("factor", "Replicas", "number", values.get("factor", "3"), required=True)
                return of_topics, factor, throttle
            case JobKind.DECOMMISSION:
                brokers = tuple(str(broker) for broker in sorted(watch.snapshot.brokers))
                hint = "All its replicas move to other brokers. The job does not stop the broker: do that afterwards."
                return Field("broker", "Broker", "choice", values.get("broker", ""), hint, brokers), throttle
            case JobKind.ELECTION:
                hint = "One in each line. Empty: all topics. Nothing is copied."
                return (of_topics._replace(hint=hint, required=False),)
            case JobKind.MOVE:
                raise AssertionError("pages/move_replicas.py has a form of its own for it")

    def _form(
        self, request: Request, watch: ClusterWatch, values: Values, *, problem: str = "", status: int = 200
    ) -> Response:
        return self._console.show(
            request,
            "job_form.html",
            section="jobs",
            status_code=status,
            title=TITLES[self._kind],
            kind=self._kind,
            fields=self._fields(watch, values),
            problem=visible(problem),
            live=False,
        )


class NothingToMove(Exception):
    """All is as the plan would have it; no plan was written down."""


async def keep_plan(
    console: Console, request: Request, watch: ClusterWatch, throttle: int | None, make: Callable[[Inventory], JobPlan]
) -> Response:
    """Reads the cluster, makes the plan, writes it down as a job that waits for somebody to agree, and leads to its
    page. Raises Impossible, NothingToMove, KavkaError, TimeoutError."""
    rates = {topic.name: topic.in_bytes_per_s or 0.0 for topic in watch.snapshot.topics.values()}
    plan = make(await read_inventory(watch.cluster, rates))
    if not plan.moves and not plan.skipped:
        raise NothingToMove
    number = console.jobs.add(
        watch.name,
        watch.cluster.cluster_id or "",
        plan,
        throttle,
        user=request.state.user.name,
        now_ms=console.guard.now_ms(),
    )
    return RedirectResponse(f"/c/{path_part(watch.name)}/jobs/{number}", 303)


def _nothing(kind: JobKind) -> str:
    if kind is JobKind.ELECTION:
        return "every preferred leader already leads"
    return "nothing to move: all replicas are where they should be"


def _topics(values: Values, *, may_be_empty: bool = False) -> list[str]:
    names = [name.strip() for name in values.get("topics", "").replace(",", "\n").splitlines() if name.strip()]
    if not names and not may_be_empty:
        raise ActionRefused("name at least one topic")
    return names


def _brokers(values: Values) -> list[int]:
    found = []
    for part in values.get("brokers", "").replace(",", " ").split():
        if not part.isdecimal() or len(part) > 9:
            raise ActionRefused(f"{part[:40]!r} is not a broker id")
        found.append(int(part))
    return found


def said_throttle(values: Values) -> int | None:
    """Bytes per second."""
    if not values.get("throttle", "").strip():
        return None
    try:
        said = float(text(values, "throttle", "the throttle"))
    except ValueError:
        said = 0.0
    if not 0.001 <= said <= MOST_THROTTLE_MIB:
        raise ActionRefused("the throttle is a number of MiB/s above 0, or empty for none")
    return int(said * MIB)


# --------------------------------------------------------------------------------------------------------- one job


def _found(console: Console, request: Request) -> Job:
    watch = console.cluster(request)
    job = console.jobs.find(request.path_params["number"])
    if job is None or job.cluster != watch.name:
        raise HTTPException(404, "There is no such job.")
    return job


def _job(console: Console, request: Request, job: Job, *, problem: str = "", status: int = 200) -> Response:
    watch = console.cluster(request)
    rows = console.jobs.moves(job.number)
    counts = {state: sum(row.state is state for row in rows) for state in MoveState}
    total = sum(row.total_bytes for row in rows)
    copied = sum(row.copied_bytes for row in rows)
    over = sum(row.state.is_over for row in rows)
    order = {MoveState.SKIPPED: 0, MoveState.MOVING: 1, MoveState.CALLING_OFF: 1, MoveState.SUBMITTING: 2}
    internal = {topic.name for topic in watch.snapshot.topics.values() if topic.is_internal}
    rows.sort(
        key=lambda row: (order.get(row.state, 3 + row.state.is_over), row.partition.topic in internal, row.partition)
    )
    moves = [Move(row.partition, row.before, row.after) for row in rows]
    return console.show(
        request,
        "job.html",
        section="jobs",
        status_code=status,
        job=job,
        rows=cut(rows, request, size=100),
        counts={state.value: count for state, count in counts.items() if count},
        partitions=len(rows),
        over=over,
        copied=copied,
        total=total,
        percent=int(100 * (copied / total if total else over / len(rows) if rows else 1)),
        events=console.jobs.events(job.number)[-200:],
        commands=command_lines(job.kind, watch.settings.bootstrap, moves, job.throttle),
        can_undo=job.state.is_over and job.kind is not JobKind.ELECTION and counts[MoveState.DONE] > 0,
        whys=job.plan.get("whys", {}),
        can_cancel=job.state in (JobState.CONFIRMED, JobState.THROTTLING, JobState.MOVING),
        problem=visible(problem),
        mib=MIB,
        runs_elsewhere=job.state.is_active and console.runner.is_elsewhere,
        link=links(request),
        live=job.state.is_active,
    )


async def _act(console: Console, request: Request) -> Response:
    """Run, discard, cancel, another throttle, give up: of the version that was seen, or not at all."""
    watch = console.cluster(request)
    check_writable(watch)
    job, values, what = _found(console, request), await form_values(request), request.path_params["what"]
    user, now_ms = request.state.user.name, console.guard.now_ms()
    try:
        version = whole(values, "version", "the version")
        match what:
            case "run":
                await _check_plan(console, watch, job)
                job = console.jobs.confirm(job.number, version, user=user, now_ms=now_ms)
                _write_down(console, request, job, run_key(job), "run")
            case "discard":
                job = console.jobs.discard(job.number, version, user=user, now_ms=now_ms)
            case "cancel":
                job = console.jobs.cancel(job.number, version, user=user, now_ms=now_ms)
                _end_at_once(console, request, job, f"job {job.number} cancel", "cancel")
            case "throttle":
                throttle = said_throttle(values)
                if throttle is None:
                    raise ActionRefused("a job that has a throttle keeps one: name a higher")
                job = console.jobs.set_throttle(job.number, version, throttle, user=user, now_ms=now_ms)
                _end_at_once(console, request, job, f"job {job.number} throttle {job.version}", "throttle")
            case "give-up":
                job = console.jobs.give_up(job.number, version, user=user, now_ms=now_ms)
                close_entry(console.guard.audit, job, console.jobs.moves(job.number), now_ms)
            case "undo":
                check_reachable(watch)
                return await _undo(console, request, watch, job)
            case _:
                raise HTTPException(404, "There is no such thing to do with a job.")
    except (Stale, Busy, AlreadyDone) as late:
        current = _found(console, request)
        return _job(console, request, current, problem=_late(late, current), status=409)
    except NothingToMove:
        text_ = "nothing to undo: all partitions are where they were before"
        return _job(console, request, _found(console, request), problem=text_, status=409)
    except (ActionRefused, Impossible) as refused:
        return _job(console, request, _found(console, request), problem=str(refused), status=409)
    except (KavkaError, TimeoutError) as failed:
        text_ = f"the cluster could not be read: {failed or 'it did not answer in time'}. Nothing was begun."
        return _job(console, request, _found(console, request), problem=text_, status=503)
    console.runner.wake()
    return RedirectResponse(f"/c/{quote(watch.name, safe='')}/jobs/{job.number}", 303)


async def _undo(console: Console, request: Request, watch: ClusterWatch, job: Job) -> Response:
    """Plans the way back of what a job has moved: a job of its own, which somebody has to agree to."""
    if not job.state.is_over or job.kind is JobKind.ELECTION:
        raise ActionRefused("only a job that has moved replicas, and is over, can be undone")
    done = [
        Move(row.partition, row.before, row.after)
        for row in console.jobs.moves(job.number)
        if row.state is MoveState.DONE
    ]
    return await keep_plan(
        console, request, watch, job.throttle, lambda found: plan_undo(found, job.number, done, throttle=job.throttle)
    )


async def _check_plan(console: Console, watch: ClusterWatch, job: Job) -> None:
    """Raises ActionRefused where the partitions are not where the plan found them."""
    if job.state is not JobState.PLANNED:
        raise Stale(f"job {job.number} is {job.state.value}")
    now = await read_inventory(watch.cluster)
    if job.cluster_id and watch.cluster.cluster_id != job.cluster_id:
        raise ActionRefused("another cluster answers under this name now")
    moved = []
    for row in console.jobs.moves(job.number):
        facts = now.partitions.get(row.partition)
        where = () if facts is None else (facts.leader,) if job.kind is JobKind.ELECTION else facts.replicas
        if where != row.before or row.partition in now.under_way:
            moved.append(str(row.partition))
        dead = [each for each in row.adding if each not in now.brokers]
        if dead:
            raise ActionRefused(
                f"broker {dead[0]}, which {row.partition} is to move to, is not alive now: plan it again"
            )
    if moved:
        some = ", ".join(moved[:5]) + (f" and {len(moved) - 5} more" if len(moved) > 5 else "")
        raise ActionRefused(f"the plan is out of date: {some} are not where it found them. Plan it again")


def _late(late: Stale | Busy | AlreadyDone, job: Job) -> str:
    if isinstance(late, Busy):
        return f"job {late.other} of this cluster is under way: one goes on at a time. Wait for it, or cancel it"
    who = job.cancelled_by or job.confirmed_by
    did = "cancelled" if job.cancelled_by else "confirmed"
    return f"somebody was faster: the job was {did} by {who}. Nothing was done twice" if who else str(late)


def _write_down(console: Console, request: Request, job: Job, key: str, name: str) -> int:
    action = JobAction(key, name, request.state.user.name, address_of(request))
    return open_entry(console.guard.audit, job, console.jobs.moves(job.number), action, console.guard.now_ms())


def _end_at_once(console: Console, request: Request, job: Job, key: str, name: str) -> None:
    number = _write_down(console, request, job, key, name)
    console.guard.audit.end(number, Outcome.COMMITTED, console.guard.now_ms(), after=job.state.value)
