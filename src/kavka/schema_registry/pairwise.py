"""Pairwise: two schemas compared part by part, where parts may contain themselves and stand in many places.

Decides how often a pair of parts is looked at. Must not know what the parts are.

I1  Each pair is looked at once in a round, so that no schema makes exponential work.
I2  A pair that is met again while it is being looked at counts as fitting. Where it then does not fit, what was
    concluded from that is looked at again, in another round, with the pair known not to fit.

I3  A comparison is never more than `MOST_OPEN` pairs deep, however many parts refer to each other: what is deeper
    counts as fitting, as in I2, and is looked at afterwards.

I4  A comparison does no more than `MOST_WORK`, and keeps no more than a tenth as many pairs and reasons. Of what is
    more, SchemaProblem says so: two schemas of a megabyte have as many pairs as take days and all memory.

The parts must live as long as the comparison: a pair is known by the identities of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from kavka.schema_registry.schemas import SchemaProblem

MOST_OPEN: Final = 40
MOST_WORK: Final = 2_000_000
"""Looks at pairs, of which most are known already, and at their names; some seconds of them."""
MOST_KEPT: Final = 50
"""Reasons of one pair."""
KEPT: Final = 10
"""What a pair or a reason that is kept counts for."""
Reason = TypeVar("Reason")
_Pair: TypeAlias = tuple[int, int]


class Work:
    """What a comparison may still do, in all its rounds (I4)."""

    def __init__(self) -> None:
        self._left = MOST_WORK

    def take(self, amount: int) -> None:
        """Raises SchemaProblem."""
        self._left -= amount
        if self._left < 0:
            raise SchemaProblem("the two schemas are too large to be compared")


class Pairwise(Generic[Reason]):
    """One round. A comparison is a function of it, which `settle` calls."""

    def __init__(self, failed: Mapping[_Pair, list[Reason]], work: Work) -> None:
        self._work = work
        self._known: dict[_Pair, list[Reason]] = dict(failed)
        self._open: set[_Pair] = set()
        self._assumed: set[_Pair] = set()
        self._later: dict[_Pair, Callable[[], list[Reason]]] = {}

    def check(self, reader: object, writer: object, compare: Callable[[], list[Reason]]) -> list[Reason]:
        """The reasons why two parts do not fit, by `compare` unless they are known."""
        self._work.take(1)
        pair = (id(reader), id(writer))
        if pair in self._open:
            self._assumed.add(pair)
            return []
        known = self._known.get(pair)
        if known is None and len(self._open) >= MOST_OPEN:
            self._later[pair] = compare
            self._assumed.add(pair)
            return []
        return self._look(pair, compare) if known is None else known

    def take(self, amount: int) -> None:
        """Counts work that a comparison does beside pairs (I4)."""
        self._work.take(amount)

    def _look(self, pair: _Pair, compare: Callable[[], list[Reason]]) -> list[Reason]:
        self._open.add(pair)
        found = self._known[pair] = compare()[:MOST_KEPT]
        self._work.take(KEPT * (1 + len(found)))
        self._open.discard(pair)
        return found

    def look_at_what_is_left(self) -> None:
        """Looks at what was too deep (I3)."""
        while self._later:
            pair, compare = self._later.popitem()
            if pair not in self._known:
                self._look(pair, compare)

    def wrongly_assumed(self) -> dict[_Pair, list[Reason]]:
        """Pairs that counted as fitting while they were looked at, and do not fit (I2)."""
        return {pair: self._known[pair] for pair in self._assumed if self._known[pair]}


def settle(compare: Callable[[Pairwise[Reason]], list[Reason]]) -> list[Reason]:
    """What `compare` finds when nothing in it rests on a wrong assumption. Raises SchemaProblem (I4)."""
    failed: dict[_Pair, list[Reason]] = {}
    work = Work()
    while True:
        pairs: Pairwise[Reason] = Pairwise(failed, work)
        found = compare(pairs)
        pairs.look_at_what_is_left()
        wrong = pairs.wrongly_assumed()
        if wrong.keys() <= failed.keys():
            return found
        failed |= wrong  # Each round adds a pair at least, of which there are finitely many.
