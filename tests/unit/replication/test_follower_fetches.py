"""What followers are given, what their fetches move, and what wakes those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, StorageError
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec, PartitionKey, partition_key
from kavka.replication.decide.idle_partitions import IdlePartitions
from kavka.replication.decide.lag_policy import TimeLagPolicy
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import FollowerFetchResult
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.replica import BrokerStatus
from kavka.replication.follower_fetches import FollowerFetches, HostedPartitions
from kavka.replication.purgatory import DelayedOperation
from kavka.replication.read_failures import ReadFailures
from tests.kit.virtual_time import in_virtual_time
from tests.unit.log.log_support import batch, new_log
from tests.unit.replication.replication_support import LAG_MS, TOPIC_ID, A, B, Brokers, C

SIZE = len(batch())
Fetched = list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]


class Throttled:
    """Withholds what is named, and counts what is sent."""

    def __init__(self) -> None:
        self.withheld: list[tuple[TopicPartition, BrokerId]] = []
        self.sent: list[tuple[TopicPartition, BrokerId, int]] = []

    def withholds(self, topic_partition: TopicPartition, broker_id: BrokerId) -> bool:
        return (topic_partition, broker_id) in self.withheld

    def note_sent(self, topic_partition: TopicPartition, broker_id: BrokerId, size_bytes: int) -> None:
        self.sent.append((topic_partition, broker_id, size_bytes))


class Seen:
    """Who was seen to have records."""

    def __init__(self) -> None:
        self.followed_by: list[tuple[str, int, int]] = []

    def followed(self, topic: str, partition: int, broker_id: int) -> None:
        self.followed_by.append((topic, partition, broker_id))


def tp(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


class Leader:
    """Broker A leads three partitions of A, B and C; B and C are in sync where `isr` says so."""

    def __init__(self, path: Path, *, isr: tuple[BrokerId, ...] = (A, B), is_prompt: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        self.brokers = Brokers(A, B, C)
        self.decisions: list[Decision] = []
        self.failures: list[StorageError] = []
        self.moved: list[tuple[int, FollowerFetchResult]] = []
        self.behind: list[int] = []
        self.throttle = Throttled()
        self.fetches = FollowerFetches(
            self.loop,
            HostedPartitions(
                self.find,
                lambda partition, result: self.moved.append((partition.topic_partition.partition, result)),
                lambda partition: self.behind.append(partition.topic_partition.partition),
                ReadFailures(record=self.decisions.append, on_storage_error=self.failures.append),
                self.now_ms,
            ),
            is_prompt=is_prompt,
            throttle=self.throttle,
        )
        rules = PartitionRules(TimeLagPolicy(LAG_MS), self.brokers)
        self.partitions = [
            Partition(
                tp(index), TOPIC_ID, new_log(path / str(index)), local_broker_id=A, min_insync_replicas=1, rules=rules
            )
            for index in range(3)
        ]
        for partition in self.partitions:
            partition.become_leader(LeaderAndIsr(A, 1, isr, 0), (A, B, C), now_ms=self.now_ms())

    def now_ms(self) -> int:
        return 1_000_000 + round(self.loop.time() * 1000)

    def find(self, spec: FetchSpec) -> Partition | ErrorCode:
        index = spec.topic_partition.partition
        return self.partitions[index] if index < 3 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def append(self, index: int = 0, count: int = 1) -> None:
        for _ in range(count):
            self.partitions[index].append_as_leader(
                batch(), required_acks=1, now_ms=self.now_ms(), wall_ms=self.now_ms()
            )
        self.fetches.on_append(self.partitions[index])

    def fetch(
        self,
        offsets: dict[int, int],
        *,
        broker_id: BrokerId = B,
        wait_ms: int = 10_000,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_bytes: int = 1 << 20,
        epoch: int = 1,
        last_epoch: int = -1,
        broker_epoch: int = -1,
        idle: IdlePartitions | None = None,
    ) -> Fetched:
        params = FetchParams(wait_ms, min_bytes, max_bytes, read_committed=False)
        specs = [self.spec(index, offset, partition_bytes, epoch, last_epoch) for index, offset in offsets.items()]
        return self.fetches.fetch(params, specs, broker_id, broker_epoch, idle)

    @staticmethod
    def spec(index: int, offset: int, max_bytes: int = 1 << 20, epoch: int = 1, last_epoch: int = -1) -> FetchSpec:
        return FetchSpec(tp(index), TOPIC_ID, offset, max_bytes, epoch, last_epoch, 0)

    def high_watermarks(self) -> list[int]:
        return [partition.log.high_watermark for partition in self.partitions]


def at_once(fetched: Fetched) -> list[FetchOutcome]:
    assert isinstance(fetched, list)
    return fetched


def sizes(outcomes: list[FetchOutcome]) -> list[int]:
    """Of each, in batches."""
    return [outcome.size_bytes // SIZE for outcome in outcomes]


def waiting(fetched: Fetched) -> asyncio.Future[list[FetchOutcome]]:
    assert isinstance(fetched, DelayedOperation)
    return fetched.answer


def at_leader(path: Path, scenario: Callable[[Leader], Awaitable[None]], **how: Any) -> None:
    async def main() -> None:
        await scenario(Leader(path, **how))

    in_virtual_time(main)


# -- what is given


@pytest.mark.parametrize(
    ("max_bytes", "partition_bytes", "given"),
    [
        (10 * SIZE, 10 * SIZE, [0, 3, 2]),
        (4 * SIZE, 10 * SIZE, [0, 3, 1]),
        (4 * SIZE - 1, 10 * SIZE, [0, 3, 0]),
        (10 * SIZE, SIZE, [0, 1, 1]),
        (10 * SIZE, 2 * SIZE - 1, [0, 1, 1]),
        (SIZE, 10 * SIZE, [0, 1, 0]),
        (1, 10 * SIZE, [0, 1, 0]),  # KIP-74: the first batch of all is whole
        (10 * SIZE, 1, [0, 1, 0]),
        (SIZE + 1, SIZE + 1, [0, 1, 0]),
    ],
)
def test_partitions_share_the_fetchs_limit_in_its_order_and_the_first_batch_is_whole(
    tmp_path: Path, max_bytes: int, partition_bytes: int, given: list[int]
) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(1, 3)
        leader.append(2, 2)
        fetched = leader.fetch({0: 0, 1: 0, 2: 0}, max_bytes=max_bytes, partition_bytes=partition_bytes)
        assert sizes(at_once(fetched)) == given
        assert leader.throttle.sent == [(tp(index), B, given[index] * SIZE) for index in (1, 2) if given[index]]

    at_leader(tmp_path, scenario)


def test_what_is_not_here_is_said_at_once_and_what_stands_behind_it_is_given(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(1)
        outcomes = at_once(leader.fetch({7: 0, 1: 0}, min_bytes=1 << 20))
        assert [outcome.error for outcome in outcomes] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
        assert sizes(outcomes) == [0, 1]
        (outcome,) = at_once(leader.fetch({0: 0}, epoch=2))
        assert outcome.error is ErrorCode.UNKNOWN_LEADER_EPOCH
        (outcome,) = at_once(leader.fetch({1: 1}, last_epoch=0))
        assert (outcome.error, outcome.diverging_epoch) == (ErrorCode.NONE, (0, 0))
        assert (outcome.high_watermark, outcome.last_stable_offset, outcome.log_start_offset) == (0, 0, 0)

    at_leader(tmp_path, scenario)


@pytest.mark.parametrize(
    ("min_bytes", "wait_ms", "waits"),
    [(2 * SIZE, 10_000, False), (2 * SIZE + 1, 10_000, True), (2 * SIZE + 1, 0, False), (2 * SIZE + 1, 1, True)],
)
def test_a_fetch_waits_for_its_bytes_if_it_may_wait(
    tmp_path: Path, min_bytes: int, wait_ms: int, *, waits: bool
) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        leader.append(1)
        fetched = leader.fetch({0: 0, 1: 0, 2: 0}, min_bytes=min_bytes, wait_ms=wait_ms)
        assert isinstance(fetched, DelayedOperation) is waits
        if waits:
            assert leader.throttle.sent == []
            assert sizes(await waiting(fetched)) == [1, 1, 0]
            assert leader.loop.time() == pytest.approx(wait_ms / 1000)
        assert leader.throttle.sent == [(tp(0), B, SIZE), (tp(1), B, SIZE)]

    at_leader(tmp_path, scenario)


def test_a_fetch_that_wants_nothing_is_answered_at_once_and_one_of_idle_partitions_waits(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        assert at_once(leader.fetch({})) == []
        awake: dict[PartitionKey, FetchSpec] = {}
        idle = IdlePartitions(awake)
        at_once(leader.fetch({0: 0}, wait_ms=0))
        replica = leader.partitions[0].remote_replica(B)
        assert replica is not None
        idle.rest(partition_key(leader.spec(0, 0)), leader.spec(0, 0), leader.partitions[0], replica)
        await asyncio.sleep(1.0)
        answer = waiting(leader.fetch({}, idle=idle))
        assert idle.fetched_ms == leader.now_ms()
        assert idle.waiting is not None
        leader.append(0)
        assert sizes(await answer) == [1], "it was woken, and belongs to the fetch"
        assert leader.loop.time() == pytest.approx(1.0), "at once"
        assert idle.waiting is None
        assert len(awake) == 1

    at_leader(tmp_path, scenario)


# -- what it moves


def test_what_a_fetch_moves_is_told_before_it_is_answered_and_the_answer_has_the_newest_high_watermark(
    tmp_path: Path,
) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0, 2)
        leader.append(1, 2)
        at_once(leader.fetch({0: 0, 1: 0, 2: 0}, wait_ms=0))
        assert (leader.moved, leader.behind) == ([(index, (False, None, True)) for index in range(3)], [0, 1])
        leader.moved.clear()
        leader.behind.clear()
        outcomes = at_once(leader.fetch({0: 2, 1: 1, 2: 0}, wait_ms=0))
        assert [outcome.high_watermark for outcome in outcomes] == [2, 1, 0] == leader.high_watermarks()
        assert [outcome.last_stable_offset for outcome in outcomes] == [2, 1, 0]
        assert leader.moved == [(0, (True, None, False)), (1, (True, None, False))]
        assert leader.behind == [1]

    at_leader(tmp_path, scenario)


def test_a_brokers_former_self_moves_nothing_and_what_stands_behind_it_counts(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        leader.brokers.statuses[B] = BrokerStatus(8)
        (outcome,) = at_once(leader.fetch({0: 1}, broker_epoch=5))
        assert outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [decision.kind for decision in leader.decisions] == [DecisionKind.FENCED]
        assert (leader.moved, leader.high_watermarks()[0]) == ([], 0)
        at_once(leader.fetch({0: 1}, broker_epoch=8, wait_ms=0))
        assert leader.high_watermarks()[0] == 1

    at_leader(tmp_path, scenario)


def test_who_looks_at_a_partition_hears_which_followers_have_its_records(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        first, second = Seen(), Seen()
        leader.append(0, 3)
        leader.fetches.observe(leader.partitions[0], 2, first)
        leader.fetches.observe(leader.partitions[0], 3, second)
        at_once(leader.fetch({0: 1, 1: 0}, wait_ms=0))
        assert first.followed_by == []
        at_once(leader.fetch({0: 2}, wait_ms=0))
        at_once(leader.fetch({0: 3}, broker_id=C, wait_ms=0))
        assert first.followed_by == [("orders", 0, B), ("orders", 0, C)]
        assert second.followed_by == [("orders", 0, C)]
        leader.fetches.forget(leader.partitions[0], first)
        at_once(leader.fetch({0: 3}, wait_ms=0))
        assert len(first.followed_by) == 2
        assert second.followed_by == [("orders", 0, C), ("orders", 0, B)]
        leader.fetches.forget(leader.partitions[0], second)
        leader.fetches.forget(leader.partitions[0], second)
        at_once(leader.fetch({0: 3}, wait_ms=0))
        assert len(second.followed_by) == 2

    at_leader(tmp_path, scenario)


# -- idle partitions


def rested(leader: Leader, offset: int = 1, *, follower: tuple[int, int] | None = (B, -1), **changed: Any) -> bool:
    """Whether partition 0 is laid aside after a fetch at `offset` whose answer was as it is, but for `changed`."""
    session = IdlePartitions({})
    session.follower = follower
    how = {name: changed.pop(name) for name in ("epoch", "last_epoch") if name in changed}
    spec = leader.spec(0, offset, **how)
    log = leader.partitions[0].log
    outcome = FetchOutcome(spec, ErrorCode.NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset)
    leader.fetches.rest(session, [FetchOutcome(leader.spec(7, 0), ErrorCode.NONE), outcome._replace(**changed)])
    is_idle = len(session) == 1
    assert is_idle is (getattr(leader.partitions[0].remote_replica(BrokerId(B)), "idle", None) is not None)
    session.wake_all()
    return is_idle


def test_a_partition_rests_only_while_all_is_as_the_answer_says(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        at_once(leader.fetch({0: 1}, wait_ms=0))
        assert rested(leader)
        assert rested(leader, epoch=-1)
        assert rested(leader, last_epoch=1)
        for changed in (
            {"size_bytes": 1},
            {"error": ErrorCode.FENCED_LEADER_EPOCH},
            {"diverging_epoch": (1, 0)},
            {"high_watermark": 0},
            {"log_start_offset": 1},
            {"epoch": 0},
            {"epoch": 2},
            {"last_epoch": 0},
            {"offset": 0},
            {"follower": None},
            {"follower": (B, 7)},
            {"follower": (9, -1)},
        ):
            assert not rested(leader, **changed), changed
        seen = Seen()
        leader.fetches.observe(leader.partitions[0], 1, seen)
        assert not rested(leader), "somebody looks at it"
        leader.fetches.forget(leader.partitions[0], seen)
        assert rested(leader)
        leader.partitions[0].become_follower(LeaderAndIsr(B, 1, (A, B), 1), (A, B, C), now_ms=leader.now_ms())
        assert not rested(leader)

    at_leader(tmp_path, scenario)


def test_all_that_may_rest_does_whatever_stands_before_it(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(1)
        session = IdlePartitions({})
        session.follower = (B, -1)
        outcomes = at_once(leader.fetch({7: 0, 1: 0, 0: 0, 2: 0}))
        leader.fetches.rest(session, outcomes)
        assert [spec.topic_partition.partition for spec in session.specs()] == [0, 2]
        leader.fetches.wake(leader.partitions[2])
        assert [spec.topic_partition.partition for spec in session.specs()] == [0]
        leader.fetches.observe(leader.partitions[0], 1, Seen())
        assert len(session) == 0

    at_leader(tmp_path, scenario)


@pytest.mark.parametrize("event", ["append", "high watermark", "role"])
@pytest.mark.parametrize("is_prompt", [False, True])
def test_every_change_wakes_what_rests(tmp_path: Path, event: str, *, is_prompt: bool) -> None:
    async def scenario(leader: Leader) -> None:
        session = IdlePartitions({})
        session.follower = (B, -1)
        leader.fetches.rest(session, at_once(leader.fetch({0: 0, 1: 0}, wait_ms=0)))
        assert len(session) == 2
        changed = {
            "append": leader.fetches.on_append,
            "high watermark": leader.fetches.on_high_watermark_advanced,
            "role": leader.fetches.on_role_changed,
        }
        changed[event](leader.partitions[0])
        assert [spec.topic_partition.partition for spec in session.specs()] == [1]

    at_leader(tmp_path, scenario, is_prompt=is_prompt)


# -- who waits


def test_a_follower_that_has_something_else_to_fetch_is_answered_and_others_go_on_waiting(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        own, others = waiting(leader.fetch({0: 0})), waiting(leader.fetch({0: 0}, broker_id=C))
        leader.fetches.hasten(B)
        assert (own.done(), others.done()) == (True, False)
        assert sizes(own.result()) == [0]

    at_leader(tmp_path, scenario)


def test_the_appends_of_a_turn_go_out_with_one_answer_and_those_of_a_later_one_with_another(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        answer = waiting(leader.fetch({0: 0, 1: 0, 2: 0}))
        leader.append(2)
        leader.append(0)
        leader.append(2)
        assert not answer.done()
        assert sizes(await answer) == [1, 0, 2]
        assert leader.throttle.sent == [(tp(0), B, SIZE), (tp(2), B, 2 * SIZE)]
        again = waiting(leader.fetch({0: 1, 1: 0, 2: 2}))
        leader.append(1)
        assert sizes(await again) == [0, 1, 0]
        assert leader.fetches.purgatory.size == 0

    at_leader(tmp_path, scenario)


def test_a_waiting_fetch_counts_what_it_has_seen_everywhere(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        answer = waiting(leader.fetch({0: 0, 1: 0, 2: 0}, min_bytes=3 * SIZE))
        leader.append(1)
        await asyncio.sleep(0.001)
        assert not answer.done()
        leader.append(2)
        await asyncio.sleep(0.001)
        assert sizes(answer.result()) == [1, 1, 1]

    at_leader(tmp_path, scenario)


def test_the_answer_of_a_fetch_that_waited_keeps_to_its_limits(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        for max_bytes, given in ((1, [1, 0]), (2 * SIZE, [2, 0]), (3 * SIZE, [2, 1]), (3 * SIZE - 1, [2, 0])):
            ends = [partition.log.log_end_offset for partition in leader.partitions]
            answer = waiting(leader.fetch({0: ends[0], 1: ends[1]}, max_bytes=max_bytes))
            leader.append(1, 2)
            leader.append(0, 2)
            assert sizes(await answer) == given, max_bytes

    at_leader(tmp_path, scenario)


def test_a_leader_epoch_that_ends_is_an_error_at_once_or_at_the_end_of_the_change(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        def end_epoch(index: int, epoch: int) -> None:
            state = LeaderAndIsr(A, epoch, (A, B), epoch)
            leader.partitions[index].become_leader(state, (A, B, C), now_ms=leader.now_ms())
            leader.fetches.on_role_changed(leader.partitions[index])

        answer = waiting(leader.fetch({0: 0, 1: 0}))
        end_epoch(2, 2)
        assert not answer.done(), "it does not wait for that one"
        end_epoch(0, 2)
        assert [outcome.error for outcome in answer.result()] == [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE]
        at_once(leader.fetch({0: 0}, wait_ms=0, epoch=2))
        answer = waiting(leader.fetch({0: 0, 2: 0}, epoch=2))
        with leader.fetches.roles_changing():
            for index in range(3):
                end_epoch(index, 3)
            assert not answer.done()
        assert [outcome.error for outcome in answer.result()] == [ErrorCode.FENCED_LEADER_EPOCH] * 2
        answer = waiting(leader.fetch({0: 0}, epoch=3))
        end_epoch(0, 4)
        assert answer.done(), "the change is over"

    at_leader(tmp_path, scenario)


def test_a_high_watermark_is_prompt_news_once_where_consumers_read_from_followers(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        at_once(leader.fetch({0: 0}, broker_id=C, wait_ms=0))
        waiting(leader.fetch({0: 1}, broker_id=C))
        (outcome,) = at_once(leader.fetch({0: 1}))
        assert outcome.high_watermark == 1, "its own fetch raised it"
        answer = waiting(leader.fetch({0: 1}))
        leader.append(0)
        (outcome,) = await answer
        assert (outcome.size_bytes, outcome.high_watermark) == (SIZE, 1)
        at_once(leader.fetch({0: 2}, broker_id=C, wait_ms=0))
        assert [outcome.high_watermark for outcome in at_once(leader.fetch({0: 2}))] == [2]
        assert waiting(leader.fetch({0: 2}))

    at_leader(tmp_path, scenario, is_prompt=True)


@pytest.mark.parametrize("is_prompt", [False, True])
def test_a_high_watermark_that_another_raised_answers_who_waits_only_where_it_is_prompt(
    tmp_path: Path, *, is_prompt: bool
) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        at_once(leader.fetch({0: 0}, broker_id=C, wait_ms=0))
        answer = waiting(leader.fetch({0: 1}, broker_id=C))
        at_once(leader.fetch({0: 1}, wait_ms=0))
        leader.fetches.on_high_watermark_advanced(leader.partitions[0])
        await asyncio.sleep(0.001)
        assert answer.done() is is_prompt
        assert [outcome.high_watermark for outcome in await answer] == [1 if is_prompt else 0]

    at_leader(tmp_path, scenario, is_prompt=is_prompt)


@pytest.mark.parametrize("is_prompt", [False, True])
def test_a_fetch_that_waits_for_more_does_so_whatever_its_high_watermark_was_before(
    tmp_path: Path, *, is_prompt: bool
) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        at_once(leader.fetch({0: 1}, wait_ms=0))
        answer = waiting(leader.fetch({0: 1}, min_bytes=5 * SIZE))
        if not is_prompt:
            at_once(leader.fetch({0: 1}, broker_id=C, wait_ms=0))
            assert leader.high_watermarks()[0] == 1
        leader.append(0)
        await asyncio.sleep(0.001)
        assert not answer.done()
        assert sizes(await answer) == [1]

    at_leader(tmp_path, scenario, is_prompt=is_prompt, isr=(A, B, C))


def test_a_batch_that_is_larger_than_its_partitions_limit_answers_who_waits(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        answer = waiting(leader.fetch({0: 0}, partition_bytes=1))
        leader.append(0)
        assert sizes(await answer) == [1]
        assert leader.loop.time() == pytest.approx(0.0)

    at_leader(tmp_path, scenario)


def test_what_was_told_with_an_answer_that_waited_or_beside_an_error_is_no_news_later(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        at_once(leader.fetch({0: 1}, wait_ms=0))
        answer = waiting(leader.fetch({0: 1}))
        at_once(leader.fetch({0: 1}, broker_id=C, wait_ms=0))
        leader.fetches.on_high_watermark_advanced(leader.partitions[0])
        assert [outcome.high_watermark for outcome in await answer] == [1]
        assert leader.loop.time() == pytest.approx(0.0)
        assert waiting(leader.fetch({0: 1}))
        at_once(leader.fetch({7: 0, 1: 0}))
        assert waiting(leader.fetch({1: 0}))

    at_leader(tmp_path, scenario, is_prompt=True, isr=(A, B, C))


def test_a_high_watermark_is_news_of_an_idle_partition_too(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        session = IdlePartitions({})
        session.follower = (B, -1)
        leader.fetches.rest(session, at_once(leader.fetch({0: 1}, wait_ms=0)))
        assert len(session) == 1
        answer = waiting(leader.fetch({}, idle=session))
        at_once(leader.fetch({0: 1}, broker_id=C, wait_ms=0))
        leader.fetches.on_high_watermark_advanced(leader.partitions[0])
        assert [outcome.high_watermark for outcome in await answer] == [1]
        assert leader.loop.time() == pytest.approx(0.0)

    at_leader(tmp_path, scenario, is_prompt=True, isr=(A, B, C))


def test_where_an_idle_log_begins_is_told_with_the_next_answer_whatever_completes_it(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        session = IdlePartitions({})
        session.follower = (B, -1)
        leader.fetches.rest(session, at_once(leader.fetch({0: 1}, wait_ms=0)))
        assert len(session) == 1
        answer = waiting(leader.fetch({}, idle=session))
        assert leader.partitions[0].log.delete_records(1)
        leader.fetches.wake(leader.partitions[0])
        assert [outcome.log_start_offset for outcome in await answer] == [1]
        assert leader.loop.time() == pytest.approx(10.0)

    at_leader(tmp_path, scenario)


def test_a_proposal_is_passed_on_and_a_log_end_that_moves_alone_is_not(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0, 3)
        at_once(leader.fetch({0: 3}, wait_ms=0))
        at_once(leader.fetch({0: 0}, wait_ms=0, broker_id=C))
        leader.moved.clear()
        at_once(leader.fetch({0: 2}, wait_ms=0, broker_id=C))
        assert leader.moved == []
        at_once(leader.fetch({0: 3}, wait_ms=0, broker_id=C))
        ((_, result),) = leader.moved
        assert result.proposal is not None
        assert result == (False, result.proposal, False)
        assert result.proposal.isr == (A, B, C)

    at_leader(tmp_path, scenario)


# -- throttles


def test_a_throttled_replica_outside_of_the_isr_is_given_nothing_and_a_member_is(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.append(0)
        leader.append(1)
        leader.throttle.withheld += [(tp(0), C), (tp(0), B)]
        assert sizes(at_once(leader.fetch({0: 0, 1: 0}, broker_id=C))) == [0, 1]
        assert sizes(at_once(leader.fetch({0: 0, 1: 0}))) == [1, 1]
        assert leader.throttle.sent == [(tp(1), C, SIZE), (tp(0), B, SIZE), (tp(1), B, SIZE)]

    at_leader(tmp_path, scenario)
