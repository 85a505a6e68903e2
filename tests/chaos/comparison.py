"""Comparison: what both brands did with faults that the same seed drew, side by side. It judges nothing.

The draws are the same; who is struck by them may not be, where a broker is sought for what it is, such as the
controller, and on a busy machine fewer of them fit into the time of one brand than into that of the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.campaign import Outcome
from tests.chaos.nemesis import Fault
from tests.chaos.report import Recovery

NONE = Recovery(0, 0.0, 0.0, 0.0, 0.0)


def lines(outcomes: dict[str, Outcome]) -> Iterator[str]:
    """Of runs by the brand's name, in that order."""
    for brand, outcome in outcomes.items():
        verdict = f"FAILED ({len(outcome.failures)} lines above)" if outcome.failures else "no anomaly"
        yield f"{brand}: {verdict}; {outcome.acknowledged:,} records acknowledged, {outcome.faults} faults"
    yield "median and worst of the longest gap that each fault overlaps, in seconds, until the first acknowledged write"
    yield "and until the first read:"
    for fault in Fault:
        found = {brand: outcome.recoveries.get(fault, NONE) for brand, outcome in outcomes.items()}
        if not any(took.times for took in found.values()):
            continue
        yield f"  {fault.value}"
        for brand, took in found.items():
            if took.times:
                yield (
                    f"    {brand:6} {took.times:4} x   write {took.write_median:6.2f} {took.write_worst:6.2f}"
                    f"   read {took.read_median:6.2f} {took.read_worst:6.2f}"
                )
            else:
                yield f"    {brand:6} none"
