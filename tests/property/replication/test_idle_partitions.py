"""Idle partitions of a follower's session, beside a leader that looks at all partitions with each fetch.

Two leaders with the same logs live through the same random events: appends, fetches of two followers in one or two
sessions each, which name what moved, forget, come back, lose answers and say a wrong epoch; elections, ISR changes,
other replicas, deleted records, partitions and topics that go and come, rights that are taken away. The one knows the
sessions for those of followers and keeps idle partitions aside, the other does not.

After each event both know the same of each follower, with the same times. Both answer at the same moments, with the
same records and errors; a high watermark or log start that the one tells is that of the other, or a newer one.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from kavka.broker.api.records import fetch
from kavka.broker.reads.fetch_session import FetchSessionCache
from kavka.errors import ErrorCode
from kavka.model import BrokerId, Chunk, LeaderAndIsr, TopicPartition, chunk_bytes
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.connection import ConnectionContext, Request
from kavka.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kavka.protocol.messages.fetch_response import FetchResponse
from kavka.records.batch import iterate_batches
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal
from kavka.replication.decide.lag_policy import TimeLagPolicy
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.replica import BrokerStatus
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from tests.kit.virtual_time import in_virtual_time
from tests.unit.log.log_support import batch, new_log
from tests.unit.replication.replication_support import A, B, Brokers, C

LAG_MS = 3_000
NOW_MS = 1_700_000_000_000
PARTITIONS = 6
VERSION = 15
SESSION_SLOTS = 2
"""A follower fetches in a session, and now and then goes on in one that it left."""
STEPS = 200
NOT_HERE = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def topic_of(index: int) -> str:
    return f"topic-{index // 2}"


class StoresAll:
    """Stores every proposal at once."""

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        return [IsrCommitted(each.state._replace(partition_epoch=each.partition_epoch + 1)) for each in proposals]


class Leader:
    """Broker A. `looks_at_all`: it takes nobody for a follower where fetch sessions are concerned."""

    def __init__(self, path: Path, brokers: Brokers, *, looks_at_all: bool, is_prompt: bool) -> None:
        self.path, self.looks_at_all = path, looks_at_all
        self.logs_made = 0
        self.is_allowed = True
        self.replicas = ReplicaManager(
            asyncio.get_running_loop(),
            ReplicaPorts(
                on_storage_error=lambda failure: None,
                wall_ms=lambda: NOW_MS,
                rack_of={A: "a"}.get if is_prompt else None,
            ),
            PartitionRules(TimeLagPolicy(LAG_MS), brokers),
        )
        self.names: dict[uuid.UUID, str] = {}
        """Of the topics that the cluster's metadata has."""
        self.metadata = SimpleNamespace(topic_name=lambda topic_id: self.names.get(topic_id), topics_version=0)
        self.metadata.partition = lambda topic, index: None
        caller = SimpleNamespace(may_on_cluster=self._may)
        self.broker: Any = SimpleNamespace(
            fetch_sessions=FetchSessionCache(100, random.Random(1)),
            replicas=self.replicas,
            metadata=self.metadata,
            authorization=SimpleNamespace(caller=lambda request: caller, authorizer=SimpleNamespace(generation=0)),
            config=SimpleNamespace(fetch_max_bytes=1 << 26),
        )
        self.connection = ConnectionContext("c", "127.0.0.1", 1, "PLAINTEXT")
        self.task = asyncio.ensure_future(self.replicas.run_isr_changes(StoresAll()))

    def _may(self, operation: object, *, quietly: bool = False) -> bool:
        return self.is_allowed and not (quietly and self.looks_at_all)

    def host(self, index: int, topic_id: uuid.UUID) -> None:
        self.logs_made += 1
        name = TopicPartition(topic_of(index), index)
        log = new_log(self.path / f"log-{self.logs_made}")
        self.replicas.host(
            Partition(name, topic_id, log, local_broker_id=A, min_insync_replicas=1, rules=self.replicas.rules)
        )

    def partition(self, index: int) -> Partition | None:
        return self.replicas.partition(topic_of(index), index)

    def ask(self, message: FetchRequest) -> asyncio.Future[FetchResponse]:
        request = Request(RequestHeader(ApiKey.FETCH, VERSION, 1, None), memoryview(b""), self.connection)
        answer = fetch.handle(self.broker, request, message)
        if isinstance(answer, FetchResponse):
            done: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
            done.set_result(answer)
            return done
        return asyncio.ensure_future(answer)

    def known(self, index: int, *, is_prompt: bool) -> object:
        """All that it knows of the partition and its followers."""
        partition = self.partition(index)
        if partition is None:
            return None
        log = partition.log
        return (
            (log.log_end_offset, log.high_watermark, log.log_start_offset, partition.state, partition.isr_state),
            [
                (
                    each.broker_id,
                    each.log_end_offset,
                    each.log_start_offset,
                    each.last_fetch_leader_end_offset,
                    each.last_caught_up_ms,
                    each.last_fetch_ms,
                    each.broker_epoch,
                    each.in_maximal_isr,
                    each.sent_high_watermark if is_prompt else None,
                )
                for each in partition.remote_replicas()
            ],
        )


