"""Saving a search of messages, and removing one. The page of messages lists them.

Decides what of an address is kept: what a search asks for, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.access.route_rights import rights_of
from kavka.console.look.format import path_part
from kavka.console.messages.saved import LONGEST_NAME, LONGEST_QUERY, Saved, TooMany
from kavka.console.pages.actions import form_values
from kavka.console.pages.messages import KEPT
from kavka.console.rights import Role

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console


def routes(console: Console) -> list[Route]:
    async def save(request: Request) -> Response:
        watch, topic, values = console.cluster(request), request.path_params["topic"], await form_values(request)
        name = " ".join(values.get("name", "").split())
        if not name or len(name) > LONGEST_NAME:
            raise HTTPException(400, f"A search is saved under a name of 1 to {LONGEST_NAME} characters.")
        query = query_to_keep(values.get("query", ""))
        if len(query) > LONGEST_QUERY:
            raise HTTPException(400, f"This search is too long to be saved: at most {LONGEST_QUERY} characters.")
        saved = Saved(
            0,
            name,
            query,
            request.state.user.name,
            is_shared=values.get("shared") == "1",
            saw_all=console.mask_for(request, watch.name, topic) is None,
            at_ms=console.guard.now_ms(),
        )
        try:
            console.saved.save(watch.name, topic, saved)
        except TooMany as full:
            raise HTTPException(409, str(full)) from full
        return _back(request, query)

    async def remove(request: Request) -> Response:
        watch, topic = console.cluster(request), request.path_params["topic"]
        is_admin = rights_of(request).on_topic(watch.name, topic, Role.ADMIN)
        number, user = request.path_params["number"], request.state.user.name
        if not console.saved.remove(watch.name, topic, number, user, is_admin=is_admin):
            raise HTTPException(404, "You have no such search.")
        return _back(request, query_to_keep((await form_values(request)).get("query", "")))

    path = "/c/{cluster}/topics/{topic}/messages/saved"
    return [Route(path, save, methods=["POST"]), Route(f"{path}/{{number:int}}/remove", remove, methods=["POST"])]


def query_to_keep(query: str) -> str:
    """What a search asks for, of the query of an address: no place to go on at, nothing that is no search's."""
    return urlencode([(name, value) for name, value in parse_qsl(query[: 4 * LONGEST_QUERY]) if name in KEPT])


def _back(request: Request, query: str) -> Response:
    cluster, topic = (path_part(request.path_params[name]) for name in ("cluster", "topic"))
    return RedirectResponse(f"/c/{cluster}/topics/{topic}/messages" + (f"?{query}" if query else ""), 303)
