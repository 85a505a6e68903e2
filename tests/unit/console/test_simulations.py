"""Runs of the simulator that readers ask for: one at a time, ended in time, and nothing of a reader's is an option."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable

import pytest

from kavka.console.sources.simulations import KEPT, Busy, Run, RunState, Simulations

FIGURES = json.dumps({"leader_elections": 2, "violations": []})
PRINTS = f"import sys, json; print({FIGURES!r}); open(sys.argv[sys.argv.index('--page') + 1], 'w').write('page')"
SLEEPS = "import time; time.sleep(60)"
FAILS = "import sys; sys.exit('no such thing: ' + ' '.join(sys.argv[1:]))"
BREAKS = 'print(\'{"violations": [{"rule": "R4"}]}\')'


def runs(program: str, *, timeout_s: float = 20.0) -> Simulations:
    return Simulations((sys.executable, "-c", program), timeout_s)


def play(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(bounded())


async def ended(run: Run) -> Run:
    while run.state is RunState.RUNNING or run.ended_ms is None:  # noqa: ASYNC110 - what a page sees of it
        await asyncio.sleep(0.01)
    return run


def test_a_run_leaves_its_figures_and_its_page() -> None:
    async def work() -> None:
        simulations = runs(PRINTS)
        run = await ended(simulations.start_seed(7, 2, 3))
        assert run.state is RunState.DONE
        assert run.figures == {"leader_elections": 2, "violations": []}
        assert run.command == "kavka simulate --seed 7 --hours 0.0333 --brokers 3"
        page = simulations.page_of(run)
        assert page is not None
        assert page.read_text() == "page"
        await simulations.stop()
        assert not page.exists()

    play(work)


def test_a_run_that_breaks_a_rule_is_told_apart_from_one_that_fails() -> None:
    async def work() -> None:
        for program, state, words in ((BREAKS, RunState.BROKE_A_RULE, ""), (FAILS, RunState.FAILED, "no such thing")):
            simulations = runs(program)
            run = await ended(simulations.start_seed(1, 1, None))
            assert run.state is state
            assert words in run.error
            assert simulations.page_of(run) is None
            await simulations.stop()

    play(work)


def test_one_run_at_a_time() -> None:
    async def work() -> None:
        simulations = runs(SLEEPS)
        simulations.start_seed(1, 1, None)
        with pytest.raises(Busy):
            simulations.start_lag_policies(1, 1)
        with pytest.raises(Busy):
            simulations.start_lag_policies_of("prod", [b"{}"])
        await simulations.stop()

    play(work)


def test_a_run_is_ended_when_its_time_is_over() -> None:
    async def work() -> None:
        simulations = runs(SLEEPS, timeout_s=0.3)
        run = await ended(simulations.start_seed(1, 1, None))
        assert run.state is RunState.FAILED
        assert "longer than 0.3 s" in run.error
        assert not simulations.is_busy
        await simulations.stop()

    play(work)


def test_the_end_of_the_console_ends_a_run() -> None:
    async def work() -> None:
        simulations = runs(f"import os, time; open({os.devnull!r}); time.sleep(60)")
        simulations.start_seed(1, 1, None)
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            await simulations.stop()
        assert simulations.runs == []

    play(work)


def test_the_latest_runs_are_kept() -> None:
    async def work() -> None:
        simulations = runs(BREAKS)
        for number in range(KEPT + 2):
            await ended(simulations.start_seed(number, 1, None))
            while simulations.is_busy:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert len(simulations.runs) == KEPT
        assert simulations.runs[0].title.startswith(f"seed {KEPT + 1}")
        await simulations.stop()

    play(work)


@pytest.mark.parametrize(
    ("seed", "minutes", "brokers"), [(-1, 1, None), (1, 0, None), (1, 21, None), (1, 1, 1), (1, 1, 99)]
)
def test_numbers_have_bounds(seed: int, minutes: int, brokers: int | None) -> None:
    async def work() -> None:
        with pytest.raises(ValueError, match="is not between"):
            runs(PRINTS).start_seed(seed, minutes, brokers)

    play(work)


@pytest.mark.parametrize("name", ["--replay", "S13; rm -rf /", "", "no such scenario"])
def test_a_scenario_is_one_that_there_is(name: str) -> None:
    async def work() -> None:
        simulations = runs("import json; print(json.dumps(['article 001']))")
        assert await simulations.scenarios() == ("article 001",)
        with pytest.raises(ValueError, match="no scenario"):
            simulations.start_scenario(name, 1)

    play(work)


def test_a_run_that_cannot_be_started_says_so() -> None:
    async def work() -> None:
        simulations = Simulations(("/no/such/program",))
        run = await ended(simulations.start_seed(1, 1, None))
        assert run.state is RunState.FAILED
        assert "could not be started" in run.error
        await simulations.stop()

    play(work)
