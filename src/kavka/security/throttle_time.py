"""Throttle time: how long a client that is over its quota has to wait.

Decides from a rate, or from a bucket of tokens, and the limit; and from `now_ms`, which never goes back. Must not know
what is counted, or for whom: `broker.quotas.client_quotas` asks, and of several delays tells the longest.

    I1  a delay is what brings the measured rate down to the limit if nothing more comes; it is never infinite

Source: Kafka's QuotaUtils.throttleTime, TokenBucket.
"""

from __future__ import annotations

import math
from typing import Final

from kavka.security.rates import Rate

MAX_DELAY_MS: Final = 2**31 - 1
"""The longest delay that an answer can tell. Kafka's longer ones wrap around to negative numbers, and hold nobody."""


def delay_ms(rate: Rate, limit: float, now_ms: int) -> int:
    """How long nothing may come until the rate is down to `limit` (>= 0); 0 where it is not above.

    With a limit of 0 that would take for ever; then it is the time after which nothing counts any more.
    """
    measured, elapsed_ms = rate.measure_with_time(now_ms)
    if measured <= limit:
        return 0
    if limit <= 0:
        return min(rate.samples * rate.window_ms, MAX_DELAY_MS)
    return _bounded_ms((measured - limit) / limit * elapsed_ms)


def _bounded_ms(delay: float) -> int:
    """In whole milliseconds, at most MAX_DELAY_MS: with a limit next to 0 a delay is infinite."""
    return math.floor(delay + 0.5) if delay < MAX_DELAY_MS else MAX_DELAY_MS


class TokenBucket:
    """Tokens that come at `rate` a second, up to what comes in `samples` windows of `window_ms`. It begins full, and
    may be overdrawn."""

    __slots__ = ("_filled_ms", "_span_s", "_tokens")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._span_s = samples * window_ms / 1000
        self._tokens = 0.0
        self._filled_ms: int | None = None

    def tokens(self, rate: float, now_ms: int) -> float:
        """How many there are; negative where it is overdrawn."""
        burst = rate * self._span_s
        if self._filled_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def forget(self) -> None:
        """It is full again: while nothing is bounded nobody owes anything."""
        self._filled_ms = None

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Takes `count`, whether there are so many or not."""
        self._tokens = min(rate * self._span_s, self.tokens(rate, now_ms) - count)

    def delay_ms(self, rate: float, now_ms: int) -> int:
        """How long until it is overdrawn no more; with a rate of 0, as long as it takes to fill any other bucket."""
        tokens = self.tokens(rate, now_ms)
        if tokens >= 0:
            return 0
        if rate <= 0:
            return min(math.ceil(self._span_s * 1000), MAX_DELAY_MS)
        return _bounded_ms(-tokens / rate * 1000)
