"""A leak is told from noise, noise from a leak, and what a run was too short to see is said."""

from __future__ import annotations

import random

import pytest

from tests.soak.trend import FEWEST_SAMPLES, HOUR_S, trend


def series(per_hour: float, *, seconds: int = 3600, noise: float = 1.0, seed: int = 1) -> list[tuple[float, float]]:
    """A sample every five seconds."""
    chance = random.Random(seed)
    return [(at, 100 + per_hour * at / HOUR_S + chance.gauss(0, noise)) for at in range(0, seconds, 5)]


@pytest.mark.parametrize("seed", range(10))
def test_a_leak_is_found_and_its_size_lies_in_the_interval(seed: int) -> None:
    found = trend(series(8.0, seed=seed))
    assert found is not None
    assert found.grows(2.0)
    assert found.low - 1 < 8.0 < found.high + 1


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_leak(seed: int) -> None:
    found = trend(series(0.0, noise=5.0, seed=seed))
    assert found is not None
    assert not found.grows(5.0)
    assert found.low < found.per_hour < found.high


def test_a_warm_up_is_left_out() -> None:
    samples = [(at, min(at, 1_000.0)) for at in range(0, 3600, 5)]
    found = trend([(float(at), value) for at, value in samples])
    assert found is not None
    assert found.per_hour == 0


def test_single_peaks_move_nothing() -> None:
    samples = [(at, value + (1_000 if index % 50 == 0 else 0)) for index, (at, value) in enumerate(series(0.0))]
    found = trend(samples)
    assert found is not None
    assert abs(found.per_hour) < 3


def test_of_too_few_samples_nothing_is_said() -> None:
    assert trend(series(9.0)[:FEWEST_SAMPLES]) is None
