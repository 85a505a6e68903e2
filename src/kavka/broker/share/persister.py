"""SharePersister: reads and writes the states of share-partitions at their coordinator, here or on another broker.

Decides where the coordinator is, and how often it is asked again. Must not know what a state says.

    I1  an answer is an answer of the coordinator, or of its log: `RequestError`. Where nobody knows what came of a
        request, it is sent again, until `patience_s` is over; requests are such that twice is as good as once
    I2  requests are numbered, so that the coordinator takes none that is late: 1. the connection is cut, and a write
        waits in it; 2. it is sent again over another one, and stored; 3. so is the next; 4. the cut heals, and the
        first arrives. It would undo what the next one stored. Kafka does not notice
    I3  the numbers of a process are above those of the one before it, which may have led in the same leader epoch: a
        partition with one replica keeps its epoch if no controller saw the broker gone. So they begin with the broker
        epoch, which ZooKeeper raises with each registration. A clock may be set back; and a number that a leader reads
        where the states are may be behind one that is still on its way
    I4  those of a group's coordinator begin with the epoch in which it leads the group's partition: the next one may be
        a broker that is registered for longer. Of that topic the id is said, too: made anew, its epochs begin anew

Source: Kafka's DefaultStatePersister and PersisterStateManager.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, MetadataCache
from kavka.broker.share import state_requests
from kavka.broker.share.peers import SharePeers
from kavka.coordinator.share_state.coordinator import ShareCoordinator
from kavka.coordinator.share_state.decide.records import UNKNOWN_START, ShareKey
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import LeaderEpoch, Offset, StateBatch
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages import delete_share_group_state_request as deletion
from kavka.protocol.messages import initialize_share_group_state_request as initialization
from kavka.protocol.messages import read_share_group_state_request as reading
from kavka.protocol.messages import read_share_group_state_summary_request as summarizing
from kavka.protocol.messages import write_share_group_state_request as writing
from kavka.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
from kavka.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from kavka.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse
from kavka.protocol.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse
from kavka.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
from kavka.share.decide.share_partition import Write

_RETRIABLE: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0


class StoredState(NamedTuple):
    """What a leader begins with; `start_offset` is -1 where nobody has decided it yet."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]


class StateSummary(NamedTuple):
    """What is said of a state without its records; -1 where it is not known."""

    state_epoch: int
    leader_epoch: int
    start_offset: Offset
    complete_count: int


class _Question(NamedTuple):
    key: ApiKey
    version: int
    message: Any
    answer_type: type[Any]
    local: Callable[[ShareCoordinator, Any], Awaitable[Any]]


