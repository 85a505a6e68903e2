"""Rebalance: what a group's coordinator tells of one, so that people can ask why a group stopped and went on.

Decides only how causes become a sentence; whether there is a rebalance is the groups' decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.decisions import Decision, DecisionKind

if TYPE_CHECKING:
    from kavka.model import BrokerId

MOST_CAUSES: Final = 4
"""How many causes of a rebalance are named. The others are counted: a hundred members may join at once."""
LONGEST_CAUSE: Final = 300
"""The most characters of one cause: clients choose their names and their reasons."""
LONGEST_WHY: Final = (MOST_CAUSES + 1) * LONGEST_CAUSE
"""Of all causes together."""


class Rebalance(NamedTuple):
    """A rebalance that has come to a new generation (of the newer protocol: to a new group epoch).

    `took_ms` is how long members waited for it, None if nobody waits: the newer protocol's assignments come one by
    one.
    """

    group_id: str
    kind: str
    why: str
    generation_before: int
    generation: int
    members_before: int
    members: int
    took_ms: int | None

    def as_decision(self, at_ms: int, broker_id: BrokerId) -> Decision:
        """The why-record of broker `broker_id`, which coordinates the group."""
        waited = "" if self.took_ms is None else f" after {self.took_ms} ms"
        term = "generation" if self.took_ms is not None else "epoch"
        members = "1 member" if self.members == 1 else f"{self.members} members"
        why = f"{term} {self.generation} with {members} begins{waited}: {shortened(self.why, LONGEST_WHY)}"
        return Decision(
            DecisionKind.GROUP_REBALANCED,
            at_ms,
            broker_id,
            why,
            group=self.group_id,
            before={"generation": self.generation_before, "members": self.members_before},
            after={"generation": self.generation, "members": self.members},
            evidence={"kind": self.kind, **({} if self.took_ms is None else {"took_ms": self.took_ms})},
        )


class Causes:
    """What a rebalance that is under way comes from."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._count = 0

    def add(self, cause: str) -> None:
        self._count += 1
        if self._count <= MOST_CAUSES:
            self._told.append(shortened(cause))

    def take(self) -> str:
        """Returns all causes as one text, and forgets them."""
        more = self._count - len(self._told)
        text = "; ".join(self._told) + (f"; and {more} more" if more else "")
        self._told, self._count = [], 0
        return text


def shortened(text: str, longest: int = LONGEST_CAUSE) -> str:
    """The text, in at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def because(cause: str, reason: str) -> str:
    """A cause with what the client said of it (KIP-800), if it did."""
    return f"{cause}: {reason}" if reason else cause
