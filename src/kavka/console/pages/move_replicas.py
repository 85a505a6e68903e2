"""The form for moves that an operator chooses: replicas on one broker by check boxes, or a topic by its partitions.

Decides what is asked, and reads the answer. Must not know how a plan is made (jobs/plan.py); what becomes of it is
jobs_actions'. The form shows the console's last look at the cluster; the plan is made from a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.routing import Route

from kavka.console.access.guard import MOST_FIELDS
from kavka.console.actions.action import ActionRefused, Values
from kavka.console.jobs.plan import Impossible, Inventory, JobPlan, plan_as_said, plan_off
from kavka.console.look.format import visible
from kavka.console.look.view import MAX_SEARCH
from kavka.console.pages.actions import check_reachable, check_writable, form_values
from kavka.console.pages.jobs_actions import DEFAULT_THROTTLE_MIB, NothingToMove, keep_plan, said_throttle
from kavka.errors import KavkaError
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console
    from kavka.observe.snapshot import PartitionView

SHOWN: Final = 500
"""Partitions in one form."""
LONGEST_LIST: Final = 1_000
"""Characters of the list of one partition's brokers."""
CHOSEN: Final = "chosen"
TARGET: Final = "target"
REPLICAS: Final = "replicas:"
"""Before the number of a partition: the name of the field with its replicas."""


class Row(NamedTuple):
    """A partition in the form. `said`: what stands in its field, or nothing for a check box."""

    view: PartitionView
    size_bytes: int | None
    is_chosen: bool
    said: str


class Asked(NamedTuple):
    """What the form was sent with. `was_sent`: by somebody who has seen its boxes."""

    values: Values
    chosen: frozenset[str]
    targets: frozenset[str]
    was_sent: bool


def routes(console: Console) -> list[Route]:
    async def form(request: Request) -> Response:
        watch = console.cluster(request)
        check_writable(watch)
        check_reachable(watch)
        return _form(console, request, watch, Asked(dict(request.query_params), frozenset(), frozenset(), False))

    async def submitted(request: Request) -> Response:
        watch = console.cluster(request)
        check_writable(watch)
        values = await form_values(request)
        check_reachable(watch)
        sent = await request.form(max_fields=MOST_FIELDS)
        asked = Asked(values, _texts(sent.getlist(CHOSEN)), _texts(sent.getlist(TARGET)), True)
        try:
            throttle = said_throttle(values)
            return await keep_plan(console, request, watch, throttle, lambda found: _plan(found, asked, throttle))
        except NothingToMove:
            problem, status = "nothing to move: all replicas are where they should be", 200
        except (ActionRefused, Impossible) as refused:
            problem, status = str(refused), 400
        except (KavkaError, TimeoutError) as failed:
            problem, status = f"the cluster could not be read: {failed or 'it did not answer in time'}", 503
        return _form(console, request, watch, asked, problem=problem, status=status)

    path = "/c/{cluster}/do/move"
    return [Route(path, form, methods=["GET"]), Route(path, submitted, methods=["POST"])]


def _plan(found: Inventory, asked: Asked, throttle: int | None) -> JobPlan:
    topic = asked.values.get("topic", "")
    if topic:
        wanted = {
            TopicPartition(topic, _id(name.removeprefix(REPLICAS), "partition")): _ids(said)
            for name, said in asked.values.items()
            if name.startswith(REPLICAS)
        }
        return plan_as_said(found, wanted, throttle=throttle)
    broker = _id(asked.values.get("broker", ""), "broker id")
    chosen = [_partition(name) for name in sorted(asked.chosen)]
    if not asked.targets:
        raise ActionRefused("name at least one broker to move them to")
    return plan_off(found, broker, chosen, [_id(each, "broker id") for each in asked.targets], throttle=throttle)


def _form(
    console: Console, request: Request, watch: ClusterWatch, asked: Asked, *, problem: str = "", status: int = 200
) -> Response:
    snapshot = watch.snapshot
    topic = snapshot.topics.get(asked.values.get("topic", ""))
    said = asked.values.get("broker", "")
    broker = snapshot.brokers.get(int(said)) if said.isdecimal() and len(said) < 10 else None
    wanted = asked.values.get("q", "")[:MAX_SEARCH].strip()
    views: Sequence[PartitionView] = ()
    if topic is not None:
        views = topic.partitions
    elif broker is not None:
        views = [
            each
            for each in snapshot.partitions()
            if broker.broker_id in each.replicas and wanted.lower() in each.topic.lower()
        ]
    begin = asked.values.get("from", "")
    first = int(begin) if begin.isdecimal() and len(begin) < 10 and topic is not None else 0
    shown = [each for each in views if topic is None or each.partition >= first][:SHOWN]
    targets = [each for each in snapshot.alive_brokers if topic is not None or each != broker]
    return console.show(
        request,
        "move_replicas.html",
        section="jobs",
        status_code=status,
        topic=topic,
        broker=broker,
        rows=[_row(each, asked, None if broker is None or topic is not None else broker.broker_id) for each in shown],
        total=len(views),
        left_out=len(views) - len(shown),
        first=first,
        targets=[(each, not asked.was_sent or str(each.broker_id) in asked.targets) for each in targets],
        brokers=sorted(snapshot.brokers),
        topics=list(snapshot.topics)[:SHOWN],
        q=wanted,
        throttle=asked.values.get("throttle", DEFAULT_THROTTLE_MIB),
        problem=visible(problem),
        live=False,
    )


def _row(view: PartitionView, asked: Asked, broker: int | None) -> Row:
    size = max(view.sizes.values(), default=None) if broker is None else view.sizes.get(broker)
    said = asked.values.get(f"{REPLICAS}{view.partition}", ",".join(map(str, view.replicas)))
    return Row(view, size, not asked.was_sent or str(view.name) in asked.chosen, said)


def _texts(values: Sequence[object]) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str))


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, _id(number, "partition"))


def _ids(said: str) -> tuple[int, ...]:
    if len(said) > LONGEST_LIST:
        raise ActionRefused(f"the list of brokers of a partition has at most {LONGEST_LIST} characters")
    return tuple(_id(part, "broker id") for part in said.replace(",", " ").split())


def _id(said: str, what: str) -> int:
    if not said.isdecimal() or len(said) > 9:
        raise ActionRefused(f"{said[:40]!r} is not a {what}")
    return int(said)
