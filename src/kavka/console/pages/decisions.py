"""The page of decisions: a time line of the brokers' why-records, with a filter; one record with what led to it.

Decides how a search is understood: a subject (`orders-3`, `broker 2`, `group g`, `controller`), or words of a record.
Where a cluster keeps no such records, what the console itself saw of its ISRs is shown: it has times, but no reasons.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.look import history_charts
from kavka.console.look.decision_text import causes_of, describe, describe_folded, fold, of_broker
from kavka.console.look.view import cut, links, look_of, search
from kavka.decisions import DecisionKind
from kavka.errors import StorageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console
    from kavka.console.history import IsrChange
    from kavka.decisions import RecordedDecision

PAGE_SIZE: Final = 50
SEEN: Final = 200
CAUSES: Final = 8
AFTER_MS: Final = 10_000
"""How long after a decision others about the same thing belong to its story."""
DAY_MS: Final = 86_400_000


def routes(console: Console) -> list[Route]:
    async def decisions(request: Request) -> Response:
        return await _decisions(console, request)

    async def decision(request: Request) -> Response:
        return _decision(console, request)

    return [Route("/c/{cluster}/decisions", decisions), Route("/c/{cluster}/decisions/{decision}", decision)]


async def _decisions(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    look = look_of(request)
    wanted, kind = search(request), request.query_params.get("kind", "")
    tells = len(watch.decisions) > 0 or not watch.decisions.reading.unknown_because
    found = select(watch.decisions.recent(limit=history_charts.MOST_LOOKED_AT), wanted, kind)
    page = cut(fold(found), request, size=PAGE_SIZE)
    return console.show(
        request,
        "decisions.html",
        section="decisions",
        tells=tells,
        why_not=watch.decisions.reading.unknown_because,
        page=page,
        stories=describe_folded(page.items, watch.name, look),
        seen=[] if tells else await _seen(watch),
        q=wanted,
        kind=kind,
        kinds=[each.value for each in DecisionKind],
        link=links(request),
    )


def select(everything: list[RecordedDecision], wanted: str, kind: str) -> list[RecordedDecision]:
    """Those of this kind whose subject is meant, or that have all the words somewhere; the order stays."""
    found = [each for each in everything if not kind or each.decision.kind.value == kind]
    if not wanted:
        return found
    name, _space, number = wanted.partition(" ")
    if name == "broker" and number.isdecimal():
        return of_broker(found, int(number))
    exact = [each for each in found if each.decision.subject == wanted]
    if exact:
        return exact
    words = wanted.lower().split()
    return [each for each in found if all(word in _text(each) for word in words)]


def _text(recorded: RecordedDecision) -> str:
    decision = recorded.decision
    values = (*decision.before.values(), *decision.after.values(), *decision.evidence.values())
    return " ".join((decision.subject, decision.kind.value, decision.why, *map(str, values))).lower()


async def _seen(watch: ClusterWatch) -> list[IsrChange]:
    """The latest first."""
    now_ms = time.time_ns() // 1_000_000
    try:
        changes = await watch.history.isr_changes(since_ms=now_ms - DAY_MS, until_ms=now_ms, limit=SEEN)
    except StorageError:
        return []
    return changes[::-1]


def _decision(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    look = look_of(request)
    found = watch.decisions.find(request.path_params["decision"])
    if found is None:
        raise HTTPException(404, "There is no such decision here, or it is older than those that the console keeps.")
    at_ms, subject = found.decision.at_ms, found.decision.subject
    everything = watch.decisions.recent(limit=history_charts.MOST_LOOKED_AT)
    after = [
        each
        for each in everything
        if each.decision.subject == subject and 0 <= each.decision.at_ms - at_ms <= AFTER_MS and each is not found
    ]
    before = [each for each in causes_of(found.decision, everything) if each is not found]
    return console.show(
        request,
        "decision.html",
        section="decisions",
        story=describe(found, watch.name, look),
        causes=describe_folded(fold(before)[:CAUSES], watch.name, look),
        after=describe_folded(fold(reversed(after))[:CAUSES], watch.name, look),
    )
