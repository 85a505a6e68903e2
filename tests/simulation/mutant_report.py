"""Puts every bug back, one by one, and says what found it: python -m tests.simulation.mutant_report

A line for each; then how many were found, and in how many tries (scenarios or seeds played) at the median. The last
line is one JSON object: mutants, killed, alive (names), median_tries, median_seconds, seconds.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import sys
import time
from contextlib import redirect_stdout

from kavka.simulator.runs.shrink import be_quiet
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutation import hunt


def main() -> None:
    be_quiet()
    began_s = time.perf_counter()
    alive: list[str] = []
    tries: list[int] = []
    took: list[float] = []
    for mutant in MUTANTS:
        mutant_began_s = time.perf_counter()
        with redirect_stdout(io.StringIO()):  # What a broker says of its bug is no news here.
            kill = hunt(mutant)
        took.append(time.perf_counter() - mutant_began_s)
        if kill is None:
            alive.append(mutant.name)
        else:
            tries.append(kill.tries)
        print(f"{took[-1]:6.1f} s  {mutant.name}: {kill or 'LIVES'}", flush=True)
    seconds = time.perf_counter() - began_s
    median = statistics.median(tries) if tries else 0
    print(f"{len(tries)} of {len(MUTANTS)} bugs found, in {median:g} tries at the median, {seconds:.0f} s in all")
    facts = {
        "mutants": len(MUTANTS),
        "killed": len(tries),
        "alive": alive,
        "median_tries": median,
        "median_seconds": round(statistics.median(took), 2),
        "seconds": round(seconds, 1),
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # Nothing of a simulation is to be ended in order.
