"""The two ways to have an ISR stored, and when what is proposed goes out: by the millisecond and error by error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from kavka import logger
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ConnectionFailed, ErrorCode, InvariantViolation, ZooKeeperError
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kavka.protocol.schema import ZERO_UUID
from kavka.replication.alter_partition_writer import AlterPartitionWriter, stores_isr_through_controller
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal, IsrRejected, IsrUnknown
from kavka.replication.isr_changes import IsrChanges, IsrWriter
from kavka.replication.zookeeper_isr_writer import IsrChangePropagation, ZooKeeperIsrWriter
from kavka.zookeeper.port import BadVersion, ConnectionLoss, CreateMode, NoNode, SessionExpired, Stat, ZooKeeper
from kavka.zookeeper.znode_paths import ISR_CHANGE_PREFIX, partition_state_path
from kavka.zookeeper.znodes import IsrChangeNotification, PartitionState
from tests.kit.virtual_time import in_virtual_time
from tests.unit.replication.replication_support import TOPIC_ID, A, B, C

WHY = Decision(DecisionKind.ISR_SHRUNK, 0, A, "because")
UNKNOWN = IsrUnknown("cut")
Line = tuple[str, str, dict[str, Any]]


@pytest.fixture
def lines() -> Iterator[list[Line]]:
    """Log lines: (level, event, keys)."""
    written: list[Line] = []
    token = logger.sink.set(lambda level, event, keys: written.append((level, event, dict(keys))))
    yield written
    logger.sink.reset(token)


def tp(index: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, index)


def proposal(
    index: int = 0, *, isr: Sequence[BrokerId] = (A, B), topic_id: Any = TOPIC_ID, topic: str = "orders"
) -> IsrProposal:
    return IsrProposal(tp(index, topic), topic_id, A, 1, 3, tuple((each, 4 + each) for each in isr), WHY)


# -- when proposals go out


class Carried:
    """What was sent when, in virtual milliseconds, and the answers that came back."""

    def __init__(self, answer: Callable[[IsrProposal], IsrAnswer]) -> None:
        self.answer = answer
        self.sent: list[tuple[float, list[IsrProposal]]] = []
        self.answered: list[tuple[IsrProposal, IsrAnswer]] = []
        self.unwanted: list[IsrProposal] = []
        self.changes = IsrChanges(
            wants=lambda each: each not in self.unwanted, on_answer=lambda *told: self.answered.append(told)
        )

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        self.sent.append((round(asyncio.get_running_loop().time() * 1000, 2), list(proposals)))
        return [self.answer(each) for each in proposals]

    async def run_for(self, seconds: float, writer: IsrWriter | None = None) -> None:
        running = asyncio.ensure_future(self.changes.run(writer or self))
        await asyncio.sleep(seconds)
        assert not running.done(), "it sends until it is cancelled"
        running.cancel()


def stored(each: IsrProposal) -> IsrAnswer:
    return IsrCommitted(each.state)


def test_nothing_is_sent_before_something_is_proposed_and_then_it_goes_at_once() -> None:
    async def scenario() -> None:
        carried, each = Carried(stored), proposal()
        asyncio.get_running_loop().call_later(2.0, carried.changes.submit, each)
        await carried.run_for(5.0)
        assert carried.sent == [(2_000, [each])]
        assert carried.answered == [(each, stored(each))]
        assert carried.changes.waiting == 0

    in_virtual_time(scenario)


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_unknown_is_sent_again_every_50_ms_and_told_once_a_request(lines: list[Line], count: int) -> None:
    async def scenario() -> None:
        carried = Carried(lambda each: UNKNOWN)
        several = [proposal(index) for index in range(count)]
        for each in several:
            carried.changes.submit(each)
        await carried.run_for(0.12)
        assert carried.sent == [(0, several), (50, several), (100, several)]
        assert carried.changes.waiting == count
        assert [answer for _, answer in carried.answered] == [UNKNOWN] * 3 * count

    in_virtual_time(scenario)
    told = ("info", "isr change sent again", {"partition": "orders-0", "isr": [A, B], "why": "cut"})
    assert lines == [told] * 3


def test_what_is_known_waits_for_nothing() -> None:
    async def scenario() -> None:
        carried = Carried(stored)
        first, second = proposal(0), proposal(1)
        carried.changes.submit(first)
        asyncio.get_running_loop().call_later(0.001, carried.changes.submit, second)
        await carried.run_for(1.0)
        assert carried.sent == [(0, [first]), (1, [second])], "no back-off after an answer"

    in_virtual_time(scenario)


def test_what_nobody_wants_any_more_is_not_sent_again_and_its_answer_is_passed_on() -> None:
    async def scenario() -> None:
        each, refused = proposal(0), proposal(1)
        carried = Carried(lambda one: UNKNOWN if one is each else IsrRejected(ErrorCode.INVALID_REQUEST))
        carried.unwanted.append(each)
        carried.changes.submit(each)
        await carried.run_for(1.0)
        assert (carried.sent, carried.changes.waiting) == ([], 0)
        carried.unwanted.clear()
        carried.changes.submit(each)
        carried.changes.submit(refused)

        def lost(one: IsrProposal) -> IsrAnswer:
            carried.unwanted.append(one)
            return UNKNOWN if one is each else IsrRejected(ErrorCode.INVALID_REQUEST)

        carried.answer = lost
        await carried.run_for(1.0)
        assert [batch for _, batch in carried.sent] == [[each, refused]]
        assert carried.answered == [(each, UNKNOWN), (refused, IsrRejected(ErrorCode.INVALID_REQUEST))]
        assert carried.changes.waiting == 0

    in_virtual_time(scenario)


def test_a_newer_proposal_is_not_replaced_by_the_older_one_whose_answer_was_lost() -> None:
    async def scenario() -> None:
        old, new = proposal(), proposal(isr=(A, C))

        def answer(one: IsrProposal) -> IsrAnswer:
            if one is old:
                carried.changes.submit(new)
            return UNKNOWN if one is old else stored(one)

        carried = Carried(answer)
        carried.changes.submit(old)
        await carried.run_for(1.0)
        assert [batch for _, batch in carried.sent] == [[old], [new]]

    in_virtual_time(scenario)


def test_a_request_carries_2000_proposals_and_the_rest_goes_with_the_next() -> None:
    async def scenario() -> None:
        carried = Carried(stored)
        for index in range(2_001):
            carried.changes.submit(proposal(index))
        assert carried.changes.waiting == 2_001
        await carried.run_for(1.0)
        assert [(at_ms, len(batch)) for at_ms, batch in carried.sent] == [(0, 2_000), (0, 1)]

    in_virtual_time(scenario)


def test_a_writer_that_answers_fewer_than_it_was_asked_is_a_bug() -> None:
    class Silent:
        async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
            return []

    async def scenario() -> None:
        carried = Carried(stored)
        carried.changes.submit(proposal())
        with pytest.raises(InvariantViolation, match="1 ISR proposals got 0 answers"):
            await carried.changes.run(Silent())

    in_virtual_time(scenario)


# -- through the controller


class Controller:
    """Answers as told, and remembers what it was sent."""

    def __init__(self, answer: AlterPartitionResponse | ConnectionFailed) -> None:
        self.answer = answer
        self.sent: list[tuple[ApiKey, int, int, AlterPartitionRequest]] = []

    async def __call__(
        self,
        key: ApiKey,
        version: int,
        message: AlterPartitionRequest,
        answer_type: type[AlterPartitionResponse],
        *,
        timeout_ms: int,
    ) -> AlterPartitionResponse:
        self.sent.append((key, version, timeout_ms, message))
        if isinstance(self.answer, ConnectionFailed):
            raise self.answer
        return self.answer

    def asked(self, *proposals: IsrProposal) -> list[IsrAnswer]:
        return asyncio.run(AlterPartitionWriter(self, A, lambda: 99).write(proposals))


def committed(index: int, isr: Sequence[int] = (A, B)) -> PartitionData:
    return PartitionData(partition_index=index, leader_id=A, leader_epoch=1, isr=list(isr), partition_epoch=4)


def test_with_topic_ids_the_third_version_says_the_members_epochs_and_answers_go_by_id() -> None:
    controller = Controller(
        AlterPartitionResponse(topics=[TopicData(topic_id=TOPIC_ID, partitions=[committed(2), committed(0)])])
    )
    answers = controller.asked(proposal(0), proposal(1), proposal(2, isr=(A, C)))
    ((key, version, timeout_ms, request),) = controller.sent
    assert (key, version, timeout_ms) == (ApiKey.ALTER_PARTITION, 3, 10_000)
    (topic,) = request.topics
    assert topic.topic_id == TOPIC_ID
    assert [
        (
            p.partition_index,
            p.leader_epoch,
            p.partition_epoch,
            [(m.broker_id, m.broker_epoch) for m in p.new_isr_with_epochs],
        )
        for p in topic.partitions
    ] == [(0, 1, 3, [(A, 5), (B, 6)]), (1, 1, 3, [(A, 5), (B, 6)]), (2, 1, 3, [(A, 5), (C, 7)])]
    assert all(not p.new_isr for p in topic.partitions)
    told = IsrCommitted(LeaderAndIsr(A, 1, (A, B), 4))
    assert answers == [told, IsrUnknown("the controller's answer leaves the partition out"), told]


def test_where_one_topic_has_no_id_the_first_version_says_members_alone_and_answers_go_by_name() -> None:
    controller = Controller(
        AlterPartitionResponse(
            topics=[
                TopicData(topic_name="old", partitions=[committed(0)]),
                TopicData(topic_name="orders", partitions=[committed(1, (A,))]),
            ]
        )
    )
    answers = controller.asked(proposal(1), proposal(0, topic="old", topic_id=ZERO_UUID))
    ((_, version, _, request),) = controller.sent
    assert version == 1
    assert [
        (topic.topic_name, topic.topic_id, [(p.partition_index, p.new_isr) for p in topic.partitions])
        for topic in request.topics
    ] == [("orders", ZERO_UUID, [(1, [A, B])]), ("old", ZERO_UUID, [(0, [A, B])])]
    assert all(not p.new_isr_with_epochs for topic in request.topics for p in topic.partitions)
    assert answers == [IsrCommitted(LeaderAndIsr(A, 1, (A,), 4)), IsrCommitted(LeaderAndIsr(A, 1, (A, B), 4))]


REJECTED = (
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
"""Partition.handleAlterPartitionError of Apache Kafka 3.9: these are not tried again."""


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_a_partitions_error_refuses_its_proposal_or_leaves_open_what_became_of_it(code: ErrorCode) -> None:
    controller = Controller(
        AlterPartitionResponse(
            topics=[TopicData(topic_id=TOPIC_ID, partitions=[PartitionData(partition_index=0, error_code=code)])]
        )
    )
    expected = IsrRejected(code) if code in REJECTED else IsrUnknown(code.name)
    assert controller.asked(proposal()) == [expected]


def test_an_error_of_the_whole_request_and_a_lost_connection_leave_all_open() -> None:
    refused = Controller(AlterPartitionResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    assert refused.asked(proposal(0), proposal(1)) == [IsrUnknown("FENCED_LEADER_EPOCH")] * 2
    assert Controller(ConnectionFailed("cut")).asked(proposal(0), proposal(1)) == [UNKNOWN] * 2


@pytest.mark.parametrize(
    ("release", "through_controller"),
    [("2.6-IV0", False), ("2.7-IV1", False), ("2.7-IV2", True), ("2.8-IV0", True), ("3.0-IV0", True), ("1.1", False)],
)
def test_kip497_the_controller_stores_isrs_since_2_7_iv2(release: str, *, through_controller: bool) -> None:
    assert stores_isr_through_controller(release) is through_controller


# -- into ZooKeeper

Node = tuple[bytes | None, Stat] | None


class Tree:
    """State znodes in version 3. `failures` are raised by the next calls, by operation."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = list(nodes)
        self.failures: dict[str, ZooKeeperError] = {}
        self.sets: list[tuple[str, bytes, int]] = []
        self.created: list[tuple[int, str, tuple[TopicPartition, ...]]] = []
        self.noted: list[TopicPartition] = []
        """Of which the controller is to be told."""

    def _fail(self, operation: str) -> None:
        failure = self.failures.pop(operation, None)
        if failure is not None:
            raise failure

    async def get_many(self, paths: Sequence[str]) -> list[Node]:
        self._fail("get_many")
        assert len(paths) == len(self.nodes)
        return list(self.nodes)

    async def set(self, path: str, data: bytes, *, version: int) -> Stat:
        self._fail("set")
        self.sets.append((path, data, version))
        return stat(version + 1)

    async def create(self, path: str, data: bytes, *, mode: CreateMode) -> str:
        self._fail("create")
        assert mode is CreateMode.PERSISTENT_SEQUENTIAL
        now_ms = round(asyncio.get_running_loop().time() * 1000)
        self.created.append((now_ms, path, IsrChangeNotification.decode(path, data).partitions))
        return path

    @property
    def port(self) -> ZooKeeper:
        return cast("ZooKeeper", self)


