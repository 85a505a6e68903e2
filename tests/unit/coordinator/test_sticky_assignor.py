"""The sticky assignor of streams groups: Kafka's answers for many groups, and the queue and task sets that it uses."""

from __future__ import annotations

import heapq
import random
from pathlib import Path

import pytest

from kavka.coordinator.groups.streams.decide.fair_queue import FairQueue
from kavka.coordinator.groups.streams.decide.sticky_assignor import Runner, TaskCount, assign_sticky
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, TaskIds, Tasks, task_ids, tasks_in


def answers_of_kafka() -> list[tuple[str, str]]:
    """kafka_tasks.txt: what Kafka is asked, and what it answers."""
    lines = Path(__file__).with_name("kafka_tasks.txt").read_text().splitlines()
    told = [line for line in lines if not line.startswith("#")]
    return list(zip(told[::2], map(str.strip, told[1::2]), strict=True))


def read(listed: str) -> TaskIds:
    named = (each.split(".") for each in listed.split(",") if each)
    return task_ids(Task(subtopology, int(partition)) for subtopology, partition in named)


def listed(ids: TaskIds) -> str:
    return ",".join(sorted(f"{task.subtopology}.{task.partition}" for task in tasks_in(ids)))


@pytest.mark.parametrize(("asked", "answer"), answers_of_kafka())
def test_assignments_are_those_of_kafka(asked: str, answer: str) -> None:
    standbys, told, *members = asked.split(";")
    counts = {name: TaskCount(int(count), flag == "1") for name, count, flag in (e.split(":") for e in told.split(","))}
    runners = [
        Runner(member_id, process_id, Tasks(read(active), read(standby)))
        for member_id, process_id, active, standby in (member.split("|") for member in members)
    ]
    found = assign_sticky(runners, counts, standby_replicas=int(standbys))
    assert "".join(f"{name}={listed(has.active)}/{listed(has.standby)};" for name, has in found.items()) == answer


def test_without_members_or_without_tasks_nobody_has_any() -> None:
    assert assign_sticky([], {"0": TaskCount(3, True)}, standby_replicas=1) == {}
    assert assign_sticky([Runner("one", "p", NOTHING)], {}, standby_replicas=1) == {"one": NOTHING}


# -- the queue


class JavaQueue:
    """java.util.PriorityQueue as its documentation's siftUp and siftDown have it, by recursion."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, str]] = []

    def add(self, item: tuple[int, str]) -> None:
        self.heap.append(item)
        self._rise(len(self.heap) - 1)

    def _rise(self, place: int) -> None:
        parent = (place - 1) >> 1
        if place and self.heap[place][0] < self.heap[parent][0]:
            self.heap[place], self.heap[parent] = self.heap[parent], self.heap[place]
            self._rise(parent)

    def take(self) -> tuple[int, str]:
        first, last = self.heap[0], self.heap.pop()
        if self.heap:
            self.heap[0] = last
            self._sink(0)
        return first

    def _sink(self, place: int) -> None:
        children = [child for child in (2 * place + 1, 2 * place + 2) if child < len(self.heap)]
        if children:
            least = min(children, key=lambda child: self.heap[child][0])
            if self.heap[place][0] > self.heap[least][0]:
                self.heap[place], self.heap[least] = self.heap[least], self.heap[place]
                self._sink(least)


def test_equals_leave_the_queue_in_the_order_of_javas() -> None:
    for seed in range(200):
        drawn = random.Random(seed)
        items = [(drawn.randint(0, 3), f"i{number}") for number in range(drawn.randint(0, 14))]
        queue, java = FairQueue(items, lambda item: item[0]), JavaQueue()
        for item in items:
            java.add(item)
        while len(queue):
            assert len(queue) == len(java.heap)
            taken = queue.take()
            assert taken == java.take(), seed
            if drawn.random() < 0.5:
                again = (taken[0] + 1, taken[1])
                queue.add(again)
                java.add(again)
        assert not java.heap


def test_of_equals_the_last_of_four_comes_first_after_the_first() -> None:
    """Java 21: a PriorityQueue of four equals, a to d, is polled as a, d, c, b."""
    queue = FairQueue("abcd", lambda _: 0)
    assert [queue.take() for _ in range(4)] == ["a", "d", "c", "b"]
    with pytest.raises(IndexError):
        queue.take()


def test_who_has_least_to_do_comes_first() -> None:
    loads = [random.Random(3).random() for _ in range(50)]
    queue = FairQueue(loads, lambda load: load)
    assert [queue.take() for _ in loads] == heapq.nsmallest(50, loads)


# -- sets of tasks

HAS = Tasks({"0": frozenset({0, 1})}, {"1": frozenset({2})}, {"2": frozenset({3})})


@pytest.mark.parametrize(
    ("others", "has_any", "has_all"),
    [
        (NOTHING, False, True),
        (HAS, True, True),
        (Tasks({"0": frozenset({1})}), True, True),
        (Tasks({"0": frozenset({1, 2})}), True, False),
        (Tasks({"0": frozenset({2})}), False, False),
        (Tasks({"9": frozenset({0})}), False, False),
        (Tasks({}, {"0": frozenset({0})}), False, False),
        (Tasks({}, {"1": frozenset({2})}), True, True),
        (Tasks({}, {}, {"2": frozenset({3})}), True, True),
        (Tasks({"0": frozenset({0})}, {}, {"2": frozenset({4})}), True, False),
        (Tasks({"0": frozenset({0}), "9": frozenset({0})}), True, False),
    ],
)
def test_what_two_sets_of_tasks_have_in_common(others: Tasks, has_any: bool, has_all: bool) -> None:
    assert (HAS.has_any(others), HAS.has_all(others)) == (has_any, has_all)


def test_tasks_of_the_same_kind_are_joined() -> None:
    more = Tasks({"0": frozenset({5}), "4": frozenset({0})}, {}, {"2": frozenset({0})})
    assert HAS.together(more) == Tasks(
        {"0": frozenset({0, 1, 5}), "4": frozenset({0})}, {"1": frozenset({2})}, {"2": frozenset({0, 3})}
    )
    assert NOTHING.together(HAS) == HAS.together(NOTHING) == HAS


def test_only_a_member_without_a_task_of_any_kind_has_none() -> None:
    some: TaskIds = {"0": frozenset({0})}
    assert NOTHING.is_empty
    assert not any(each.is_empty for each in (Tasks(some), Tasks({}, some), Tasks({}, {}, some)))


def test_tasks_are_listed_by_subtopology() -> None:
    ids = task_ids([Task("0", 1), Task("1", 0), Task("0", 0)])
    assert ids == {"0": frozenset({0, 1}), "1": frozenset({0})}
    assert sorted(tasks_in(ids)) == [Task("0", 0), Task("0", 1), Task("1", 0)]
