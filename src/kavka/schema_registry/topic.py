"""SchemasTopic: the topic that holds everything a registry knows, read to its end and written by one at a time.

Decides who may write, what is known of what has been written, and which topics are refused. Must not know requests.

I1  Of all registries on one topic one can write at a time: changes are written in transactions of one transactional id,
    which whoever writes takes over (InitProducerId). What the former owner had begun is aborted then, and whatever it
    tries later is refused by the brokers. So what was decided on an older state than the topic's is never written.
I2  `append` has three outcomes: written and read back (True), not written (False: decide again), unknown
    (RegistryRefusal).
I3  A topic that would lose schemas (not compacted) or their order (several partitions) is refused before it is used.

    1. registry A decides to give id 7, B decides to give id 7.    2. B takes the transactional id over and commits.
    3. A's write is refused: it is fenced.                         4. A takes over, reads B's record, decides anew: 8.

Confluent's registry elects one that writes and forwards requests to it; here each may write, and requests need not be
forwarded. A Confluent registry does not take part: it must not write to the same topic at the same time.

Source: KIP-98 (fencing by transactional id).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Final

from kavka.client.admin import Admin, ConfigResource, NewTopic, ResourceType
from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer, ConsumerRecord
from kavka.client.deliveries import PendingDelivery
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.client.transactions import ProducerFenced, TransactionBroken
from kavka.errors import ConfigError, ErrorCode, KavkaError, RequestError
from kavka.logger import Logger
from kavka.model import TopicPartition
from kavka.schema_registry.records import Change, decode, encode
from kavka.schema_registry.refusal import schema_too_large, store_failed, timed_out
from kavka.schema_registry.schemas import MOST_SCHEMA_BYTES
from kavka.schema_registry.state import State

DEFAULT_TOPIC: Final = "_schemas"
REPLICAS: Final = 3
"""At most, as Confluent's registry asks for; fewer where there are fewer brokers."""
READ_S: Final = 20.0
"""How long the end of the topic may take to be read."""
TOKEN_HEADER: Final = "kavka.registry.write"
"""Names one write, so that it is found again in the topic."""
_OVERTAKEN: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
"""What brokers answer to a batch of somebody whose transactional id another has taken over."""
logger = Logger(__name__)