class SharePersister:
    """The way to all states. `coordinator` is this broker's own; `peers` are the others."""

    def __init__(
        self,
        metadata: MetadataCache,
        coordinator: Callable[[], ShareCoordinator],
        peers: SharePeers,
        ensure_topic: Callable[[], Awaitable[None]],
        broker_epoch: Callable[[], int],
    ) -> None:
        """`ensure_topic` creates the topic of the states; `broker_epoch` is that of the present registration."""
        self._metadata = metadata
        self._coordinator = coordinator
        self.peers = peers
        self._ensure_topic = ensure_topic
        self._broker_epoch = broker_epoch
        self._numbers = count(1)

    async def read(self, key: ShareKey, leader_epoch: int, patience_s: float) -> StoredState:
        """The state, for who leads in this epoch. Raises `RequestError`."""
        message = reading.ReadShareGroupStateRequest(
            group_id=key.group_id,
            topics=[
                reading.ReadStateData(
                    topic_id=key.topic_id,
                    partitions=[
                        reading.PartitionData(
                            partition=key.partition,
                            leader_epoch=leader_epoch,
                            kavka_number=next(self._numbers),
                            kavka_broker_epoch=self._broker_epoch(),
                        )
                    ],
                )
            ],
        )
        question = _Question(
            ApiKey.READ_SHARE_GROUP_STATE, 0, message, ReadShareGroupStateResponse, state_requests.read
        )
        result = await self._ask(key, question, patience_s)
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in result.state_batches
        ]
        return StoredState(result.state_epoch, result.start_offset, batches)

    async def write(
        self, key: ShareKey, write: Write, *, state_epoch: int, leader_epoch: int, patience_s: float
    ) -> None:
        """Stores what was decided. Raises `RequestError`; a retriable one leaves open what came of it."""
        data = writing.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.complete,
            state_batches=[
                writing.StateBatch(first_offset=first, last_offset=last, delivery_state=code, delivery_count=count)
                for first, last, code, count in write.batches
            ],
            kavka_number=next(self._numbers),
            kavka_broker_epoch=self._broker_epoch(),
        )
        message = writing.WriteShareGroupStateRequest(
            group_id=key.group_id, topics=[writing.WriteStateData(topic_id=key.topic_id, partitions=[data])]
        )
        question = _Question(
            ApiKey.WRITE_SHARE_GROUP_STATE, 1, message, WriteShareGroupStateResponse, state_requests.write
        )
        await self._ask(key, question, patience_s)

    async def initialize(
        self,
        group_id: str,
        state_epoch: int,
        topics: Mapping[uuid.UUID, Sequence[int]],
        patience_s: float,
        *,
        coordinator_epoch: LeaderEpoch,
    ) -> dict[uuid.UUID, frozenset[int]]:
        """Creates states without a start offset. Returns those that exist now. `coordinator_epoch`: that of the group's
        coordinator, here and below (I4)."""
        keys = [ShareKey(group_id, topic_id, index) for topic_id in topics for index in topics[topic_id]]
        outcomes = await asyncio.gather(
            *(
                self.begin(key, state_epoch, UNKNOWN_START, patience_s, coordinator_epoch=coordinator_epoch)
                for key in keys
            ),
            return_exceptions=True,
        )
        done: dict[uuid.UUID, frozenset[int]] = {}
        for key, outcome in zip(keys, outcomes, strict=True):
            if outcome is None:
                done[key.topic_id] = done.get(key.topic_id, frozenset()) | {key.partition}
            elif not isinstance(outcome, RequestError):
                raise outcome
        return done

    async def begin(
        self,
        key: ShareKey,
        state_epoch: int,
        start_offset: Offset,
        patience_s: float,
        *,
        coordinator_epoch: LeaderEpoch,
    ) -> None:
        """Creates a state, or restarts it. -1 stands for a start offset that is not known. Raises `RequestError`."""
        data = initialization.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            start_offset=start_offset,
            kavka_number=next(self._numbers),
            kavka_broker_epoch=self._broker_epoch(),
            kavka_coordinator_epoch=coordinator_epoch,
            kavka_coordinators_topic=self._metadata.topic_id(GROUP_METADATA_TOPIC),
        )
        message = initialization.InitializeShareGroupStateRequest(
            group_id=key.group_id,
            topics=[initialization.InitializeStateData(topic_id=key.topic_id, partitions=[data])],
        )
        question = _Question(
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            0,
            message,
            InitializeShareGroupStateResponse,
            state_requests.initialize,
        )
        await self._ask(key, question, patience_s)

    async def summary(self, key: ShareKey, patience_s: float) -> StateSummary:
        """What is said of the state. Raises `RequestError`."""
        message = summarizing.ReadShareGroupStateSummaryRequest(
            group_id=key.group_id,
            topics=[
                summarizing.ReadStateSummaryData(
                    topic_id=key.topic_id, partitions=[summarizing.PartitionData(partition=key.partition)]
                )
            ],
        )
        question = _Question(
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            1,
            message,
            ReadShareGroupStateSummaryResponse,
            state_requests.summary,
        )
        found = await self._ask(key, question, patience_s)
        return StateSummary(found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count)

    async def delete(self, key: ShareKey, patience_s: float, *, coordinator_epoch: LeaderEpoch) -> None:
        """Deletes a state, if there is one. Raises `RequestError`."""
        data = deletion.PartitionData(
            partition=key.partition,
            kavka_number=next(self._numbers),
            kavka_broker_epoch=self._broker_epoch(),
            kavka_coordinator_epoch=coordinator_epoch,
            kavka_coordinators_topic=self._metadata.topic_id(GROUP_METADATA_TOPIC),
        )
        message = deletion.DeleteShareGroupStateRequest(
            group_id=key.group_id, topics=[deletion.DeleteStateData(topic_id=key.topic_id, partitions=[data])]
        )
        question = _Question(
            ApiKey.DELETE_SHARE_GROUP_STATE, 0, message, DeleteShareGroupStateResponse, state_requests.delete
        )
        await self._ask(key, question, patience_s)

    async def _ask(self, key: ShareKey, question: _Question, patience_s: float) -> Any:
        """The result for the one partition. Raises `RequestError`."""
        if not key.group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID)  # A coordinator answers nothing of a group without a name.
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + patience_s, FIRST_PAUSE_S
        while True:
            try:
                answer = await self._ask_once(key, question)
                result = answer.results[0].partitions[0]
                if result.error_code == ErrorCode.NONE:
                    return result
                refusal = RequestError(ErrorCode.answered(result.error_code), result.error_message or "")
            except RequestError as refused:
                refusal = refused
            except ConnectionFailed as failure:
                refusal = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(failure))
            if refusal.code not in _RETRIABLE or loop.time() + pause_s > deadline:
                raise refusal
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _ask_once(self, key: ShareKey, question: _Question) -> Any:
        await self._ensure_topic()
        index = self._coordinator().partition_for(str(key))
        known = self._metadata.partition(SHARE_STATE_TOPIC, index)
        if known is None or known.state.leader < 0:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if known.state.leader == self.peers.broker_id:
            return await question.local(self._coordinator(), question.message)
        return await self.peers.ask(
            known.state.leader, question.key, question.version, question.message, question.answer_type
        )

    def close(self) -> None:
        """Ends the connections; what is in flight fails."""
        self.peers.close()