def stat(version: int) -> Stat:
    return Stat(**dict.fromkeys(Stat._fields, 0) | {"version": version})  # type: ignore[arg-type]


def state(isr: Sequence[BrokerId] = (A, B, C), *, leader: BrokerId = A, epoch: int = 1, recovery: int = 0) -> Node:
    return PartitionState(leader, epoch, tuple(isr), 8, recovery).encode(), stat(3)


def written(tree: Tree, *proposals: IsrProposal) -> list[IsrAnswer]:
    """The answers."""

    async def main() -> list[IsrAnswer]:
        writer = ZooKeeperIsrWriter(tree.port)
        answers = await writer.write(proposals)
        tree.noted = list(writer.propagation._changed)
        return answers

    return asyncio.run(main())


def test_each_proposal_is_compared_with_its_own_znode() -> None:
    tree = Tree(state(), None, state((A, B)), state((A, C)))
    answers = written(tree, *(proposal(index) for index in range(4)))
    assert answers[0] == IsrCommitted(LeaderAndIsr(A, 1, (A, B), 4))
    assert answers[1] == IsrRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert answers[2] == IsrCommitted(LeaderAndIsr(A, 1, (A, B), 3)), "it is there already"
    assert answers[3] == IsrCommitted(LeaderAndIsr(A, 1, (A, B), 4))
    assert [(path, version) for path, _, version in tree.sets] == [
        (partition_state_path(tp(index)), 3) for index in (0, 3)
    ]
    assert [PartitionState.decode(tp(0), data) for _, data, _ in tree.sets] == [PartitionState(A, 1, (A, B), 8)] * 2
    assert tree.noted == [tp(0), tp(3)]


