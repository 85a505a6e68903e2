"""Rates: how fast something happens, and its mean.

Decides from values and `now_ms`, which never goes back. Must not know what is counted, for whom, or what follows where
that is too fast (`throttle_time`).

    I1  a `Rate` is Kafka's: samples begin with the first value after the last one was full, one that overlaps the whole
        span is kept until nothing in it is younger than the span, and the span counts as at least (samples - 1) windows
    I2  a recording costs a few additions; the samples are looked at once a window

Source: Kafka's Rate over WindowedSum (SampledStat), Avg.
"""

from __future__ import annotations

import math

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
