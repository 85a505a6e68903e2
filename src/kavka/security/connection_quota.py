"""ConnectionQuota: how many connections a broker, a listener and an address may have.

Decides whether there is room for one more, whose connections give way where there is none, and how many are too many.
Must not know sockets, or which of a listener's connections give way (`giving_way`).

    max.connections                  of all listeners together; of each one, too, which may have a bound of its own
    max.connections.per.ip           of each address, with overrides
    descriptors                      what the process can have open

Where brokers (or their controller) have a listener of their own, it is a way in when max.connections is reached: it is
bound by its own number and by descriptors only, and for each connection that is too many then one of another listener
is closed. Where there is one listener for all, nobody gets in before somebody leaves.

    I1  the counts are those of the open connections of all listeners together
    I2  where connections are bounded neither by rate nor by a quota of addresses, no rates are kept

Source: Kafka's ConnectionQuotas (KIP-402, KIP-612).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kavka.security.connection_rates import ConnectionRates

UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """How many connections there may be, and how fast they may come; Kafka's names behind each."""

    max_connections: int = UNLIMITED
    """max.connections"""
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """listener.name.L.max.connections: listener -> connections; max.connections where there is none"""
    descriptors: int = UNLIMITED
    """How many connections the process can have open."""
    max_connections_per_ip: int = UNLIMITED
    """max.connections.per.ip"""
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides: address -> connections"""
    max_connection_creation_rate: int = UNLIMITED
    """max.connection.creation.rate, a second"""
    max_connection_creation_rate_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """listener.name.L.max.connection.creation.rate: listener -> connections a second"""
    rate_samples: int = 11
    """quota.window.num"""
    rate_window_ms: int = 1000
    """quota.window.size.seconds"""


class ConnectionQuota:
    """Counts the broker's connections, in all, of each listener and for each address. `of_brokers` are the listeners
    that may be a way in for brokers."""

    def __init__(self, limits: ConnectionBounds, of_brokers: Collection[str] = ()) -> None:
        self._limits = limits
        self._of_brokers = frozenset(of_brokers)
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []
        self.count = 0
        self.rates: ConnectionRates | None = None
        """How fast connections may come; None where that is not bounded."""
        self._rates_of_addresses: tuple[Mapping[str, int], int] = ({}, UNLIMITED)
        self._change_rates()

    def add_listener(self, name: str) -> None:
        """To be called once for each listener, before its first connection."""
        self._by_listener[name] = 0

    def change_limits(self, limits: ConnectionBounds) -> None:
        """`surplus` may be more than 0 afterwards."""
        self._limits = limits
        self._change_rates()
        self._wake()

    def change_rates_of_addresses(self, limits: Mapping[str, int], limit_of_any: int = UNLIMITED) -> None:
        """Connections a second: of single addresses, and of each of the others."""
        self._rates_of_addresses = (limits, limit_of_any)
        self._change_rates()

    def _change_rates(self) -> None:
        limits, (of_addresses, of_any) = self._limits, self._rates_of_addresses
        rate, of_listeners = limits.max_connection_creation_rate, limits.max_connection_creation_rate_of_listeners
        if rate == of_any == UNLIMITED and not of_listeners and not of_addresses:
            self.rates = None
            return
        if self.rates is None:
            from kavka.security.connection_rates import ConnectionRates  # late: few brokers bound them

            self.rates = ConnectionRates(limits.rate_samples, limits.rate_window_ms)
        self.rates.limit, self.rates.limits_of_listeners = rate, of_listeners
        self.rates.limits_of_addresses, self.rates.limit_of_any_address = of_addresses, of_any

    def is_protected(self, listener: str) -> bool:
        """Whether the listener is a way in: brokers have it for themselves, and there are others."""
        return listener in self._of_brokers and not self._by_listener.keys() <= self._of_brokers

    def has_room(self, listener: str) -> bool:
        """Whether the listener may have one connection more."""
        limits = self._limits
        if self._by_listener[listener] >= limits.max_connections_of_listeners.get(listener, limits.max_connections):
            return False
        if self.is_protected(listener):
            return self.count < limits.descriptors or self._unprotected() > 0
        return self.count < min(limits.max_connections, limits.descriptors)

    def spared_for(self, listener: str) -> frozenset[str]:
        """Whose connections do not give way where `listener` has no room: they would leave no place to it, or are
        brokers'."""
        limits = self._limits
        own = limits.max_connections_of_listeners.get(listener, limits.max_connections)
        is_own = self._by_listener[listener] >= own
        others = self._by_listener.keys() - {listener}
        return frozenset(name for name in others if is_own or self.is_protected(name))

    @property
    def surplus(self) -> int:
        """How many connections of listeners that are not protected are to be closed."""
        most = min(self._limits.max_connections, self._limits.descriptors)
        return min(max(self.count - most, 0), self._unprotected())

    def _unprotected(self) -> int:
        return sum(count for name, count in self._by_listener.items() if not self.is_protected(name))

    def when_room(self, wake: Callable[[], None]) -> None:
        """`wake` is called once, when a connection closed or the limits changed."""
        if wake not in self._waiting:  # Who looks again from time to time says so each time.
            self._waiting.append(wake)

    def admits(self, address: str) -> bool:
        """Whether `address` may have one connection more."""
        limits = self._limits
        limit = limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip)
        return self._by_address.get(address, 0) < limit

    def add(self, listener: str, address: str) -> None:
        self.count += 1
        self._by_listener[listener] += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def remove(self, listener: str, address: str) -> None:
        self.count -= 1
        self._by_listener[listener] -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()
