"""ProducerTransaction: the requests of a transactional producer to its coordinator.

Decides what the producer may do next, what it requests from the coordinator, and what each failure means for the
transaction. Must not know batches: the producer reports which partitions they go to, and their outcomes.

    state          what moves it                                                         to
    NEW            init                                                                  READY
    READY          begin                                                                 OPEN
    OPEN           commit, abort                                                         COMMITTING, ABORTING
                   something failed that an abort puts right (`fail`)                    BROKEN
    BROKEN         abort                                                                 ABORTING
    COMMITTING     the coordinator says that it is committed                             READY
                   a batch failed, or the coordinator wants an abort                     BROKEN
    ABORTING       the coordinator says that it is aborted                               READY
    any            another producer has the id, or the coordinator refuses this one      FENCED

    I1  after FENCED nothing is sent any more: what this producer wrote last is decided by another one
    I2  a commit whose answer is lost is asked again, and nothing but a commit: COMMITTING stays until it is decided
    I3  records of a transaction that broke are never part of the next one: a new epoch is taken where a batch may still
        be on its way

Before transaction version 2 partitions and groups are added before anything is sent to them. From then on the brokers
add them, and every end brings another epoch.

Source: KIP-98, KIP-360, KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from kavka.client.answers import error_of, raise_for
from kavka.client.cluster import Cluster, CoordinatorType
from kavka.errors import ConnectionFailed, ErrorCode, InvariantViolation, KavkaError, RequestError
from kavka.model import NO_EPOCH, LeaderEpoch, Offset, TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kavka.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kavka.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kavka.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kavka.protocol.messages.end_txn_request import EndTxnRequest
from kavka.protocol.messages.end_txn_response import EndTxnResponse
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kavka.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kavka.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)

FEATURE: Final = "transaction.version"
BUMPS_EPOCH: Final = 2
HIGHEST_ADD: Final = 3
"""The highest version of AddPartitionsToTxn for clients. Later versions are for brokers."""
HIGHEST_END: Final = 5
HIGHEST_END_BEFORE_BUMPS: Final = 4
HIGHEST_COMMIT: Final = 5
HIGHEST_COMMIT_BEFORE_BUMPS: Final = 4
HIGHEST_PRODUCE_BEFORE_BUMPS: Final = 11
_FIRST_VERSION_WITH_EPOCH: Final = 3
_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The coordinator's errors for a producer that no longer owns its transactional id."""


class TransactionPhase(Enum):
    """What a transactional producer may do."""

    NEW = "new"
    READY = "ready"
    OPEN = "open"
    BROKEN = "broken"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FENCED = "fenced"


_MOVES: Final[Mapping[TransactionPhase, frozenset[TransactionPhase]]] = {
    TransactionPhase.NEW: frozenset({TransactionPhase.READY, TransactionPhase.FENCED}),
    TransactionPhase.READY: frozenset({TransactionPhase.OPEN, TransactionPhase.FENCED}),
    TransactionPhase.OPEN: frozenset(
        {
            TransactionPhase.COMMITTING,
            TransactionPhase.ABORTING,
            TransactionPhase.BROKEN,
            TransactionPhase.FENCED,
        }
    ),
    TransactionPhase.BROKEN: frozenset({TransactionPhase.ABORTING, TransactionPhase.FENCED}),
    TransactionPhase.COMMITTING: frozenset({TransactionPhase.READY, TransactionPhase.BROKEN, TransactionPhase.FENCED}),
    TransactionPhase.ABORTING: frozenset({TransactionPhase.READY, TransactionPhase.FENCED}),
    TransactionPhase.FENCED: frozenset(),
}


class TransactionBroken(KavkaError):
    """The transaction cannot be committed. Call `abort_transaction` before the next one."""


class ProducerFenced(KavkaError):
    """This producer can do nothing more: another producer has its transactional id, or its transaction timed out."""


