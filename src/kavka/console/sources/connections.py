"""Connections: whose they are, where brokers tell them (kavka.client.connected_clients).

Decides which connections belong to a member of a group or to a producer, and makes one line of those of one client.
Must not know how they are asked for, nor a page.

I1  Of one member or producer at most MOST_OF_ONE connections are told.

A producer is known by its id. A member is known by its client id and address: a connection that reads what the member
is assigned is the member's, though another program with the same client id on the same machine might have made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.connected_clients import LONGEST, ConnectedClient
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.console.sources.clients import Reader


MOST_OF_ONE: Final = 5


class Identity(NamedTuple):
    """Who is at the other end. `software` and `version` are "" where the client did not tell them."""

    client_id: str
    host: str
    principal: str
    software: str
    version: str


class Unnamed(NamedTuple):
    """A client that writes without idempotence; `rate` in bytes a second, None until there are two readings."""

    who: Identity
    partitions: tuple[TopicPartition, ...]
    last_ms: int
    bytes_in: int
    rate: float | None = None


def identity_of(client: ConnectedClient) -> Identity:
    return Identity(client.client_id, client.host, client.principal, client.software or "", client.version or "")


def producers(clients: Iterable[ConnectedClient], wanted: frozenset[TopicPartition]) -> dict[int, tuple[Identity, ...]]:
    """Who has written as which producer, by producer id."""
    found: dict[int, dict[Identity, None]] = {}
    for client in clients:
        for writing in client.writes:
            if writing.producer_id >= 0 and writing.partition in wanted:
                found.setdefault(writing.producer_id, {})[identity_of(client)] = None
    return {producer_id: tuple(who)[:MOST_OF_ONE] for producer_id, who in found.items()}


def without_idempotence(clients: Iterable[ConnectedClient], wanted: frozenset[TopicPartition]) -> list[Unnamed]:
    """Who writes without a producer id, the latest first."""
    found: dict[Identity, Unnamed] = {}
    for client in clients:
        writes = [each for each in client.writes if each.producer_id < 0 and each.partition in wanted]
        if writes:
            who = identity_of(client)
            before = found.get(who) or Unnamed(who, (), 0, 0)
            found[who] = Unnamed(
                who,
                tuple(sorted({*before.partitions, *(each.partition for each in writes)})),
                max(before.last_ms, *(each.last_ms for each in writes)),
                before.bytes_in + sum(each.bytes_in for each in writes),
            )
    return sorted(found.values(), key=lambda each: (-each.last_ms, each.who))


def joined_readers(
    members: Sequence[Reader], clients: Iterable[ConnectedClient], wanted: frozenset[TopicPartition]
) -> tuple[tuple[Reader, ...], tuple[Reader, ...]]:
    """The members with who they are, and one reader for each client that reads without a group."""
    places: dict[tuple[str, str], list[int]] = {}
    for index, member in enumerate(members):
        if member.member_id:
            places.setdefault((member.client_id[:LONGEST], member.host[:LONGEST]), []).append(index)
    found: list[dict[Identity, None]] = [{} for _ in members]
    others: dict[Identity, set[TopicPartition]] = {}
    for client in clients:
        reads = wanted.intersection(client.reads)
        if not reads:
            continue
        own = [
            index
            for index in places.get((client.client_id, client.host), ())
            if not reads.isdisjoint(members[index].partitions)
        ]
        for index in own:
            found[index][identity_of(client)] = None
        if not own:
            others.setdefault(identity_of(client), set()).update(reads)
    named = tuple(member._replace(who=tuple(who)[:MOST_OF_ONE]) for member, who in zip(members, found, strict=True))
    return named, tuple(_alone(who, reads) for who, reads in sorted(others.items()))


def _alone(who: Identity, reads: set[TopicPartition]) -> Reader:
    from kavka.console.sources.clients import Reader

    return Reader("", "", "", who.client_id, who.host, tuple(sorted(reads)), None, (who,))
