"""Runs of the swarm that broke a rule once, as small as they could be made; `test_regressions` plays them.

An entry is what `kavka simulate --shrink` or `make simulate` printed, and the bug that it found, to be put back: an
entry that would not find its bug any more, as the program went another way, is seen then.
"""

from __future__ import annotations

from typing import NamedTuple

from mutants import FOLLOWED, Change, Mutant

from kavka.simulator.regression import Regression, regression, strike
from kavka.simulator.swarm import Plan


class Entry(NamedTuple):
    """`bug` is found by the run, or in one of so many orders of its steps."""

    run: Regression
    bug: Mutant
    orders: int = 1


REGRESSIONS = [
    Entry(
        regression(
            "a follower that begins within a batch",
            rule="R20",
            was="SimulationStuck: R20: not within 180.0 s of virtual time: "
            "['orders-0: leader 2, ISR (2, 1) of (2, 3, 1)']",
            plan=Plan(seed=2),
            seconds=8.7,
            strikes=[
                strike(100, "pause", broker=3, ms=17_000),
                strike(7_634, "delete records", topic="orders", partition=0, share=0.97),
            ],
        ),
        Mutant(
            "a log that begins within a batch",
            "found by the swarm, seed 2 (11 faults): records were deleted up to the middle of a batch, and a follower "
            "whose empty log was to begin there refused the batch for ever",
            (Change(f"{FOLLOWED}._begin_with", "if first is None or", "if True or"),),
        ),
        orders=4,
    ),
]
