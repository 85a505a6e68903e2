"""Tasks: what a broker runs beside requests, until it ends. A task that fails is a bug, and halts the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kavka.logger import Logger

logger = Logger(__name__)

T = TypeVar("T")


class Tasks:
    """`halt` ends the process, for the given reason."""

    def __init__(self, halt: Callable[[str], None]) -> None:
        self._halt = halt
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Runs `work` beside; it ends with the broker."""
        self.run(work)

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The same, for a caller that needs the outcome."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def stop(self) -> None:
        """Cancels all tasks, and returns when they have ended."""
        self.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def abort(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self.on_bug(bug)

    def on_bug(self, bug: BaseException) -> None:
        """Halts the broker because of an unexpected failure."""
        logger.error("task failed", exc_info=bug)
        self._halt(f"a task of the broker failed: {bug!r}")
