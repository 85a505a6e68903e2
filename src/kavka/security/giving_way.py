"""Which connections are closed where all places are taken, or more than there may be.

Decides by who has said who it is, since when it could have, and who was idle for longest. Must not know how many there
may be (`connection_quota`), or what a connection is made of.

I1  Who must say who it is, and has had its time for that, goes before everybody else: bytes that trickle would make a
    client that is in look idle beside it.
I2  Who still has time for that is as idle as its connection is old, whatever it sends: a client in the middle of its
    login stays where another one has been idle for longer.
I3  Where there are more of those than of clients that are in, that is a flood, and the oldest of them goes first,
    however young: a broker that comes in must not cost a client its place that is in. For other clients they give way
    sooner, too: who comes in waits behind all that were there before it, and the flood comes again at once.
I4  A walk over all connections, for a bound that is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import nsmallest
from typing import NamedTuple, Protocol, TypeVar


class Occupied(Protocol):
    """A connection; times in seconds, by one clock."""

    @property
    def listener(self) -> str: ...

    @property
    def is_unknown(self) -> bool:
        """Whether its client must say who it is, and has not."""
        ...

    @property
    def accepted_at(self) -> float: ...

    @property
    def active_at(self) -> float:
        """When bytes last came or went."""
        ...


Place = TypeVar("Place", bound=Occupied)


class Choice(Protocol):
    """Who gives way."""

    @property
    def why(self) -> str:
        """For the log."""
        ...

    def among(self, places: Iterable[Place], now: float) -> list[Place]: ...


class Idlest(NamedTuple):
    """At most `most` that give way to a broker, but none of listeners that are spared. A login takes `login_s`."""

    most: int
    login_s: float
    is_spared: Callable[[str], bool]
    why: str = "connection closed: there are more than max.connections, and it was idle for longest"

    def among(self, places: Iterable[Place], now: float) -> list[Place]:
        those = [one for one in places if not self.is_spared(one.listener)]
        is_flood = 2 * sum(one.is_unknown for one in those) > len(those)
        until = now if is_flood else now - self.login_s

        def rank(place: Place) -> tuple[bool, float]:
            if place.is_unknown:
                return place.accepted_at > until, place.accepted_at
            return True, place.active_at

        return nsmallest(self.most, those, key=rank)


class Unknown(NamedTuple):
    """At most `most` whose clients did not say in time who they are, oldest first, but none of `spared` listeners. They
    have `stalled_s` for it, and `flood_s` in a flood (I3)."""

    most: int
    stalled_s: float
    flood_s: float
    spared: Collection[str]
    why: str = "connection closed: its client did not log in, and all places are taken"

    def among(self, places: Iterable[Place], now: float) -> list[Place]:
        those = list(places)
        unknown = [one for one in those if one.is_unknown and one.listener not in self.spared]
        until = now - (self.flood_s if 2 * len(unknown) > len(those) else self.stalled_s)
        found = [one for one in unknown if one.accepted_at <= until]
        return nsmallest(self.most, found, key=lambda one: one.accepted_at)
