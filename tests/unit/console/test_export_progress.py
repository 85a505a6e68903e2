"""A file that is told of as it comes: how far the search is, its parts, its end, and never a part that looks whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("starlette")

from starlette.requests import ClientDisconnect, Request

from kavka.client.consumer import ConsumerRecord
from kavka.console.masks import TopicMask
from kavka.console.messages.decoding import Format, decode
from kavka.console.messages.export import Kind
from kavka.console.messages.search import Budget, Found, Message, Query
from kavka.console.pages import exports
from kavka.console.pages.exports import _file, _Told, _told
from kavka.errors import ConnectionFailed
from kavka.records.batch import TimestampType

ASKED = Request(
    {"type": "http", "headers": [], "query_string": b"", "path": "/", "client": ("10.0.0.7", 1), "state": {}}
)


def message(offset: int) -> Message:
    record = ConsumerRecord("t", 0, offset, 1_000, b"k", b"v" * 10, (), TimestampType.CREATE_TIME, 0)
    shown = decode(b"v")
    return Message(0, offset, 1_000, shown, shown, (), 0, record)


class Reader:
    """Finds records after `steps` moments; `rest` is where it stopped; fails where it is told to."""

    def __init__(self, records: int, *, rest: int | None = None, fails: Exception | None = None) -> None:
        self.records = records
        self.rest = {} if rest is None else {0: rest}
        self.fails = fails
        self.waits: asyncio.Event | None = None
        self.was_cancelled = False

    async def search(self, query: Query, visitor: str, budget: Budget | None = None) -> Found:
        if budget is not None:
            budget.records, budget.bytes, budget.found = 500, 9_000, self.records
        try:
            await asyncio.sleep(0.01)
            if self.waits is not None:
                await self.waits.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self.fails is not None:
            raise self.fails
        return Found([message(each) for each in range(self.records)], {}, 500, 9_000, 0.1, "time", self.rest)

    async def decoded(self, data: bytes | None, form: Format) -> Any:
        return decode(data, form)


def pieces(stream: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The lines, and the file."""
    told, file = [], b""
    while stream:
        line, _, stream = stream.partition(b"\n")
        told.append(json.loads(line))
        size = told[-1].get("part", 0)
        file, stream = file + stream[:size], stream[size:]
    return told, file


def read(reader: Reader, *, kind: Kind = Kind.CSV, mask: TopicMask | None = None) -> tuple[list[dict[str, Any]], bytes]:
    async def run() -> bytes:
        return b"".join([part async for part in _told(ASKED, cast(Any, reader), Query("t", mask), kind)])

    return pieces(asyncio.run(run()))


def test_it_tells_how_far_the_search_is_then_the_file_and_its_end() -> None:
    told, file = read(Reader(3))
    assert told[0] == {"records": 0, "found": 0, "bytes": 0}
    assert {"records": 500, "found": 3, "bytes": 9_000} in told
    assert file.count(b"\r\n") == 4
    end = told[-1]
    assert (end["end"], end["name"], end["records"], end["rest"]) == (len(file), "t.csv", 3, "")


def test_a_search_that_stopped_before_its_end_makes_no_file_that_looks_whole() -> None:
    told, _ = read(Reader(3, rest=77))
    assert (told[-1]["name"], told[-1]["rest"]) == ("t.part.csv", "0:77")
    plain = asyncio.run(_file(ASKED, cast(Any, Reader(3, rest=77)), Query("t", None), Kind.CSV))
    assert 'filename="t.part.csv"' in plain.headers["content-disposition"]
    assert plain.headers["x-kavka-resume"] == "0:77"


def test_a_search_that_fails_is_told_and_there_is_no_end() -> None:
    told, file = read(Reader(3, fails=ConnectionFailed("broker 2 & its <disk> are gone")))
    assert told[-1] == {"problem": "broker 2 & its <disk> are gone"}
    assert file == b""


def test_a_bug_on_the_way_leaves_the_stream_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rows: object, kind: object) -> Any:
        yield b"half"
        raise ZeroDivisionError

    monkeypatch.setattr(exports, "lines", broken)

    found: list[bytes] = []

    async def run() -> None:
        stream = _told(ASKED, cast(Any, Reader(3)), Query("t", None), Kind.CSV)
        while True:
            found.append(await anext(stream))

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    told, file = pieces(b"".join(found))
    assert file == b"half"
    assert "end" not in told[-1]


def test_sizes_of_what_is_masked_are_not_told() -> None:
    told, _ = read(Reader(3), mask=TopicMask(("value.card",)))
    assert told[1] == {"records": 500, "found": 3}


Send = Callable[[Any], Awaitable[None]]


@pytest.mark.parametrize("version", ["2.3", "2.4"])
def test_who_closes_the_connection_ends_the_search(version: str) -> None:
    """By the message that servers send; in newer versions of the protocol, by the error of what is sent."""

    async def run() -> bool:
        reader = Reader(3)
        reader.waits = asyncio.Event()
        answer = _Told(_told(ASKED, cast(Any, reader), Query("t", None), Kind.CSV))
        sent = SimpleNamespace(bodies=0)
        gone = asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                sent.bodies += 1
                if sent.bodies >= 2:
                    gone.set()
                    if version == "2.4":
                        raise OSError("closed")

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": version}}
        with suppress(ClientDisconnect):
            await asyncio.wait_for(answer(cast(Any, scope), receive, send), 10)
        return reader.was_cancelled

    assert asyncio.run(run())
