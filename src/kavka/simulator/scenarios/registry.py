"""The list of named scenarios. Each module of the folder adds its own with `scenario`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Scenario = Callable[[int], None]
"""Gets the seed that orders the steps. Returns if everything goes as it must, else raises `Unexpected` or
`Violation`."""

SCENARIOS: Final[dict[str, Scenario]] = {}
"""By name, in the order in which they are listed."""

LAGGING: Final = {"replica.lag.time.max.ms": "20000"}
"""Followers may be behind for the whole scenario and stay in the ISR."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Names the scenario that follows."""

    def keep(function: Scenario) -> Scenario:
        assert name not in SCENARIOS, name
        SCENARIOS[name] = function
        return function

    return keep


def play(name: str, seed: int = 1) -> None:
    """Plays a scenario, its steps in the order that `seed` draws."""
    SCENARIOS[name](seed)
