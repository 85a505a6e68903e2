"""How proposed ISRs are stored: batches, lost answers, and the two ways there are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ConnectionFailed, ErrorCode, ZooKeeperError
from kavka.model import LeaderAndIsr, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kavka.replication.alter_partition_writer import AlterPartitionWriter
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal, IsrRejected, IsrUnknown
from kavka.replication.isr_changes import IsrChanges
from kavka.replication.zookeeper_isr_writer import MAX_SILENCE_MS, QUIET_MS, ZooKeeperIsrWriter
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import BadVersion, ConnectionLoss, Create, Stat, ZooKeeper
from kavka.zookeeper.znode_paths import (
    ISR_CHANGES_PATH,
    PERSISTENT_PATHS,
    partition_path,
    partition_state_path,
    topic_partitions_path,
    topic_path,
)
from kavka.zookeeper.znodes import IsrChangeNotification, PartitionState
from tests.unit.replication.replication_support import TOPIC_ID, A, B, C

ORDERS = TopicPartition("orders", 0)
WHY = Decision(DecisionKind.ISR_SHRUNK, 0, A, "because")


def proposal(partition: int = 0, *, partition_epoch: int = 0, leader_epoch: int = 1) -> IsrProposal:
    return IsrProposal(
        TopicPartition("orders", partition), TOPIC_ID, A, leader_epoch, partition_epoch, ((A, 5), (B, 6)), WHY
    )


class Writer:
    """Answers as told; `batches` is what it was given."""

    def __init__(self, answer: Callable[[IsrProposal], IsrAnswer]) -> None:
        self.answer = answer
        self.batches: list[list[IsrProposal]] = []

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        self.batches.append(list(proposals))
        return [self.answer(each) for each in proposals]


class Carried:
    """Proposals, what became of them, and who still wants an answer."""

    def __init__(self) -> None:
        self.answers: list[tuple[IsrProposal, IsrAnswer]] = []
        self.unwanted: list[IsrProposal] = []
        self.progress = asyncio.Event()
        self.changes = IsrChanges(wants=lambda each: each not in self.unwanted, on_answer=self.note)

    def note(self, each: IsrProposal, answer: IsrAnswer) -> None:
        self.answers.append((each, answer))
        if not isinstance(answer, IsrUnknown):
            self.unwanted.append(each)
        self.progress.set()

    async def run(self, writer: Writer, until: Callable[[], bool]) -> None:
        task = asyncio.ensure_future(self.changes.run(writer))
        try:
            async with asyncio.timeout(60):
                while not until():
                    self.progress.clear()
                    await self.progress.wait()
        finally:
            task.cancel()


def stored(each: IsrProposal) -> IsrAnswer:
    return IsrCommitted(each.state)


def test_what_is_proposed_while_a_request_is_in_flight_goes_with_the_next_one() -> None:
    async def main() -> None:
        first, second, third = proposal(0), proposal(1), proposal(2)
        carried = Carried()

        def answer(each: IsrProposal) -> IsrAnswer:
            if each is first:
                # Its request is still in flight.
                carried.changes.submit(second)
                carried.changes.submit(third)
            return stored(each)

        writer = Writer(answer)
        carried.changes.submit(first)
        await carried.run(writer, lambda: len(carried.answers) == 3)
        assert writer.batches == [[first], [second, third]]

    asyncio.run(main())


def test_a_proposal_whose_answer_was_lost_is_sent_again_unchanged() -> None:
    async def main() -> None:
        carried = Carried()
        outcomes: list[IsrAnswer] = [IsrUnknown("cut"), IsrUnknown("cut"), IsrCommitted(proposal().state)]
        writer = Writer(lambda each: outcomes.pop(0))
        each = proposal()
        carried.changes.submit(each)
        await carried.run(writer, lambda: not outcomes)
        assert writer.batches == [[each]] * 3

    asyncio.run(main())


def test_a_proposal_that_nobody_wants_any_more_is_not_sent() -> None:
    async def main() -> None:
        carried, writer = Carried(), Writer(stored)
        old, new = proposal(), proposal(1)
        carried.unwanted.append(old)
        carried.changes.submit(old)
        carried.changes.submit(new)
        await carried.run(writer, lambda: bool(carried.answers))
        assert writer.batches == [[new]]
        assert carried.changes.waiting == 0

    asyncio.run(main())


def test_a_newer_proposal_of_a_partition_takes_the_place_of_an_older() -> None:
    async def main() -> None:
        carried, writer = Carried(), Writer(stored)
        old, new = proposal(), proposal(leader_epoch=2)
        carried.changes.submit(old)
        carried.changes.submit(new)
        await carried.run(writer, lambda: bool(carried.answers))
        assert writer.batches == [[new]]

    asyncio.run(main())


# -- through the controller


def ask_controller(answer: Callable[[AlterPartitionRequest], AlterPartitionResponse]) -> AlterPartitionWriter:
    async def send(
        key: ApiKey,
        version: int,
        message: AlterPartitionRequest,
        answer_type: type[AlterPartitionResponse],
        *,
        timeout_ms: int,
    ) -> AlterPartitionResponse:
        assert (key, version, answer_type) == (ApiKey.ALTER_PARTITION, 3, AlterPartitionResponse)
        return answer(message)

    return AlterPartitionWriter(send, A, lambda: 99)


def answered(*partitions: PartitionData) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=[TopicData(topic_id=TOPIC_ID, partitions=list(partitions))])


def test_the_controller_is_told_the_broker_epochs_that_the_members_fetched_with() -> None:
    requests: list[AlterPartitionRequest] = []

    def answer(request: AlterPartitionRequest) -> AlterPartitionResponse:
        requests.append(request)
        return answered(
            PartitionData(partition_index=0, leader_id=A, leader_epoch=1, isr=[A, B], partition_epoch=4),
            PartitionData(partition_index=1, error_code=ErrorCode.INELIGIBLE_REPLICA),
        )

    answers = asyncio.run(ask_controller(answer).write([proposal(0, partition_epoch=3), proposal(1)]))
    (request,) = requests
    assert (request.broker_id, request.broker_epoch) == (A, 99)
    (topic,) = request.topics
    assert topic.topic_id == TOPIC_ID
    sent = topic.partitions[0]
    assert (sent.partition_index, sent.leader_epoch, sent.partition_epoch) == (0, 1, 3)
    assert [(state.broker_id, state.broker_epoch) for state in sent.new_isr_with_epochs] == [(A, 5), (B, 6)]
    assert answers == [IsrCommitted(LeaderAndIsr(A, 1, (A, B), 4)), IsrRejected(ErrorCode.INELIGIBLE_REPLICA)]


def test_of_an_error_that_is_not_known_here_the_outcome_is_unknown() -> None:
    """A controller of a later version may answer so."""

    def of_the_partition(request: AlterPartitionRequest) -> AlterPartitionResponse:
        return answered(PartitionData(partition_index=0, error_code=9_999))

    def of_all(request: AlterPartitionRequest) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=9_999, topics=[])

    for answer in (of_the_partition, of_all):
        assert asyncio.run(ask_controller(answer).write([proposal()])) == [IsrUnknown("UNKNOWN_SERVER_ERROR")]


@pytest.mark.parametrize(
    ("code", "is_rejected"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.INVALID_UPDATE_VERSION, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.NOT_CONTROLLER, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_only_an_answer_about_the_proposal_itself_is_a_refusal(code: ErrorCode, *, is_rejected: bool) -> None:
    writer = ask_controller(lambda request: answered(PartitionData(partition_index=0, error_code=code)))
    (answer,) = asyncio.run(writer.write([proposal()]))
    assert isinstance(answer, IsrRejected) is is_rejected
    assert isinstance(answer, IsrUnknown) is not is_rejected


def test_a_lost_connection_and_a_stale_broker_epoch_leave_the_outcome_open() -> None:
    def cut(request: AlterPartitionRequest) -> AlterPartitionResponse:
        raise ConnectionFailed("cut")

    for answer in (cut, lambda request: AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)):
        answers = asyncio.run(ask_controller(answer).write([proposal(0), proposal(1)]))
        assert all(isinstance(each, IsrUnknown) for each in answers)
        assert len(answers) == 2


# -- into ZooKeeper


class Faulty:
    """A session whose next write can go wrong: `fault` is raised, after the write if `is_written`."""

    def __init__(self, session: LocalZooKeeper) -> None:
        self.session = session
        self.fault: ZooKeeperError | None = None
        self.is_written = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    async def set(self, path: str, data: bytes | None, *, version: int = -1) -> Stat:
        fault, self.fault = self.fault, None
        if fault is not None and not self.is_written:
            raise fault
        stat = await self.session.set(path, data, version=version)
        if fault is not None:
            raise fault
        return stat


Scenario = Callable[[Faulty, ZooKeeperIsrWriter], Awaitable[None]]


def in_zookeeper(tmp_path: Path, scenario: Scenario) -> None:
    """`orders-0` is led by A in epoch 1, all three in sync, in version 0 of its state."""

    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 0, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        zookeeper = Faulty(await server.connect())
        try:
            paths = [*PERSISTENT_PATHS, topic_path("orders"), topic_partitions_path("orders"), partition_path(ORDERS)]
            await zookeeper.multi([Create(path) for path in paths])
            await zookeeper.create(partition_state_path(ORDERS), PartitionState(A, 1, (A, B, C), 8).encode())
            await scenario(zookeeper, ZooKeeperIsrWriter(cast("ZooKeeper", zookeeper)))
        finally:
            await server.stop()

    asyncio.run(main())


async def state(zookeeper: Faulty) -> PartitionState:
    data, _ = await zookeeper.get(partition_state_path(ORDERS))
    return PartitionState.decode(ORDERS, data)


def test_a_leader_sets_the_isr_and_leaves_the_rest_of_the_state(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        assert await writer.write([proposal()]) == [IsrCommitted(LeaderAndIsr(A, 1, (A, B), 1))]
        assert await state(zookeeper) == PartitionState(A, 1, (A, B), 8)

    in_zookeeper(tmp_path, scenario)


def test_s16_a_write_whose_answer_was_lost_is_a_success_when_it_is_tried_again(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        zookeeper.fault = ConnectionLoss("state")
        (unknown,) = await writer.write([proposal()])
        assert isinstance(unknown, IsrUnknown)
        assert await writer.write([proposal()]) == [IsrCommitted(LeaderAndIsr(A, 1, (A, B), 1))]
        assert writer.propagation.is_due(1 << 60), "the controller is told of it"

    in_zookeeper(tmp_path, scenario)


def test_s16_a_stale_version_and_a_newer_leader_are_refused_with_what_is_stored(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        path = partition_state_path(ORDERS)
        await zookeeper.set(path, PartitionState(A, 1, (A, C), 8).encode())
        assert await writer.write([proposal()]) == [
            IsrRejected(ErrorCode.INVALID_UPDATE_VERSION, LeaderAndIsr(A, 1, (A, C), 1))
        ]
        await zookeeper.set(path, PartitionState(C, 2, (A, C), 8).encode())
        assert await writer.write([proposal()]) == [
            IsrRejected(ErrorCode.FENCED_LEADER_EPOCH, LeaderAndIsr(C, 2, (A, C), 2))
        ]

    in_zookeeper(tmp_path, scenario)


def test_garbage_and_absence_of_a_state_are_refusals(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        await zookeeper.set(partition_state_path(ORDERS), b"garbage")
        answers = await writer.write([proposal(0), proposal(1)])
        assert [answer.error for answer in answers if isinstance(answer, IsrRejected)] == [
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    in_zookeeper(tmp_path, scenario)


def test_the_controller_is_told_after_five_quiet_seconds_or_a_minute(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        propagation = writer.propagation
        propagation.note(ORDERS, 1_000_000)
        await propagation.propagate(1_000_000)
        assert not propagation.is_due(1_000_000 + MAX_SILENCE_MS + 1), "nothing changed since"
        propagation.note(ORDERS, 1_001_000)
        assert not propagation.is_due(1_001_000 + QUIET_MS)
        assert propagation.is_due(1_001_001 + QUIET_MS)
        for second in range(60):
            propagation.note(ORDERS, 1_001_000 + second * 1000)
        assert not propagation.is_due(1_060_000)
        assert propagation.is_due(1_000_001 + MAX_SILENCE_MS)
        (name,) = await zookeeper.children(ISR_CHANGES_PATH)
        path = f"{ISR_CHANGES_PATH}/{name}"
        assert IsrChangeNotification.decode(path, (await zookeeper.get(path))[0]).partitions == (ORDERS,)

    in_zookeeper(tmp_path, scenario)


def test_a_notification_that_was_not_written_is_written_later(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        await zookeeper.delete(ISR_CHANGES_PATH)
        writer.propagation.note(ORDERS, 0)
        await writer.propagation.propagate(0)
        await zookeeper.create(ISR_CHANGES_PATH)
        assert writer.propagation.is_due(QUIET_MS + 1)
        await writer.propagation.propagate(QUIET_MS + 1)
        assert len(await zookeeper.children(ISR_CHANGES_PATH)) == 1

    in_zookeeper(tmp_path, scenario)


def test_a_write_that_lost_the_race_is_read_again(tmp_path: Path) -> None:
    async def scenario(zookeeper: Faulty, writer: ZooKeeperIsrWriter) -> None:
        zookeeper.fault, zookeeper.is_written = BadVersion("state"), False
        (answer,) = await writer.write([proposal()])
        assert isinstance(answer, IsrUnknown)
        assert await writer.write([proposal()]) == [IsrCommitted(LeaderAndIsr(A, 1, (A, B), 1))]

    in_zookeeper(tmp_path, scenario)
