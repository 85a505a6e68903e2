"""Rates and token buckets beside Kafka's classes, written down line by line: the same figures, whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.rates import Rate
from kavka.security.throttle_time import MAX_DELAY_MS, TokenBucket, delay_ms


class _Sample:
    def __init__(self, now: int) -> None:
        self.reset(now)

    def reset(self, now: int) -> None:
        self.value, self.start, self.last = 0.0, now, now


class KafkasRate:
    """SampledStat, WindowedSum and Rate: all samples are looked at with every measurement."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples: list[_Sample] = []
        self.count, self.window_ms, self.current = samples, window_ms, 0

    def record(self, value: float, now: int) -> None:
        if not self.samples:
            self.samples.append(_Sample(now))
        sample = self.samples[self.current]
        if now - sample.start >= self.window_ms:
            self.current = (self.current + 1) % (self.count + 1)
            if self.current >= len(self.samples):
                self.samples.append(_Sample(now))
            self.samples[self.current].start = now
            sample = self.samples[self.current]
            sample.reset(now)
        sample.value += value
        sample.last = now

    def elapsed_ms(self, now: int) -> int:
        for sample in self.samples:
            if now - sample.last >= self.count * self.window_ms:
                sample.reset(now)
        if not self.samples:
            self.samples.append(_Sample(now))
        elapsed = now - min(sample.start for sample in self.samples)
        full = elapsed // self.window_ms
        if full < self.count - 1:
            elapsed += (self.count - 1 - full) * self.window_ms
        return max(elapsed, 1)

    def measure(self, now: int) -> float:
        elapsed = self.elapsed_ms(now)
        return sum(sample.value for sample in self.samples) / (elapsed / 1000)


steps = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 50), st.integers(0, 3_000), st.integers(0, 40_000)),
        st.integers(0, 1_000_000),
        st.booleans(),
    ),
    max_size=80,
)


@given(st.integers(1, 12), st.integers(1, 3), steps)
def test_a_rate_is_what_kafkas_classes_measure(samples: int, window_s: int, steps: list[tuple[int, int, bool]]) -> None:
    rate, expected = Rate(samples, window_s * 1000), KafkasRate(samples, window_s * 1000)
    now = 1_000_000
    for passed, value, measured in steps:
        now += passed
        rate.record(value, now)
        expected.record(value, now)
        if measured:
            assert rate.elapsed_ms(now) == expected.elapsed_ms(now)
            assert rate.measure(now) == pytest.approx(expected.measure(now))
    assert rate.measure(now) == pytest.approx(expected.measure(now))


@given(st.integers(1, 1_000_000), steps)
def test_after_the_delay_the_rate_is_down_to_the_limit(limit: int, steps: list[tuple[int, int, bool]]) -> None:
    rate = Rate(11, 1000)
    now = 5
    for passed, value, _ in steps:
        now += passed
        rate.record(value, now)
        delay = delay_ms(rate, limit, now)
        assert 0 <= delay <= MAX_DELAY_MS
        measured, elapsed = rate.measure(now), rate.elapsed_ms(now)
        if delay < MAX_DELAY_MS:
            # The sum divided by the longer time; half a millisecond is rounded away.
            assert measured * elapsed <= limit * (elapsed + delay + 0.5) * (1 + 1e-9)


@given(st.integers(1, 12), st.floats(0.1, 1000), st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 500))))
def test_a_token_bucket_never_holds_more_than_its_burst(
    samples: int, rate: float, steps: list[tuple[int, int]]
) -> None:
    bucket = TokenBucket(samples, 1000)
    burst = rate * samples
    now, tokens, filled = 7, burst, 7
    for passed, count in steps:
        now += passed
        tokens = min(burst, tokens + rate * (now - filled) / 1000)
        filled = now
        assert bucket.tokens(rate, now) == pytest.approx(tokens)
        bucket.take(count, rate, now)
        tokens = min(burst, tokens - count)
        delay = bucket.delay_ms(rate, now)
        assert delay == (0 if tokens >= 0 else pytest.approx(-tokens / rate * 1000, abs=1))
