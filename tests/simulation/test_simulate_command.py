"""`kavka simulate` as it is typed: figures, trace, page, what a broken rule looks like, and mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.cli.app import run
from kavka.simulator.host.trace import recording
from kavka.simulator.runs.recorded_run import Wish, find_scenarios, parse_faults
from kavka.simulator.runs.regression import parse
from kavka.simulator.scenarios import SCENARIOS
from kavka.simulator.scenarios.play import PARTITION, Play
from kavka.simulator.world import World
from tests.simulation.mutants import MUTANTS, put_back

HOURS = "0.01"
CASE_B = "article 001, case B: one after the other"

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class Output(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def kavka(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Output]:
    """Runs `kavka simulate` with these words, in this process."""

    def simulate(*words: str) -> Output:
        with monkeypatch.context() as streams:
            streams.setattr(sys, "stdout", sys.stdout)  # run() may put another in its place
            status = run(["simulate", *words])
            sys.stdout.flush()
        return Output(status, *capfd.readouterr())

    return simulate


def last_line(text: str) -> dict[str, Any]:
    found = json.loads(text.strip().splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_a_seed_is_one_trace_in_any_process() -> None:
    command = [sys.executable, "-m", "kavka.cli.main", "simulate", "--hours", HOURS, "--json", "--seed"]
    runs = [
        subprocess.Popen(
            [*command, seed], env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE, text=True
        )
        for seed, hash_seed in (("5", "1"), ("5", "2"), ("6", "1"))
    ]
    first, second, other = (last_line(each.communicate(timeout=100)[0]) for each in runs)

    assert [each.returncode for each in runs] == [0, 0, 0]
    assert first["digest"] == second["digest"] != other["digest"]
    wall = {"wall_seconds": 0}
    assert first | wall == second | wall
    assert first["violations"] == []
    assert first["events_checked"] > 1_000
    assert first["simulated_hours"] >= float(HOURS)
    assert first["wall_seconds"] > 0
    assert first["again"] == f"kavka simulate --seed 5 --hours {HOURS}"


def test_recording_a_run_changes_nothing_in_it() -> None:
    def digest() -> str:
        world = World(3)
        world.start()
        world.run_swarm(hours=0.005)
        return world.digest

    alone = digest()
    with recording() as trace:
        recorded = digest()

    assert alone == recorded
    assert trace.recorded > 50


def test_a_scenario_is_found_by_a_part_of_its_name_and_leaves_trace_and_page(
    tmp_path: Path, kavka: Callable[..., Output]
) -> None:
    trace, page = tmp_path / "run.txt", tmp_path / "run.html"

    status, told, _ = kavka("--scenario", "001, case b", "--trace", str(trace), "--page", str(page))

    assert status == 0
    assert CASE_B in told
    assert "violations\t0" in told
    head, *lines = trace.read_text().splitlines()
    assert head.split() == ["#", "time", "node", "event", "partition", "epoch", "isr", "leo", "hw", "text"]
    shrunk = [line for line in lines if "isr shrunk" in line]
    assert any("replica.lag.time.max.ms" in line for line in shrunk)
    assert any("killed" in line and "broker-1" in line for line in lines)
    assert "replica.lag.time.max.ms" in page.read_text()


def test_faults_that_are_named_are_the_only_ones(kavka: Callable[..., Output]) -> None:
    paused = last_line(kavka("--seed", "1", "--hours", "0.03", "--faults", "pause", "--json").out)
    calm = last_line(kavka("--seed", "1", "--hours", HOURS, "--faults", "none", "--brokers", "3", "--json").out)

    assert set(paused["faults_by_kind"]) == {"pause"}
    assert paused["again"].endswith("--faults pause")
    assert calm["faults"] == 0
    assert calm["isr_shrinks"] == 0
    assert calm["acknowledged"] == calm["sent"] > 0


def test_a_broken_rule_is_told_with_what_led_to_it_and_how_to_have_it_again(
    monkeypatch: pytest.MonkeyPatch, kavka: Callable[..., Output]
) -> None:
    def reads_what_nobody_wrote(seed: int) -> None:
        play = Play(seed)
        play.write_ok()
        play.world.observer.on_consumed(PARTITION, 99, b"never written")

    monkeypatch.setitem(SCENARIOS, "a reader's dream", reads_what_nobody_wrote)

    status, told, _ = kavka("--scenario", "dream", "--seed", "3")

    assert status == 1
    assert "Broken: R19, at " in told
    assert "99 was read, true HW 1" in told
    assert "committed" in told
    assert "Have it again: kavka simulate --seed 3 --scenario 'a reader'\"'\"'s dream'" in told

    output = kavka("--scenario", "dream", "--json")
    assert output.status == 1
    (violation,) = last_line(output.out)["violations"]
    assert violation["rule"] == "R19"
    assert violation["at_ms"] > 0
    assert len(output.out.strip().splitlines()) == 1
    assert "What led to it" in output.err


def test_whatever_ends_a_scenario_is_a_finding(monkeypatch: pytest.MonkeyPatch, kavka: Callable[..., Output]) -> None:
    monkeypatch.setitem(SCENARIOS, "expects too much", lambda seed: Play(seed).require(condition=False, what="nothing"))

    status, told, _ = kavka("--scenario", "expects", "--json")

    assert status == 1
    (violation,) = last_line(told)["violations"]
    assert violation["rule"] == "Unexpected"


def test_a_run_that_broke_a_rule_is_made_smaller_and_played_again(tmp_path: Path, kavka: Callable[..., Output]) -> None:
    (mutant,) = (each for each in MUTANTS if each.name == "reads what is not committed")
    small, again = tmp_path / "small.txt", tmp_path / "again.txt"
    with put_back(mutant):
        for seed in range(1, 21):
            status, told, _ = kavka("--seed", str(seed), "--hours", "0.02", "--shrink", str(small))
            if status == 1:
                break
        assert status == 1
        assert "Made smaller, " in told
        assert f"Have it again: kavka simulate --replay {small}" in told
        written = small.read_text()
        assert written.strip() in told

        status, told, _ = kavka("--replay", str(small), "--json", "--shrink", str(again))
        assert status == 1
        figures = last_line(told)
        assert figures["violations"][0]["rule"] == parse(written).rule
        assert parse(figures["regression"]) == parse(again.read_text())

    status, told, _ = kavka("--replay", str(small), "--shrink", str(tmp_path / "nothing.txt"))
    assert status == 0, "without the bug nothing is broken"
    assert "there is nothing to make smaller" in told
    assert not (tmp_path / "nothing.txt").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--scenario", "S13", "--shrink", "small.txt"], "a scenario is small already"),
        (["--replay", __file__], "is not a recorded run"),
        (["--replay", __file__, "--seed", "7"], "has its own seed, brokers, length and faults"),
        (["--scenario", "no such thing"], "unknown scenario 'no such thing'"),
        (["--scenario", "article 001"], "matches"),
        (["--scenario", "S13", "--hours", "1"], "a scenario has its own brokers, faults and end"),
        (["--faults", "kill,earthquake"], "no such kind of fault: earthquake"),
        (["--faults", ""], "no such kind of fault: nothing named"),
    ],
)
def test_mistakes_are_told(words: list[str], problem: str, kavka: Callable[..., Output]) -> None:
    output = kavka(*words)

    assert output.status == 2
    assert problem in output.err


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, kavka: Callable[..., Output]) -> None:
    missing = tmp_path / "no" / "such" / "directory"

    for option in ("--trace", "--page", "--shrink"):
        output = kavka("--hours", "0.001", "--seed", "1", option, str(missing))

        assert output.status == 1
        assert "cannot be written" in output.err


def test_scenarios_are_listed(kavka: Callable[..., Output]) -> None:
    assert kavka("--list").out.splitlines() == list(SCENARIOS)


def test_names_are_found_by_themselves_by_their_beginning_or_by_a_part() -> None:
    assert find_scenarios(CASE_B) == [CASE_B]
    assert all(name.startswith("S1:") for name in find_scenarios("s1"))
    assert CASE_B in find_scenarios("one after the other")


def test_a_wish_says_how_to_have_it_again() -> None:
    assert Wish(7).command == "kavka simulate --seed 7"
    assert Wish(7, hours=2.0, brokers=5, kinds=("kill", "power cut")).command == (
        "kavka simulate --seed 7 --hours 2 --brokers 5 --faults 'kill,power cut'"
    )
    assert Wish(7, kinds=parse_faults("none")).command == "kavka simulate --seed 7 --faults none"
