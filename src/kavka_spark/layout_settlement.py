"""Settlement: one attempt sees to it that a layout of its own number of tasks is settled, or that it is refused.

Decides who acts, who waits, and in which order producers are made; `writer_layouts` decides what is to be done.

Invariants
  I1  Every record is written by a producer that took the layout's transactional id over before it read what it acts on.
      So of two that act at the same time, the one before can commit no more.
  I2  Taking the id over completes what its last owner had decided to commit. So an intent that was read then is read
      by everybody; that one has been committed is not enough, for its control record may come later. Therefore each
      record begins with a takeover of its own.
  I3  A record is committed only if all that was committed before it is what its writer acted on. What was read may
      have come from a broker that had lost its place as leader without knowing it.
  I4  Who finds an intent of somebody, or was fenced, waits `PATIENCE_S` for it to be settled. Then it goes on with it:
      who wrote the intent may be dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple, assert_never

from kavka.client.cluster import Cluster
from kavka.client.producer import Producer
from kavka.client.settings import ProducerSettings
from kavka.client.transactions import ProducerFenced
from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka_spark.errors import LayoutChangedError, SinkError, StaleBatchError
from kavka_spark.marker_topic import MarkerTopic, Seen
from kavka_spark.markers import Task
from kavka_spark.missing_rights import refusal_in
from kavka_spark.writer_layouts import (
    Layout,
    Replace,
    Verdict,
    Write,
    layout_key,
    layout_transactional_id,
    next_step,
)

PATIENCE_S: Final = 30.0
POLL_S: Final = 0.1
_FENCED_AT_ONCE: Final = 16
ABORT_TIMEOUT_S: Final = 10.0
"""How long a failing task tries to abort. If it cannot, the task's next attempt does."""


class BatchOfTask(NamedTuple):
    """What must be written exactly once."""

    task: Task
    batch: int
    tasks: int
    """How many tasks write the batch, this one among them."""

    def __str__(self) -> str:
        return f"batch {self.batch} of task {self.task.partition} of query {self.task.query}"


class Settlement:
    """What one attempt does about its query's layout."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings, markers: MarkerTopic, what: BatchOfTask) -> None:
        self._cluster = cluster
        self._settings = settings
        self._markers = markers
        self._what = what

    def may_proceed(self, found: Layout | None) -> bool:
        """Whether rows may be written. Raises `StaleBatchError` and `LayoutChangedError`."""
        step = next_step(found, self._what.batch, self._what.tasks)
        if step is Verdict.STALE:
            assert found is not None
            raise StaleBatchError(str(self._what), found.batch)
        if step is Verdict.CHANGED:
            assert found is not None
            raise LayoutChangedError(str(self._what), found.tasks, self._what.tasks)
        return step is Verdict.PROCEED

    async def settle(self) -> None:
        """Returns when a layout of this number of tasks is settled. Raises as `may_proceed`, `SinkError` for a query
        that an earlier version of kavka wrote, and what a client raises."""
        now = asyncio.get_running_loop().time
        wait_until: float | None = None
        while not self.may_proceed(found := (await self._markers.look(self._what.task.query)).layout):
            if wait_until is None:
                wait_until = now() + (PATIENCE_S if found is not None and not found.is_settled else 0)
            if now() < wait_until:
                await asyncio.sleep(POLL_S)
                continue
            try:
                await self._act()
            except KavkaError as failure:
                if not is_fenced(failure):
                    raise
                wait_until = now() + PATIENCE_S

    async def _act(self) -> None:
        """Step by step until the layout is settled (I1, I2). Raises what says `is_fenced` if another attempt acts."""
        while True:
            async with self._taken_over(layout_transactional_id(self._what.task.query)) as producer:
                seen = await self._markers.look(self._what.task.query)
                if self.may_proceed(seen.layout):
                    return
                if seen.layout is None:
                    await self._check_unmarked()
                match next_step(seen.layout, self._what.batch, self._what.tasks):
                    case Write(layout):
                        await self._write(producer, layout, seen)
                    case Replace(intent) as step:
                        seen = await self._fence(intent)
                        await self._write(producer, step.settled(is_committed=self._has_begun(seen)), seen)
                    case Verdict():
                        raise AssertionError("verdicts are may_proceed's")
                    case never:
                        assert_never(never)

    async def _check_unmarked(self) -> None:
        """A batch with markers and no layout was begun by a version that knew none: whose rows went where?"""
        marked = await self._markers.last_batch(self._what.task.query)
        if marked is not None and marked >= self._what.batch:
            raise SinkError(
                f"{self._what}: a version of kavka before stable() has committed some of batch {marked}, and it is not "
                "known which rows. Let that version finish the batch, or start with a new checkpoint"
            )

    async def _fence(self, intent: Layout) -> Seen:
        """Takes over every task of the old layout, and looks what they have committed."""
        assert intent.before is not None
        tasks = [Task(self._what.task.query, partition) for partition in range(intent.before)]

        async def fence(task: Task) -> None:
            async with self._taken_over(task.transactional_id):
                pass

        for first in range(0, len(tasks), _FENCED_AT_ONCE):
            await asyncio.gather(*map(fence, tasks[first : first + _FENCED_AT_ONCE]))
        return (await self._markers.look(self._what.task.query, tasks))._replace(layout=intent)

    def _has_begun(self, seen: Seen) -> bool:
        """Whether one of the tasks has committed this batch, or a later one."""
        return any(marked is not None and marked.batch >= self._what.batch for marked in seen.markers.values())

    async def _write(self, producer: Producer, layout: Layout, seen: Seen) -> None:
        """Commits the record, or nothing if something else than what was seen is there by now (I3)."""
        query = self._what.task.query
        producer.begin_transaction()
        topic, partition = await self._markers.partition_of(query)
        sent = await producer.send(topic, layout.value, key=layout_key(query), partition=partition)
        if await self._markers.look_before(await sent, query, seen.markers) == seen:
            await producer.commit_transaction()

    @asynccontextmanager
    async def _taken_over(self, transactional_id: str) -> AsyncIterator[Producer]:
        producer = Producer(self._cluster, replace(self._settings, transactional_id=transactional_id))
        try:
            await producer.init_transactions()
            yield producer
        finally:
            await end(producer)


def is_fenced(refused: BaseException | None) -> bool:
    """Whether another attempt has taken the id over, according to what broke a transaction or to what caused that. A
    partition's leader may hear of it before the coordinator answers. A producer that may not use its id is of no use
    either, but nobody has taken it."""
    if refusal_in(refused) is not None:
        return False
    codes = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    while refused is not None:
        if isinstance(refused, ProducerFenced) or (isinstance(refused, RequestError) and refused.code in codes):
            return True
        refused = refused.__cause__
    return False


async def end(producer: Producer) -> None:
    """Ends what is still open, as far as it can be ended now."""
    try:
        if producer.in_transaction:
            await asyncio.wait_for(producer.abort_transaction(), ABORT_TIMEOUT_S)
    except (KavkaError, TimeoutError):
        pass  # The next who takes the id over aborts it.
    finally:
        await producer.close(timeout_ms=0)
