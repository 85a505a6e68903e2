"""Runs of the swarm that broke a rule once, as small as they could be made; `test_regressions` plays them.

An entry is what `kavka simulate --shrink` or `make simulate` printed, and the bug that it found, to be put back: an
entry that would not find its bug any more, as the program went another way, is seen then.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.simulator.runs.regression import Regression, regression, strike
from kavka.simulator.runs.swarm import Plan
from tests.simulation.mutants import FOLLOWED, Change, Mutant


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
    Entry(
        regression(
            "a checkpoint of a former topic of the name",
            rule="R11",
            was="R11 at 71634 ms: invoices-1 at broker 2 was cut to 0, committed to 26",
            plan=Plan(seed=144),
            seconds=70.3,
            strikes=[
                strike(100, "create topic", topic="invoices", partitions=2, replicas=3),
                strike(47_821, "delete records", topic="invoices", partition=1, share=0.72),
                strike(69_016, "delete topic", topic="invoices"),
                strike(69_116, "disk full", broker=2, directory="/logs", ms=5_000),
                strike(69_216, "create topic", topic="invoices", partitions=2, replicas=3),
            ],
        ),
        Mutant(
            "checkpoints speak of a former log",
            "found by the swarm, seed 144 (45 faults): a topic that was deleted and made again had, after a crash, the "
            "log start of the former one; records below it were dropped",
            (Change("kavka.log.log_manager:LogManager.get_or_create", "if partition in home.former:", "if False:"),),
        ),
        orders=4,
    ),
]
