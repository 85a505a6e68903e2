"""The sticky assignor: which member runs which task.

Decides from members (their process, and what the former target gave them), the tasks of the application, and how many
standbys each stateful task is to have. Must not know groups, epochs, the log.

    I1  every task is active at exactly one member
    I2  a process has a task once: a standby beside its own active task would help nobody
    I3  a member keeps a task, or takes over one that it had as a standby, unless it has its share already (stickiness)
    I4  what is free goes to the process with the fewest tasks per member, and there to the member with the fewest

Standbys that find no process without the task are left out.

Source: KIP-1071; the StickyTaskAssignor of Kafka's group coordinator (4.3), whose results this reproduces for the same
order of processes and members (tests/conformance/groups). Kafka's order is that of its hash maps; here it is that of
ids, so that every coordinator comes to the same assignment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.coordinator.groups.streams.decide.fair_queue import FairQueue
from kavka.coordinator.groups.streams.decide.tasks import Task, Tasks, task_ids, tasks_in


class TaskCount(NamedTuple):
    """How many tasks a subtopology has; stateful ones may have standbys."""

    tasks: int
    is_stateful: bool


class Runner(NamedTuple):
    """A member as the assignor sees it. `had` is its part of the former target."""

    member_id: str
    process_id: str
    had: Tasks


class _Process:
    """An instance of the application, with its members (threads)."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.load = 0.0
        self.all: set[Task] = set()
        self._total = 0
        self._by_load: FairQueue[str] | None = None

    def join(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def give(self, member_id: str, task: Task) -> int:
        """Returns how many tasks the member has then."""
        self._by_load = None
        return self._give(member_id, task)

    def give_least_loaded(self, task: Task) -> tuple[str, int]:
        """Returns the member that got it, and how many it has then."""
        if len(self.counts) == 1:
            member_id = next(iter(self.counts))
            return member_id, self._give(member_id, task)
        if self._by_load is None:
            self._by_load = FairQueue(self.counts, self.counts.__getitem__)
        member_id = self._by_load.take()
        count = self._give(member_id, task)
        self._by_load.add(member_id)
        return member_id, count

    def _give(self, member_id: str, task: Task) -> int:
        self.all.add(task)
        self._total += 1
        self.counts[member_id] += 1
        self.load = self._total / len(self.counts)
        return self.counts[member_id]


class _Share:
    """How many tasks a member may have: the tasks left, by members that have room. Who is full takes its tasks out."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = self._rounded()

    def on_given(self, count: int) -> None:
        """A member has `count` tasks now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = self._rounded()

    def _rounded(self) -> int:
        return math.ceil(self._tasks / self._members) if self._members > 0 else 0


def assign_sticky(
    runners: Sequence[Runner], counts: Mapping[str, TaskCount], *, standby_replicas: int
) -> dict[str, Tasks]:
    """Member id to its tasks. `counts` is in the order of subtopology ids, `runners` in that of member ids."""
    if not runners:
        return {}
    return _Assignment(runners, counts, standby_replicas).build()


class _Assignment:
    def __init__(self, runners: Sequence[Runner], counts: Mapping[str, TaskCount], standby_replicas: int) -> None:
        self._runners = runners
        self._counts = counts
        self._replicas = standby_replicas
        active = sum(count.tasks for count in counts.values())
        standby = sum(count.tasks * standby_replicas for count in counts.values() if count.is_stateful)
        self._active_share = _Share(active, len(runners))
        self._share = _Share(active + standby, len(runners))
        self._processes: dict[str, _Process] = {}
        self._active: dict[str, list[Task]] = {runner.member_id: [] for runner in runners}
        self._standby: dict[str, list[Task]] = {runner.member_id: [] for runner in runners}
        self._had_active: dict[Task, Runner] = {}
        self._had_standby: dict[Task, list[Runner]] = {}
        for process_id in sorted({runner.process_id for runner in runners}):
            self._processes[process_id] = _Process()
        for runner in runners:
            self._process(runner).join(runner.member_id)
            for task in tasks_in(runner.had.active):
                self._had_active[task] = runner
            for task in tasks_in(runner.had.standby):
                self._had_standby.setdefault(task, []).append(runner)

    def build(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._replicas:
            self._assign_standbys()
        return {
            runner.member_id: Tasks(task_ids(self._active[runner.member_id]), task_ids(self._standby[runner.member_id]))
            for runner in self._runners
        }

    def _process(self, runner: Runner) -> _Process:
        return self._processes[runner.process_id]

    def _tasks(self, *, stateful_only: bool) -> list[Task]:
        return [
            Task(subtopology, partition)
            for subtopology, count in self._counts.items()
            if count.is_stateful or not stateful_only
            for partition in range(count.tasks)
        ]

    def _has_room(self, runner: Runner, share: _Share) -> bool:
        return self._process(runner).counts[runner.member_id] < share.per_member

    def _on_active(self, member_id: str, task: Task, count: int) -> None:
        self._active[member_id].append(task)
        self._active_share.on_given(count)
        self._share.on_given(count)

    def _on_standby(self, member_id: str, task: Task, count: int) -> None:
        self._standby[member_id].append(task)
        self._share.on_given(count)

    # -- active tasks

    def _assign_active(self) -> None:
        # The same partitions of all subtopologies go together at first.
        free = sorted(self._tasks(stateful_only=False), key=lambda task: (task.partition, task.subtopology))
        free = [task for task in free if not self._stays(task, self._had_active.get(task))]
        free = [task for task in free if not self._stays(task, self._least_loaded(self._had_standby.get(task), None))]
        queue = FairQueue(self._processes.values(), lambda process: process.load)
        for task in sorted(free):
            process = queue.take()
            self._on_active(*_flat(process.give_least_loaded(task), task))
            queue.add(process)

    def _stays(self, task: Task, runner: Runner | None) -> bool:
        """Whether the task goes to who had it."""
        if runner is None or not self._has_room(runner, self._active_share):
            return False
        self._on_active(runner.member_id, task, self._process(runner).give(runner.member_id, task))
        return True

    def _least_loaded(self, runners: Sequence[Runner] | None, task: Task | None) -> Runner | None:
        """Of those who had a task as a standby, one with little to do; with `task`, only if its process has not got it.

        As in Kafka it is the first one's process that must not run it, whoever is chosen.
        """
        if not runners:
            return None
        first = self._process(runners[0])
        chosen, process_load = runners[0], first.load
        member_load = first.counts[chosen.member_id]
        for runner in runners[1:]:
            process = self._process(runner)
            if process.load < process_load and (task is None or task not in process.all):
                count = process.counts[runner.member_id]
                if count < member_load:
                    chosen, process_load, member_load = runner, process.load, count
        return chosen if task is None or task not in first.all else None

    # -- standby tasks

    def _assign_standbys(self) -> None:
        wanting: list[tuple[Task, int]] = []
        stateful = self._tasks(stateful_only=True)
        for task in sorted(stateful, key=lambda task: (task.partition, task.subtopology), reverse=True):
            for number in range(self._replicas):
                runner = self._former_keeper(task)
                if runner is None:
                    wanting.append((task, self._replicas - number))
                    break
                self._on_standby(runner.member_id, task, self._process(runner).give(runner.member_id, task))
        queue = FairQueue(self._processes.values(), lambda process: process.load)
        for task, missing in sorted(wanting, reverse=True):
            for _ in range(missing):
                if not self._give_standby(queue, task):
                    break

    def _former_keeper(self, task: Task) -> Runner | None:
        """Who had the task before, and can have it as a standby."""
        active = self._had_active.get(task)
        if active is not None and task not in self._process(active).all and self._has_room(active, self._share):
            return active
        standby = self._least_loaded(self._had_standby.get(task), task)
        return standby if standby is not None and self._has_room(standby, self._share) else None

    def _give_standby(self, queue: FairQueue[_Process], task: Task) -> bool:
        """Whether some process got it; those that have it already are passed over."""
        passed: list[_Process] = []
        given = False
        while queue and not given:
            process = queue.take()
            passed.append(process)
            if task not in process.all:
                self._on_standby(*_flat(process.give_least_loaded(task), task))
                given = True
        for process in reversed(passed):
            queue.add(process)
        return given


def _flat(given: tuple[str, int], task: Task) -> tuple[str, Task, int]:
    member_id, count = given
    return member_id, task, count
