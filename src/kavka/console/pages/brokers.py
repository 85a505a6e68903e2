"""The pages of brokers: all of them with the controller, and one: its logs, its requests' times, its partitions.

Decides what is said of a broker. What a broker does not tell (request times need its metrics endpoint) is shown as
unknown with the reason. Must not know how any of it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from kavka.console.console import absent
from kavka.console.history import Series
from kavka.console.look import charts, history_charts
from kavka.console.look.decision_text import describe_folded, fold
from kavka.console.look.replica_history import health_of, risks_of
from kavka.console.look.view import cut, judged, links, look_of
from kavka.decisions import DecisionKind

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console
    from kavka.console.look.charts import Look
    from kavka.observe.snapshot import BrokerView, PartitionView

CONTROLLERS_TOLD: Final = 10
APIS_DRAWN: Final = 12
HELD_SIZE: Final = 50
"""Partitions on a page of a broker."""
HOLDS: Final = ("led", "followed", "out", "preferred")


def routes(console: Console) -> list[Route]:
    async def brokers(request: Request) -> Response:
        return await _brokers(console, request)

    async def broker(request: Request) -> Response:
        return await _broker(console, request)

    return [Route("/c/{cluster}/brokers", brokers), Route("/c/{cluster}/brokers/{broker:int}", broker)]


async def _brokers(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    look, window = look_of(request), history_charts.window_of(request)
    _ = look.translate
    found = sorted(watch.snapshot.brokers.values(), key=lambda each: each.broker_id)
    controllers = (DecisionKind.CONTROLLER_ELECTED, DecisionKind.CONTROLLER_RESIGNED)
    changes = watch.decisions.recent(limit=CONTROLLERS_TOLD, matches=lambda each: each.decision.kind in controllers)
    lines = [(str(_("broker {n}", n=each.broker_id)), Series.BROKER_BYTES_IN, str(each.broker_id)) for each in found]
    known = len(watch.decisions) or not watch.decisions.reading.unknown_because
    return console.show(
        request,
        "brokers.html",
        section="brokers",
        brokers=found,
        window=window,
        safe={risk.broker: risk for risk in risks_of(watch.snapshot)},
        controllers=describe_folded(fold(changes), watch.name, look) if known else None,
        chart=await history_charts.chart(
            watch, str(_("Bytes written to the partitions each broker leads")), lines, look, window, unit="B/s"
        ),
        link=links(request),
    )


async def _broker(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    snapshot, broker_id = watch.snapshot, int(request.path_params["broker"])
    found = snapshot.brokers.get(broker_id)
    if found is None:
        raise absent(watch, f"There is no broker {broker_id} in {watch.name}, and no replica is assigned to one.")
    look, window = look_of(request), history_charts.window_of(request)
    _ = look.translate
    holds = request.query_params.get("holds", "")
    if holds not in HOLDS:
        holds = ""
    partitions = [each for each in snapshot.partitions() if _is_held(each, broker_id, holds)]
    bytes_in = [(str(_("bytes in")), Series.BROKER_BYTES_IN, str(broker_id))]
    return console.show(
        request,
        "broker.html",
        section="brokers",
        broker=found,
        risk=next((each for each in risks_of(snapshot) if each.broker == broker_id), None),
        rows=judged(cut(partitions, request, size=HELD_SIZE), lambda each: (each, health_of(each))),
        holds=holds,
        link=links(request),
        window=window,
        requests=_requests(found, look),
        chart=await history_charts.chart(
            watch, str(_("Bytes written to the partitions it leads")), bytes_in, look, window, unit="B/s"
        ),
        stories=history_charts.decision_texts(watch, look, broker=broker_id),
    )


def _is_held(each: PartitionView, broker_id: int, holds: str) -> bool:
    match holds:
        case "led":
            return each.leader == broker_id
        case "preferred":
            return each.preferred_leader == broker_id
        case "followed":
            return broker_id in each.replicas and each.leader != broker_id
        case "out":
            return broker_id in each.out_of_sync
    return broker_id in each.replicas


def _requests(broker: BrokerView, look: Look) -> Markup | None:
    """Where the time of its requests goes; None where its metrics are not known."""
    if broker.metrics is None:
        return None
    _ = look.translate
    often = sorted(broker.metrics.request_times, key=lambda each: -each.count)[:APIS_DRAWN]
    rows = [
        (
            each.api,
            [
                (str(_("queue")), each.queue_ms),
                (str(_("local")), each.local_ms),
                (str(_("remote")), each.remote_ms),
                (str(_("throttle")), each.throttle_ms),
                (str(_("response queue")), each.response_queue_ms),
                (str(_("send")), each.send_ms),
            ],
        )
        for each in often
    ]
    return charts.split(
        str(_("Where the time of a request goes: mean since the broker started")), rows, look, unit="ms"
    )
