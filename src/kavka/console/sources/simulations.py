"""Simulations: runs of the simulator that readers ask for, each in a process of its own, bounded in time and number.

Decides how many there are at a time and how long one may take, and keeps what the latest left: a page to step through,
and figures. A run touches no cluster.

    I1  at most one process, with less right to the processor than the console; it is killed after TIMEOUT_S, and when
        the console stops
    I2  at most KEPT runs are kept, in a directory that goes with the console
    I3  what is asked for is one of the scenarios, or numbers within bounds: no word of a reader's is an option
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from kavka.errors import KavkaError

TIMEOUT_S: Final = 120.0
KEPT: Final = 20
MAX_SEED: Final = 1_000_000
MAX_MINUTES: Final = 20
MAX_BROKERS: Final = 5
END_S: Final = 5.0
"""How long a killed process may take to be gone."""
NICE: Final = 5
"""A third of a share: with less, a run beside other busy processes would not end in its time."""
MAX_ERROR: Final = 2_000
"""Characters of what a failed run said."""
COMMAND_OF_RECORDED: Final = "kavka why --json > decisions.jsonl; kavka lag-policy decisions.jsonl"
COMMAND: Final = (sys.executable, "-m", "kavka.cli.main")


class RunState(Enum):
    RUNNING = "running"
    DONE = "done"
    BROKE_A_RULE = "broke a rule"
    """It ran, and found what must not be: the page shows where."""
    FAILED = "failed"


class Busy(KavkaError):
    """A run is under way."""


@dataclass(slots=True)
class Run:
    """One run. `figures` are those that the command prints; `has_page` once there is one to look at."""

    run_id: str
    title: str
    command: str
    began_ms: int
    state: RunState = RunState.RUNNING
    ended_ms: int | None = None
    figures: Mapping[str, object] = field(default_factory=dict)
    error: str = ""
    has_page: bool = False
    cluster: str = ""
    """Whose recorded decisions it is about; none's else."""


class Simulations:
    """All runs of one console. Of one event loop."""

    def __init__(self, command: Sequence[str] = COMMAND, timeout_s: float = TIMEOUT_S) -> None:
        """`command`: what understands `simulate` and `lag-policy`."""
        self._command = command
        self._timeout_s = timeout_s
        self._runs: dict[str, Run] = {}
        self._task: asyncio.Task[None] | None = None
        self._directory: Path | None = None
        self._number = 0
        self._scenarios: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Run]:
        """The latest first."""
        return list(reversed(self._runs.values()))

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def get(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)

    def page_of(self, run: Run) -> Path | None:
        """The file with the run's page; None where there is none."""
        if not run.has_page or self._directory is None:
            return None
        return self._directory / f"{run.run_id}.html"

    async def scenarios(self) -> Sequence[str]:
        """The simulator's named scenarios. Empty where it cannot be asked."""
        if not self._scenarios:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                "simulate",
                "--list",
                "--json",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                async with asyncio.timeout(self._timeout_s):
                    output, _nothing = await process.communicate()
                self._scenarios = tuple(json.loads(output))
            except (TimeoutError, ValueError):
                return ()
            finally:
                await _end(process)
        return self._scenarios

    def start_scenario(self, name: str, seed: int) -> Run:
        """Raises Busy; ValueError where the name is none of `scenarios`."""
        if name not in self._scenarios:
            raise ValueError(f"there is no scenario {name!r}")
        return self._start(name, ["simulate", "--scenario", name, "--seed", str(_within(seed, 0, MAX_SEED))], "--page")

    def start_seed(self, seed: int, minutes: int, brokers: int | None) -> Run:
        """Raises Busy, ValueError."""
        hours = f"{_within(minutes, 1, MAX_MINUTES) / 60:.4f}"
        words = ["simulate", "--seed", str(_within(seed, 0, MAX_SEED)), "--hours", hours]
        if brokers is not None:
            words += ["--brokers", str(_within(brokers, 2, MAX_BROKERS))]
        return self._start(f"seed {seed}, {minutes} min", words, "--page")

    def start_lag_policies(self, seed: int, minutes: int) -> Run:
        """Raises Busy, ValueError."""
        words = ["lag-policy", "--seed", str(_within(seed, 0, MAX_SEED))]
        words += ["--minutes", str(_within(minutes, 1, MAX_MINUTES))]
        return self._start(f"lag policies compared, seed {seed}, {minutes} min", words, "--plot")

    def start_lag_policies_of(self, cluster: str, decisions: Sequence[bytes]) -> Run:
        """What other policies would have done with what a cluster recorded. Raises Busy."""
        if self.is_busy:
            raise Busy("a run is under way; wait for its end")
        file = self._place() / "decisions.jsonl"
        file.write_bytes(b"\n".join(decisions) + b"\n")
        run = self._start(
            f"lag policies on what {cluster} recorded", ["lag-policy", str(file)], "--plot", command=COMMAND_OF_RECORDED
        )
        run.cluster = cluster
        return run

    async def stop(self) -> None:
        """Ends the run that is under way, and removes what is kept."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        self._runs.clear()

    def _start(self, title: str, words: Sequence[str], page_option: str, *, command: str = "") -> Run:
        """`command`: the same for a reader's own shell, where that is not these words."""
        if self.is_busy:
            raise Busy("a run is under way; wait for its end")
        self._number += 1
        command = command or "kavka " + " ".join(_quoted(word) for word in words)
        run = Run(f"r{self._number}", title, command, _now_ms())
        self._runs[run.run_id] = run
        while len(self._runs) > KEPT:
            oldest = self._runs.pop(next(iter(self._runs)))
            (self._place() / f"{oldest.run_id}.html").unlink(missing_ok=True)
        self._task = asyncio.create_task(self._carry_out(run, words, page_option), name=f"simulation {run.run_id}")
        return run

    def _place(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="kavka-console-"))
        return self._directory

    async def _carry_out(self, run: Run, words: Sequence[str], page_option: str) -> None:
        page = self._place() / f"{run.run_id}.html"
        process = None
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *words,
                page_option,
                str(page),
                "--json",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            with contextlib.suppress(OSError):  # it has ended already
                os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            async with asyncio.timeout(self._timeout_s):
                output, errors = await process.communicate()
            self._take(run, process.returncode or 0, output, errors, page)
        except TimeoutError:
            run.state = RunState.FAILED
            run.error = f"It took longer than {self._timeout_s:g} s and was ended. Ask for fewer minutes or brokers."
        except OSError as problem:
            run.state = RunState.FAILED
            run.error = f"It could not be started: {problem.strerror}."
        finally:
            if process is not None:
                await _end(process)
            run.ended_ms = _now_ms()

    def _take(self, run: Run, status: int, output: bytes, errors: bytes, page: Path) -> None:
        try:
            figures = json.loads(output.strip().splitlines()[-1])
        except (ValueError, IndexError):
            figures = None
        if not isinstance(figures, dict):
            run.state = RunState.FAILED
            run.error = errors.decode(errors="replace").strip()[-MAX_ERROR:] or f"It ended with status {status}."
            return
        run.figures = figures
        run.has_page = page.exists() and page.stat().st_size > 0
        run.state = RunState.BROKE_A_RULE if figures.get("violations") else RunState.DONE


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{value} is not between {least} and {most}")
    return value


def _quoted(word: str) -> str:
    return word if word.replace("-", "").replace(".", "").isalnum() else f"'{word}'"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills a process that has not ended, and waits until it has: its pipes are closed while the loop still runs."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await process.communicate()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
