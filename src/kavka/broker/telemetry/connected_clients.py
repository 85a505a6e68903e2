"""ConnectedClients: which connections write and read which partitions here, and who is at their other end.

Decides what is remembered of a connection, and how much is told at once. It must not know the protocol's messages, nor
who may ask.

    writes  by partition: the producer id of the last batch, when it came, the bytes of all
    reads   what its fetch session, or its share session, holds now; without a session, what it asked for last

Kafka has no request for this: DescribeProducers tells producer ids, and group members their client ids and addresses,
but nobody tells a client's software, or who it is, or that it writes without idempotence.

    I1  MOST_PLACES bounds what all connections together are remembered to write and to read without a session; what
        comes when it is reached is not remembered, and `is_full` says so
    I2  a connection is forgotten when it closes
    I3  MOST_CLIENTS, MOST_TOLD and LONGEST_ID bound one answer
    I4  followers are not clients: what they fetch is not told
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kavka.records.batch import HEADER_SIZE, NO_PRODUCER_ID

if TYPE_CHECKING:
    import uuid

    from kavka.protocol.connection import ConnectionContext, Request
    from kavka.replication.decide.fetching import FetchSpec

MOST_PLACES: Final = 50_000
"""Partitions of connections: about ten megabytes."""
MOST_CLIENTS: Final = 5_000
MOST_TOLD: Final = 20_000
"""Partitions in one answer, of all its clients together."""
LONGEST_ID: Final = 250
"""Of a client id, which may have 32,767 bytes. Longer ones are cut."""
_producer_id_of = Struct(">q").unpack_from
_PRODUCER_ID_OFFSET: Final = 43


class HeldSession(Protocol):
    """A fetch session, as the cache of sessions has it."""

    @property
    def session_id(self) -> int: ...

    @property
    def specs(self) -> dict[Any, FetchSpec]: ...


class Place(Protocol):
    """A partition of a share session."""

    @property
    def topic_id(self) -> uuid.UUID: ...

    @property
    def partition(self) -> int: ...


class HeldShares(Protocol):
    """A share session. One that is over holds nothing."""

    @property
    def is_over(self) -> bool: ...

    @property
    def partitions(self) -> Iterable[Place]: ...


class Writing(NamedTuple):
    """What a connection wrote into one partition since it was made: `last_ms` in milliseconds since 1970."""

    partition: int
    producer_id: int
    last_ms: int
    bytes_in: int


class TopicUse(NamedTuple):
    """What a connection does with one topic; `reads` are partitions."""

    topic: str
    writes: tuple[Writing, ...]
    reads: tuple[int, ...]


class Client(NamedTuple):
    """A connection that writes or reads. `client_id` is that of its first such request, cut at LONGEST_ID."""

    context: ConnectionContext
    client_id: str
    topics: tuple[TopicUse, ...]


class _Writes:
    __slots__ = ("bytes_in", "last_ms", "producer_id")

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.last_ms = 0
        self.bytes_in = 0


class _Use:
    """Of one connection, which calls `cancel` when it closes."""

    __slots__ = ("_forget", "client_id", "context", "fetched", "session_id", "share", "writes")

    def __init__(self, context: ConnectionContext, client_id: str, forget: Callable[[_Use], None]) -> None:
        self.context = context
        self.client_id = client_id
        self.writes: dict[tuple[str, int], _Writes] = {}
        self.session_id = 0
        self.fetched: Sequence[FetchSpec] = ()
        self.share: HeldShares | None = None
        self._forget = forget

    def cancel(self) -> None:
        self._forget(self)


class ConnectedClients:
    """Of one broker. `sessions` gives the fetch sessions that there are; `topic_name` finds a topic's name by its id,
    None where it is not known; `is_here` says whether the broker has a replica of a partition."""

    def __init__(
        self,
        sessions: Callable[[], Iterable[HeldSession]],
        topic_name: Callable[[uuid.UUID], str | None],
        is_here: Callable[[str, int], bool],
    ) -> None:
        self._sessions = sessions
        self._topic_name = topic_name
        self._is_here = is_here
        self._uses: dict[ConnectionContext, _Use] = {}
        self._places = 0
        self.is_full = False
        """Whether something was not remembered, for want of room, since there was some."""

    def __len__(self) -> int:
        return len(self._uses)

    # -- what handlers say

    def wrote(self, request: Request, topic: str, partition: int, records: memoryview, now_ms: int) -> None:
        """One batch was appended."""
        use = self._uses.get(request.context) or self._begin(request)
        writes = use.writes.get((topic, partition))
        if writes is None:
            if not self._has_room(1):
                return
            self._places += 1
            writes = use.writes[topic, partition] = _Writes()
        if len(records) >= HEADER_SIZE:
            (writes.producer_id,) = _producer_id_of(records, _PRODUCER_ID_OFFSET)
        writes.last_ms = now_ms
        writes.bytes_in += len(records)

    def read(self, request: Request, session_id: int, specs: Sequence[FetchSpec]) -> None:
        """A consumer fetched: `session_id` is 0 without a session."""
        use = self._uses.get(request.context) or self._begin(request)
        use.session_id = session_id
        if session_id:
            specs = ()
        if use.fetched or specs:
            self._places -= len(use.fetched)
            use.fetched = specs if self._has_room(len(specs)) else ()
            self._places += len(use.fetched)

    def shared(self, request: Request, session: HeldShares) -> None:
        """A member of a share group fetched."""
        use = self._uses.get(request.context) or self._begin(request)
        use.share = session

    # -- what is told

    def told(self, topics: Collection[str]) -> Iterator[Client | None]:
        """The connections that write or read any of these topics, or any topic where none is named; None for each
        other one. The caller goes on when it likes: what has closed meanwhile is not told."""
        held = {session.session_id: session for session in self._sessions()}
        for use in list(self._uses.values()):
            if use.context.has_ended:
                yield None
                continue
            found: dict[str, tuple[list[Writing], list[int]]] = {}
            for (topic, partition), writes in use.writes.items():
                if (not topics or topic in topics) and self._is_here(topic, partition):
                    writing = Writing(partition, writes.producer_id, writes.last_ms, writes.bytes_in)
                    found.setdefault(topic, ([], []))[0].append(writing)
            session = held.get(use.session_id)
            for spec in use.fetched if session is None else session.specs.values():
                self._add_read(found, topics, spec.topic_partition.topic, spec.topic_id, spec.topic_partition.partition)
            for each in () if use.share is None or use.share.is_over else use.share.partitions:
                self._add_read(found, topics, "", each.topic_id, each.partition)
            uses = [TopicUse(topic, tuple(writes), tuple(reads)) for topic, (writes, reads) in found.items()]
            yield Client(use.context, use.client_id, tuple(uses)) if uses else None

    def _add_read(
        self,
        found: dict[str, tuple[list[Writing], list[int]]],
        topics: Collection[str],
        name: str,
        topic_id: uuid.UUID,
        partition: int,
    ) -> None:
        topic = name or self._topic_name(topic_id)
        if topic is not None and (not topics or topic in topics) and self._is_here(topic, partition):
            found.setdefault(topic, ([], []))[1].append(partition)

    # -- bounds

    def _begin(self, request: Request) -> _Use:
        use = _Use(request.context, (request.header.client_id or "")[:LONGEST_ID], self._forget)
        self._uses[request.context] = use
        request.context.hold(use)
        return use

    def _forget(self, use: _Use) -> None:
        if self._uses.pop(use.context, None) is not None:
            self._places -= len(use.writes) + len(use.fetched)

    def _has_room(self, count: int) -> bool:
        self.is_full = self._places + count > MOST_PLACES
        return not self.is_full
