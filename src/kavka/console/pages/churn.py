"""The page of churn: which brokers leave and join ISRs and are elected, how often and why, as the isr-churn pipeline
counts it. Where no pipeline has written anything it says how to have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.access.route_rights import reads_values
from kavka.console.look import charts
from kavka.console.look.view import cut, links, look_of
from kavka.console.pages.actions import check_reachable
from kavka.console.sources.churn import TOPIC, Churn, ChurnReader, lines, sums
from kavka.errors import KavkaError
from kavka.observe.snapshot import Part

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

LONGEST_TOPIC: Final = 249


def routes(console: Console) -> list[Route]:
    readers: WeakKeyDictionary[ClusterWatch, ChurnReader] = WeakKeyDictionary()

    async def churn(request: Request) -> Response:
        return await _churn(console, request, readers)

    return [Route("/c/{cluster}/churn", churn)]


async def _churn(console: Console, request: Request, readers: WeakKeyDictionary[ClusterWatch, ChurnReader]) -> Response:
    watch, look = console.cluster(request), look_of(request)
    topic = request.query_params.get("topic", "")[:LONGEST_TOPIC].strip() or TOPIC
    if topic != TOPIC and not reads_values(request, watch.name, topic):
        raise HTTPException(403, f"To read {topic} as windows of churn takes the right to read its values.")
    if topic != TOPIC and console.mask_for(request, watch.name, topic) is not None:
        raise HTTPException(
            403, f"Fields of messages of {topic} are masked, and so it is not read as windows of churn."
        )
    found, is_missing, problem = Churn((), 0, 0), False, ""
    reader = readers.get(watch)
    if reader is None:
        reader = readers[watch] = ChurnReader(watch.cluster)
    if watch.snapshot.reading(Part.METADATA).is_known and topic not in watch.snapshot.topics:
        is_missing = True
    else:
        try:
            check_reachable(watch)
            found = await reader.read(topic)
        except KavkaError as failed:
            problem = str(failed)
    _ = look.translate
    names = {"shrinks": _("left the ISR"), "expansions": _("joined the ISR"), "elections": _("was elected")}
    chart = charts.lines(_("Changes in each window"), lines(found.windows, names), look, unit=_("changes"))
    return console.show(
        request,
        "churn.html",
        section="decisions",
        topic=topic,
        is_missing=is_missing,
        problem=problem,
        churn=found,
        chart=chart,
        sums=sums(found.windows),
        page=cut(found.windows, request),
        link=links(request),
    )
