"""What runs on a loop of its own: its result, its failure."""

from __future__ import annotations

import asyncio

import pytest

from kavka.runtime.loop import run


class Large:
    """A cluster as it was read, say."""

    def __init__(self) -> None:
        self.written_out = 0

    def __repr__(self) -> str:
        self.written_out += 1
        return "Large()"


def test_what_comes_of_a_run_is_returned_and_never_written_out() -> None:
    large = Large()

    async def read() -> Large:
        await asyncio.sleep(0)
        return large

    assert run(read()) is large
    assert large.written_out == 0


def test_what_a_run_fails_with_is_raised() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("no such cluster")

    with pytest.raises(LookupError, match="no such cluster"):
        run(fail())