@pytest.mark.parametrize(
    ("node", "refused"),
    [
        (state(leader=B), IsrRejected(ErrorCode.FENCED_LEADER_EPOCH, LeaderAndIsr(B, 1, (A, B, C), 3))),
        (state(epoch=2), IsrRejected(ErrorCode.FENCED_LEADER_EPOCH, LeaderAndIsr(A, 2, (A, B, C), 3))),
        (state(leader=B, epoch=2), IsrRejected(ErrorCode.FENCED_LEADER_EPOCH, LeaderAndIsr(B, 2, (A, B, C), 3))),
        (
            (PartitionState(A, 1, (A, C), 8).encode(), stat(4)),
            IsrRejected(ErrorCode.INVALID_UPDATE_VERSION, LeaderAndIsr(A, 1, (A, C), 4)),
        ),
    ],
)
def test_what_another_has_written_refuses_a_proposal_with_what_is_stored(node: Node, refused: IsrRejected) -> None:
    tree = Tree(node)
    assert written(tree, proposal()) == [refused]
    assert (tree.sets, tree.noted) == ([], [])


def test_garbage_is_told_with_what_to_do(lines: list[Line]) -> None:
    tree = Tree((b"garbage", stat(3)))
    assert written(tree, proposal()) == [IsrRejected(ErrorCode.UNKNOWN_SERVER_ERROR)]
    ((level, event, keys),) = lines
    assert (level, event, keys["partition"], keys["next_step"]) == (
        "error",
        "isr not written",
        "orders-0",
        "repair the znode",
    )
    assert keys["why"]


