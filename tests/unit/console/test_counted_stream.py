"""Streams of events are counted when they are asked for, not when their first event is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("starlette")

from kavka.console.access.counted_stream import StreamCount


async def events() -> AsyncIterator[bytes]:
    yield b"data: 1\n\n"


def test_requests_that_come_together_do_not_get_past_the_bound() -> None:
    count = StreamCount(2, 2)
    answers = [count.stream(events(), "ada") for _ in range(3)]
    assert [answer is None for answer in answers] == [False, False, True]


def test_one_visitor_does_not_take_every_place() -> None:
    count = StreamCount(3, 2)
    answers = [count.stream(events(), "ada") for _ in range(3)]
    assert [answer is None for answer in answers] == [False, False, True]
    assert count.stream(events(), "eve") is not None
    assert count.stream(events(), "joe") is None


def test_a_place_is_free_again_when_its_reader_leaves_before_the_first_event() -> None:
    count = StreamCount(1, 1)

    async def leave() -> None:
        answer = count.stream(events(), "ada")
        assert answer is not None

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise OSError("the reader left")

        with pytest.raises(Exception):  # noqa: B017 - whatever the server says of a lost connection
            await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    asyncio.run(leave())
    assert count.open == 0
    assert count.stream(events(), "ada") is not None
