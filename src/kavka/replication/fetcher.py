"""ReplicaFetcher: the flow that follows one leader broker: asks it for records, again and again.

It connects, sends the requests that `followed_partitions` makes, and gives it the answers. Decides when to connect
again, and when the leader is asked not to wait any longer. Must not know what a request or an answer says.

    I1  one fetch is in flight at a time; the next one starts where the logs end by then
    I2  a connection that fails is made again after a pause: RECONNECT_MS, doubled up to RECONNECT_LIMIT_MS while nobody
        listens there (a broker that is starting is found soon), up to replica.fetch.backoff.ms otherwise
    I3  a fetch is hastened once at most

A fetch waits at the leader for up to replica.fetch.wait.max.ms. Partitions that are to be followed meanwhile, after
the death of another leader as a rule, would wait as long. So a fetch that still waits IMPATIENCE_MS later (longer where
many are followed) is hastened: an OffsetForLeaderEpoch that asks for nothing comes behind it on its connection, and a
leader of kavka's answers what waits. (Apache Kafka lets them wait, as a follower and as a leader.) The connection and
the session stay: a follower that closed them instead named all its partitions again with each order, and an order about
50 partitions cost as much as there were.

Source: Kafka's AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint, 3.9.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kavka.errors import ConnectionFailed, ConnectionRefused
from kavka.logger import Logger
from kavka.model import BrokerId, LeaderEpoch, TopicPartition
from kavka.network import Network
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.fetch_response import FetchResponse
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse
from kavka.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kavka.protocol.peer import PeerConnection
from kavka.replication.decide.fetch_state import FetchState, Stage
from kavka.replication.decide.followed_partitions import FetcherCounts, FetcherSettings, FollowedPartitions, LocalPorts
from kavka.replication.decide.leader_questions import (
    EARLIEST,
    FIRST_WITH_REPLICA_ID,
    LATEST,
    epoch_question,
    offset_question,
)
from kavka.replication.decide.partition import Partition

logger = Logger(__name__)

RECONNECT_MS: Final = 10
RECONNECT_LIMIT_MS: Final = 100
CONNECT_TIMEOUT_MS: Final = 1_000
"""A host that is back from a cut is asked anew at least so often; a connection attempt alone asks ever more rarely."""
ANSWER_GRACE_MS: Final = 5_000
"""What a leader may take longer than the wait that it was allowed, before its silence counts as a failure. Kafka waits
for replica.socket.timeout.ms (30 s), which bounds it here too."""
IMPATIENCE_MS: Final = 10
PARTITIONS_A_MS: Final = 20
"""For each so many partitions that are followed a fetch is let wait a millisecond longer: orders come by the dozen when
topics are made or leaders move, and one fetch serves many of them. It dates from leaders that looked at all partitions
with each fetch; whether less is better now was not measured."""


class Endpoint(Protocol):
    """Where a broker's inter-broker listener is reached."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def _ignore(bug: BaseException) -> None:
    pass


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """What all fetchers of a broker need. `on_bug` is called if a fetcher ends because of a bug."""

    loop: asyncio.AbstractEventLoop
    network: Network
    local: LocalPorts
    on_bug: Callable[[BaseException], None] = _ignore


