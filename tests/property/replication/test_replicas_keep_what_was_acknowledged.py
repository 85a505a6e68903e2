"""Three replicas of one partition, on real logs, against any order of events: appends, fetches whose requests and
answers are delayed, ISR proposals that are stored, lost, answered late or sent again, or refused because the controller
knows more of a replica's broker than the leader, elections within the ISR, orders of the controller that come late or
twice, zombies that still lead, restarts that lose a high watermark.

After every event the invariants R1, R2, R4, R7, R8, R9 and R16 hold. Elections are clean and disks lose nothing: what
is acknowledged must then be in the log of every later leader.
"""

from __future__ import annotations

import random
import shutil
import uuid
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kavka.errors import ErrorCode, InvariantViolation, OffsetOutOfRange, RequestError
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, LeaderAndIsr
from kavka.records.batch import iterate_batches
from kavka.replication.decide.divergence import diverging_epoch
from kavka.replication.decide.isr_states import IsrProposal
from kavka.replication.decide.lag_policy import MessagesLagPolicy, TimeLagPolicy
from kavka.replication.decide.partition import ACKS_ALL, Partition, Role
from kavka.replication.decide.partition_results import EpochEndOffset
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.replica import BrokerStatus
from tests.kit.memory_directory import memory_directory
from tests.unit.log.log_support import NOW_MS, PARTITION, batch, new_log

LAG_MS = 1_000
NODES = tuple(BrokerId(number) for number in (0, 1, 2))
TOPIC_ID = uuid.UUID(int=9)
node = st.sampled_from(NODES)


class Entry(NamedTuple):
    """A batch as it lies in a log."""

    epoch: int
    last_offset: int
    crc: int


class Request(NamedTuple):
    """A follower's fetch under way."""

    leader: BrokerId
    leader_epoch: int
    offset: int
    last_fetched_epoch: int


class Answer(NamedTuple):
    """What the leader answered, under way back."""

    request: Request
    records: bytes
    high_watermark: int
    diverging: EpochEndOffset | None


class Brokers:
    """Which brokers are about to stop, as the leaders have heard."""

    def __init__(self) -> None:
        self.leaving: set[BrokerId] = set()

    def status(self, broker_id: BrokerId) -> BrokerStatus | None:
        return BrokerStatus(is_shutting_down=broker_id in self.leaving)


class Awaited(NamedTuple):
    """An acks=all append that was not answered yet."""

    leader: BrokerId
    partition: Partition
    leader_epoch: int
    first_offset: int
    committed_at: int


def contents(log: UnifiedLog) -> dict[int, Entry]:
    """First offset -> batch."""
    found: dict[int, Entry] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True)
        for chunk in result.chunks:
            for read in iterate_batches(memoryview(chunk.tobytes())):
                header = read.header
                found[header.base_offset] = Entry(header.partition_leader_epoch, header.last_offset, header.crc)
        offset = result.next_offset
    return found


