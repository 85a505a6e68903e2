"""After a standstill: what arrived while this process stood still is read before what is due is done.

A process that was stopped, or had no processor, finds timers that are due and bytes that arrived before they were. An
event loop runs timers first, or as soon as the bytes are read and before a request in them is carried out. Decides
when that has happened. Must not know what is due.

    I1  after so many turns of the loop, each of which reads what has arrived, requests of before the standstill have
        been carried out, however slow the machine is: time alone would not show that
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

STOOD_STILL_S: Final = 0.1
"""A timer that is so late tells that this process stood still. Then what arrived has as long to be read."""
TURNS: Final = 20
"""A request takes fewer, from its first byte to what it changes."""


def due_at(timer: asyncio.Handle) -> float:
    """When it fires, by the loop's clock. uvloop's handle of what is due within half a millisecond does not tell: that
    is before everything else."""
    when: Callable[[], float] | None = getattr(timer, "when", None)
    return -math.inf if when is None else when()


def stood_still(loop: asyncio.AbstractEventLoop, timer: asyncio.Handle) -> bool:
    """Whether this process did when the timer was due, which fires only now. What was due at once was no timer."""
    due = due_at(timer)
    return due > -math.inf and loop.time() - due > STOOD_STILL_S


def after_reading(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> asyncio.TimerHandle:
    """Does the work once everything that has arrived is carried out, unless the handle is cancelled before."""

    def turn(left: int) -> None:
        if handle.cancelled():
            return
        if left:
            loop.call_soon(turn, left - 1)
        else:
            work()

    handle = loop.call_later(STOOD_STILL_S, turn, TURNS)
    return handle
