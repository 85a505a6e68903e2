"""What a search for messages finds, as a file: at once, or told of as it comes.

Decides when a file is whole. Must not know how records are found, nor the forms of files (messages/export.py).

    plain       the file, whose name says `part` where the search stopped at a bound before its end
    progress=1  for the page's script: lines of JSON, and after each line with "part" as many bytes of the file

        {"records": 9, "found": 3, "bytes": 700}     how far the search is; no bytes for whom something is masked
        {"part": 12}                                 and 12 bytes
        {"end": 12, "name": "a.csv", "records": 3, "rest": "0:9"}   all of it; rest: where another search goes on
        {"problem": "..."}                           there is no file

I1  A file that was cut off is never taken for a whole one: plain, its last chunk is missing; with progress, its end.
I2  Who closes the connection has no search under way any more.
I3  Others have a turn after ROWS_A_TURN records.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from kavka.console.access.turns import ends_with_visitor, visitor_of
from kavka.console.actions.action import ActionRefused
from kavka.console.look.format import visible
from kavka.console.look.i18n import language_of, translator
from kavka.console.messages.columns import WrongColumn
from kavka.console.messages.export import MOST_EXPORTED, Kind, Row, kinds, lines, parquet
from kavka.console.messages.expression import WrongExpression
from kavka.console.messages.search import Budget
from kavka.console.pages.actions import check_reachable
from kavka.console.pages.messages import attachment, places, query_of
from kavka.errors import KavkaError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from kavka.console.console import Console
    from kavka.console.messages.search import Found, Messages, Query

TOLD_EVERY_S: Final = 0.25
ROWS_A_TURN: Final = 50
PART_BYTES: Final = 256 * 1024


def routes(console: Console) -> list[Route]:
    async def export(request: Request) -> Response:
        return await _export(console, request)

    return [Route("/c/{cluster}/topics/{topic}/messages/export", export)]


async def _export(console: Console, request: Request) -> Response:
    watch, topic = console.cluster(request), request.path_params["topic"]
    check_reachable(watch)
    said = request.query_params.get("format", "")
    if said not in kinds():
        raise HTTPException(404, f"There is no such format here: {', '.join(kinds())}.")
    try:
        query = query_of(request, topic, console.mask_for(request, watch.name, topic))._replace(
            whole=True, limit=MOST_EXPORTED
        )
    except (ActionRefused, WrongColumn, WrongExpression) as refused:
        raise HTTPException(400, str(refused)) from refused
    reader, kind = console.readers.of(watch), Kind(said)
    if request.query_params.get("progress") == "1":
        return _Told(_told(request, reader, query, kind))
    return await ends_with_visitor(lambda asked: _file(asked, reader, query, kind))(request)


async def _file(request: Request, reader: Messages, query: Query, kind: Kind) -> Response:
    found = await reader.search(query, visitor_of(request))
    rows = await _rows(reader, query, found)
    headers = {
        **attachment(_name(query.topic, kind, found)),
        "x-kavka-records": str(len(rows)),
        "x-kavka-resume": places(found.resume),
    }
    if kind is Kind.PARQUET:
        return Response(await asyncio.to_thread(parquet, rows), media_type=kind.media_type, headers=headers)
    return StreamingResponse(lines(rows, kind), media_type=kind.media_type, headers=headers)


class _Told(StreamingResponse):
    """Ends what it streams when it ends itself, and not when garbage is collected."""

    def __init__(self, content: AsyncGenerator[bytes]) -> None:
        super().__init__(content, media_type="application/octet-stream", headers={"x-accel-buffering": "no"})
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._content.aclose()


async def _told(request: Request, reader: Messages, query: Query, kind: Kind) -> AsyncGenerator[bytes]:
    budget = Budget()
    search = asyncio.ensure_future(reader.search(query, visitor_of(request), budget))
    try:
        while not search.done():
            yield _line(_how_far(query, budget))
            await asyncio.wait({search}, timeout=TOLD_EVERY_S)
        found = search.result()
        yield _line(_how_far(query, budget))
        rows = await _rows(reader, query, found)
        size = 0
        parts = _parts(rows, kind)
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            size += len(part)
            yield _line({"part": len(part)}) + part
        told = {"name": _name(query.topic, kind, found), "records": len(rows), "rest": places(found.resume)}
        yield _line({"end": size, "type": kind.media_type, **told})
    except KavkaError as failed:
        why = Markup(translator(language_of(request)).plain(str(failed))).unescape()
        yield _line({"problem": visible(why)})
    finally:
        search.cancel()
        await asyncio.gather(search, return_exceptions=True)


def _how_far(query: Query, budget: Budget) -> dict[str, Any]:
    told = {"records": budget.records, "found": budget.found}
    return told if query.mask is not None else {**told, "bytes": budget.bytes}


async def _rows(reader: Messages, query: Query, found: Found) -> list[Row]:
    rows = []
    for number, each in enumerate(found.messages, start=1):
        if each.record is not None:
            key = await reader.decoded(each.record.key, query.key_format)
            rows.append(Row(each.record, key, await reader.decoded(each.record.value, query.value_format)))
        if number % ROWS_A_TURN == 0:
            await asyncio.sleep(0)
    return rows


def _parts(rows: list[Row], kind: Kind) -> Iterator[bytes]:
    whole = iter((parquet(rows),)) if kind is Kind.PARQUET else lines(rows, kind)
    for piece in whole:
        for start in range(0, len(piece), PART_BYTES):
            yield piece[start : start + PART_BYTES]


def _name(topic: str, kind: Kind, found: Found) -> str:
    return f"{topic}{'.part' if found.resume else ''}.{kind.value}"


def _line(told: dict[str, Any]) -> bytes:
    return json.dumps(told).encode() + b"\n"
