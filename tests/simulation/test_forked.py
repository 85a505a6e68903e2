"""Runs that are forked off at their faults: each is the run that is played alone, and each has an answer."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kavka.simulator.runs.explore import Outcome, Playing, Point, Then, play_calm, run_point
from kavka.simulator.runs.forked import NO_ANSWER, Lot, Task, play

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

FOR_EVER = 1e9


def _play(lots: Iterator[Lot], end_s: float = FOR_EVER) -> Iterator[tuple[Task, Outcome]]:
    return play(lots, 2, end_s, time.monotonic)


def _lot(points: Sequence[Point]) -> Lot:
    return [Task(0, number, point) for number, point in enumerate(points)]


@pytest.mark.parametrize("name", ["produce", "clean stop"])
def test_a_run_that_is_forked_off_is_the_run_that_is_played_alone(name: str) -> None:
    steps = play_calm(name).steps
    first, middle, last = steps[0], steps[len(steps) // 2], steps[-1]
    points = [
        Point(name, "power", 3, last),
        Point(name, "crash", 2, middle),
        Point(name, "power", 2, middle),
        Point(name, "crash", 2, middle, Then("crash", 3, 200)),
        Point(name, "clock behind", 1, first),
        Point(name, "delay", 3, middle + 1),
    ]

    found = {task.number: outcome for task, outcome in _play(iter([_lot(points)]))}

    assert [found[number] for number in range(len(points))] == [run_point(point) for point in points]
    assert len({outcome.digest for outcome in found.values()}) > 3


def test_a_run_whose_process_ends_without_an_answer_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = play_calm("produce").steps
    points = [Point("produce", "crash", broker, steps[40]) for broker in (1, 2, 3)]
    strike = Playing.strike

    def die(playing: Playing, point: Point) -> None:
        strike(playing, point)
        if point.broker == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Playing, "strike", die)
    found = {task.point.broker: outcome for task, outcome in _play(iter([_lot(points)]))}

    assert {broker: outcome.rule for broker, outcome in found.items()} == {1: "", 2: NO_ANSWER, 3: ""}
    assert found[2].point == points[1]


def test_what_is_not_done_in_time_is_dropped_with_its_processes() -> None:
    steps = play_calm("produce").steps
    lot = _lot([Point("produce", "crash", 1, step) for step in steps[:20]])
    done: list[int] = []
    before = _children()

    for task, _ in play(iter([lot, lot]), 2, 0.5, lambda: float(len(done))):
        done.append(task.number)

    assert len(done) in (1, 2), "of forty: one of each process may be there when the first is handed out"
    assert _children() <= before


def _children() -> set[int]:
    """Processes of this one that run, or were not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It ended meanwhile.
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def test_a_story_whose_steps_are_not_there_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    beyond = replace(play_calm("produce"), steps=range(900_000, 900_001))
    lot = _lot([Point("produce", "crash", 1, beyond.steps[0])])

    ((_, outcome),) = _play(iter([lot]))

    assert outcome.rule == NO_ANSWER
    assert "ValueError" in capfd.readouterr().err
