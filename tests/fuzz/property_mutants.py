"""Bugs of compaction put back one by one, and after how many of their examples a property shows each.

    python -m tests.fuzz.property_mutants

The examples are drawn from a fixed seed, so that the same program gives the same figures.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kavka.logger import set_level
from tests.property.log.test_compaction_is_a_dict import CompactionMachine
from tests.simulation.mutation import Change, Mutant, put_back

EXAMPLES: Final = 600
"""As `make fuzz` makes: twenty times as many as `make test`."""
PASS: Final = "kavka.log.cleaner_pass:CleaningPass"
MUTANTS: Final = (
    Mutant(
        "an empty batch for each one that went",
        "compaction left a batch without records or producer at a segment's end, and some consumers never got past it",
        (
            Change(
                f"{PASS}.clean",
                "for _, batch in scan_batches(source.file, 0, source.size):",
                "for position, batch in scan_batches(source.file, 0, source.size):",
            ),
            Change(
                f"{PASS}.clean",
                "left = self._compaction.retain(batch, retention)",
                "from kavka.log.decide.compaction import _batch, emptied; "
                "left = self._compaction.retain(batch, retention) or ("
                "_batch(emptied(batch)) if position + len(batch.view) == source.size else None)",
            ),
        ),
    ),
    Mutant(
        "an answer with empty batches only",
        "a consumer that goes on behind the last record asks for the same offset again, for ever",
        (Change("kavka.log.unified_log:UnifiedLog.read_records", "and has_no_record(result.chunks)", "and False"),),
    ),
)


def hunt(mutant: Mutant) -> tuple[int, str] | None:
    """How many examples it took, and what was found; None where the bug lives."""
    made = 0

    class Counted(CompactionMachine):
        def __init__(self) -> None:
            nonlocal made
            made += 1
            super().__init__()

    with put_back(mutant):
        try:
            run_state_machine_as_test(
                Counted,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=40,
                    deadline=None,
                    derandomize=True,
                    database=None,
                    phases=[Phase.generate],
                    report_multiple_bugs=False,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        except AssertionError as found:
            return made, str(found)
    return None


def main() -> int:
    set_level("error")
    living = 0
    for mutant in MUTANTS:
        began_s = time.process_time()
        found = hunt(mutant)
        living += found is None
        said = f"lives after {EXAMPLES} examples" if found is None else f"example {found[0]}: {found[1][:160]}"
        print(f"{time.process_time() - began_s:6.1f} s CPU  {mutant.name:50} {said}", flush=True)
    return int(living > 0)


if __name__ == "__main__":
    sys.exit(main())
