"""The choice of a classic group's protocol (of consumers: their assignor): all members support it, and most want it.

Source: Kafka's ClassicGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kavka.coordinator.groups.classic.decide.membership import Member


def common_protocols(members: Collection[Member]) -> frozenset[str]:
    """The protocols that all of `members` support."""
    counts = Counter(name for member in members for name in {protocol.name for protocol in member.protocols})
    return frozenset(name for name, count in counts.items() if count == len(members))


def select_protocol(members: Collection[Member]) -> str:
    """The protocol that most members vote for, each for its first choice among those that all support."""
    candidates = common_protocols(members)
    votes = Counter(member.vote(candidates) for member in members)
    # Counter keeps the order of first votes, so that a tie goes to the earliest member's choice.
    return max(votes, key=lambda name: votes[name])
