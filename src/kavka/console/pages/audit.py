"""The page of the audit log: who did what, how it came out, what was there before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.access.audit import PAGE_ROWS
from kavka.console.access.route_rights import rights_of
from kavka.console.pages.actions import entry_for
from kavka.console.rights import Role

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

LONGEST_SEARCH = 200


def routes(console: Console) -> list[Route]:
    async def audit(request: Request) -> Response:
        query = {name: request.query_params.get(name, "")[:LONGEST_SEARCH] for name in ("cluster", "user", "q")}
        before = request.query_params.get("before", "")
        entries = console.guard.audit.entries(
            cluster=query["cluster"],
            of=_shown(console, request),
            user=query["user"],
            text=query["q"],
            before_number=int(before) if before.isdecimal() and len(before) < 18 else 0,
            limit=PAGE_ROWS,
        )
        return console.render(
            request,
            "audit.html",
            entries=entries,
            query=query,
            older=entries[-1].number if len(entries) == PAGE_ROWS else None,
            live=False,
        )

    async def entry(request: Request) -> Response:
        found = console.guard.audit.find(request.path_params["number"])
        of = _shown(console, request)
        if found is None or (of is not None and found.cluster not in of):
            raise HTTPException(404, "There is no such entry.")
        return console.render(
            request, "audit_entry.html", entry=entry_for(console, request, found), link="", live=False
        )

    return [Route("/audit", audit), Route("/audit/{number:int}", entry)]


def _shown(console: Console, request: Request) -> list[str] | None:
    """The clusters whose entries are shown to who asks. None: all entries, also those of no cluster, as of logins."""
    rights = rights_of(request)
    if rights.everywhere(Role.OPERATOR):
        return None
    return [watch.name for watch in console.clusters if rights.on_all_topics(watch.name, Role.OPERATOR)]