class Replicas(RuleBasedStateMachine):
    """The events. `stored` is the state znode; `history` all that it ever was."""

    def __init__(self) -> None:
        super().__init__()
        self.path = memory_directory("kavka-replicas-")
        self.now_ms = NOW_MS
        self.logs = {number: new_log(self.path / str(number)) for number in NODES}
        self.requests: dict[BrokerId, Request] = {}
        self.answers: dict[BrokerId, Answer] = {}
        self.in_flight: list[tuple[BrokerId, Partition, IsrProposal]] = []
        self.replies: list[tuple[Partition, IsrProposal, LeaderAndIsr | ErrorCode]] = []
        self.brokers = Brokers()
        self.leaving: set[BrokerId] = set()
        """Which brokers are about to stop, as the controller knows."""
        self.awaited: list[Awaited] = []
        self.acked: dict[int, tuple[Entry, int]] = {}
        self.written = 0
        self.high_watermarks: dict[tuple[BrokerId, int, int], int] = {}
        self.life = dict.fromkeys(NODES, 0)
        self.life_began = dict.fromkeys(NODES, 0)

    def teardown(self) -> None:
        for log in self.logs.values():
            log.abandon()
        shutil.rmtree(self.path, ignore_errors=True)

    @initialize(min_isr=st.integers(1, 2), holds=st.booleans(), by_messages=st.booleans())
    def begin(self, min_isr: int, *, holds: bool, by_messages: bool) -> None:
        self.min_isr = min_isr
        policy = MessagesLagPolicy(LAG_MS, 3) if by_messages else TimeLagPolicy(LAG_MS)
        self.partition_rules = PartitionRules(policy, self.brokers, holds_under_min_isr=holds)
        self.partitions = {number: self.new_partition(number) for number in NODES}
        self.stored = LeaderAndIsr(NODES[0], 0, NODES, 0)
        self.history = [self.stored]
        for number in NODES:
            self.tell(number, self.stored)

    def new_partition(self, number: BrokerId) -> Partition:
        return Partition(
            PARTITION,
            TOPIC_ID,
            self.logs[number],
            local_broker_id=number,
            min_insync_replicas=self.min_isr,
            rules=self.partition_rules,
        )

    def store(self, state: LeaderAndIsr) -> None:
        self.stored = state
        self.history.append(state)

    def tell(self, number: BrokerId, state: LeaderAndIsr) -> None:
        partition = self.partitions[number]
        if state.leader == number:
            partition.become_leader(state, NODES, now_ms=self.now_ms)
        else:
            change = partition.become_follower(state, NODES, now_ms=self.now_ms)
            if change.needs_truncation:
                self.requests.pop(number, None)
                self.answers.pop(number, None)

    # -- the controller

    @rule(number=node)
    def controller_tells(self, number: BrokerId) -> None:
        self.tell(number, self.stored)

    @rule(number=node, ago=st.integers(1, 4))
    def an_old_order_arrives_late(self, number: BrokerId, ago: int) -> None:
        # What was sent to its former life is refused by the broker (STALE_BROKER_EPOCH).
        self.tell(number, self.history[max(len(self.history) - 1 - ago, self.life_began[number])])

    @rule(number=node, leaves=st.booleans())
    def elect(self, number: BrokerId, *, leaves: bool) -> None:
        """Another member of the ISR leads; the one before may be taken out of the ISR, as if it had died."""
        state = self.stored
        if number not in state.isr or number == state.leader:
            return
        isr = tuple(member for member in state.isr if member != state.leader) if leaves else state.isr
        self.store(LeaderAndIsr(number, state.leader_epoch + 1, isr, state.partition_epoch + 1))
        self.tell(number, self.stored)

    @rule(which=st.integers(0, 3), is_lost=st.booleans(), says_current=st.booleans())
    @precondition(lambda self: bool(self.in_flight))
    def a_proposal_arrives(self, which: int, *, is_lost: bool, says_current: bool) -> None:
        index = which % len(self.in_flight)
        _, partition, proposal = self.in_flight[index]
        stored = self.stored
        is_leaders = proposal.leader == stored.leader and proposal.leader_epoch == stored.leader_epoch
        answer: LeaderAndIsr | ErrorCode
        if is_leaders and set(proposal.isr) == set(stored.isr):
            answer = stored
        elif is_leaders and proposal.partition_epoch == stored.partition_epoch:
            if any(member in self.leaving and member not in stored.isr for member in proposal.isr):
                answer = ErrorCode.INELIGIBLE_REPLICA
            else:
                self.store(stored._replace(isr=proposal.isr, partition_epoch=stored.partition_epoch + 1))
                answer = self.stored
        else:
            answer = stored if says_current else ErrorCode.INVALID_UPDATE_VERSION
        if is_lost:
            # It stays in flight: it is sent again, and may arrive much later.
            partition.on_isr_unknown(proposal)
            return
        del self.in_flight[index]
        self.replies.append((partition, proposal, answer))

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: bool(self.replies))
    def an_answer_to_a_proposal_arrives(self, which: int) -> None:
        partition, proposal, answer = self.replies.pop(which % len(self.replies))
        if isinstance(answer, ErrorCode):
            partition.on_isr_rejected(proposal, None, answer, now_ms=self.now_ms)
        elif set(answer.isr) == set(proposal.isr) and answer.leader_epoch == proposal.leader_epoch:
            partition.on_isr_committed(proposal, answer, now_ms=self.now_ms)
        else:
            partition.on_isr_rejected(proposal, answer, ErrorCode.INVALID_UPDATE_VERSION, now_ms=self.now_ms)

    @rule(number=node)
    def a_broker_begins_or_ends_to_leave(self, number: BrokerId) -> None:
        """The controller knows; leaders do not yet."""
        self.leaving ^= {number}

    @rule()
    def leaders_hear_who_leaves(self) -> None:
        self.brokers.leaving = set(self.leaving)
        for number in NODES:
            self.partitions[number].raise_high_watermark(self.now_ms)

    def carry(self, number: BrokerId, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self.in_flight.append((number, self.partitions[number], proposal))

    # -- leaders

    @rule(number=node, count=st.integers(1, 3), acks=st.sampled_from((ACKS_ALL, ACKS_ALL, 1)))
    def append(self, number: BrokerId, count: int, acks: int) -> None:
        partition = self.partitions[number]
        self.written += 1
        try:
            appended = partition.append_as_leader(
                batch([b"%d" % self.written] * count), required_acks=acks, now_ms=self.now_ms, wall_ms=self.now_ms
            )
        except RequestError:
            return
        if acks == ACKS_ALL:
            assert len(partition.state.isr) >= self.min_isr
            result = appended.result
            self.awaited.append(
                Awaited(number, partition, partition.leader_epoch, result.first_offset, result.last_offset + 1)
            )

    @rule(number=node)
    def look_for_laggards(self, number: BrokerId) -> None:
        self.partitions[number].raise_high_watermark(self.now_ms)
        self.carry(number, self.partitions[number].propose_shrink(self.now_ms))

    @rule(ms=st.sampled_from((1, 100, LAG_MS // 2, LAG_MS + 1)))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    # -- followers

    @rule(number=node)
    def send_fetch(self, number: BrokerId) -> None:
        partition = self.partitions[number]
        if partition.role is not Role.FOLLOWER or number in self.requests or number in self.answers:
            return
        log = partition.log
        self.requests[number] = Request(
            partition.state.leader,
            partition.leader_epoch,
            log.log_end_offset,
            log.latest_epoch,
        )

    @rule(number=node)
    def serve_fetch(self, number: BrokerId) -> None:
        request = self.requests.pop(number, None)
        if request is None:
            return
        leader = self.partitions[request.leader]
        log = leader.log
        try:
            leader.follower(number, request.leader_epoch, self.now_ms)
            diverging = diverging_epoch(leader.log, request.last_fetched_epoch, request.offset)
            if diverging is None:
                end_offset = log.log_end_offset
                result = leader.read_as_follower(request.offset, 100, min_one_batch=True)
                counted = leader.record_follower_fetch(
                    number, -1, request.offset, leader_end_offset=end_offset, now_ms=self.now_ms
                )
                self.carry(request.leader, counted.proposal)
                records = b"".join(chunk.tobytes() for chunk in result.chunks)
                self.answers[number] = Answer(request, records, log.high_watermark, None)
            else:
                self.answers[number] = Answer(request, b"", log.high_watermark, diverging)
        except (RequestError, OffsetOutOfRange):
            return

    @rule(number=node)
    def deliver_fetch(self, number: BrokerId) -> None:
        answer = self.answers.pop(number, None)
        partition = self.partitions[number]
        if answer is None or answer.request.leader_epoch != partition.leader_epoch:
            return
        if partition.role is not Role.FOLLOWER:
            return
        if answer.diverging is not None:
            self.truncate(partition.log, answer.diverging)
            return
        if answer.records:
            partition.append_as_follower(answer.records, leader_epoch=answer.request.leader_epoch, wall_ms=self.now_ms)
        partition.set_follower_high_watermark(answer.high_watermark)

    def truncate(self, log: UnifiedLog, diverging: EpochEndOffset) -> None:
        """To where both logs may still agree (KIP-279)."""
        epoch, end_offset = log.end_offset_for_epoch(diverging.leader_epoch)
        offset = diverging.end_offset
        if end_offset >= 0:
            offset = min(end_offset, diverging.end_offset) if epoch == diverging.leader_epoch else end_offset
        # R11: nothing that may be committed is cut off.
        assert offset >= log.high_watermark
        log.truncate_to(offset, self.now_ms)

    @rule(number=node, loses=st.integers(0, 5))
    def restart(self, number: BrokerId, loses: int) -> None:
        """The process dies and comes back: its log is there, its high watermark as old as the checkpoint."""
        log = self.logs[number]
        log.set_high_watermark(max(log.high_watermark - loses, 0))
        self.life[number] += 1
        self.life_began[number] = len(self.history) - 1
        self.partitions[number] = self.new_partition(number)
        self.requests.pop(number, None)
        self.answers.pop(number, None)
        self.in_flight = [flying for flying in self.in_flight if flying[0] != number]
        self.replies = [reply for reply in self.replies if reply[1].leader != number]
        self.awaited = [append for append in self.awaited if append.leader != number]

    # -- what must hold

    def leaders(self) -> list[tuple[BrokerId, Partition]]:
        """All that take themselves for the leader."""
        return [(number, partition) for number, partition in self.partitions.items() if partition.is_leader]

    def answer_appends(self) -> None:
        waiting = []
        for append in self.awaited:
            partition = append.partition
            if not partition.is_leader or partition.leader_epoch != append.leader_epoch:
                continue
            if not partition.has_enough_replicas():
                continue
            if partition.log.high_watermark < append.committed_at:
                waiting.append(append)
                continue
            entry = contents(partition.log)[append.first_offset]
            self.acked[append.first_offset] = (entry, append.leader_epoch)
        self.awaited = waiting

    @invariant()
    def nothing_acknowledged_is_lost_and_what_is_committed_is_everywhere(self) -> None:
        if not hasattr(self, "stored"):
            return
        self.answer_appends()
        logs = {number: contents(log) for number, log in self.logs.items()}
        for number, partition in self.leaders():
            high_watermark = partition.log.high_watermark
            mine = {offset: entry for offset, entry in logs[number].items() if offset < high_watermark}
            for member in {*self.stored.isr, *partition.state.isr}:
                theirs = logs[member]
                for offset, entry in mine.items():
                    assert theirs.get(offset) == entry, f"R1/R2: {member} lacks offset {offset} of leader {number}"
            key = (number, self.life[number], partition.leader_epoch)
            assert high_watermark <= partition.log.log_end_offset
            assert high_watermark >= self.high_watermarks.get(key, 0), "R9: the high watermark fell"
            self.high_watermarks[key] = high_watermark
        true_leader = self.partitions[self.stored.leader]
        if true_leader.is_leader and true_leader.leader_epoch == self.stored.leader_epoch:
            assert set(true_leader.isr_state.maximal_isr) >= set(self.stored.isr), "R8"
            for offset, (entry, _epoch) in self.acked.items():
                assert logs[self.stored.leader].get(offset) == entry, f"R7: offset {offset} was acknowledged"
        for one in NODES:
            for other in NODES:
                bound = min(self.logs[one].high_watermark, self.logs[other].high_watermark)
                assert {o: e for o, e in logs[one].items() if o < bound} == {
                    o: e for o, e in logs[other].items() if o < bound
                }, "R4"


WALKS = 300
STEPS = 150
EVENTS = {
    "controller_tells": 4,
    "an_old_order_arrives_late": 1,
    "elect": 1,
    "a_proposal_arrives": 4,
    "an_answer_to_a_proposal_arrives": 4,
    "a_broker_begins_or_ends_to_leave": 1,
    "leaders_hear_who_leaves": 1,
    "append": 4,
    "look_for_laggards": 2,
    "time_passes": 2,
    "send_fetch": 10,
    "serve_fetch": 10,
    "deliver_fetch": 10,
    "restart": 1,
}
"""How often each event comes in a walk: replication goes on while the rest happens."""


def arguments(event: str, machine: Replicas, draw: random.Random) -> dict[str, Any]:
    number = {"number": draw.choice(NODES)}
    match event:
        case "an_old_order_arrives_late":
            return {**number, "ago": draw.randint(1, 4)}
        case "elect":
            return {**number, "leaves": draw.random() < 0.5}
        case "a_proposal_arrives":
            return {"which": draw.randint(0, 3), "is_lost": draw.random() < 0.3, "says_current": draw.random() < 0.5}
        case "an_answer_to_a_proposal_arrives":
            return {"which": draw.randint(0, 3)}
        case "leaders_hear_who_leaves":
            return {}
        case "append":
            return {**number, "count": draw.randint(1, 3), "acks": draw.choice((ACKS_ALL, ACKS_ALL, 1))}
        case "time_passes":
            return {"ms": draw.choice((1, 100, LAG_MS // 2, LAG_MS + 1))}
        case "restart":
            return {**number, "loses": draw.randint(0, 5)}
    return number


def walk(seed: int) -> int:
    """One walk; how many appends were acknowledged."""
    draw = random.Random(seed)
    machine = Replicas()
    try:
        machine.begin(min_isr=draw.choice((1, 2)), holds=draw.random() < 0.3, by_messages=draw.random() < 0.3)
        for event in draw.choices(list(EVENTS), list(EVENTS.values()), k=STEPS):
            if (event == "a_proposal_arrives" and not machine.in_flight) or (
                event == "an_answer_to_a_proposal_arrives" and not machine.replies
            ):
                continue
            getattr(machine, event)(**arguments(event, machine, draw))
            machine.nothing_acknowledged_is_lost_and_what_is_committed_is_everywhere()
        return len(machine.acked)
    finally:
        machine.teardown()


def test_walks_that_replicate_most_of_the_time() -> None:
    """Hypothesis draws all events alike, so that little is ever committed; these walks commit more, and go deeper."""
    acked = 0
    for seed in range(WALKS):
        try:
            acked += walk(seed)
        except (AssertionError, InvariantViolation) as broken:
            raise AssertionError(f"walk {seed}: {broken!r}") from broken
    assert acked > WALKS // 10


Replicas.TestCase.settings = settings(
    max_examples=120, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
test_replicas = Replicas.TestCase
