"""ConnectionRates: how many connections a second a broker, a listener and an address may make (KIP-612).

Decides how long a new connection has to wait, and which ones are turned away. Must not know sockets.

    beyond the broker's or the listener's rate   nothing is accepted until the rate is down again, at most one window
    beyond its address's rate                    the connection is held without being read for as long, then closed;
                                                 it counts nowhere

    I1  a listener that brokers have for themselves counts not for the broker's rate, and is not bound by it
    I2  addresses are counted only where they have a limit; at most MAX_ADDRESSES, the idle ones go first

Source: Kafka's ConnectionQuotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kavka.security.rates import Average, Rate
from kavka.security.throttle_time import delay_ms

if TYPE_CHECKING:
    from kavka.metrics import Member

UNLIMITED: Final = 2**31 - 1
MAX_ADDRESSES: Final = 10_000


class ConnectionRates:
    """Rates over `samples` windows of `window_ms`."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._broker = self._rate()
        self._listeners: dict[str, Rate] = {}
        self._addresses: dict[str, Rate] = {}
        self._delays: dict[str, Average] = {}
        self._delays_of_addresses: dict[str, Average] = {}
        """By listener, of connections that were delayed."""
        self.limit = UNLIMITED
        """max.connection.creation.rate"""
        self.limits_of_listeners: Mapping[str, int] = {}
        """listener.name.L.max.connection.creation.rate; the others may use up what the broker may."""
        self.limits_of_addresses: Mapping[str, int] = {}
        self.limit_of_any_address = UNLIMITED

    def delay_ms(self, listener: str, now_ms: int, *, is_protected: bool) -> int:
        """Counts a connection; for how long it and all further ones of its listener have to wait."""
        rate = self._listeners.setdefault(listener, self._rate())
        delay = self._count(rate, self.limits_of_listeners.get(listener, self.limit), now_ms)
        if not is_protected:
            delay = max(delay, self._count(self._broker, self.limit, now_ms))
        if delay:
            self._delays.setdefault(listener, Average()).record(delay, now_ms)
        return delay

    def delay_of_address_ms(self, listener: str, address: str, now_ms: int, *, is_protected: bool) -> int:
        """Counts a connection that was counted before for its listener; not 0: it is to be turned away after so long,
        and counts nowhere."""
        limit = self.limits_of_addresses.get(address, self.limit_of_any_address)
        if limit == UNLIMITED:
            return 0
        rate = self._addresses.get(address)
        if rate is None:
            if len(self._addresses) >= MAX_ADDRESSES:
                self._make_room(now_ms)
            rate = self._addresses[address] = self._rate()
        delay = self._count(rate, limit, now_ms)
        if delay:
            self._delays_of_addresses.setdefault(listener, Average()).record(delay, now_ms)
            rate.record(-1, now_ms)
            if listener in self._listeners:
                self._listeners[listener].record(-1, now_ms)
            if not is_protected:
                self._broker.record(-1, now_ms)
        return delay

    def measured(self, now_ms: int) -> list[Member]:
        """Connections a second: of the broker, of each listener, of each address that has a limit."""
        rates = [
            ((), self._broker),
            *(((("listener", name),), rate) for name, rate in sorted(self._listeners.items())),
            *(((("ip", address),), rate) for address, rate in sorted(self._addresses.items())),
        ]
        return [(tags, rate.measure(now_ms)) for tags, rate in rates]

    def delays(self, now_ms: int, *, of_addresses: bool) -> list[Member]:
        """Milliseconds, on average of those connections that were delayed: of each listener, because of its rate or the
        broker's, or because of an address's."""
        averages = self._delays_of_addresses if of_addresses else self._delays
        return [((("listener", name),), average.measure(now_ms)) for name, average in sorted(averages.items())]

    def _count(self, rate: Rate, limit: int, now_ms: int) -> int:
        rate.record(1, now_ms)
        return 0 if limit == UNLIMITED else min(delay_ms(rate, limit, now_ms), self._window_ms)

    def _rate(self) -> Rate:
        return Rate(self._samples, self._window_ms)

    def _make_room(self, now_ms: int) -> None:
        """For a tenth at least, the idle ones first: it takes a look at all of them."""
        for address in [one for one, rate in self._addresses.items() if rate.is_idle(now_ms)]:
            del self._addresses[address]
        while len(self._addresses) > MAX_ADDRESSES - max(MAX_ADDRESSES // 10, 1):
            del self._addresses[next(iter(self._addresses))]
