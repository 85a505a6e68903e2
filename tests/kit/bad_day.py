"""A bad day of the exactly-once sink: its processes are killed with -9, paused and overtaken.

Spark is played here, by its rules: a task that failed or was lost is run again with the same rows, another attempt
may run beside it, and the next micro-batch begins when every task of this one has succeeded. So many more faults fit
into a minute than a JVM's start allows.

I1  Processes are killed by the pid that was started here.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from tests.kit.topic_contents import contents, create

SCRIPT = Path(__file__).with_name("sink_tasks_process.py")
ROWS, TASKS = 10_000, 4
PATIENCE_S = 120.0


class TaskProcess:
    """One process that runs tasks, one at a time."""

    def __init__(self, job: dict) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), json.dumps(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put("")

    def hear(self, timeout_s: float = PATIENCE_S) -> str:
        """What it says next; "" once it is dead."""
        return self._said.get(timeout=timeout_s)

    def run(self, batch: int, partition: int) -> None:
        """Returns when the task is under way."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{batch} {partition}\n")
        self._process.stdin.flush()
        assert self.hear() == "began"

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(10)


class Driver:
    """Runs micro-batches, and does what a bad day does to their tasks."""

    def __init__(self, job: dict, seed: int) -> None:
        self._job = job
        self._chance = random.Random(seed)
        self._free: list[TaskProcess] = []
        self._zombies: list[tuple[int, TaskProcess]] = []
        """Paused amid an attempt, with the batch at which they wake."""
        self.all: list[TaskProcess] = []
        self.faults: Counter[str] = Counter()
        self.told: Counter[str] = Counter()

    def batch(self, number: int, fault: str) -> None:
        """One micro-batch; one of its tasks meets the fault."""
        struck = self._chance.randrange(TASKS)
        for partition in range(TASKS):
            if partition == struck:
                self.faults[fault] += 1
                getattr(self, f"_{fault}")(number, partition)
            self._until_done(number, partition)
        for wake_at, zombie in list(self._zombies):
            if number >= wake_at:
                self._zombies.remove((wake_at, zombie))
                zombie.signal(signal.SIGCONT)
                self._heard(zombie)

    def _until_done(self, batch: int, partition: int) -> None:
        for _ in range(5):
            process = self._take()
            process.run(batch, partition)
            if self._heard(process) in ("done", "skipped"):
                return
        raise AssertionError(f"batch {batch} of task {partition} failed five times: {self.told}")

    def _kill(self, batch: int, partition: int) -> None:
        """-9 amid the attempt, or after it: then the driver never hears that it succeeded."""
        process = self._take()
        process.run(batch, partition)
        time.sleep(self._chance.uniform(0, 0.08))
        process.signal(signal.SIGKILL)

    def _overtake(self, batch: int, partition: int) -> None:
        """Two attempts at the same time."""
        first, second = self._take(), self._take()
        first.run(batch, partition)
        time.sleep(self._chance.uniform(0, 0.02))
        second.run(batch, partition)
        self._heard(first)
        self._heard(second)

    def _pause(self, batch: int, partition: int) -> None:
        """Believed dead amid the attempt; it goes on during a later batch."""
        process = self._take()
        process.run(batch, partition)
        time.sleep(self._chance.uniform(0, 0.05))
        process.signal(signal.SIGSTOP)
        self._zombies.append((batch + self._chance.randrange(3), process))

    def _take(self) -> TaskProcess:
        if not self._free:
            process = TaskProcess(self._job)
            self.all.append(process)
            assert process.hear() == "ready"
            return process
        return self._free.pop()

    def _heard(self, process: TaskProcess) -> str:
        said = process.hear()
        self.told[said.split(":")[0]] += 1
        if said:
            self._free.append(process)
        return said


def check_once(bootstrap: str, topic: str, batches: int) -> None:
    found = Counter(int(record.value or b"") for record in contents(bootstrap, topic))
    expected = {
        (batch * 1000 + partition) * ROWS + row
        for batch in range(batches)
        for partition in range(TASKS)
        for row in range(ROWS)
    }
    assert len(found) == len(expected)
    assert found.keys() == expected
    assert set(found.values()) == {1}


def bad_day(bootstrap: str, batches: int, faults: list[str], seed: int) -> Driver:
    """One fault in each micro-batch; afterwards each row is there once, to a reader of committed records."""
    topic = f"bad-day-{seed}"
    create(bootstrap, topic, TASKS)
    job = {"bootstrap": bootstrap, "topic": topic, "query": f"query-{seed}", "rows": ROWS, "tasks": TASKS}
    driver = Driver(job, seed)
    random.Random(seed).shuffle(faults)
    try:
        for number in range(batches):
            driver.batch(number, faults[number])
    finally:
        for process in driver.all:
            process.end()
    check_once(bootstrap, topic, batches)
    return driver
