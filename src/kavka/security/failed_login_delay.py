"""Guessing: how long an address that fails to authenticate has to wait. Users are never locked out.

Decides from addresses, listeners and `now_ms`, which never goes back. Must not know connections, users or mechanisms.

    a failure      fills the address's measure by one; the measure empties by `free_per_minute` in a minute
    measure full   the first failure more costs FIRST_DELAY_MS, each further one twice as much, up to `max_delay_ms`

I1  Counted is for each listener, by address; of IPv6 by the network of 64 bits, for a machine has all of it.
I2  An address that did not fail never waits, whatever others do.
I3  So long as an address waits as it is told, it has in the long run at most `free_per_minute` failures a minute, or
    one in each `max_delay_ms` where those are more.
I4  MAX_ADDRESSES are remembered. For one more, that whose last failure is longest ago is forgotten.
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

FIRST_DELAY_MS: Final = 100
MAX_ADDRESSES: Final = 10_000
_MINUTE_MS: Final = 60_000


class _Measure(NamedTuple):
    """`level`: failures, in parts of 60,000; as it was at `at_ms`. `until_ms`: when the wait is over."""

    level: int
    at_ms: int
    until_ms: int


class Guessing:
    """The addresses that failed lately. `free_per_minute` 0: nobody ever waits."""

    def __init__(self, free_per_minute: int, max_delay_ms: int) -> None:
        self._free = free_per_minute
        self._max_delay_ms = max_delay_ms
        self._fullest = (free_per_minute + _steps(max_delay_ms)) * _MINUTE_MS
        """More is not counted: who stops is free again soon."""
        self._measures: dict[tuple[str, str], _Measure] = {}
        """By address and listener, the one with the oldest failure first."""

    def __len__(self) -> int:
        """How many addresses are remembered."""
        return len(self._measures)

    def on_failure(self, host: str, listener: str, now_ms: int) -> int:
        """A client failed. For how long its address has to wait now, in milliseconds; 0 while that is free."""
        if not self._free:
            return 0
        key = (group_of(host), listener)
        before = self._measures.pop(key, _Measure(0, now_ms, 0))
        left = max(before.level - (now_ms - before.at_ms) * self._free, 0)
        level = min(left + _MINUTE_MS, self._fullest)
        over = -(-(level - self._free * _MINUTE_MS) // _MINUTE_MS)
        delay_ms = 0 if over <= 0 else min(FIRST_DELAY_MS << (over - 1), self._max_delay_ms)
        if len(self._measures) >= MAX_ADDRESSES:
            del self._measures[next(iter(self._measures))]
        self._measures[key] = _Measure(level, now_ms, max(before.until_ms, now_ms + delay_ms))
        return delay_ms

    def wait_ms(self, host: str, listener: str, now_ms: int) -> int:
        """For how long a client at this address has to wait before it may try; 0: it may."""
        if not self._measures:
            return 0
        found = self._measures.get((group_of(host), listener))
        return 0 if found is None else max(found.until_ms - now_ms, 0)


def group_of(host: str) -> str:
    """The address, or of IPv6 its network of 64 bits. What is no address stands for itself."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, 64), strict=False))


def _steps(max_delay_ms: int) -> int:
    """How many failures beyond the free ones it takes to the longest delay."""
    return max((max_delay_ms - 1) // FIRST_DELAY_MS, 0).bit_length() + 1
