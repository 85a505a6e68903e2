"""Clients: who reads and who writes partitions, as far as brokers tell it.

Decides how many partitions are asked about, which connections are whose, and what a rate is. Must not know a page.

    readers  members of groups: their client id and address, and the partitions that they are assigned
    writers  idempotent and transactional producers, which a partition's leader remembers for producer.id.expiration.ms
             (a day) after their last record: their id, when they wrote, whether a transaction is open
    rate     of a writer, in records: a batch carries the number of its last record, so two readings tell how many came

Kafka's protocol tells no more. kavka's brokers also tell their connections (kavka.client.connected_clients): a producer
is known by its id, a member by client id and address together. What is left are readers without a group, and writers
without idempotence; of those a rate is in bytes.

I1  At most MOST_PARTITIONS partitions are asked about for a page, MOST_WRITERS writers are kept of an answer, and
    MOST_READINGS readings to compare with.
I2  A rate needs two readings of the same producer in the same epoch, RATE_LEAST_MS to RATE_MOST_MS apart.
I3  Several connections of one client are told once.

Source: KIP-98 (sequence numbers), KIP-664 (DescribeProducers).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.connected_clients import ConnectedClient, connected_clients
from kavka.client.transaction_admin import ListedTransaction, TransactionAdmin
from kavka.errors import KavkaError

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.transaction_admin import ShownProducer
    from kavka.console.sources.connections import Identity, Unnamed
    from kavka.model import TopicPartition
    from kavka.observe.snapshot import GroupView

MOST_PARTITIONS: Final = 500
MOST_WRITERS: Final = 2_000
MOST_READINGS: Final = 20_000
PATIENCE_S: Final = 5.0
RATE_LEAST_MS: Final = 1_000
RATE_MOST_MS: Final = 600_000
_SEQUENCES: Final = 2**31
"""Numbers of records go round after so many."""


class Reader(NamedTuple):
    """A member of a group, and what it reads of the partitions that were asked about. No member: a group that has
    committed offsets there and is not connected. No group: a client that reads without one. `who`: its connections,
    as far as brokers tell them."""

    group_id: str
    state: str
    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    lag: int | None
    who: tuple[Identity, ...] = ()


class Writer(NamedTuple):
    """A producer that leaders remember. `transactional_id` '' where it has none, or its coordinator forgot it."""

    producer_id: int
    epoch: int
    transactional_id: str
    state: str
    partitions: tuple[TopicPartition, ...]
    last_ms: int
    open_in: tuple[tuple[TopicPartition, int], ...]
    """Partitions with an open transaction, with the offset at which it begins."""
    rate: float | None
    """Records a second."""
    who: tuple[Identity, ...] = ()
    """Its connections, as far as brokers tell them."""


class Writers(NamedTuple):
    found: tuple[Writer, ...]
    why_no_names: str = ""
    """Why transactional ids are not known."""
    left_out: int = 0
    """Partitions that were not asked about, and writers that are not shown."""


class Connections(NamedTuple):
    """What brokers tell of their connections. `tells`: whether any does; `why`: why that is not known; `silent`:
    brokers that did not answer, and why; `has_more`: whether there are more than were told."""

    found: tuple[ConnectedClient, ...] = ()
    tells: bool = False
    why: str = ""
    silent: Mapping[int, str] = MappingProxyType({})
    has_more: bool = False


def readers(
    groups: Iterable[GroupView], wanted: frozenset[TopicPartition], *, with_away: bool = True
) -> tuple[Reader, ...]:
    """The members that read any of these partitions, by group and client. with_away: groups without members, too."""
    found = []
    for group in groups:
        lags = {each.partition: each.lag for each in group.offsets if each.partition in wanted}
        for member in group.members:
            own = tuple(sorted(wanted.intersection(member.assignment)))
            if own:
                found.append(
                    Reader(
                        group.group_id,
                        group.state,
                        member.member_id,
                        member.client_id,
                        member.host.removeprefix("/"),
                        own,
                        _sum([lags.get(each) for each in own]),
                    )
                )
        if with_away and not group.members and lags:
            places = tuple(sorted(lags))
            found.append(Reader(group.group_id, group.state, "", "", "", places, _sum(list(lags.values()))))
    return tuple(sorted(found))


async def read_connections(cluster: Cluster, topics: Collection[str], brokers: Sequence[int]) -> Connections:
    """Who is connected to these brokers, and reads or writes these topics (any, where none is named)."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            told = await connected_clients(cluster, topics, brokers)
    except KavkaError as problem:
        return Connections(why=str(problem))
    except TimeoutError:
        return Connections(why="the brokers did not answer in time")
    if told is None:
        return Connections()
    return Connections(told.found, True, "", told.silent, told.has_more)


