"""Many seeds on all cores, and the figures of it: python -m kavka.simulator.runs.campaign --seeds 300

Decides nothing about a run, only which seeds are run and how they are told. One line for each seed that failed, with
the command that has it again; in the end each is made smaller (`shrink`) and printed as what a test can play again.
After the seeds, some are run as twins, and bugs are put back. Then the figures (`campaign_figures`) beside what is
asked for, and all of them as one JSON object on the last line.

The exit status is 1 if a seed failed, two twins parted or a bug that was put back was not found; of a whole campaign,
of 300 seeds and more, also where a figure is not reached.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import partial

from kavka.logger import set_level
from kavka.simulator.runs import twins
from kavka.simulator.runs.campaign_figures import SEEDS, Figures, MutantFigures, table
from kavka.simulator.runs.shrink import shrink
from kavka.simulator.runs.swarm import HOURS, SeedResult, run_seed

SHRINK_SECONDS = 120.0
"""How long a failing seed is made smaller."""
MAX_SHRUNK = 5
"""So many failing seeds are made smaller, one of each rule first: a thousand seeds may fail for one reason."""
SEEDS_PER_PROCESS = 8
"""A simulated node is never collected: a process gives its memory back by ending."""


def run_seeds(  # noqa: PLR0913 - each campaign names what is not as usual
    seeds: Iterable[int],
    *,
    hours: float,
    brokers: int | None,
    processes: int,
    secured: bool = False,
    sharing: bool = False,
    streaming: bool = False,
) -> Iterator[SeedResult]:
    """Results as they come, in no order."""
    run = partial(_run_quietly, hours=hours, brokers=brokers, secured=secured, sharing=sharing, streaming=streaming)
    if processes == 1:
        yield from map(run, seeds)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, seeds)


def _run_quietly(
    seed: int, *, hours: float, brokers: int | None, secured: bool, sharing: bool, streaming: bool
) -> SeedResult:
    # A request of a connection that ended before its handler began: its coroutine never runs, as intended.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
    set_level("error")  # What a broker warns of is what is made to happen here.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # What is simulated is not collected in any case.
    return run_seed(seed, hours=hours, brokers=brokers, secured=secured, sharing=sharing, streaming=streaming)


def put_mutants_back(report: str) -> MutantFigures:
    """Has bugs put back one by one by a program, which tells what became of them: a JSON object on its last line."""
    process = subprocess.run([sys.executable, "-m", report], stdout=subprocess.PIPE, text=True, check=True)
    facts = json.loads(process.stdout.splitlines()[-1])
    return MutantFigures(facts["mutants"], facts["killed"], facts["alive"], facts["median_tries"])


def one_of_each_rule_first(failed: list[SeedResult]) -> list[SeedResult]:
    """In order of seeds otherwise, whichever ended first."""
    first: dict[str, int] = {}
    for result in sorted(failed, key=lambda result: result.seed):
        first.setdefault(result.rule, result.seed)
    return sorted(failed, key=lambda result: (first[result.rule] != result.seed, result.seed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kavka.simulator.runs.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first one")
    parser.add_argument("--seed", type=int, help="this one alone, and what happened in it")
    parser.add_argument("--hours", type=float, default=HOURS, help="simulated hours of a seed, without its healing")
    parser.add_argument("--brokers", type=int, help="how many; drawn by each seed otherwise")
    parser.add_argument("--secured", action="store_true", help="with TLS, logins and access control, which change")
    parser.add_argument("--sharing", action="store_true", help="with share groups, whose members come, go and lie")
    parser.add_argument("--streaming", action="store_true", help="with a streams group, whose members come and go")
    parser.add_argument("--minutes", type=float, help="take no more results after so long")
    parser.add_argument(
        "--shrink-seconds", type=float, default=SHRINK_SECONDS, help="for each failing seed to be made smaller; 0: not"
    )
    parser.add_argument("--twins", type=int, default=0, help="run so many seeds twice, with two hash seeds")
    parser.add_argument("--mutants", help="the module that puts bugs back (tests.simulation.mutant_report)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.seed is not None:
        seeds, processes = range(arguments.seed, arguments.seed + 1), 1
    else:
        seeds, processes = range(arguments.first, arguments.first + arguments.seeds), arguments.processes
    again = f"{parser.prog} --hours {arguments.hours}"
    if arguments.brokers is not None:
        again += f" --brokers {arguments.brokers}"
    again += " --secured" if arguments.secured else ""
    again += " --sharing" if arguments.sharing else ""
    again += " --streaming" if arguments.streaming else ""
    figures = Figures()
    runs = run_seeds(
        seeds,
        hours=arguments.hours,
        brokers=arguments.brokers,
        processes=processes,
        secured=arguments.secured,
        sharing=arguments.sharing,
        streaming=arguments.streaming,
    )
    for result in runs:
        figures.add(result)
        if arguments.seed is not None:
            print(f"seed {result.seed}, digest {result.digest}: {result.mix}")
            print(result.detail)
        if result.violation:
            print(f"seed {result.seed}: {result.violation}\n    again: {again} --seed {result.seed}", flush=True)
        if arguments.minutes is not None and figures.wall_seconds > 60 * arguments.minutes:
            break
    figures.seeds_done()
    if figures.seeds > 1:
        # What follows may take long: who ends it then still has this.
        print(
            f"{figures.seeds} seeds in {figures.wall_seconds / 60:.1f} minutes, {len(figures.failed)} failed",
            flush=True,
        )
    if arguments.shrink_seconds > 0:
        for result in one_of_each_rule_first(figures.failed)[:MAX_SHRUNK]:
            shrunk = shrink(result, max_seconds=arguments.shrink_seconds)
            told = shrunk.found.as_python() if shrunk.found is not None else ""
            print(f"seed {result.seed}, {result.rule}: {shrunk}\n{told}", flush=True)
    if arguments.twins and arguments.seed is None:
        first = twins.FIRST
        for twin in twins.run_twins(range(first, first + arguments.twins), twins.HOURS):
            figures.twins.append(twin)
            if twin.parted:
                print(f"seed {twin.seed} is two runs: {twin.parted}", flush=True)
    if arguments.mutants and arguments.seed is None:
        figures.mutants = put_mutants_back(arguments.mutants)
        for name in figures.mutants.alive:
            print(f"not found when it was put back: {name}", flush=True)
    return tell(figures)


def tell(figures: Figures) -> int:
    """Prints the figures; the exit status."""
    rows = figures.rows()
    print(table(rows))
    if missing := figures.missing_states:
        print(f"states never reached: {'; '.join(missing)}")
    print(json.dumps(figures.as_json()))
    is_whole = figures.seeds >= SEEDS
    parted = any(twin.parted for twin in figures.twins)
    alive = figures.mutants is not None and figures.mutants.alive
    missed = is_whole and any(row.is_met is False for row in rows)
    return 1 if figures.failed or parted or alive or missed else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # Nothing of a simulation is to be ended in order (scheduler.py, I2).
