"""Puts every bug back, one by one, and says what found it: python tests/simulation/mutant_report.py

A line for each; the last line is one JSON object: mutants, killed, alive (names), median_seconds, seconds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

from mutants import MUTANTS, put_back
from test_mutants import found_by

from kavka.simulator.shrink import be_quiet


def main() -> None:
    be_quiet()
    began_s = time.perf_counter()
    alive: list[str] = []
    took: list[float] = []
    for mutant in MUTANTS:
        mutant_began_s = time.perf_counter()
        with put_back(mutant):
            found = found_by(mutant)
        took.append(time.perf_counter() - mutant_began_s)
        if found is None:
            alive.append(mutant.name)
        print(f"{took[-1]:6.1f} s  {mutant.name}: {found or 'LIVES'}", flush=True)
    facts = {
        "mutants": len(MUTANTS),
        "killed": len(MUTANTS) - len(alive),
        "alive": alive,
        "median_seconds": round(statistics.median(took), 2),
        "seconds": round(time.perf_counter() - began_s, 1),
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # Nothing of a simulation is to be ended in order.
