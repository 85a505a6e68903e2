"""What lessons are made of, and how the trace of a run is searched for a proof.

I1  a check looks at traces, at the stored state and at losses that were found: what it claims can be read there
I2  a proof names its events by their numbers in the trace of the run that it is about
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kavka.model import Offset
from kavka.simulator.host.trace import Event
from kavka_playground.choices import Choices
from kavka_playground.run import Run

PROMISED: Final = "told: written"


class Proof(NamedTuple):
    """That a claim holds in a run: a sentence with its figures, and the numbers of the events that it rests on."""

    text: str
    events: tuple[int, ...]


Check: TypeAlias = Callable[[Sequence[Run]], Proof | None]
"""Gets the runs of the part, in the order of its boards."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to do, and the claim that it shows. `ask`: it is a question, and the reader finds out how."""

    id: str
    do: str
    check: Check
    ask: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """A run as the reader meets it: its choices, and what happened to it up to `at_ms`."""

    choices: Choices
    clicks: tuple[str, ...] = ()
    at_ms: int = 0
    title: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "choices": self.choices.as_json(),
            "clicks": list(self.clicks),
            "at_ms": self.at_ms,
            "title": self.title,
        }


@dataclass(frozen=True, slots=True)
class Part:
    """Paragraphs, one or two boards, and what to do with them. `closely`: a step goes to the very next event."""

    id: str
    title: str
    text: tuple[str, ...]
    boards: tuple[Board, ...]
    goals: tuple[Goal, ...]
    closely: bool = False
    buttons: tuple[tuple[str, str, str], ...] = ()
    """Label, click and target of what the reader does to all boards at once."""

    def goal(self, goal_id: str) -> Goal:
        return next(goal for goal in self.goals if goal.id == goal_id)


@dataclass(frozen=True, slots=True)
class Lesson:
    id: str
    title: str
    lead: str
    parts: tuple[Part, ...]

    def part(self, part_id: str) -> Part:
        return next(part for part in self.parts if part.id == part_id)


# -- searching


def events(run: Run) -> list[Event]:
    return list(run.trace.events())


def find(
    among: Iterable[Event],
    kind: str,
    *,
    node: str = "",
    text: str = "",
    after: int = 0,
    where: Callable[[Event], bool] = lambda _event: True,
) -> Event | None:
    """The first event of this kind with a greater number than `after`. `text` is a part of its text."""
    return next(select(among, kind, node=node, text=text, after=after, where=where), None)


def select(
    among: Iterable[Event],
    kind: str,
    *,
    node: str = "",
    text: str = "",
    after: int = 0,
    where: Callable[[Event], bool] = lambda _event: True,
) -> Iterator[Event]:
    return (
        event
        for event in among
        if event.kind == kind
        and event.number > after
        and (not node or event.node == node)
        and text in event.text
        and where(event)
    )


def reached(among: Iterable[Event], node: str, offset: Offset, *, after: int = 0) -> Event | None:
    """When a replica's log first went beyond `offset`."""
    return next(
        (event for event in among if event.node == node and event.log_end_offset > offset and event.number > after),
        None,
    )


def committed(among: Iterable[Event], node: str, offset: Offset, *, after: int = 0) -> Event | None:
    """When a replica first took `offset` for committed."""
    return next(
        (event for event in among if event.node == node and event.high_watermark > offset and event.number > after),
        None,
    )


def promised_offset(event: Event) -> Offset:
    """Of a "told: written"."""
    return int(event.text.partition("at offset ")[2].partition(",")[0])


def stored_leader(event: Event) -> int:
    """Of a "state stored"; -1 for none."""
    return -1 if event.text.startswith("no leader") else int(event.text.partition("leader ")[2].partition(";")[0])


def controller_epoch(event: Event) -> int:
    """Of a "controller elected"."""
    return int(event.text.rpartition("controller epoch ")[2].partition(":")[0])


def last_before(among: Sequence[Event], number: int, kind: str) -> Event | None:
    return next((event for event in reversed(among) if event.number < number and event.kind == kind), None)


def state_at(among: Sequence[Event], number: int) -> Event | None:
    """The state of the partition as it was stored before an event."""
    return last_before(among, number, "state stored")


def s(ms: int) -> str:
    """Virtual time as the pages show it."""
    return f"{ms / 1_000:.3f} s"
