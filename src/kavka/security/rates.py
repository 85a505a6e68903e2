"""Rates: how fast something happens, and how long to wait until it is as slow as it should be.

Decides from values and `now_ms`, which never goes back. Must not know what is counted, or for whom.

    I1  a `Rate` is Kafka's: samples begin with the first value after the last one was full, one that overlaps the whole
        span is kept until nothing in it is younger than the span, and the span counts as at least (samples - 1) windows
    I2  a delay is what brings the measured rate down to the limit if nothing more comes; it is never infinite
    I3  a recording costs a few additions; the samples are looked at once a window

Source: Kafka's Rate over WindowedSum (SampledStat), Avg, TokenBucket, QuotaUtils.throttleTime.
"""

from __future__ import annotations

import math
from typing import Final

MAX_DELAY_MS: Final = 2**31 - 1
"""The longest delay that an answer can tell. Kafka's longer ones wrap around to negative numbers, and hold nobody."""


AVERAGE_SAMPLES, AVERAGE_WINDOW_MS = 2, 30_000
"""Over which time Kafka's averages are taken."""


class Rate:
    """Values a second, over the last `samples` windows of `window_ms` each."""

    __slots__ = (
        "_current", "_lasts", "_oldest_ms", "_purge_ms", "_span_ms", "_starts", "_total", "_values", "samples",
        "window_ms",
    )  # fmt: skip

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples = samples
        self.window_ms = window_ms
        self._span_ms = samples * window_ms
        self._starts: list[int] = []
        """When each sample began; at most one more than `samples`."""
        self._lasts: list[int] = []
        """When the last value of each came."""
        self._values: list[float] = []
        self._current = 0
        self._total = 0.0
        """The sum of `_values`."""
        self._oldest_ms = 0
        """The least of `_starts`."""
        self._purge_ms = 0
        """Before this no sample is out of date."""

    def record(self, value: float, now_ms: int) -> None:
        """Adds `value`; one that is taken back is negative."""
        current = self._current
        if not self._starts or now_ms - self._starts[current] >= self.window_ms:
            current = self._advance(now_ms)
        self._values[current] += value
        self._lasts[current] = now_ms
        self._total += value

    def measure(self, now_ms: int) -> float:
        """Values a second."""
        elapsed_ms = self.elapsed_ms(now_ms)  # First: it forgets what is out of date.
        return self._total * 1000 / elapsed_ms

    def measure_with_time(self, now_ms: int) -> tuple[float, int]:
        """`measure` and `elapsed_ms`, at the price of one."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return self._total * 1000 / elapsed_ms, elapsed_ms

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that `measure` divides by: at least 1."""
        if now_ms >= self._purge_ms:
            self._purge(now_ms)
        elapsed_ms = now_ms - self._oldest_ms
        missing = self.samples - 1 - elapsed_ms // self.window_ms
        if missing > 0:
            return elapsed_ms + missing * self.window_ms
        return elapsed_ms or 1

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing that was recorded counts any more."""
        return not self._lasts or now_ms - max(self._lasts) >= self._span_ms

    def _advance(self, now_ms: int) -> int:
        """Begins the next sample; after the last one comes the first again."""
        if self._starts:
            self._current = (self._current + 1) % (self.samples + 1)
        if self._current == len(self._starts):
            self._starts.append(now_ms)
            self._lasts.append(now_ms)
            self._values.append(0.0)
        else:
            self._reset(self._current, now_ms)
        self._sum_up()
        return self._current

    def _purge(self, now_ms: int) -> None:
        if not self._starts:
            self._advance(now_ms)
        for index, last_ms in enumerate(self._lasts):
            if now_ms - last_ms >= self._span_ms:
                self._reset(index, now_ms)
        self._sum_up()

    def _reset(self, index: int, now_ms: int) -> None:
        self._starts[index] = self._lasts[index] = now_ms
        self._values[index] = 0.0

    def _sum_up(self) -> None:
        self._total = math.fsum(self._values)
        self._oldest_ms = min(self._starts)
        self._purge_ms = min(self._lasts) + self._span_ms


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


class Average:
    """The mean of the values of the last minute; 0 where there are none. Kafka's Avg, with its two samples of 30 s."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum = Rate(AVERAGE_SAMPLES, AVERAGE_WINDOW_MS)
        self._count = Rate(AVERAGE_SAMPLES, AVERAGE_WINDOW_MS)

    def record(self, value: float, now_ms: int) -> None:
        """Adds `value`."""
        self._sum.record(value, now_ms)
        self._count.record(1, now_ms)

    def measure(self, now_ms: int) -> float:
        """The mean."""
        count = self._count.measure(now_ms)
        return self._sum.measure(now_ms) / count if count else 0.0


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
