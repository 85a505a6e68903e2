"""Bugs put back one by one, and after how many runs in virtual time a sequence of requests shows each.

    python -m tests.fuzz.sequences.mutants

The first is a defect that kavka had, and by which any client could halt a broker. The others are what keeps clients'
choices away from what only kavka itself may do, taken out.
"""

from __future__ import annotations

import sys
from typing import Final

from kavka.logger import set_level
from tests.fuzz.sequences.run import in_virtual_time
from tests.simulation.mutation import Change, Mutant, put_back

CLASSIC: Final = "kavka.coordinator.groups.classic.decide"
CONSUMER: Final = "kavka.coordinator.groups.consumer.decide"
SEEDS: Final = 20
REQUESTS: Final = 2_000

MUTANTS: Final = (
    Mutant(
        "a member that gave up the protocol in force",
        "a rolling change of a classic group's assignor and one member of the newer protocol halted the broker",
        (
            Change(
                f"{CLASSIC}.membership:Member.metadata",
                "return self.protocols[0].metadata",
                "raise InvariantViolation('a member without the protocol in force')",
            ),
        ),
    ),
    Mutant(
        "subscriptions that cannot be read, at an upgrade",
        "a classic member's bytes close the connection of whoever joins with the newer protocol",
        (Change(f"{CONSUMER}.migration:_read", "except ProtocolViolation", "except ZeroDivisionError"),),
    ),
    Mutant(
        "subscriptions that cannot be read, at a join",
        "a classic member's bytes close its connection instead of being refused",
        (
            Change(
                f"{CONSUMER}.classic_members:decide_classic_join",
                "except ProtocolViolation",
                "except ZeroDivisionError",
            ),
        ),
    ),
    Mutant(
        "a commit without a transaction",
        "EndTxn of a producer that has nothing to commit asks for a move that no transaction makes",
        (
            Change(
                "kavka.coordinator.transactions.decide.shard:TransactionShard._end_and_bump",
                "if commit and known.state is not TransactionState.ONGOING:",
                "if False:",
            ),
        ),
    ),
)


def hunt(mutant: Mutant) -> tuple[int, str] | None:
    """The seed that found it, and how; None where it lives."""
    with put_back(mutant):
        for seed in range(1, SEEDS + 1):
            try:
                report = in_virtual_time(seed, REQUESTS)
            except Exception as broken:  # whatever ends a run has found it
                return seed, f"{type(broken).__name__}: {broken}"
            if report.findings:
                return seed, report.findings[0]
    return None


def main() -> int:
    set_level("error")
    living = 0
    for mutant in MUTANTS:
        found = hunt(mutant)
        living += found is None
        said = f"lives after {SEEDS} seeds" if found is None else f"seed {found[0]}: {found[1][:200]}"
        print(f"{mutant.name:50} {said}", flush=True)
    return int(living > 0)


if __name__ == "__main__":
    sys.exit(main())
