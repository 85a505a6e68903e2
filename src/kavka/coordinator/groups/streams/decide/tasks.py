"""Tasks of a Kafka Streams application: the work on one partition of a subtopology.

    active   processes records, and writes to the state's changelog
    standby  copies a state, so that it can take over fast
    warm-up  copies a state of which it is to become the active task

Decides nothing: values, and what two sets of them have in common.

Source: KIP-1071; Kafka's TasksTuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

TaskIds: TypeAlias = Mapping[str, frozenset[int]]
"""Subtopology to partitions; no subtopology without one."""

NO_TASKS: Final[TaskIds] = MappingProxyType({})


class Task(NamedTuple):
    """One task, of any kind."""

    subtopology: str
    partition: int


class Tasks(NamedTuple):
    """The tasks of one member."""

    active: TaskIds = NO_TASKS
    standby: TaskIds = NO_TASKS
    warmup: TaskIds = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_any(self, others: Tasks) -> bool:
        """Whether some task of `others` is here, as the same kind."""
        return any(
            not mine.get(subtopology, frozenset()).isdisjoint(partitions)
            for mine, theirs in zip(self, others, strict=True)
            for subtopology, partitions in theirs.items()
        )

    def has_all(self, others: Tasks) -> bool:
        """Whether all tasks of `others` are here, as the same kind."""
        return all(
            partitions <= mine.get(subtopology, frozenset())
            for mine, theirs in zip(self, others, strict=True)
            for subtopology, partitions in theirs.items()
        )

    def together(self, others: Tasks) -> Tasks:
        """The tasks of both."""
        return Tasks(*(_together(mine, theirs) for mine, theirs in zip(self, others, strict=True)))


NOTHING: Final = Tasks()


def tasks_in(ids: TaskIds) -> Iterator[Task]:
    """One by one."""
    for subtopology, partitions in ids.items():
        for partition in partitions:
            yield Task(subtopology, partition)


def task_ids(tasks: Iterable[Task]) -> TaskIds:
    """By subtopology."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology, set()).add(task.partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


def _together(first: TaskIds, second: TaskIds) -> TaskIds:
    if not second:
        return first
    none: frozenset[int] = frozenset()
    return {
        subtopology: first.get(subtopology, none) | second.get(subtopology, none)
        for subtopology in dict.fromkeys((*first, *second))
    }
