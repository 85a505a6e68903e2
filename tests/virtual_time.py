"""A loop whose clock moves on instead of waiting: hours of time-outs in a moment, in the same order every time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable


class VirtualSelector(selectors.DefaultSelector):
    """Instead of waiting, it moves the loop's clock on."""

    waited_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits for something that will not come"
        self.waited_s += max(timeout, 0)
        return super().select(0)


def in_virtual_time(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a scenario to its end."""
    selector = VirtualSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.waited_s  # type: ignore[method-assign]
    try:
        loop.run_until_complete(scenario())  # type: ignore[arg-type]
    finally:
        loop.close()
