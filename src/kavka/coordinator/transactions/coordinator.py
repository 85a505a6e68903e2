"""TransactionCoordinator: the flow around the shards: their log, markers, and time.

A shard decides about transactions. The coordinator writes the shard's record, waits until it is committed, replays it,
and answers. Once an outcome is committed, it has the markers written, retrying until they are, and then writes the
end. Must not know sockets, the wire format of requests, or which brokers lead partitions.

    I1  an answer that depends on a record goes out after the record is committed
    I2  while it is unknown whether a record is committed, its transactional id is busy: the client gets
        COORDINATOR_NOT_AVAILABLE, and nothing else is decided. Apache Kafka continues with the earlier state, and may
        prepare the other outcome after the one that is in the log
    I3  markers are sent only for an outcome that is committed, with the leader epoch in which it was loaded here or
        written; what the log says is prepared when it is loaded gets its markers (again)
    I4  a partition is served when everything that was read from it is committed (ActiveShards). Otherwise, with fewer
        replicas in sync than min.insync.replicas: 1. this broker reads a prepared commit that no other broker has, and
        one partition gets its marker; 2. this broker dies, and a replica without that record leads; 3. there the
        transaction is still open, times out, and the other partitions get the marker of an abort (P4). Apache Kafka
        reads to the end and does not wait
    I5  what was decided in one leader epoch is not appended in a later one: whoever reads the log there may have passed
        its end already, or the record is one of a former life, behind what another coordinator decided meanwhile

Source: Kafka's TransactionCoordinator, TransactionStateManager and CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from kavka.coordinator.shared.active_shards import ActiveShard, ActiveShards, ShardLog
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN, answer_for
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction, in_batches
from kavka.coordinator.transactions.decide.records import (
    decode_transaction_record,
    transaction_record,
    transaction_tombstone,
)
from kavka.coordinator.transactions.decide.shard import TransactionShard, Transition
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch, Transaction
from kavka.errors import ErrorCode, ProtocolViolation, RequestError
from kavka.logger import Logger
from kavka.model import LeaderEpoch, TopicPartition

logger = Logger(__name__)

RETRY_S: Final = 0.1
"""How long after a failure the end of a transaction is written again."""
AT_ONCE: Final = 100
"""Time-outs, or tombstones in one batch, that are written side by side."""
TOMBSTONES_BYTES: Final = 512 * 1024
"""Where a batch of tombstones is full: half of what Kafka's default for a batch allows."""


class TransactionLog(ShardLog, Protocol):
    """The port to `__transaction_state`."""

    def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> Awaitable[ErrorCode]:
        """Appends in order, as one batch, with acks=all; NONE once it is committed."""
        ...


class Markers(Protocol):
    """The port to the partitions of transactions."""

    def write(self, transaction: Transaction, coordinator_epoch: LeaderEpoch) -> Awaitable[bool]:
        """Ends the transaction in all its partitions, and retries until it is done. Returns False if a coordinator or
        a producer with a later epoch was there before."""
        ...


class TransactionLimits(NamedTuple):
    """Settings."""

    max_timeout_ms: int
    expiration_ms: int


class Surroundings(NamedTuple):
    """What the broker provides. `wall_ms` is the time in milliseconds since 1970: it is in the records, and moves with
    them from coordinator to coordinator. `transaction_version` is the level in force in the cluster. `on_bug` is
    called with a task that failed."""

    wall_ms: Callable[[], int]
    next_producer_id: Callable[[], Awaitable[int]]
    transaction_version: Callable[[], int]
    limits: Callable[[], TransactionLimits]
    on_bug: Callable[[BaseException], None]


class InitWish(NamedTuple):
    """The request of InitProducerId. `expected` is None for a new producer."""

    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None