class ReplicaFetcher:
    """One fetcher. It runs from the first partition on until `close`."""

    def __init__(
        self,
        leader_id: BrokerId,
        number: int,
        endpoint: Endpoint | None,
        ports: FetcherPorts,
        settings: FetcherSettings,
        counts: FetcherCounts,
    ) -> None:
        """`endpoint` is None if the leader's is not known yet."""
        self.leader_id = leader_id
        self.partitions = FollowedPartitions(leader_id, ports.local, settings, counts)
        self._number = number
        self._endpoint = endpoint
        self._ports = ports
        self._counts = counts
        self._connection: PeerConnection | None = None
        self._wake = asyncio.Event()
        self._failures = 0
        """Connections lost or not come about since the last answer."""
        self._fetches = 0
        self._in_flight = 0
        """Number of the fetch that is in flight, 0 for none."""
        self._hastened = 0
        """Number of the last fetch that was hastened."""
        self._hastening: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, partitions: Sequence[tuple[Partition, LeaderEpoch]]) -> None:
        """Fetches the partitions from now on, in the leader epochs given. One that is fetched in that epoch stays."""
        now_ms, loop = self._now_ms(), self._ports.loop
        for partition, leader_epoch in partitions:
            self.partitions.follow(partition, leader_epoch, now_ms)
        if self._task is None:
            self._task = loop.create_task(self._run(), name=f"fetcher {self._number} from broker {self.leader_id}")
            self._task.add_done_callback(self._on_done)
        self._wake.set()
        if self._in_flight:
            patience_ms = max(IMPATIENCE_MS, len(self.partitions) / PARTITIONS_A_MS)
            loop.call_later(patience_ms / 1000, self._hasten, self._in_flight)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stops appending to the partition, whatever is on its way."""
        self.partitions.unfollow(topic_partition)

    def set_endpoint(self, endpoint: Endpoint, *, is_new: bool) -> None:
        """Where the leader is reached. `is_new`: it was not known, or elsewhere, before: it is tried at once."""
        self._endpoint = endpoint
        if is_new and self._connection is not None:
            self._connection.close()
        self._wake.set()

    def close(self) -> asyncio.Task[None] | None:
        """Ends the fetcher. The task is done when nothing of it runs."""
        self.partitions.clear()
        if self._connection is not None:
            self._connection.close()
        if self._hastening is not None:
            self._hastening.cancel()
        if self._task is not None:
            self._task.cancel()
        return self._task

    # -- the loop

    def _now_ms(self) -> int:
        return int(self._ports.loop.time() * 1000)

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except ConnectionFailed as failure:
                await self._on_lost(failure)

    async def _turn(self) -> None:
        """One fetch; or, while there is nothing to fetch, waits."""
        partitions = self.partitions
        now_ms = self._now_ms()
        partitions.look(now_ms)
        connection = self._connection
        if connection is None or not connection.is_open:
            if not partitions.has_work(now_ms):
                await self._sleep(partitions.next_look_ms(now_ms))
                return
            connection = await self._connect()
        if epochs := partitions.asking(Stage.ASKING_EPOCH, now_ms):
            await self._ask_epochs(connection, epochs)
        if offsets := partitions.asking(Stage.ASKING_OFFSETS, now_ms):
            await self._ask_offsets(connection, offsets)
        now_ms = self._now_ms()
        request = partitions.next_request(now_ms)
        if request is None:
            await self._sleep(partitions.next_look_ms(now_ms))
            return
        self._fetches = self._in_flight = self._fetches + 1
        try:
            answer = await connection.request(
                ApiKey.FETCH,
                partitions.fetch_version,
                request,
                FetchResponse,
                timeout_ms=min(partitions.settings.socket_timeout_ms, request.max_wait_ms + ANSWER_GRACE_MS),
            )
        finally:
            self._in_flight = 0
        self._counts.fetches += 1
        if self._failures:
            self._on_reached()
        if not partitions.take(answer, self._now_ms()):
            await asyncio.sleep(partitions.settings.backoff_ms / 1000)

    async def _sleep(self, limit_ms: int | None) -> None:
        """Until something else is to be done, at most `limit_ms`."""
        self._wake.clear()
        try:
            async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _connect(self) -> PeerConnection:
        while (endpoint := self._endpoint) is None:
            await self._sleep(None)
        self.partitions.on_lost()
        self._connection = connection = await PeerConnection.open(
            self._ports.network,
            endpoint.host,
            endpoint.port,
            client_id=f"broker-{self._ports.local.broker_id}-fetcher-{self._number}",
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
        return connection

    async def _on_lost(self, failure: ConnectionFailed) -> None:
        """The connection failed: whether the leader took the request is not known. The next one names everything."""
        self._failures += 1
        if self._failures == 1:
            logger.info(
                "leader unreachable",
                leader=self.leader_id,
                fetcher=self._number,
                partitions=len(self.partitions),
                why=str(failure),
            )
        limit_ms = RECONNECT_LIMIT_MS if isinstance(failure, ConnectionRefused) else self.partitions.settings.backoff_ms
        pause_ms = min(RECONNECT_MS << min(self._failures - 1, 16), limit_ms)
        await self._sleep(pause_ms)

    def _on_reached(self) -> None:
        logger.info("leader reachable again", leader=self.leader_id, fetcher=self._number, attempts=self._failures)
        self._failures = 0

    def _hasten(self, number: int) -> None:
        """Has a fetch answered that still waits at the leader, while other partitions want to be fetched (I3)."""
        connection = self._connection
        if self._in_flight != number or self._hastened == number or connection is None or not connection.is_open:
            return
        if self.partitions.versions.offset_for_leader_epoch >= FIRST_WITH_REPLICA_ID:
            self._hastened = number
            self._hastening = self._ports.loop.create_task(self._ask_for_nothing(connection))
            self._hastening.add_done_callback(self._on_done)

    async def _ask_for_nothing(self, connection: PeerConnection) -> None:
        with contextlib.suppress(ConnectionFailed):  # The fetch before it fails of the same.
            await self._ask_epochs(connection, [])

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._ports.on_bug(bug)

    # -- what must be known before some partitions can be fetched

    async def _ask_epochs(self, connection: PeerConnection, states: Sequence[FetchState]) -> None:
        partitions = self.partitions
        answer = await connection.request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            partitions.versions.offset_for_leader_epoch,
            epoch_question(self._ports.local.broker_id, states),
            OffsetForLeaderEpochResponse,
            timeout_ms=partitions.settings.socket_timeout_ms,
        )
        partitions.take_epoch_ends(states, answer, self._now_ms())

    async def _ask_offsets(self, connection: PeerConnection, states: Sequence[FetchState]) -> None:
        """Where the leader's logs end; and, where they do not end before the own ones, where they begin."""
        partitions = self.partitions
        ends = await self._list_offsets(connection, states, LATEST)
        if longer := partitions.take_leader_ends(states, ends, self._now_ms()):
            starts = await self._list_offsets(connection, longer, EARLIEST)
            partitions.take_leader_starts(longer, starts, self._now_ms())

    async def _list_offsets(
        self, connection: PeerConnection, states: Sequence[FetchState], timestamp: int
    ) -> ListOffsetsResponse:
        return await connection.request(
            ApiKey.LIST_OFFSETS,
            self.partitions.versions.list_offsets,
            offset_question(self._ports.local.broker_id, states, timestamp),
            ListOffsetsResponse,
            timeout_ms=self.partitions.settings.socket_timeout_ms,
        )