class SchemasTopic:
    """Belongs to one event loop; `open` first. `state` changes in `catch_up` and `append` alone."""

    def __init__(self, cluster: Cluster, name: str = DEFAULT_TOPIC) -> None:
        self.name = name
        self.state = State()
        self._cluster = cluster
        self._partition = TopicPartition(name, 0)
        self._consumer = Consumer(
            cluster,
            ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, read_committed=True, enable_auto_commit=False),
        )
        self._producer: Producer | None = None
        self._reading = asyncio.Lock()
        self._tokens: set[bytes] = set()
        """Writes whose records have not been seen yet."""
        self._told = 0

    async def open(self) -> None:
        """Creates the topic where there is none, and reads it. Raises ConfigError for a topic that cannot be used, else
        as clients do."""
        await self._create()
        await self._require_usable()
        self._consumer.assign([self._partition])
        await self.catch_up()

    async def close(self) -> None:
        await self._consumer.close()
        await self._drop_producer()

    async def catch_up(self) -> None:
        """Reads what is committed now. Raises RegistryRefusal."""
        try:
            async with self._reading:
                await asyncio.wait_for(self._read_to_end(), READ_S)
        except TimeoutError as problem:
            raise timed_out(f"the end of {self.name} was not read within {READ_S:g} s") from problem
        except KavkaError as problem:
            raise store_failed(f"{self.name} cannot be read: {problem}") from problem

    async def append(self, changes: Sequence[Change]) -> bool:
        """Writes changes, all or none (I2). False: nothing was written, and another registry may have written."""
        records = [encode(each) for each in changes]
        for key, value in records:
            size = len(key) + len(value or b"")
            if size > MOST_SCHEMA_BYTES:
                raise schema_too_large(size, MOST_SCHEMA_BYTES)
        if self._producer is None:
            await self._take_over()
            # Another may have written before: what was decided then was decided too early.
            return False
        token = uuid.uuid4().bytes
        self._tokens.add(token)
        try:
            return await self._write(self._producer, records, token)
        finally:
            self._tokens.discard(token)

    async def _write(self, producer: Producer, records: Sequence[tuple[bytes, bytes | None]], token: bytes) -> bool:
        pending: list[PendingDelivery] = []
        try:
            producer.begin_transaction()
            for key, value in records:
                headers = ((TOKEN_HEADER, token),)
                pending.append(await producer.send(self.name, value, key=key, headers=headers, partition=0))
            await producer.commit_transaction()
        except ProducerFenced:
            # It may have been taken over after the commit was decided: the topic knows, once it is read to an end that
            # only a new owner can be sure of.
            await self._drop_producer()
            await self._take_over()
            await self.catch_up()
            return token not in self._tokens
        except TransactionBroken as problem:
            await self._drop_producer()
            cause = _first_failure(pending) or problem
            if isinstance(cause, ProducerFenced) or (isinstance(cause, RequestError) and cause.code in _OVERTAKEN):
                return False
            raise store_failed(f"nothing was written to {self.name}: {cause}") from problem
        except KavkaError as problem:
            await self._drop_producer()
            raise store_failed(f"it is unknown whether {self.name} has the change: {problem}") from problem
        await self._until_seen(token)
        return True

    async def _until_seen(self, token: bytes) -> None:
        """Waits until the state holds a write that is committed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + READ_S
        while token in self._tokens:
            if loop.time() > until:
                raise timed_out(f"the change is written, and was not read back within {READ_S:g} s")
            async with self._reading:
                try:
                    self._take(await self._consumer.poll(timeout_ms=200))
                except KavkaError as problem:
                    raise store_failed(f"the change is written, and {self.name} cannot be read: {problem}") from problem

    async def _take_over(self) -> None:
        """Becomes the one that may write (I1)."""
        settings = ProducerSettings(transactional_id=f"kavka-schema-registry-{self.name}", linger_ms=0)
        producer = Producer(self._cluster, settings)
        try:
            await producer.init_transactions()
        except KavkaError as problem:
            await producer.close(timeout_ms=0)
            raise store_failed(f"{self.name} cannot be written: {problem}") from problem
        self._producer = producer
        logger.info("schema registry may write", topic=self.name)

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(timeout_ms=0)

    async def _read_to_end(self) -> None:
        ends = await self._consumer.end_offsets()
        while not self._consumer.reached(ends):
            self._take(await self._consumer.poll(timeout_ms=200))

    def _take(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            self.state.apply(decode(record.key, record.value))
            for name, value in record.headers:
                if name == TOKEN_HEADER and value is not None:
                    self._tokens.discard(value)
        if self.state.passed_over > self._told:
            self._told = self.state.passed_over
            logger.warning(
                "records of the schemas topic passed over",
                topic=self.name,
                records=self._told,
                why=self.state.complaints[-1],
                next="they are no registry's, or contradict earlier ones; the topic belongs to registries alone",
            )

    async def _create(self) -> None:
        try:
            await self._cluster.topic(self.name)
            return
        except RequestError as problem:
            if problem.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        replicas = max(1, min(REPLICAS, len(self._cluster.brokers)))
        wanted = NewTopic(self.name, 1, replicas, {"cleanup.policy": "compact"})
        failures = await Admin(self._cluster).create_topics([wanted])
        failure = failures.get(self.name)
        if failure is not None and failure.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise failure
        await self._cluster.topic(self.name, timeout_ms=10_000)

    async def _require_usable(self) -> None:
        topic = await self._cluster.topic(self.name)
        if len(topic.partitions) != 1:
            raise ConfigError(
                f"topic {self.name} has {len(topic.partitions)} partitions, and a registry's has 1: the order of its "
                "records counts. Name another topic with --topic"
            )
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        try:
            found = await Admin(self._cluster).describe_configs([resource])
        except RequestError as problem:
            if problem.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                logger.warning("cleanup.policy of the schemas topic unknown", topic=self.name, why=str(problem))
                return
            raise
        policy = next((each.value for each in found[resource] if each.name == "cleanup.policy"), "compact")
        if policy != "compact":
            raise ConfigError(
                f"topic {self.name} has cleanup.policy={policy}: it would lose schemas. Set it with "
                f"`kavka configs set --topic {self.name} cleanup.policy=compact`, or name another topic with --topic"
            )


def _first_failure(pending: Sequence[PendingDelivery]) -> KavkaError | None:
    """Why the first of these deliveries failed."""
    for each in pending:
        if each.done():
            try:
                each.result()
            except KavkaError as problem:
                return problem
    return None
