"""Ends: how the parts of a broker end, in order or at once; each part is added where it is made.

Decides only the order. `stop` and `abort` take the same way: stage by stage, and within a stage the last part first. A
part may be added before it is started, so its ends must do no harm to a part that does nothing yet.

    I1  if a part's stop raises, the other parts are stopped all the same; the exception is raised at the end
    I2  `abort` may follow a `stop` that was interrupted: it ends the rest, and does no harm to parts that have ended
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from enum import IntEnum


class Stage(IntEnum):
    """Groups of parts, in the order in which they end."""

    INPUTS = 0
    """What brings work in: session events, changes of feature levels, transactions under way."""
    TASKS = 1
    """What runs beside requests."""
    CONNECTIONS = 2
    """Fetchers, requests to other brokers, notifications of settings. No task uses them any more."""
    WORKERS = 3
    """The controller and the upkeep of logs. They may still write to logs and to ZooKeeper."""
    STORES = 4
    """What keeps the work: records of decisions, the flight recorder, the logs, the session with ZooKeeper."""


class Ends:
    """One broker's. Parts are added while it starts; then either `stop` or `abort` is called."""

    def __init__(self) -> None:
        self._in_order = {stage: AsyncExitStack() for stage in Stage}
        self._at_once = {stage: ExitStack() for stage in Stage}

    def add(self, stage: Stage, *, stop: Callable[[], Awaitable[object]], abort: Callable[[], None]) -> None:
        """Adds a part whose orderly stop takes time. `abort` returns at once and writes nothing."""
        self._in_order[stage].push_async_callback(stop)
        self._at_once[stage].callback(abort)

    def add_instant(self, stage: Stage, *, stop: Callable[[], None], abort: Callable[[], None] | None = None) -> None:
        """Adds a part that stops at once. At an abort it stops in the same way, unless `abort` is given."""
        self._in_order[stage].callback(stop)
        self._at_once[stage].callback(abort or stop)

    async def stop(self) -> None:
        """Stops all parts in order."""
        async with AsyncExitStack() as stages:
            for stage in reversed(Stage):
                await stages.enter_async_context(self._in_order[stage])
        for at_once in self._at_once.values():
            at_once.pop_all()

    def abort(self) -> None:
        """Ends all parts at once. Writes nothing, and informs no one."""
        with ExitStack() as stages:
            for stage in reversed(Stage):
                self._in_order[stage].pop_all()
                stages.enter_context(self._at_once[stage])
