"""Runs of one story that have their beginning in common: it is played once, and each run is forked off at its fault.

Decides how runs share what they share. Up to its fault a run is the undisturbed one (`explore`'s I1), so a process that
plays the story undisturbed comes by the state in which each run's fault is made. There it forks: the child makes the
fault and plays to the end of the run, the parent waits for it and goes on to the next fault. A cluster's start, and
what a story does before its fault, take as long as the rest of a run; for many runs they are paid once.

    I1  a run that is forked off is the run that is played alone, with the same digest
    I2  of a process that plays, at most one child is there, and it ends with the process that is told to end
    I3  for each run there is an answer, also if its process ended without one

Source: the fork server of AFL (Zalewski), and KLEE's states (Cadar, Dunbar and Engler, OSDI 2008): what inputs share is
run once.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple, NoReturn

from kavka.simulator.runs.explore import Outcome, Playing, Point
from kavka.simulator.runs.shrink import be_quiet
from kavka.simulator.runs.stories import STORIES

NO_ANSWER: Final = "no answer"
"""In place of a rule: the process of a run was killed, or Python ended it."""
LOT: Final = 64
"""So many runs share a beginning: it is a small part of what they cost then, and a story's turn ends soon."""


class Task(NamedTuple):
    """A run to be made: of which scope, with which number."""

    place: int
    number: int
    point: Point


Lot = Sequence[Task]
"""Runs of one story, in any order."""


def play(lots: Iterator[Lot], workers: int, end_s: float, now_s: Callable[[], float]) -> Iterator[tuple[Task, Outcome]]:
    """Makes the runs of all lots, of `workers` lots at a time, and hands out each outcome as soon as it is there.
    After `end_s` by `now_s` it begins nothing more, and drops what is not done."""
    playing: dict[Connection, _Player] = {}
    try:
        while True:
            while len(playing) < workers and now_s() < end_s and (lot := next(lots, None)) is not None:
                player = _Player(lot)
                playing[player.answers] = player
            if not playing or now_s() > end_s:
                return
            for ready in wait(list(playing), timeout=1.0):
                assert isinstance(ready, Connection)
                player = playing[ready]
                answer = player.answer()
                if answer is not None:
                    yield answer
                    continue
                del playing[ready]
                yield from player.unanswered()
    finally:
        for player in playing.values():
            player.end()


class _Player:
    """A process that plays a lot."""

    def __init__(self, lot: Lot) -> None:
        context = multiprocessing.get_context("fork")
        self.answers, told = context.Pipe(duplex=False)
        self._left = {(task.place, task.number): task for task in lot}
        self._process: BaseProcess = context.Process(target=_play_lot, args=(lot, told), daemon=True)
        self._process.start()
        told.close()

    def answer(self) -> tuple[Task, Outcome] | None:
        """What a run sent; None if the process has ended."""
        try:
            place, number, outcome = self.answers.recv()
        except (EOFError, OSError):
            return None
        return self._left.pop((place, number)), outcome

    def unanswered(self) -> Iterator[tuple[Task, Outcome]]:
        """The runs that ended without an answer, once the process has ended (I3)."""
        self._process.join()
        self.answers.close()
        for task in self._left.values():
            why = f"{NO_ANSWER}: its process ended without one (exit status {self._process.exitcode})"
            yield task, Outcome(task.point, "", range(0), is_made=True, rule=NO_ANSWER, violation=why)

    def end(self) -> None:
        """Ends the process, with the run that it is at (I2)."""
        self._process.terminate()
        self._process.join()
        self.answers.close()


def _play_lot(lot: Lot, answers: Connection) -> None:
    """Plays the story undisturbed, and forks off each run at its fault. In a process of its own, which ends here."""
    be_quiet()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Whoever interrupts the whole ends this process in order.
    tasks = sorted(lot, key=lambda task: task.point.step)
    by_step: dict[int, list[Task]] = {}
    for task in tasks:
        by_step.setdefault(task.point.step, []).append(task)
    playing = Playing(STORIES[tasks[0].point.story])
    ours: list[Task] = []
    """In a child: the one run that it makes."""
    last = tasks[-1].point.step

    def part(step: int) -> None:
        if ours:
            return
        gc.freeze()  # What is there is neither looked through nor, for that, copied by any child.
        for task in by_step[step]:
            if _fork():
                ours.append(task)
                playing.strike(task.point)
                return
        if step == last:
            os._exit(0)  # Nothing of a simulated node may run at the end of the interpreter.

    for step in by_step:
        playing.at(step, lambda step=step: part(step))  # type: ignore[misc]  # mypy does not see the default's type
    try:
        outcome = playing.play(lambda: ours[0].point if ours else None)
        (task,) = ours
        answers.send((task.place, task.number, outcome))
    except Exception:  # noqa: BLE001  # whatever ends a run must not end in the code of the process that it was forked from
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _fork() -> bool:
    """Forks. Returns True in the child; in the parent False, once the child has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    child = os.fork()
    if not child:
        return True

    def end(_number: int, _frame: object) -> NoReturn:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    os.waitpid(child, 0)
    return False
