"""`kavka simulate --explore` as it is typed: figures, what a broken rule looks like, how it is had again, mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.simulator.runs.stories import STORIES
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutation import Change, Mutant, put_back
from tests.simulation.test_simulate_command import Output, kavka

__all__ = ["kavka"]

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def test_a_part_of_a_scope_is_made_counted_and_kept(kavka: Callable[..., Output], tmp_path: Path) -> None:
    words = ("--explore", "crash", "--scenario", "log", "--part", "5/100", "--keep", str(tmp_path / "kept"))
    done = kavka(*words)

    assert done.status == 0, done.err
    (heading, row), told = [line.split("\t") for line in done.out.splitlines()[:2]], done.out.splitlines()[-1]
    assert heading == ["STORY", "KIND", "RUNS THERE ARE", "MADE", "REFUSED", "BROKEN", "COMPLETE"]
    assert row[:2] == ["log roll", "crash"]
    made = int(row[3]) + int(row[4])
    assert made == len(range(5, int(row[2].replace(",", "")), 100)) > 1
    assert row[5:] == ["0", "no"]
    assert told == f"{made} runs, {made} of them different; 0 broke a rule."
    assert "Exploring:" in done.err

    again = json.loads(kavka(*words, "--json").out)
    assert (again["runs"], again["violations"]) == (made, [])
    assert again["scopes"][0]["complete"] is False
    assert len((tmp_path / "kept").read_text().splitlines()) == made + 1, "nothing was made twice"


def test_stories_are_listed(kavka: Callable[..., Output]) -> None:
    assert kavka("--explore", "all", "--list").out.splitlines() == list(STORIES)


def test_one_run_is_had_again_with_its_trace(kavka: Callable[..., Output], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    done = kavka("--explore", "crash", "--scenario", "log roll", "--at", "crash 2@1500", "--trace", str(trace))

    assert done.status == 0, done.err
    assert "kavka simulate --explore crash --scenario 'log roll' --at 'crash 2@1500'" in done.err
    assert re.search(r"faults made\t1 \(1 kill\)", done.out)
    assert "killed" in trace.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--explore", "fire"), "one of: crash, power, session, disk, clock, delay, all"),
        (("--explore", "crash", "--scenario", "pigs"), "no story 'pigs'"),
        (("--explore", "crash", "--scenario", "election", "--at", "crash 9@1200"), "no broker 9"),
        (("--explore", "crash", "--scenario", "e", "--at", "crash 1@1200"), "stories"),
        (("--explore", "crash", "--bound", "2"), "--bound counts delays"),
        (("--explore", "delay", "--bound", "3"), "--bound 3 is not explored"),
        (("--explore", "crash", "--part", "3/3"), "is not I/N"),
        (("--explore", "crash", "--minutes", "0"), "is too short"),
        (("--explore", "crash", "--minutes", "nan"), "is too short"),
        (("--explore", "crash", "--seed", "7"), "a story has its own seed"),
        (("--pairs",), "add --explore KIND"),
        (("--minutes", "3"), "add --explore KIND"),
    ],
)
def test_mistakes_are_told_with_the_way_out(kavka: Callable[..., Output], words: tuple[str, ...], told: str) -> None:
    done = kavka(*words)

    assert done.status == 2, done.out
    assert told in done.err


def test_a_file_of_other_runs_is_refused(kavka: Callable[..., Output], tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text('{"scopes": []}\n')
    done = kavka("--explore", "crash", "--scenario", "log roll", "--keep", str(path))

    assert done.status == 1
    assert "keeps other runs" in done.err
    assert path.read_text() == '{"scopes": []}\n'


def test_who_interrupts_it_is_told_where_its_runs_are(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    words = ("--explore", "crash", "--scenario", "produce", "--keep", str(kept))
    exploring = subprocess.Popen(
        [sys.executable, "-m", "kavka.cli.main", "simulate", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not kept.exists() or kept.read_text().count("\n") < 3:
        assert exploring.poll() is None
        time.sleep(0.05)
    os.killpg(exploring.pid, signal.SIGINT)  # As a terminal does it: the processes that play are interrupted, too.
    out, err = exploring.communicate(timeout=60)

    assert exploring.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == f"Stopped: {kept} has the runs that were made, and the same command goes on from it."


def test_who_interrupts_what_is_kept_nowhere_is_told_so(
    kavka: Callable[..., Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_scopes: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kavka.simulator.runs.exploration.explore", interrupted)
    done = kavka("--explore", "crash", "--scenario", "produce")

    assert done.status == 130
    assert "Stopped, and what was made is lost: --keep FILE" in done.err


@pytest.mark.thorough
def test_a_bug_that_only_the_very_step_shows_is_not_written_down_and_that_is_said(
    kavka: Callable[..., Output], tmp_path: Path
) -> None:
    early = Mutant(
        "what a flush is about to sync counts as durable",
        "a power cut during a flush takes what recovery does not look for any more",
        (
            Change(
                "kavka.log.durability:Durability.prepare",
                "self.flush_in_progress = True",
                "self.flush_in_progress, self.recovery_point = True, max(self.recovery_point, log_end_offset)",
            ),
        ),
    )
    page, small = tmp_path / "page.html", tmp_path / "small.txt"
    with put_back(early):
        words = ("--explore", "power", "--scenario", "log roll", "--part", "1/5")
        done = kavka(*words, "--page", str(page), "--shrink", str(small))

    assert done.status == 1
    assert "R22" in done.out
    assert "durable to" in page.read_text()
    assert not small.exists()
    place = re.search(r"--at '(.*)'", done.out)
    assert place is not None
    assert "The run is not made smaller: had again, it broke no rule (1 run, " in done.err
    assert f"Have it again: kavka simulate --explore power --scenario 'log roll' --at '{place[1]}'" in done.err


@pytest.mark.thorough
def test_a_bug_is_found_shown_and_made_smaller(kavka: Callable[..., Output], tmp_path: Path) -> None:
    (bug,) = (mutant for mutant in MUTANTS if mutant.name == "late answers count")
    page, small = tmp_path / "page.html", tmp_path / "small.txt"
    with put_back(bug):
        words = ("--explore", "crash", "--scenario", "clean stop", "--part", "0/100", "--page", str(page))
        done = kavka(*words, "--shrink", str(small))
        again = re.search(r"again: kavka simulate (.*)", done.out)
        assert again is not None, done.out
        place = re.search(r"--at '(.*)'", again[1])
        assert place is not None
        had = kavka("--explore", "crash", "--scenario", "clean stop", "--at", place[1])

    assert done.status == 1
    assert "R20" in done.out
    assert "R20" in page.read_text()
    assert had.status == 1