@pytest.mark.parametrize(("isr", "kept"), [((A,), 1), ((A, B), 0)])
def test_kip704_a_leader_that_recovers_does_so_until_another_is_in_sync(isr: tuple[BrokerId, ...], kept: int) -> None:
    tree = Tree(state((A, B, C), recovery=1))
    written(tree, proposal(isr=isr))
    ((_, data, _),) = tree.sets
    assert PartitionState.decode(tp(0), data).leader_recovery_state == kept


@pytest.mark.parametrize("failure", [ConnectionLoss("state"), SessionExpired("state")])
def test_where_nothing_could_be_read_all_is_open_and_nobody_need_be_told(failure: ZooKeeperError) -> None:
    tree = Tree(state(), state())
    tree.failures["get_many"] = failure
    assert written(tree, proposal(0), proposal(1)) == [IsrUnknown(str(failure))] * 2
    assert tree.noted == []


@pytest.mark.parametrize(
    ("failure", "answer", "is_noted"),
    [
        (ConnectionLoss("state"), IsrUnknown(str(ConnectionLoss("state"))), True),
        (SessionExpired("state"), IsrUnknown(str(SessionExpired("state"))), True),
        (BadVersion("state"), IsrUnknown("the state was written meanwhile: it is read again"), False),
        (NoNode("state"), IsrRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), False),
    ],
)
def test_the_controller_is_told_of_what_may_have_been_written(
    failure: ZooKeeperError, answer: IsrAnswer, *, is_noted: bool
) -> None:
    tree = Tree(state())
    tree.failures["set"] = failure
    assert written(tree, proposal()) == [answer]
    assert tree.noted == ([tp(0)] if is_noted else [])


# -- telling the controller