class WrongState(KavkaError):
    """A call that is not allowed in the present state, such as `send` without `begin_transaction`."""


class OffsetToSend(NamedTuple):
    """The offset from which a group continues with a partition."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str = ""


class GroupMetadata(NamedTuple):
    """The member of a group that sends offsets (KIP-447). Without a generation, the coordinator does not check the
    member."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ProducerTransaction:
    """The transactions of one transactional id, one after another."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer: tuple[int, int] | None = None
        """Producer id and epoch."""
        self.state = TransactionPhase.NEW
        self.bumps_epoch = False
        """Whether transaction version 2 is in force."""
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._coordinators: dict[tuple[int, str], int] = {}
        self._partitions: dict[TopicPartition, None] = {}
        self._has_content = False
        self._needs_epoch = False
        self._why: Exception | None = None

    # -- questions

    def check_open(self) -> None:
        """Raises an error if nothing can be written now."""
        self._check_alive()
        if self.state is TransactionPhase.BROKEN:
            raise TransactionBroken(f"the transaction must be aborted: {self._why}") from self._why
        if self.state is not TransactionPhase.OPEN:
            raise WrongState(f"the transactional producer is {self.state.value}: call begin_transaction first")

    def _check_alive(self) -> None:
        if self.state is TransactionPhase.FENCED:
            raise ProducerFenced(f"transactional id {self.transactional_id!r}: {self._why}") from self._why

    def holds(self, partition: TopicPartition) -> bool:
        """Whether batches may be sent to the partition."""
        return self.bumps_epoch or partition in self._partitions

    # -- what became of batches

    def on_sent(self) -> None:
        """Records that a batch was sent, so that there is a transaction to end."""
        self._has_content = True

    def fail(self, why: KavkaError, *, may_be_written: bool) -> None:
        """A batch failed: the transaction cannot be committed any more.

        `may_be_written`: it is unknown whether the broker has the batch or will still get it (I3).
        """
        self._needs_epoch = self._needs_epoch or may_be_written
        if self.state in (TransactionPhase.OPEN, TransactionPhase.COMMITTING):
            self._why = why
            self._move(TransactionPhase.BROKEN)

    # -- life

    async def init(self) -> None:
        """Gets a producer id and epoch. The former owner of the transactional id is fenced and its transaction
        aborted. Raises as `Cluster.retry` does, and `ProducerFenced`."""
        self._check_alive()
        if self.state not in (TransactionPhase.NEW, TransactionPhase.ABORTING):
            raise WrongState(f"the transactional producer is {self.state.value} already")

        async def ask() -> None:
            answer = await self._ask_coordinator(ApiKey.INIT_PRODUCER_ID, self._init_request, InitProducerIdResponse)
            self._raise_for(answer.error_code, "init")
            self.producer = (answer.producer_id, answer.producer_epoch)

        await self._retry(ask, "take a producer id for")
        await self._look_at_version()
        self._become_ready()

    def _init_request(self, version: int) -> InitProducerIdRequest:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)
        if self.producer is not None and version >= _FIRST_VERSION_WITH_EPOCH:
            request.producer_id, request.producer_epoch = self.producer
        return request

    async def _look_at_version(self) -> None:
        """The transaction version as the coordinator tells it."""
        try:
            connection = await self._cluster.connection(await self._coordinator_of_transactions())
        except (ConnectionFailed, RequestError):
            return  # It stays as it is known; another coordinator serves both.
        self.bumps_epoch = connection.finalized_features.get(FEATURE, 0) >= BUMPS_EPOCH

    def begin(self) -> None:
        """Begins the next transaction. Raises `WrongState`, `ProducerFenced`."""
        self._check_alive()
        if self.state is not TransactionPhase.READY:
            raise WrongState(f"the transactional producer is {self.state.value}, a transaction begins when it is ready")
        self._move(TransactionPhase.OPEN)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Adds partitions to the transaction. Raises as `init` does, and `TransactionBroken`."""
        wanted = [partition for partition in partitions if partition not in self._partitions]
        by_topic: dict[str, list[int]] = {}
        for topic, index in wanted:
            by_topic.setdefault(topic, []).append(index)

        async def ask() -> None:
            producer_id, epoch = self._require_producer()
            answer = await self._ask_coordinator(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=[
                        AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()
                    ],
                ),
                AddPartitionsToTxnResponse,
                highest=HIGHEST_ADD,
            )
            codes = [
                found.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for found in topic.results_by_partition
            ]
            # OPERATION_NOT_ATTEMPTED stands beside the error that is to blame.
            for code in sorted(codes, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED):
                self._raise_for(code, "add partitions")

        if wanted:
            await self._within(ask, "add partitions to")
            self._partitions.update(dict.fromkeys(wanted))
            self._has_content = True

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetToSend], group: GroupMetadata) -> None:
        """Commits a group's offsets with the transaction. Raises as `add` does."""
        self.check_open()
        if not offsets:
            return
        if not self.bumps_epoch:

            async def add_group() -> None:
                producer_id, epoch = self._require_producer()
                answer = await self._ask_coordinator(
                    ApiKey.ADD_OFFSETS_TO_TXN,
                    AddOffsetsToTxnRequest(
                        transactional_id=self.transactional_id,
                        producer_id=producer_id,
                        producer_epoch=epoch,
                        group_id=group.group_id,
                    ),
                    AddOffsetsToTxnResponse,
                )
                self._raise_for(answer.error_code, "add a group")

            await self._within(add_group, f"add group {group.group_id!r} to")
        self._has_content = True
        request = self._offsets_request(offsets, group)

        async def commit() -> None:
            answer = await self._ask(
                CoordinatorType.GROUP,
                group.group_id,
                ApiKey.TXN_OFFSET_COMMIT,
                request,
                TxnOffsetCommitResponse,
                highest=HIGHEST_COMMIT if self.bumps_epoch else HIGHEST_COMMIT_BEFORE_BUMPS,
            )
            for topic in answer.topics:
                for found in topic.partitions:
                    self._raise_for_group(found.error_code, group.group_id)

        await self._within(commit, f"send offsets of group {group.group_id!r} to")

    def _offsets_request(
        self, offsets: Mapping[TopicPartition, OffsetToSend], group: GroupMetadata
    ) -> TxnOffsetCommitRequest:
        producer_id, epoch = self._require_producer()
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), (offset, leader_epoch, metadata) in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=found) for name, found in by_topic.items()],
        )

    def prepare_end(self, *, commit: bool) -> None:
        """Closes the transaction to further records. Raises if it cannot end in this way."""
        self._check_alive()
        goal = TransactionPhase.COMMITTING if commit else TransactionPhase.ABORTING
        if self.state is goal:
            return  # It is asked again.
        if commit:
            self.check_open()
        elif self.state not in (TransactionPhase.OPEN, TransactionPhase.BROKEN):
            raise WrongState(f"the transactional producer is {self.state.value}: there is nothing to abort")
        self._move(goal)

    async def end(self, *, commit: bool) -> None:
        """Ends the transaction, after `prepare_end`. Raises as `add` does. If it is unknown whether it ended, call
        this again with the same arguments."""
        if self.state is TransactionPhase.BROKEN:
            raise TransactionBroken(f"the transaction must be aborted: {self._why}") from self._why
        if self._has_content:
            await self._end_at_coordinator(commit=commit)
        if self._needs_epoch:
            await self.init()
        else:
            self._become_ready()

    async def _end_at_coordinator(self, *, commit: bool) -> None:
        async def ask() -> None:
            producer_id, epoch = self._require_producer()
            answer = await self._ask_coordinator(
                ApiKey.END_TXN,
                EndTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    committed=commit,
                ),
                EndTxnResponse,
                highest=HIGHEST_END if self.bumps_epoch else HIGHEST_END_BEFORE_BUMPS,
            )
            if not commit and not self.bumps_epoch and answer.error_code == ErrorCode.INVALID_TXN_STATE:
                return  # Nothing was added: there is nothing to abort.
            self._raise_for(answer.error_code, "end")
            if answer.producer_id >= 0:
                self.producer = (answer.producer_id, answer.producer_epoch)
                self._needs_epoch = False

        await self._within(ask, "commit" if commit else "abort")
        self._has_content = False

    # -- asking

    async def _within(self, attempt: Callable[[], Awaitable[None]], what: str) -> None:
        """As `_retry`; what is refused breaks the transaction."""
        try:
            await self._retry(attempt, what)
        except RequestError as refused:
            if self.state is TransactionPhase.OPEN or refused.code is ErrorCode.TRANSACTION_ABORTABLE:
                self.fail(refused, may_be_written=False)
                raise TransactionBroken(f"the transaction must be aborted: {refused}") from refused
            raise

    async def _retry(self, attempt: Callable[[], Awaitable[None]], what: str) -> None:
        try:
            await self._cluster.retry(attempt, what=f"{what} transactional id {self.transactional_id!r}")
        except RequestError as refused:
            if refused.code in _FENCED and self.state is not TransactionPhase.FENCED:
                self._why = refused
                self._move(TransactionPhase.FENCED)
            self._check_alive()
            raise

    async def _ask_coordinator(
        self,
        key: ApiKey,
        request: Message | Callable[[int], Message],
        answer_type: type[Answer],
        *,
        highest: int | None = None,
    ) -> Answer:
        return await self._ask(
            CoordinatorType.TRANSACTION, self.transactional_id, key, request, answer_type, highest=highest
        )

    async def _ask(
        self,
        kind: int,
        name: str,
        key: ApiKey,
        request: Message | Callable[[int], Message],
        answer_type: type[Answer],
        *,
        highest: int | None,
    ) -> Answer:
        """One request to a coordinator, which is looked for anew where it cannot be reached."""
        node_id = self._coordinators.get((kind, name))
        if node_id is None:
            node_id = self._coordinators[kind, name] = await self._cluster.find_coordinator(name, kind)
        try:
            return await self._cluster.ask(key, request, answer_type, node_id=node_id, highest=highest)
        except ConnectionFailed:
            self._coordinators.pop((kind, name), None)
            raise

    async def _coordinator_of_transactions(self) -> int:
        key = (CoordinatorType.TRANSACTION, self.transactional_id)
        node_id = self._coordinators.get(key)
        if node_id is None:
            node_id = self._coordinators[key] = await self._cluster.find_coordinator(
                self.transactional_id, CoordinatorType.TRANSACTION
            )
        return node_id

    def _raise_for(self, code: int, what: str) -> None:
        if error_of(code) in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinators.pop((CoordinatorType.TRANSACTION, self.transactional_id), None)
        raise_for(code, f"{what}: transactional id {self.transactional_id!r}")

    def _raise_for_group(self, code: int, group_id: str) -> None:
        if error_of(code) in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinators.pop((CoordinatorType.GROUP, group_id), None)
        raise_for(code, f"offsets of group {group_id!r} in a transaction")

    def _require_producer(self) -> tuple[int, int]:
        if self.producer is None:
            raise WrongState("call init_transactions first")
        return self.producer

    def _become_ready(self) -> None:
        self._partitions.clear()
        self._has_content = self._needs_epoch = False
        self._why = None
        self._move(TransactionPhase.READY)

    def _move(self, state: TransactionPhase) -> None:
        """The only place where the state changes."""
        if state not in _MOVES[self.state]:
            raise InvariantViolation(f"a transactional producer cannot go from {self.state.name} to {state.name}")
        self.state = state
