"""Kafka's own sticky task assignor and ours, on the same random groups: the same assignments, task by task.

Kafka's order of processes and members is that of hash maps; here their names are single characters, of which such a map
has the order of their codes.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.coordinator.groups.streams.decide.sticky_assignor import Runner, TaskCount, assign_sticky
from kavka.coordinator.groups.streams.decide.tasks import Task, TaskIds, Tasks, task_ids, tasks_in
from tests.apache_kafka import PeerMissing, installed

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

GROUPS = 5_000
FIRST_NAME = 0x100
"""The code of the first name: one that is 0 in its lowest bits, so that the order of a hash map is that of codes."""


class Group(NamedTuple):
    """What the assignor is given."""

    runners: Sequence[Runner]
    counts: dict[str, TaskCount]
    standbys: int


def random_group(rng: random.Random) -> Group:
    """Up to 12 members in up to 6 processes, 4 subtopologies of up to 9 tasks; most have former assignments, which may
    be uneven, of other numbers of tasks, or name a task twice."""
    counts = {str(number): TaskCount(rng.randint(1, 9), rng.random() < 0.6) for number in range(rng.randint(1, 4))}
    names = [chr(FIRST_NAME + number) for number in range(rng.randint(1, 12))]
    # No more than members: Kafka's map of processes has room for as many.
    processes = names[: rng.randint(1, 6)]
    had: dict[str, tuple[list[Task], list[Task]]] = {name: ([], []) for name in names}
    if rng.random() < 0.8:
        weights = [rng.random() ** 2 for _ in names]
        for subtopology, count in counts.items():
            for partition in range(count.tasks + rng.randint(0, 1)):
                task = Task(subtopology, partition)
                if rng.random() < 0.8:
                    had[rng.choices(names, weights)[0]][0].append(task)
                for _ in range(rng.randint(0, 2)):
                    had[rng.choices(names, weights)[0]][1].append(task)
    runners = [
        Runner(name, rng.choice(processes), Tasks(task_ids(had[name][0]), task_ids(had[name][1]))) for name in names
    ]
    return Group(runners, counts, rng.randint(0, 3))


def listed(ids: TaskIds) -> str:
    return ",".join(sorted(f"{task.subtopology}.{task.partition}" for task in tasks_in(ids)))


def line(group: Group) -> str:
    counts = ",".join(f"{name}:{count.tasks}:{int(count.is_stateful)}" for name, count in group.counts.items())
    members = (
        "|".join((runner.member_id, runner.process_id, listed(runner.had.active), listed(runner.had.standby)))
        for runner in group.runners
    )
    return ";".join((str(group.standbys), counts, *members))


def test_assignments_are_those_of_kafka() -> None:
    try:
        jars = installed("kraft")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    rng = random.Random(1071)
    groups = [random_group(rng) for _ in range(GROUPS)]
    answer = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(Path(__file__).with_name("AssignTasks.java"))],
        input="".join(f"{line(group)}\n" for group in groups).encode(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    for group, told in zip(groups, answer.stdout.decode().splitlines(), strict=True):
        ours = assign_sticky(group.runners, group.counts, standby_replicas=group.standbys)
        expected = "".join(f"{name}={listed(tasks.active)}/{listed(tasks.standby)};" for name, tasks in ours.items())
        assert told == expected, line(group)
