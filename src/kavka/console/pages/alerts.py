"""The page of alerts: what fires, which rules there are and whether they reach anybody, silences.

Decides what an address asks for. Must not know when something is told (alerts/book.py), nor show an address or a key of
a receiver, which are secrets.
"""

from __future__ import annotations

import glob
import secrets
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.access.audit import AuditRecord, Outcome
from kavka.console.access.guard import address_of
from kavka.console.alerts.book import Silence, is_silenced
from kavka.console.look.format import path_part
from kavka.console.look.view import cut, links
from kavka.console.pages.actions import form_values

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

HOURS: Final = (1, 4, 24, 72, 168)
"""How long a silence may last, as the form offers it."""
LONGEST: Final = 200


class _Pages:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._keeper = console.alerts

    async def alerts(self, request: Request) -> Response:
        return self._show(request)

    async def silence(self, request: Request) -> Response:
        watch, at_ms = self._console.cluster(request), self._console.guard.now_ms()
        said = await form_values(request)
        pattern, why, hours = (said.get(name, "").strip()[:LONGEST] for name in ("pattern", "why", "hours"))
        if not pattern or hours not in map(str, HOURS):
            return self._show(request, problem="say what is silenced, and for how long", status=400)
        wanted = Silence(0, watch.name, pattern, at_ms + int(hours) * 3_600_000, request.state.user.name, why)
        try:
            self._keeper.book.silence(wanted, at_ms)
        except ValueError as refused:
            return self._show(request, problem=str(refused), status=400)
        return self._done(request, "silence", f"alerts {pattern}", f"{hours} h: {why}")

    async def end(self, request: Request) -> Response:
        number = int(request.path_params["number"])
        self._keeper.book.end_silence(number, self._console.cluster(request).name)
        return self._done(request, "end-silence", f"silence {number}", "")

    async def test(self, request: Request) -> Response:
        watch, said = self._console.cluster(request), await form_values(request)
        rule = next((each for each in self._keeper.of(watch.name) if each.name == said.get("rule")), None)
        if rule is None:
            raise HTTPException(404, "There is no such rule.")
        await self._keeper.test(rule, watch.name)
        return self._done(request, "test-alert", f"rule {rule.name}", "")

    def _show(self, request: Request, *, problem: str = "", status: int = 200) -> Response:
        watch, at_ms, book = self._console.cluster(request), self._console.guard.now_ms(), self._keeper.book
        silences = book.silences(at_ms, watch.name)
        found = [(each, is_silenced(each, silences), glob.escape(each.key)) for each in book.alerts(watch.name)]
        return self._console.show(
            request,
            "alerts.html",
            section="alerts",
            status_code=status,
            alerts=cut(found, request),
            rules=self._keeper.of(watch.name),
            last=self._keeper.last,
            silences=silences,
            hours=HOURS,
            pattern=request.query_params.get("pattern", "")[:LONGEST],
            problem=problem,
            link=links(request),
        )

    def _done(self, request: Request, action: str, target: str, wanted: str) -> Response:
        """Written down, and back to the page."""
        guard, watch = self._console.guard, self._console.cluster(request)
        now_ms = guard.now_ms()
        key = f"{action} {now_ms} {secrets.token_urlsafe(9)}"
        record = AuditRecord(key, request.state.user.name, address_of(request), watch.name, action, target, "", wanted)
        guard.audit.record(record, Outcome.COMMITTED, now_ms)
        return RedirectResponse(f"/c/{path_part(watch.name)}/alerts", 303)


def routes(console: Console) -> list[Route]:
    pages, place = _Pages(console), "/c/{cluster}/alerts"
    return [
        Route(place, pages.alerts, methods=["GET"]),
        Route(f"{place}/silences", pages.silence, methods=["POST"]),
        Route(f"{place}/silences/{{number:int}}/end", pages.end, methods=["POST"]),
        Route(f"{place}/test", pages.test, methods=["POST"]),
    ]
