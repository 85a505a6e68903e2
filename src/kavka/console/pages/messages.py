"""The pages of a topic's messages: a search that shows its bounds, one record whole, a live tail.

Decides what an address asks for and how a record becomes a row. Must not know how records are read
(messages/search.py) nor what bytes say (messages/decoding.py).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from kavka.console.access.route_rights import rights_of
from kavka.console.access.turns import TooBusy, ends_with_visitor, visitor_of
from kavka.console.actions.action import ActionRefused
from kavka.console.actions.typed_time import in_utc, time_ms, zone_of_name
from kavka.console.look.format import path_part, visible, zone_name_of
from kavka.console.look.templating import base_context
from kavka.console.look.view import links
from kavka.console.messages.columns import BUILT_IN, Columns, WrongColumn, columns_of
from kavka.console.messages.decoding import Format
from kavka.console.messages.export import MOST_EXPORTED, kinds
from kavka.console.messages.expression import Expression, WrongExpression
from kavka.console.messages.masking import Seen
from kavka.console.messages.readers import TAILS_AT_ONCE, TAILS_OF_ONE, Readers
from kavka.console.messages.search import MOST_SHOWN, SCAN_RECORDS, Filters, Found, Query, Start
from kavka.console.pages.actions import check_reachable
from kavka.console.rights import Role
from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from starlette.requests import Request

    from kavka.console.console import Console
    from kavka.console.masks import TopicMask

LONGEST_FILTER = 1_000
LONGEST_RESUME = 40_000
"""Places in thousands of partitions. Cut, it would pass over some of them."""
BEAT_S = 5.0


def routes(console: Console) -> list[Route]:
    readers = console.readers

    async def messages(request: Request) -> Response:
        return await _messages(console, request, readers)

    async def record(request: Request) -> Response:
        return await _record(console, request, readers)

    async def raw(request: Request) -> Response:
        return await _raw(console, request, readers)

    async def tail(request: Request) -> Response:
        return await _tail(console, request, readers)

    path = "/c/{cluster}/topics/{topic}/messages"
    return [
        Route(path, ends_with_visitor(messages)),
        Route(f"{path}/tail", tail),
        Route(f"{path}/{{partition:int}}/{{offset:int}}", ends_with_visitor(record)),
        Route(f"{path}/{{partition:int}}/{{offset:int}}/{{part}}", ends_with_visitor(raw)),
    ]


async def _messages(console: Console, request: Request, readers: Readers) -> Response:
    watch = console.cluster(request)
    check_reachable(watch)
    topic = request.path_params["topic"]
    mask = console.mask_for(request, watch.name, topic)
    problem, found, query, columns, status = "", None, Query(topic, mask), Columns(), 400
    is_tail = request.query_params.get("start") == "tail"
    try:
        columns = _columns(request)
        query = query_of(request, topic, mask)
        if not is_tail:
            found = await readers.of(watch).search(query, visitor_of(request))
    except (ActionRefused, WrongColumn, WrongExpression) as refused:
        problem = str(refused)
    except RequestError as refused:
        if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not query.partitions:
            raise HTTPException(404, f"There is no topic {topic!r} in {watch.name}.") from refused
        problem = str(refused)
    except TooBusy as busy:
        problem, status = str(busy), 503
    except KavkaError as failed:
        problem = str(failed)
    asked = {name: request.query_params.get(name, "")[:LONGEST_FILTER] for name in _ASKED}
    return console.show(
        request,
        "messages.html",
        section="topics",
        status_code=status if problem else 200,
        topic=topic,
        asked=asked,
        from_ms=query.number if query.start is Start.TIME else None,
        until_ms=query.until_ms or None,
        zone_name=zone_name_of(request),
        found=found,
        problem=visible(problem),
        is_tail=is_tail,
        columns=columns,
        built_in=BUILT_IN,
        pinned=None if found is None else _pinned(request, query, found),
        saved=console.saved.seen_by(watch.name, topic, request.state.user.name, sees_all=mask is None),
        is_admin=rights_of(request).on_topic(watch.name, topic, Role.ADMIN),
        formats=tuple(form.value for form in Format),
        starts=(*(start.value for start in Start), "tail"),
        registry=watch.settings.schema_registry != "",
        expression=query.filters.expression,
        names=readers.of(watch).names_of(topic, mask),
        mask=mask,
        guessed=query.guess and bool(query.filters.key_is) and not query.partitions,
        exports=kinds(),
        most_exported=MOST_EXPORTED,
        most_searched=SCAN_RECORDS,
        resume="" if found is None else places(found.resume),
        link=links(request),
        query=request.url.query,
        live=False,
    )


_ASKED = (
    "start",
    "number",
    "time",
    "until",
    "partition",
    "key",
    "value",
    "header",
    "path",
    "key_is",
    "anywhere",
    "expression",
    "key_as",
    "value_as",
    "n",
    "committed",
    "fields",
)
KEPT = (*_ASKED, "zone", "col")
"""What of an address a saved search keeps."""


def query_of(request: Request, topic: str, mask: TopicMask | None) -> Query:
    """What an address asks for; mask: of who asks. Raises ActionRefused, WrongExpression."""
    said = {name: request.query_params.get(name, "")[:LONGEST_FILTER].strip() for name in _ASKED}
    try:
        start = Start.NEWEST if said["start"] in ("", "tail") else Start(said["start"])
        key_format, value_format = Format(said["key_as"] or "auto"), Format(said["value_as"] or "auto")
    except ValueError as problem:
        raise ActionRefused("there is no such way to look, or to show a key or a value") from problem
    zone = zone_of_name(request.query_params.get("zone", zone_name_of(request)))
    number = 0
    if start is Start.OFFSET:
        number = _number(said["number"], "the offset")
    if start is Start.TIME:
        if not said["time"]:
            raise ActionRefused("from which time?")
        number = time_ms(said["time"], zone)
    partitions = tuple(_number(part, "the partition") for part in said["partition"].split(",") if part.strip())
    if said["key_is"] and mask is not None and mask.touches("key"):
        raise ActionRefused("keys of this topic are masked for you: a record is not found by its whole key")
    return Query(
        topic,
        mask,
        start,
        number,
        time_ms(said["until"], zone) if said["until"] else 0,
        partitions,
        Filters(
            said["key"],
            said["value"],
            said["header"],
            said["path"],
            said["key_is"],
            Expression(said["expression"]) if said["expression"] else None,
        ),
        min(max(_number(said["n"] or "50", "how many"), 1), MOST_SHOWN),
        key_format,
        value_format,
        said["committed"] == "1",
        _said_places(request, "resume"),
        guess=said["anywhere"] != "1",
        columns=_columns(request).fields,
        upto=_said_places(request, "upto"),
    )


def _columns(request: Request) -> Columns:
    return columns_of(request.query_params.getlist("col")[: len(BUILT_IN)], request.query_params.get("fields", ""))


def _said_places(request: Request, name: str) -> dict[int, int]:
    """An offset for each of some partitions: 0:17,3:20."""
    said = request.query_params.get(name, "")
    if len(said) > LONGEST_RESUME:
        raise ActionRefused("this address names too many partitions: choose some")
    found = {}
    for pair in filter(None, said.split(",")):
        partition, _, offset = pair.partition(":")
        found[_number(partition, "the partition")] = _number(offset, "the offset")
    return found


def places(offsets: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in offsets.items())


def _pinned(request: Request, query: Query, found: Found) -> str | None:
    """The address that shows these records again, whatever is written meanwhile; None where it would be too long."""
    begin = {number: looked.looked_from for number, looked in found.ranges.items()}
    end = {number: looked.looked_to for number, looked in found.ranges.items()}
    is_newest = query.start is Start.NEWEST
    resume, upto = (places(end), None) if is_newest else (places(begin), places(end))
    if len(resume) + len(upto or "") > LONGEST_RESUME:
        return None
    times = {
        "time": in_utc(query.number) if query.start is Start.TIME else None,
        "until": in_utc(query.until_ms) if query.until_ms else None,
    }
    return links(request)(resume=resume, upto=upto, start=query.start.value, **times)


def _number(text: str, what: str) -> int:
    text = text.strip()
    if not text.isdecimal() or len(text) > 18:
        raise ActionRefused(f"{what} is {text[:40]!r}: a number from 0 on is needed")
    return int(text)


def attachment(name: str) -> dict[str, str]:
    """Headers of what a browser saves and never shows."""
    safe = "".join(each if (each.isalnum() and each.isascii()) or each in "._-" else "_" for each in name)
    return {
        "content-disposition": f"attachment; filename=\"{safe}\"; filename*=UTF-8''{quote(name)}",
        "content-security-policy": "sandbox; default-src 'none'",
    }


async def _record(console: Console, request: Request, readers: Readers) -> Response:
    """One record, as far as it is shown at all."""
    watch = console.cluster(request)
    found, unread = await _one(console, request, readers)
    reader = readers.of(watch)
    key_as, value_as = (_format(request.query_params.get(name, "auto")) for name in ("key_as", "value_as"))
    headers = [(visible(name), await reader.decoded(value, Format.AUTO)) for name, value in found.headers]
    return console.show(
        request,
        "message.html",
        section="topics",
        topic=found.topic,
        record=found,
        key=await reader.decoded(found.key, key_as),
        value=await reader.decoded(found.value, value_as),
        record_headers=headers,
        formats=tuple(form.value for form in Format),
        key_as=key_as.value,
        value_as=value_as.value,
        mask=console.mask_for(request, watch.name, found.topic),
        unread=unread,
        live=False,
    )


async def _raw(console: Console, request: Request, readers: Readers) -> Response:
    """A key or a value, byte for byte, to be saved: never something that a browser would show."""
    part = request.path_params["part"]
    if part not in ("key", "value"):
        raise HTTPException(404, "A record has a key and a value.")
    mask = console.mask_for(request, request.path_params["cluster"], request.path_params["topic"])
    if mask is not None and mask.touches(part):
        raise HTTPException(403, f"Fields of the {part} are masked for you, and so it cannot be saved byte for byte.")
    found, _ = await _one(console, request, readers)
    data = found.key if part == "key" else found.value
    if data is None:
        raise HTTPException(404, f"The record has no {part}.")
    headers = attachment(f"{found.topic}-{found.partition}-{found.offset}-{part}.bin")
    return Response(data, media_type="application/octet-stream", headers=headers)


async def _one(console: Console, request: Request, readers: Readers) -> Seen:
    watch = console.cluster(request)
    place = TopicPartition(request.path_params["topic"], request.path_params["partition"])
    mask = console.mask_for(request, watch.name, place.topic)
    found = await readers.of(watch).one(place, request.path_params["offset"], visitor_of(request), mask=mask)
    if found is None:
        raise HTTPException(404, "There is no such record: deleted, compacted away, or not written yet.")
    return found


async def _tail(console: Console, request: Request, readers: Readers) -> Response:
    """New records as server-sent events: `record` with a row of the table, `left-out` with a number, `beat`."""
    watch, topic = console.cluster(request), request.path_params["topic"]
    mask = console.mask_for(request, watch.name, topic)
    try:
        query, columns = query_of(request, topic, mask), _columns(request)
    except (ActionRefused, WrongColumn, WrongExpression) as refused:
        raise HTTPException(400, str(refused)) from refused
    template = console.templates.get_template("_message_row.html")
    known = {
        **base_context(request),
        "base": f"/c/{path_part(watch.name)}",
        "topic": topic,
        "mask": mask,
        "columns": columns,
        "can_copy": False,
    }

    async def events() -> AsyncIterator[str]:
        try:
            yield _event("beat", {"at_ms": int(time.time() * 1000)})
            async for found in _with_beats(readers.of(watch).tail(query)):
                if found is None:
                    # The consumer waits for a cluster that does not answer: its reader is told why nothing comes.
                    why = "" if watch.snapshot.is_reachable else watch.snapshot.why
                    yield _event("beat", {"at_ms": int(time.time() * 1000), "away": visible(why)})
                elif isinstance(found, int):
                    yield _event("left-out", {"n": found})
                else:
                    yield _event("record", {"html": template.render({**known, "message": found})})
        except KavkaError as problem:
            yield _event("gone", {"why": visible(problem)})

    stream = readers.tails.stream(events(), visitor_of(request))
    if stream is None:
        n, own = TAILS_AT_ONCE, TAILS_OF_ONE
        raise HTTPException(503, f"At most {n} live tails are open at a time, {own} of one visitor: close another.")
    return stream


async def _with_beats(records: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The records, and None where none came for a while, so that a reader who left is noticed."""
    waiting = asyncio.ensure_future(anext(records))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=BEAT_S)
            if not done:
                yield None
                continue
            yield waiting.result()
            waiting = asyncio.ensure_future(anext(records))
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _format(name: str) -> Format:
    try:
        return Format(name)
    except ValueError:
        return Format.AUTO