def test_the_first_change_is_told_at_the_next_look_and_later_ones_after_five_quiet_seconds() -> None:
    async def scenario() -> None:
        tree, loop = Tree(), asyncio.get_running_loop()
        propagation = IsrChangePropagation(tree.port)
        running = asyncio.ensure_future(propagation.run())
        await asyncio.sleep(1.0)
        propagation.note(tp(0), round(loop.time() * 1000))
        await asyncio.sleep(3.0)
        assert tree.created == [(2_500, ISR_CHANGE_PREFIX, (tp(0),))], "never told before: it waits for no silence"
        propagation.note(tp(1), 4_000)
        propagation.note(tp(2), 5_000)
        propagation.note(tp(1), 6_000)
        await asyncio.sleep(30.0)
        assert tree.created[1:] == [(12_500, ISR_CHANGE_PREFIX, (tp(1), tp(2)))]
        running.cancel()

    in_virtual_time(scenario)


def test_where_changes_never_cease_the_controller_is_told_once_a_minute() -> None:
    async def scenario() -> None:
        tree, loop = Tree(), asyncio.get_running_loop()
        propagation = IsrChangePropagation(tree.port)
        await asyncio.sleep(10_000)
        running = asyncio.ensure_future(propagation.run())
        for _ in range(140):
            propagation.note(tp(0), round(loop.time() * 1000))
            await asyncio.sleep(1.0)
        assert [at_ms for at_ms, _, _ in tree.created] == [10_002_500, 10_065_000, 10_127_500]
        running.cancel()

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("now_ms", "is_due"), [(10_000, False), (15_000, False), (15_001, True), (69_000, True), (9_999, False)]
)
def test_a_change_is_due_when_none_came_for_more_than_five_seconds(now_ms: int, *, is_due: bool) -> None:
    async def scenario() -> None:
        propagation = IsrChangePropagation(Tree().port)
        assert not propagation.is_due(1 << 60), "nothing has changed"
        await propagation.propagate(9_000)
        propagation.note(tp(0), 10_000)
        assert propagation.is_due(now_ms) is is_due

    asyncio.run(scenario())


@pytest.mark.parametrize(("now_ms", "is_due"), [(69_000, False), (69_001, True)])
def test_a_change_is_due_when_none_was_told_for_more_than_a_minute(now_ms: int, *, is_due: bool) -> None:
    async def scenario() -> None:
        propagation = IsrChangePropagation(Tree().port)
        await propagation.propagate(9_000)
        propagation.note(tp(0), now_ms)
        assert propagation.is_due(now_ms) is is_due

    asyncio.run(scenario())


def test_the_very_first_change_is_due_at_once_whatever_the_clock_shows() -> None:
    propagation = IsrChangePropagation(Tree().port)
    propagation.note(tp(0), 0)
    assert propagation.is_due(0)


def test_a_notification_has_3000_partitions_and_the_rest_is_told_with_the_next() -> None:
    async def scenario() -> None:
        tree = Tree()
        propagation = IsrChangePropagation(tree.port)
        for index in range(3_001):
            propagation.note(tp(index), 0)
        await propagation.propagate(0)
        await propagation.propagate(0)
        assert [len(partitions) for _, _, partitions in tree.created] == [3_000, 1]
        assert not propagation.is_due(1 << 60)

    in_virtual_time(scenario)


def test_what_could_not_be_told_is_told_later_in_its_order_and_as_soon_as_it_was_due(lines: list[Line]) -> None:
    async def scenario() -> None:
        tree = Tree()
        propagation = IsrChangePropagation(tree.port)
        tree.failures["create"] = ConnectionLoss("isr_change")
        propagation.note(tp(1), 0)
        propagation.note(tp(0), 0)
        await propagation.propagate(0)
        assert propagation.is_due(0), "none was told yet"
        propagation.note(tp(2), 0)
        await propagation.propagate(0)
        assert [partitions for _, _, partitions in tree.created] == [(tp(1), tp(0), tp(2))]

    in_virtual_time(scenario)
    why = str(ConnectionLoss("isr_change"))
    assert lines == [("warning", "isr changes not announced", {"partitions": 2, "why": why})]


def test_a_change_is_noted_by_the_loops_clock_in_milliseconds() -> None:
    async def scenario() -> None:
        tree = Tree(state())
        writer = ZooKeeperIsrWriter(tree.port)
        await writer.propagation.propagate(100_000)
        tree.created.clear()
        await asyncio.sleep(101.0)
        await writer.write([proposal()])
        assert not writer.propagation.is_due(106_000)
        assert writer.propagation.is_due(106_001)

    in_virtual_time(scenario)
