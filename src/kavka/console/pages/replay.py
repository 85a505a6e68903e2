"""The form, preview and outcome of copying records (actions/replay.py), as the action pages have them.

Decides with whose eyes records are read: those of who asks, whose right to read the source's messages is asked for
here. The table of rights asks for a role, and the form for that on the topic that is written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Route

from kavka.console.access.route_rights import reads_values
from kavka.console.access.turns import ends_with_visitor, visitor_of
from kavka.console.actions.replay import MOST_REPLAYED, Masks, Replay
from kavka.console.masks import mask_of
from kavka.console.pages.actions import ActionPages, form_values

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console
    from kavka.console.messages.search import Chosen


def routes(console: Console) -> list[Route]:
    async def form(request: Request) -> Response:
        # Each box of the list of messages sends a `record`; the form keeps them as one text.
        said = request.query_params
        chosen = said.getlist("record")[: MOST_REPLAYED + 1]
        values = {**said, "records": ",".join(chosen)} if chosen else dict(said)
        _check_source(request, values.get("source", "").strip())
        return await ActionPages(console, _action(console, request)).form(request, values)

    async def submitted(request: Request) -> Response:
        _check_source(request, (await form_values(request)).get("source", "").strip())
        return await ActionPages(console, _action(console, request)).submitted(request)

    async def sent(request: Request) -> Response:
        # Reading for a preview ends with its visitor. What is being written does not: the audit log has it begun.
        is_run = (await form_values(request)).get("step") == "run"
        return await (submitted if is_run else ends_with_visitor(submitted))(request)

    path = f"/c/{{cluster}}/do/{Replay.name}"
    return [
        Route(path, form, methods=["GET"]),
        Route(path, sent, methods=["POST"]),
    ]


def _check_source(request: Request, source: str) -> None:
    """Raises HTTPException where who asks may not read what is to be copied."""
    if source and not reads_values(request, request.path_params["cluster"], source):
        raise HTTPException(403, f"You have no right to read the messages of {source}, and so none to copy them.")


def _action(console: Console, request: Request) -> Replay:
    watch = console.cluster(request)

    async def read(topic: str, places: Sequence[tuple[int, int]]) -> list[Chosen]:
        mask = console.mask_for(request, watch.name, topic)
        return await console.readers.of(watch).chosen(topic, places, visitor_of(request), mask=mask)

    masks = Masks(
        lambda topic: console.mask_for(request, watch.name, topic),
        lambda topic: mask_of(console.settings.masks, watch.name, topic),
    )
    return Replay(read, masks)