class _Active(ActiveShard):
    """Transactional ids of one partition, with the tasks that have their markers written."""

    __slots__ = ("shard", "tasks")

    def __init__(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        super().__init__(partition, leader_epoch)
        self.shard = TransactionShard()
        self.tasks: dict[asyncio.Task[None], None] = {}


class TransactionCoordinator(ActiveShards[_Active]):
    """All transactional ids that this broker coordinates."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, log: TransactionLog, markers: Markers, surroundings: Surroundings
    ) -> None:
        super().__init__(log, missing_topic=ErrorCode.NOT_COORDINATOR)
        self._loop = loop
        self._log = log
        self._markers = markers
        self._around = surroundings
        self._writes: dict[asyncio.Task[None], None] = {}

    # -- which partitions are here

    def _new_shard(self, partition: int, leader_epoch: LeaderEpoch) -> _Active:
        return _Active(partition, leader_epoch)

    def _on_read(self, active: _Active, found: Sequence[CoordinatorRecord] | OpenTransaction) -> None:
        if not isinstance(found, OpenTransaction):
            for record in found:
                _replay(active, record)

    def _on_loaded(self, active: _Active) -> None:
        active.loading = False
        for transaction in active.shard.ending():
            self._finish_soon(active, transaction)

    def _on_unloaded(self, active: _Active) -> None:
        for task in list(active.tasks):
            task.cancel()

    def _on_other_count(self, count: int) -> None:
        logger.error(
            "the number of partitions of the transactions topic has changed",
            partitions=count,
            ids_placed_by=self._placement.count,
            next_step="end all transactions before you restart a broker: it will look for each transactional id by the "
            "new number, and not fence its earlier producers",
        )

    def shut_down(self) -> None:
        super().shut_down()
        for write in list(self._writes):
            write.cancel()

    # -- producers

    async def init_producer_id(self, transactional_id: str, wish: InitWish) -> ProducerIdAndEpoch:
        """Returns the producer's new id and epoch. Raises `RequestError`."""
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        limits = self._around.limits()
        if not 0 < wish.timeout_ms <= limits.max_timeout_ms:
            raise RequestError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_producer_id: int | None = None
        active = self._find(transactional_id)
        while new_producer_id is None and active.shard.needs_producer_id(transactional_id, wish.expected):
            new_producer_id = await self._around.next_producer_id()
            active = self._find(transactional_id)
        transition = active.shard.init_producer_id(
            transactional_id,
            wish.timeout_ms,
            wish.expected,
            new_producer_id=new_producer_id,
            now_ms=self._around.wall_ms(),
            version=self._around.transaction_version(),
        )
        await self._carry_out(active, transition)
        assert transition.transaction is not None
        return transition.transaction.producer

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        *,
        version: int,
    ) -> None:
        """Adds partitions to the producer's transaction. Raises `RequestError`."""
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        active = self._find(transactional_id)
        transition = active.shard.add_partitions(
            transactional_id, producer, partitions, now_ms=self._around.wall_ms(), version=version
        )
        await self._carry_out(active, transition)

    def on_begun(self, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        """The producer has asked to add partitions, and was refused before it came to that (TransactionShard, I4)."""
        try:
            active = self._find(transactional_id)
        except RequestError:
            return  # It asks whoever coordinates it.
        active.shard.on_begun(transactional_id, producer)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Which partitions are part of the producer's open transaction. Raises `RequestError`."""
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        return self._find(transactional_id).shard.verify(transactional_id, producer, partitions)

    async def end_transaction(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, version: int
    ) -> ProducerIdAndEpoch:
        """Commits or aborts. The outcome is decided when this returns, and visible soon after. Returns the producer's
        id and epoch from then on.

        Raises `RequestError`.
        """
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        active = self._find(transactional_id)
        new_producer_id: int | None = None
        while new_producer_id is None and active.shard.needs_next_producer_id(transactional_id, version):
            new_producer_id = await self._around.next_producer_id()
            active = self._find(transactional_id)
        transition = active.shard.end_transaction(
            transactional_id,
            producer,
            commit=commit,
            new_producer_id=new_producer_id,
            now_ms=self._around.wall_ms(),
            version=version,
        )
        await self._carry_out(active, transition)
        prepared = transition.transaction or active.shard.transactions[transactional_id]
        if prepared.next_producer_id >= 0:
            return ProducerIdAndEpoch(prepared.next_producer_id, 0)
        return prepared.producer

    # -- administration

    def describe(self, transactional_id: str) -> Transaction:
        """Raises `RequestError`: TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        transaction = self._find(transactional_id).shard.transactions.get(transactional_id)
        if transaction is None:
            raise RequestError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def transactions(self) -> list[Transaction]:
        """All transactions that this broker coordinates, by id. Raises `RequestError` COORDINATOR_LOAD_IN_PROGRESS."""
        found: list[Transaction] = []
        for active in self._active.values():
            if active.loading:
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            found.extend(active.shard.transactions.values())
        return sorted(found, key=lambda transaction: transaction.transactional_id)

    # -- time

    async def abort_timed_out(self) -> None:
        """Aborts transactions that timed out, and fences their producers."""
        now_ms = self._around.wall_ms()
        for active in list(self._active.values()):
            if active.loading:
                continue
            for ids in _in_parts(active.shard.timed_out(now_ms)):
                await asyncio.gather(*(self._abort_timed_out(active, transactional_id) for transactional_id in ids))

    async def _abort_timed_out(self, active: _Active, transactional_id: str) -> None:
        version, new_producer_id = self._around.transaction_version(), None
        if active.shard.needs_next_producer_id(transactional_id, version):
            with suppress(RequestError):  # Who waits behind the transaction does not wait for ZooKeeper too.
                new_producer_id = await self._around.next_producer_id()
        if active.is_gone:
            return
        transition = active.shard.abort_timed_out(
            transactional_id, self._around.wall_ms(), version, new_producer_id=new_producer_id
        )
        if transition.transaction is None:
            return
        logger.info(
            "transaction timed out",
            transactional_id=transactional_id,
            producer_id=transition.transaction.producer_id,
            timeout_ms=transition.transaction.timeout_ms,
        )
        try:
            await self._carry_out(active, transition)
        except RequestError as failed:
            logger.warning("transaction not aborted yet", transactional_id=transactional_id, why=failed.code.name)

    async def forget_expired(self) -> None:
        """Removes ids that were not used for transactional.id.expiration.ms."""
        now_ms, expiration_ms = self._around.wall_ms(), self._around.limits().expiration_ms
        for active in list(self._active.values()):
            if active.loading:
                continue
            expired = active.shard.expired(now_ms, expiration_ms)
            for ids in in_batches(expired, lambda name: len(name.encode()), TOMBSTONES_BYTES, most=AT_ONCE):
                await self._forget(active, ids)

    async def _forget(self, active: _Active, ids: Sequence[str]) -> None:
        # Others of the list may have come to life while one was being written.
        now_ms, expiration_ms = self._around.wall_ms(), self._around.limits().expiration_ms
        shard = active.shard
        still = [name for name in ids if not shard.is_under_way(name)]
        still = [name for name in still if name in shard.transactions]
        still = [name for name in still if shard.transactions[name].is_expired(now_ms, expiration_ms)]
        if not still or active.is_gone:
            return
        records = [transaction_tombstone(transactional_id) for transactional_id in still]
        changes = [(transactional_id, None) for transactional_id in still]
        answer = await asyncio.shield(self._write(active, records, changes))
        if answer is not ErrorCode.NONE:
            logger.warning("transactional ids not forgotten yet", count=len(still), why=answer.name)

    # -- carrying out

    async def _carry_out(self, active: _Active, transition: Transition) -> None:
        """Writes what was decided. Raises `RequestError` with its error, or what came of writing it."""
        transaction = transition.transaction
        if transaction is not None:
            record = transaction_record(transaction, transaction_version=self._around.transaction_version())
            changes = [(transaction.transactional_id, transaction)]
            error = await asyncio.shield(self._write(active, [record], changes))
            if error is not ErrorCode.NONE:
                raise RequestError(error)
        if transition.error is not ErrorCode.NONE:
            raise RequestError(transition.error)

    def _write(
        self,
        active: _Active,
        records: Sequence[CoordinatorRecord],
        changes: Sequence[tuple[str, Transaction | None]],
    ) -> asyncio.Future[ErrorCode]:
        """Writes records, and applies what they mean when they are committed. What is answered meanwhile.

        In a task of its own: who asked may go away.
        """
        answer: asyncio.Future[ErrorCode] = self._loop.create_future()
        for transactional_id, _transaction in changes:
            active.shard.begin(transactional_id)
        task = self._loop.create_task(self._write_and_settle(active, records, changes, answer))
        self._writes[task] = None
        task.add_done_callback(lambda done: self._on_written(done, answer))
        return answer

    def _on_written(self, task: asyncio.Task[None], answer: asyncio.Future[ErrorCode]) -> None:
        del self._writes[task]
        self._on_task_done(task)
        if not answer.done():
            answer.set_result(ErrorCode.NOT_COORDINATOR)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._around.on_bug(bug)

    async def _write_and_settle(
        self,
        active: _Active,
        records: Sequence[CoordinatorRecord],
        changes: Sequence[tuple[str, Transaction | None]],
        answer: asyncio.Future[ErrorCode],
    ) -> None:
        try:
            gone = ErrorCode.NOT_COORDINATOR
            error = gone if active.is_gone else await self._log.append(active.partition, records)  # I5
            committed = error is ErrorCode.NONE
            if error in OUTCOME_UNKNOWN:
                answer.set_result(answer_for(error))
                committed = await self._log.settle(active.partition)
            if committed:
                for transactional_id, transaction in changes:
                    active.shard.replay(transactional_id, transaction)
        finally:
            for transactional_id, _transaction in changes:
                active.shard.end(transactional_id)
        is_active = not active.is_gone
        if committed and is_active:
            for _transactional_id, transaction in changes:
                if transaction is not None and transaction.state.is_ending:
                    self._finish_soon(active, transaction)
        if not answer.done():
            answer.set_result(answer_for(error) if is_active else ErrorCode.NOT_COORDINATOR)

    def _finish_soon(self, active: _Active, transaction: Transaction) -> None:
        task = self._loop.create_task(self._finish(active, transaction))
        active.tasks[task] = None
        task.add_done_callback(lambda done: active.tasks.pop(done, None))
        task.add_done_callback(self._on_task_done)

    async def _finish(self, active: _Active, transaction: Transaction) -> None:
        """Writes the markers, and then the end of the transaction."""
        transactional_id = transaction.transactional_id
        if not await self._markers.write(transaction, active.leader_epoch):
            logger.warning(
                "transaction left to a later coordinator",
                transactional_id=transactional_id,
                coordinator_epoch=active.leader_epoch,
            )
            return
        while not active.is_gone and active.shard.transactions.get(transactional_id) is transaction:
            if active.shard.is_writing(transactional_id):
                # The end is in the log, and nobody knows yet whether it is committed.
                await asyncio.sleep(RETRY_S)
                continue
            completed = transaction.completed(self._around.wall_ms())
            record = transaction_record(completed, transaction_version=self._around.transaction_version())
            error = await asyncio.shield(self._write(active, [record], [(transactional_id, completed)]))
            if error in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
                return
            await asyncio.sleep(RETRY_S)


def _in_parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))


def _replay(active: _Active, record: CoordinatorRecord) -> None:
    try:
        decoded = decode_transaction_record(record.key, record.value)
    except ProtocolViolation as garbage:
        logger.warning("transaction record skipped", partition=active.partition, why=str(garbage))
        return
    if decoded is not None:
        active.shard.replay(decoded.transactional_id, decoded.transaction)
