"""RememberedValues: what is made of the settings in force for a group, until they are others.

A heartbeat asks for its group's limits two or three times, and a fetch for them with each look at its partitions;
making them takes longer than what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from kavka.config.broker import BrokerConfig

MOST_REMEMBERED: Final = 10_000
"""Groups with settings of their own whose values are remembered: a client may name any."""

Value = TypeVar("Value")


class RememberedValues(Generic[Value]):
    """Calls `make` with the broker's settings and a group's own ones, once for as long as both stay as they are."""

    def __init__(self, make: Callable[[BrokerConfig, Mapping[str, str]], Value]) -> None:
        self._make = make
        self._config: BrokerConfig | None = None
        self._of_others: Value | None = None
        """Of the groups that set nothing themselves: most."""
        self._known: dict[str, tuple[Mapping[str, str], Value]] = {}

    def of(self, group_id: str, config: BrokerConfig, overrides: Mapping[str, str]) -> Value:
        """A `config` never changes, nor do `overrides`: what is set is another object."""
        if config is not self._config or len(self._known) >= MOST_REMEMBERED:
            self._config, self._of_others = config, None
            self._known.clear()
        if not overrides:
            if self._of_others is None:
                self._of_others = self._make(config, overrides)
            return self._of_others
        known = self._known.get(group_id)
        if known is None or known[0] != overrides:
            known = self._known[group_id] = overrides, self._make(config, overrides)
        return known[1]
