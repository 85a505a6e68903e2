"""Seeds of the swarm: whole clusters under faults of each seed's own mix, every rule checked after every step.

`make simulate` runs many more. What belongs to every change is a share of them, and that a seed is one run, whatever
the process and its hash seed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kavka.simulator.swarm import run_seed

HOURS = 0.05
PROGRAM = """
import sys
from kavka.logger import set_level
from kavka.simulator.swarm import run_seed
set_level("error")
for seed in map(int, sys.argv[2:]):
    print(seed, run_seed(seed, hours=float(sys.argv[1])).digest)
"""

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("seed", range(1001, 1013))
def test_a_seed_breaks_no_rule_and_loses_nothing(seed: int) -> None:
    result = run_seed(seed, hours=HOURS)

    assert not result.violation, f"{result.violation}\n{result.detail}"
    assert result.acknowledged > 0
    assert result.consumed > 0


def test_a_seed_is_one_run_whatever_the_process_and_its_hash_seed() -> None:
    seeds = [str(seed) for seed in range(2001, 2005)]
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(HOURS), *seeds],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = (run.communicate(timeout=300)[0].splitlines() for run in runs)

    assert first == second
    assert len({line.split()[1] for line in first}) == len(seeds)