class Told(NamedTuple):
    """What an answer says of one partition."""

    error: int
    records: bytes
    diverging: object
    high_watermark: int
    log_start_offset: int

    @property
    def is_only_offsets(self) -> bool:
        return not (self.error or self.records or self.diverging)


class Session:
    """A follower's side of a session, the same with both leaders."""

    def __init__(self) -> None:
        self.session_id = self.epoch = 0
        self.wanted: dict[int, FetchPartition] = {}
        self.changed: set[int] = set()
        self.forgotten: list[tuple[uuid.UUID, int]] = []
        self.ids: dict[int, uuid.UUID] = {}
        self.answers: tuple[asyncio.Future[FetchResponse], asyncio.Future[FetchResponse]] | None = None
        self.knows: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = ({}, {})


class Cluster:
    """Both leaders, the followers, and what a random event does to them."""

    def __init__(self, seed: int, path: Path) -> None:
        self.draw = random.Random(seed)
        self.is_prompt = seed % 2 == 1
        self.brokers = Brokers(A, B, C)
        self.leaders = [
            Leader(path / name, self.brokers, looks_at_all=name == "all", is_prompt=self.is_prompt)
            for name in ("all", "idle")
        ]
        self.sessions = {broker_id: [Session() for _ in range(SESSION_SLOTS)] for broker_id in (B, C)}
        self.broker_epochs = {B: 10, C: 20}
        self.epochs = dict.fromkeys(range(PARTITIONS), 1)
        self.versions = dict.fromkeys(range(PARTITIONS), 0)
        self.ids = {index: uuid.UUID(int=100 + index // 2) for index in range(PARTITIONS)}
        self.ends: dict[tuple[BrokerId, int], int] = {}
        self.starts: dict[tuple[BrokerId, int], int] = {}
        self.history: list[object] = []
        self.rested = 0
        for index in range(PARTITIONS):
            self.on_all(lambda leader, index=index: leader.host(index, self.ids[index]))  # type: ignore[misc]
            self.lead(index, (A, B, C), (A, B, C), epochs=1)
        self.tell_names()

    def on_all(self, act: Callable[[Leader], object]) -> None:
        for leader in self.leaders:
            act(leader)

    def tell_names(self) -> None:
        for leader in self.leaders:
            leader.names = {topic_id: topic_of(index) for index, topic_id in self.ids.items()}
            leader.metadata.topics_version += 1

    # -- events of the leader

    def lead(self, index: int, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], *, epochs: int) -> None:
        self.epochs[index] += epochs
        for leader in self.leaders:
            partition = leader.partition(index)
            if partition is not None:
                state = LeaderAndIsr(A, self.epochs[index], isr, partition.state.partition_epoch + 1)
                leader.replicas.lead(partition, state, replicas)

    def step(self) -> object:
        """Something happens. Returns what, for the message of a failure."""
        draw = self.draw
        index = draw.randrange(PARTITIONS)
        if not self.leaders[0].is_allowed and draw.random() < 0.2:
            return "rights are back", self.change_rights(index)
        events: list[tuple[int, Callable[[int], object]]] = [
            (30, self.append),
            (60, self.fetch),
            (12, self.pass_time),
            (3, self.elect),
            (3, self.change_isr),
            (2, self.change_replicas),
            (2, self.resign),
            (4, self.delete_records),
            (2, self.retain),
            (2, self.leave),
            (4, self.come_back),
            (2, self.register_again),
            (2, self.change_rights),
            (3, self.forget_name),
            (4, self.shrink),
            (3, self.hasten),
            (2, self.fail_directory),
        ]
        (event,) = draw.choices([each for _, each in events], [weight for weight, _ in events])
        return event.__name__, event(index)

    def append(self, index: int) -> object:
        data = bytes(batch(self.draw.randrange(1, 4)))
        for leader in self.leaders:
            leader.replicas.append(topic_of(index), index, bytearray(data), required_acks=1, wall_ms=NOW_MS)
        return index

    def elect(self, index: int) -> object:
        self.lead(index, (A, B, C), self.draw.choice([(A,), (A, B), (A, B, C)]), epochs=self.draw.randrange(1, 3))
        return index, self.epochs[index]

    def change_isr(self, index: int) -> object:
        isr = self.draw.choice([(A,), (A, C), (A, B, C)])
        self.lead(index, (A, B, C), isr, epochs=0)
        return index, isr

    def change_replicas(self, index: int) -> object:
        replicas = self.draw.choice([(A, B), (A, C), (A, B, C)])
        self.lead(index, replicas, self.draw.choice([(A,), replicas]), epochs=self.draw.randrange(2))
        return index, replicas

    def resign(self, index: int) -> object:
        self.epochs[index] += 1
        for leader in self.leaders:
            partition = leader.partition(index)
            if partition is not None:
                state = LeaderAndIsr(B, self.epochs[index], (B,), partition.state.partition_epoch + 1)
                leader.replicas.follow(partition, state, (A, B, C))
        return index

    def delete_records(self, index: int) -> object:
        share = self.draw.random()
        for leader in self.leaders:
            partition = leader.partition(index)
            if partition is not None:
                partition.log.delete_records(int(share * partition.log.high_watermark))
                leader.replicas.on_log_start_moved(partition.topic_partition)
        return index

    def retain(self, index: int) -> object:
        for leader in self.leaders:
            partition = leader.partition(index)
            if partition is not None:
                partition.log.advance_log_start_offset(partition.log.log_start_offset + 1)
                leader.replicas.on_log_start_moved(partition.topic_partition)
        return index

    def leave(self, index: int) -> object:
        self.on_all(lambda leader: leader.replicas.unhost(TopicPartition(topic_of(index), index)))
        return index

    def fail_directory(self, index: int) -> object:
        self.on_all(lambda leader: leader.replicas.take_offline([TopicPartition(topic_of(index), index)]))
        return index

    def come_back(self, index: int) -> object:
        """The partition is made anew, maybe of a topic that was deleted and made again."""
        self.leave(index)
        if self.draw.random() < 0.3:
            self.ids[index] = uuid.UUID(int=self.ids[index].int + 10)
            self.tell_names()
        self.on_all(lambda leader: leader.host(index, self.ids[index]))
        for follower in self.sessions:
            self.ends.pop((follower, index), None)
            self.starts.pop((follower, index), None)
        self.lead(index, (A, B, C), (A, B, C), epochs=1)
        return index, self.ids[index]

    def register_again(self, _: int) -> object:
        follower = self.draw.choice((B, C))
        self.broker_epochs[follower] += 1
        if self.draw.random() < 0.5:
            self.brokers.statuses[follower] = BrokerStatus(self.broker_epochs[follower] + self.draw.randrange(2))
        return follower

    def change_rights(self, _: int) -> object:
        is_allowed = not self.leaders[0].is_allowed or self.draw.random() < 0.3
        for leader in self.leaders:
            leader.is_allowed = is_allowed
            leader.broker.authorization.authorizer.generation += 1
        return is_allowed

    def forget_name(self, index: int) -> object:
        if self.draw.random() < 0.5:
            self.tell_names()
            return "told"
        for leader in self.leaders:
            leader.names.pop(self.ids[index], None)
            leader.metadata.topics_version += 1
        return index

    async def look_who_lags(self) -> None:
        for leader in self.leaders:
            await leader.replicas.shrink_isrs()

    def shrink(self, _: int) -> object:
        self.shrinking = asyncio.ensure_future(self.look_who_lags())
        return None

    def hasten(self, _: int) -> object:
        follower = self.draw.choice((B, C))
        self.on_all(lambda leader: leader.replicas.followers.hasten(follower))
        return follower

    def pass_time(self, _: int) -> object:
        return self.draw.choice((0.05, 0.4, 1.0, 2.5))

    # -- what followers do

    def fetch(self, _: int) -> object:
        """A follower sends its next request in one of its sessions, if none is on its way there."""
        follower, draw = self.draw.choice((B, C)), self.draw
        session = self.sessions[follower][0 if draw.random() < 0.9 else 1]
        if session.answers is not None:
            if draw.random() < 0.9:
                return follower, "waits"
            for answer in session.answers:  # The connection breaks.
                answer.cancel()
            session.answers, session.epoch = None, 0
        for index in range(PARTITIONS):
            self.want(follower, session, index)
        if draw.random() < 0.08:
            session.epoch = 0
        is_full = session.epoch == 0
        if is_full:
            session.knows[0].clear()
            session.knows[1].clear()
        named = sorted(session.wanted if is_full else session.changed & session.wanted.keys())
        message = FetchRequest(
            max_wait_ms=draw.choice((0, 500, 500, 1_500)),
            min_bytes=draw.choice((0, 1, 1, 1, 200)),
            max_bytes=1 << 26,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=[FetchTopic(topic_id=session.ids[index], partitions=[session.wanted[index]]) for index in named],
            forgotten_topics_data=[]
            if is_full
            else [ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in session.forgotten],
            replica_state=ReplicaState(replica_id=follower, replica_epoch=self.broker_epochs[follower]),
        )
        session.changed.clear()
        session.forgotten.clear()
        first, second = [leader.ask(message) for leader in self.leaders]
        session.answers = (first, second)
        return follower, self.sessions[follower].index(session), message

    def want(self, follower: BrokerId, session: Session, index: int) -> None:
        """What the follower wants of the partition now: as before, mostly."""
        draw, key = self.draw, (follower, index)
        before = session.wanted.get(index)
        if before is not None and (draw.random() < 0.03 or session.ids[index] != self.ids[index]):
            session.forgotten.append((session.ids[index], index))
            del session.wanted[index]
            return
        if before is None and draw.random() < 0.3:
            return
        if draw.random() < 0.05:
            self.starts[key] = draw.randint(0, self.ends.get(key, 0))
        partition = FetchPartition(
            partition=index,
            current_leader_epoch=draw.choice((-1, self.epochs[index] + 1))
            if draw.random() < 0.02
            else (self.epochs[index] if before is None or draw.random() < 0.8 else before.current_leader_epoch),
            fetch_offset=max(0, self.ends.get(key, 0) + (draw.choice((-1, 1)) if draw.random() < 0.02 else 0)),
            last_fetched_epoch=self.epochs[index] if draw.random() < 0.02 else -1,
            log_start_offset=self.starts.get(key, 0),
            partition_max_bytes=1 << 20,
        )
        session.ids[index] = self.ids[index]
        session.wanted[index] = partition
        if partition != before:
            session.changed.add(index)

    # -- what must hold

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    def check(self) -> None:
        model, tried = self.leaders
        for index in range(PARTITIONS):
            expected, found = (leader.known(index, is_prompt=self.is_prompt) for leader in (model, tried))
            assert expected == found, f"partition {index}"
        for follower, sessions in self.sessions.items():
            for session in sessions:
                if session.answers is not None:
                    self.check_answers(follower, session)
        self.rested = max(
            self.rested,
            sum(each.idle is not None for one in tried.replicas.partitions() for each in one.remote_replicas()),
        )
        assert not any(each.idle for one in model.replicas.partitions() for each in one.remote_replicas())

    def check_answers(self, follower: BrokerId, session: Session) -> None:
        assert session.answers is not None
        first, second = session.answers
        assert first.done() == second.done(), "one is answered, and the other waits"
        if not first.done():
            return
        session.answers = None
        expected, found = first.result(), second.result()
        assert (expected.error_code, expected.session_id) == (found.error_code, found.session_id)
        if expected.error_code:
            session.epoch, session.session_id = 0, 0
            return
        if not expected.session_id:
            session.session_id = session.epoch = 0
        elif session.epoch == 0:
            session.session_id, session.epoch = expected.session_id, 1
        else:
            session.epoch += 1
        all_expected, all_found = told(expected), told(found)
        for index in all_expected.keys() | all_found.keys():
            ours, theirs = all_found.get(index), all_expected.get(index)
            assert heavy(ours) == heavy(theirs), index
            for known, says in zip(session.knows, (theirs, ours), strict=True):
                if says is not None and not says.error and not says.diverging:
                    known[index] = (says.high_watermark, says.log_start_offset)
        for index in session.knows[0]:
            partition = self.leaders[1].partition(index)
            truth = None if partition is None else (partition.log.high_watermark, partition.log.log_start_offset)
            assert session.knows[1].get(index) in (session.knows[0][index], truth), index
        for index, one in all_found.items():
            if one.records and self.draw.random() < 0.9:
                *_, last = iterate_batches(memoryview(bytearray(one.records)))
                self.ends[follower, index] = last.header.last_offset + 1


def heavy(one: Told | None) -> object:
    """What of an answer moves more than what the follower knows of the leader.

    Who forgets the name of a topic that it cannot find any more says so; who keeps it says that the disk failed.
    """
    if one is None or one.is_only_offsets:
        return None
    return NOT_HERE if one.error in NOT_HERE else one[:3]


def told(response: FetchResponse) -> dict[int, Told]:
    return {
        each.partition_index: Told(
            each.error_code,
            b"".join(chunk_bytes(chunk) for chunk in cast("Sequence[Chunk]", each.records or ())),
            None if each.diverging_epoch is None or each.diverging_epoch.end_offset < 0 else each.diverging_epoch,
            each.high_watermark,
            each.log_start_offset,
        )
        for topic in response.responses
        for each in topic.partitions
    }


async def live(cluster: Cluster) -> None:
    for _ in range(STEPS):
        what = cluster.step()
        cluster.history.append(what)
        if isinstance(what, tuple) and what[0] == "pass_time":
            await asyncio.sleep(what[1])
        await cluster.settle()
        try:
            cluster.check()
        except AssertionError as failure:
            raise AssertionError("\n".join(map(str, [*cluster.history[-25:], failure]))) from failure


@pytest.mark.parametrize("seed", range(40))
def test_who_looks_at_what_changed_answers_and_knows_the_same_as_who_looks_at_all(seed: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = Cluster(seed, tmp_path)
        await live(cluster)
        assert cluster.rested >= 2, "hardly anything was idle"
        for leader in cluster.leaders:
            leader.task.cancel()
            leader.replicas.shut_down()
        await cluster.settle()

    in_virtual_time(scenario)
