"""The page of requests: how many of each API, where their time goes by stage, which were slow, which throttled.

Decides how far back single requests are looked for, and that what brokers do not tell is said: times by API need their
metrics, single requests their why-records. Must not know how either is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from kavka.console.look import charts
from kavka.console.look.request_times import (
    STAGES,
    ApiTimes,
    by_api,
    causes,
    is_slow,
    is_throttled,
    slow_request,
    throttling,
)
from kavka.console.look.view import cut, links, look_of
from kavka.observe.snapshot import Part

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console
    from kavka.console.look.charts import Look

MOST_LOOKED_AT: Final = 2_000
"""Records of slow requests, and of throttled ones."""
PAGE_SIZE: Final = 50
THROTTLED_SHOWN: Final = 50
APIS_DRAWN: Final = 8
CAUSES_SHOWN: Final = 20


def routes(console: Console) -> list[Route]:
    async def requests(request: Request) -> Response:
        return _requests(console, request)

    return [Route("/c/{cluster}/requests", requests)]


def _requests(console: Console, request: Request) -> Response:
    watch, look = console.cluster(request), look_of(request)
    chosen = request.query_params.get("api", "")[:100]
    apis = by_api(watch.snapshot.alive_brokers)
    slow = [slow_request(each) for each in watch.decisions.recent(limit=MOST_LOOKED_AT, matches=is_slow)]
    throttled = [throttling(each) for each in watch.decisions.recent(limit=THROTTLED_SHOWN, matches=is_throttled)]
    found = [each for each in slow if chosen in ("", each.api)]
    return console.show(
        request,
        "requests.html",
        section="requests",
        apis=apis,
        chart=_chart(apis, look),
        metrics_reading=watch.snapshot.reading(Part.BROKER_METRICS),
        silent=[each.broker_id for each in watch.snapshot.alive_brokers if each.metrics is None],
        tells=len(watch.decisions) > 0 or not watch.decisions.reading.unknown_because,
        why_not=watch.decisions.reading.unknown_because,
        api=chosen,
        known=sorted({each.api for each in slow if each.api}),
        causes=causes(found)[:CAUSES_SHOWN],
        page=cut(found, request, size=PAGE_SIZE),
        throttled=[each for each in throttled if chosen in ("", each.api)],
        link=links(request),
    )


def _chart(apis: list[ApiTimes], look: Look) -> Markup | None:
    """Those that took most time, each split into its stages."""
    if not apis:
        return None
    _ = look.translate
    names = {
        "queue": _("queue"),
        "local": _("local"),
        "remote": _("remote"),
        "throttle": _("throttle"),
        "response queue": _("response queue"),
        "send": _("send"),
    }
    rows = [
        (each.api, [(str(names[stage]), ms) for stage, ms in zip(STAGES, each.stages_ms, strict=True)])
        for each in apis[:APIS_DRAWN]
    ]
    title = _("Where the time of a request goes: mean since the brokers started")
    return charts.split(str(title), rows, look, unit="ms")