class WriterReader:
    """Asks for writers, and remembers what they had written, for the rate."""

    def __init__(self) -> None:
        self._bytes_before: OrderedDict[tuple[Identity, str], tuple[int, int, float | None]] = OrderedDict()
        """By client without idempotence and what was asked about: bytes, when that was read, the rate found then."""
        self._before: OrderedDict[tuple[TopicPartition, int], tuple[int, int, int, float | None]] = OrderedDict()
        """By partition and producer: epoch, sequence, when that was read, and the rate that was found then."""

    async def read(self, cluster: Cluster, partitions: Sequence[TopicPartition], now_ms: int) -> Writers:
        """Raises KavkaError, TimeoutError."""
        asked = partitions[:MOST_PARTITIONS]
        admin = TransactionAdmin(cluster)
        async with asyncio.timeout(PATIENCE_S):
            told = await admin.producers(asked)
            names: Mapping[int, ListedTransaction] = {}
            why = ""
            if told:
                try:
                    names = {each.producer_id: each for each in await admin.list_transactions()}
                except KavkaError as problem:
                    why = str(problem)
        found = self.joined(told, names, now_ms)
        left_out = len(partitions) - len(asked) + max(len(found) - MOST_WRITERS, 0)
        return Writers(tuple(found[:MOST_WRITERS]), why, left_out)

    def joined(
        self, told: Sequence[ShownProducer], names: Mapping[int, ListedTransaction], now_ms: int
    ) -> list[Writer]:
        """Writers of what leaders told, the latest first. `names` by producer id."""
        by_id: dict[int, list[ShownProducer]] = {}
        for each in told:
            by_id.setdefault(each.producer_id, []).append(each)
        found = []
        for producer_id, states in by_id.items():
            rates = [self._rate(each, now_ms) for each in states]
            known = names.get(producer_id)
            found.append(
                Writer(
                    producer_id,
                    max(each.producer_epoch for each in states),
                    "" if known is None else known.transactional_id,
                    "" if known is None else known.state,
                    tuple(each.partition for each in states),
                    max(each.last_timestamp_ms for each in states),
                    tuple((each.partition, each.transaction_start) for each in states if each.transaction_start >= 0),
                    sum(rate for rate in rates if rate is not None) if any(r is not None for r in rates) else None,
                )
            )
        return sorted(found, key=lambda each: (-each.last_ms, each.producer_id))

    def with_rates(self, found: Sequence[Unnamed], asked: str, now_ms: int) -> tuple[Unnamed, ...]:
        """The same clients with their rates; `asked` names what was asked about, for their bytes are of that."""
        return tuple(each._replace(rate=self._byte_rate((each.who, asked), each.bytes_in, now_ms)) for each in found)

    def _byte_rate(self, key: tuple[Identity, str], size: int, now_ms: int) -> float | None:
        before = self._bytes_before.get(key)
        rate = None
        if before is not None:
            passed_ms = now_ms - before[1]
            if passed_ms < RATE_LEAST_MS:
                return before[2]
            if passed_ms <= RATE_MOST_MS and size >= before[0]:  # Fewer: a connection has closed.
                rate = (size - before[0]) * 1_000 / passed_ms
        self._bytes_before[key] = (size, now_ms, rate)
        self._bytes_before.move_to_end(key)
        while len(self._bytes_before) > MOST_READINGS:
            self._bytes_before.popitem(last=False)
        return rate

    def _rate(self, each: ShownProducer, now_ms: int) -> float | None:
        key = (each.partition, each.producer_id)
        before = self._before.get(key)
        rate = None
        if before is not None and before[0] == each.producer_epoch:
            passed_ms = now_ms - before[2]
            if passed_ms < RATE_LEAST_MS:
                return before[3]
            if passed_ms <= RATE_MOST_MS and before[1] >= 0:
                rate = (each.last_sequence - before[1]) % _SEQUENCES * 1_000 / passed_ms
        self._before[key] = (each.producer_epoch, each.last_sequence, now_ms, rate)
        self._before.move_to_end(key)
        while len(self._before) > MOST_READINGS:
            self._before.popitem(last=False)
        return rate


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
