"""A loop whose clock moves on instead of waiting: hours of time-outs in a moment, in the same order every time.

A timer that is set again and again for a moment that is over would hold the clock where it is: that fails.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable

STEPS_OF_ONE_MOMENT = 100_000
"""More turns of the loop than any scenario has without waiting for something."""


class VirtualSelector(selectors.DefaultSelector):
    """Instead of waiting, it moves the loop's clock on."""

    waited_s = 0.0
    _moment_s = 0.0
    _steps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits for something that will not come"
        self.waited_s += max(timeout, 0)
        self._steps = self._steps + 1 if self.waited_s == self._moment_s else 0
        self._moment_s = self.waited_s
        assert self._steps < STEPS_OF_ONE_MOMENT, f"something is done again and again at {self.waited_s} s"
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
