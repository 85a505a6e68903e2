"""How long the client tests wait: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 30.0


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns as soon as the condition holds; fails the test after TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s"
        time.sleep(0.05)
