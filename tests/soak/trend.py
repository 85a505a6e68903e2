"""Trend: does a series of samples grow, and how much could it grow unnoticed?

The slope is Theil and Sen's: the median of the slopes between all pairs of points, which single outliers do not move.
Its interval is Sen's, from the variance of Kendall's rank correlation: with 95 % confidence the slope lies in it.
Points are medians of blocks of neighbouring samples, so that a sample that resembles the one before it is not counted
twice. The first third of a run is left out: caches fill then.

Source: P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

BLOCKS = 20
FEWEST_SAMPLES = 30
LEFT_OUT = 1 / 3
Z_95 = 1.96
HOUR_S = 3600.0


class Trend(NamedTuple):
    """Slopes an hour: the estimate and the ends of its interval. level: the median of what counts."""

    per_hour: float
    low: float
    high: float
    level: float

    def grows(self, allowed_per_hour: float) -> bool:
        """Whether the growth is more than what is allowed, beyond doubt."""
        return self.low > allowed_per_hour


def trend(samples: Sequence[tuple[float, float]]) -> Trend | None:
    """samples: (seconds, value), by time. None where they are too few to tell."""
    counted = samples[int(len(samples) * LEFT_OUT) :]
    if len(counted) < FEWEST_SAMPLES:
        return None
    points = [
        (statistics.fmean(at for at, _value in block), statistics.median(value for _at, value in block))
        for block in _blocks(counted)
    ]
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points)
        for later in points[index + 1 :]
    )
    count, pairs = len(points), len(slopes)
    width = Z_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low, high = (slopes[min(max(round(place), 0), pairs - 1)] for place in ((pairs - width) / 2, (pairs + width) / 2))
    level = statistics.median(value for _at, value in counted)
    return Trend(statistics.median(slopes) * HOUR_S, low * HOUR_S, high * HOUR_S, level)


def _blocks(samples: Sequence[tuple[float, float]]) -> list[Sequence[tuple[float, float]]]:
    edges = [round(number * len(samples) / BLOCKS) for number in range(BLOCKS + 1)]
    return [samples[begin:end] for begin, end in pairwise(edges) if end > begin]
