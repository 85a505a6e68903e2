"""LagRun: what a lag policy does to a leader's partitions, on drawn workloads and on recorded traces, in virtual time.

Decides when producers write, when followers fetch and what ails them; counts what the leader decides about it. Who is
in sync is decided by production code alone: `Partition` on a `UnifiedLog`, `RemoteReplica` and the `LagPolicy`. Must
not know which policy is the better one (`lag_advice`).

The model, where it is simpler than a cluster:

    leader      broker 1 leads everything and does not fail. It asks for shrinks every replica.lag.time.max.ms / 2
    followers   brokers 2 and 3; one fetcher for each partition (so a partition lags alone), long polls of 500 ms as
                with replica.fetch.wait.max.ms. A healthy one takes in 20,000 records/s; no answer holds more than it
                takes in within a second (a response is bounded, a throttle has windows of a second)
    writes      acks=all; what is refused with NOT_ENOUGH_REPLICAS is not written again
    ISR writes  answered after 2 to 10 ms, never refused, never lost
    health      told by the workload, not by a policy: a follower that nothing ails, or only a pause shorter than
                `PATIENCE_MS`, is healthy, and to throw it out is a false alarm. Who is ailing longer is to be found

    I1  the same workload, policy and seed give the same outcome, whatever else runs
    I2  two policies that are compared see the same writes at the same times

Source: article 003; KIP-16; Kafka 0.8.2's Partition.getOutOfSyncReplicas.
"""

from __future__ import annotations

import heapq
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Final

from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.errors import ErrorCode, RequestError
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import LoadRequest, create_log
from kavka.log.segment import LogDirectory, OpenSegments
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, LeaderAndIsr, Offset, TopicPartition
from kavka.records.builder import BatchBuilder
from kavka.replication.decide.isr_states import IsrProposal
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.simulator.host.disk import SimulatedDisk
from kavka.simulator.host.scheduler import Scheduler
from kavka.studies.lag_outcome import Choice, Outcome, Seen, Span, percentile
from kavka.studies.lag_workload import FOLLOWERS, LEADER, REPLICAS, Ailment, AilmentKind, Traffic, Workload

ACKS_LEADER: Final = 1

MIN_INSYNC_REPLICAS: Final = 2
HEALTHY_RECORDS_PER_S: Final = 20_000
FETCH_WAIT_MS: Final = 500
ANSWER_MS: Final = 1_000
NETWORK_MS: Final = (1, 3)
ISR_WRITE_MS: Final = (2, 10)
STALLED_AFTER_MS: Final = 1_000
"""An accepted write that is not committed after so long counts as blocked."""
FILL_RECORDS: Final = 1_000
SAMPLES: Final = 300
"""Points of a lag curve."""
MAX_MINUTES: Final = 60
"""A run keeps its logs in memory: 5 MB for each minute of 12,000 records/s."""


def run_workload(workload: Workload, choice: Choice, *, minutes: float, seed: int) -> Outcome:
    """One workload under one policy."""
    return LagRun(workload, choice, minutes=minutes, seed=seed).run()


class LagRun:
    """One workload under one policy. `trace` keeps what the leader saw."""

    def __init__(
        self, workload: Workload, choice: Choice, *, minutes: float, seed: int, keeps_trace: bool = False
    ) -> None:
        self.trace: list[Seen] | None = [] if keeps_trace else None
        self._workload = workload
        self._choice = choice
        self._end_ms = round(minutes * 60_000)
        self._agenda = _Agenda()
        # Writes are drawn apart from all else, so that all policies see the same (I2).
        self._write_draws = Random(f"writes {workload.name} {seed}")
        draws = Random(f"network {workload.name} {seed}")
        self._leader = _Leader(self._agenda, choice, draws, workload.ailments, self.trace)
        for topic in dict.fromkeys(traffic.topic for traffic in workload.traffic):
            led = self._leader.lead(TopicPartition(topic, 0))
            for follower in FOLLOWERS:
                ailments = [each for each in workload.ailments if each.concerns(follower, topic)]
                is_new = any(each.kind is AilmentKind.NEW for each in ailments)
                start = 0 if is_new else led.partition.log.log_end_offset
                _Fetcher(self._agenda, led, follower, ailments, draws, start).begin()
        for traffic in workload.traffic:
            self._agenda.at(self._write_draws.randrange(traffic.every_ms), self._writer(traffic))

    def run(self) -> Outcome:
        self._leader.begin(self._end_ms)
        self._agenda.run(self._end_ms)
        return self._leader.outcome(self._workload.name, self._end_ms)

    def _writer(self, traffic: Traffic) -> Callable[[], None]:
        led = self._leader.led[TopicPartition(traffic.topic, 0)]

        def write() -> None:
            led.append(traffic.records, ACKS_ALL)
            jitter_ms = self._write_draws.randint(-traffic.jitter_ms, traffic.jitter_ms)
            self._agenda.after(max(traffic.every_ms + jitter_ms, 1), write)

        return write


def replay(trace: Sequence[Seen], choice: Choice, *, name: str = "trace", ailments: Sequence[Ailment] = ()) -> Outcome:
    """What the policy would have decided on what a leader saw. Followers and producers do as they did, whatever is
    decided: nothing is refused, and a follower that is thrown out fetches on as it did."""
    agenda = _Agenda()
    leader = _Leader(agenda, choice, Random(f"replay {name}"), ailments, None)
    for partition in dict.fromkeys(seen.partition for seen in trace):
        leader.lead(partition)
    for seen in trace:
        agenda.at(seen.at_ms, _repeat(leader.led[seen.partition], seen))
    end_ms = trace[-1].at_ms if trace else 0
    leader.begin(end_ms)
    agenda.run(end_ms)
    return leader.outcome(name, end_ms)


def _repeat(led: _LedPartition, seen: Seen) -> Callable[[], None]:
    if seen.follower == LEADER:
        return lambda: led.append(seen.amount, ACKS_LEADER)
    return lambda: led.on_fetch(seen.follower, seen.amount)


class _Agenda:
    """What is to happen, by virtual time; what was put first comes first."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._order = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (max(at_ms, self.now_ms), self._order, action))

    def after(self, ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + ms, action)

    def run(self, until_ms: int) -> None:
        while self._heap and self._heap[0][0] <= until_ms:
            self.now_ms, _order, action = heapq.heappop(self._heap)
            action()
        self.now_ms = until_ms


class _Leader:
    """Broker 1: its partitions, and the timer that looks for laggards."""

    def __init__(
        self,
        agenda: _Agenda,
        choice: Choice,
        draws: Random,
        ailments: Sequence[Ailment],
        trace: list[Seen] | None,
    ) -> None:
        self.led: dict[TopicPartition, _LedPartition] = {}
        self._agenda = agenda
        self._choice = choice
        self._draws = draws
        self._ailments = ailments
        self._trace = trace
        self._files = SimulatedDisk(Random(0)).port(Scheduler(0).node("broker-1"))
        self._sample_ms = 1
        self._decisions: list[Decision] = []

    def lead(self, topic_partition: TopicPartition) -> _LedPartition:
        ailments = [each for each in self._ailments if each.topic in (None, topic_partition.topic)]
        log = self._new_log(topic_partition)
        partition = Partition(
            topic_partition,
            uuid.UUID(int=len(self.led) + 1),
            log,
            local_broker_id=LEADER,
            min_insync_replicas=MIN_INSYNC_REPLICAS,
            rules=PartitionRules(self._choice.policy),
        )
        newcomers = {each.follower: each.behind for each in ailments if each.kind is AilmentKind.NEW}
        isr = tuple(broker_id for broker_id in REPLICAS if broker_id not in newcomers)
        _fill(log, max(newcomers.values(), default=0))
        partition.become_leader(LeaderAndIsr(LEADER, 1, isr, 0), REPLICAS, now_ms=0)
        led = _LedPartition(partition, self._agenda, self._draws, ailments, self._trace, self._record)
        self.led[topic_partition] = led
        return led

    def _record(self, decision: Decision) -> None:
        if decision.kind in (DecisionKind.ISR_SHRUNK, DecisionKind.ISR_EXPANDED):
            self._decisions.append(decision)

    def _new_log(self, topic_partition: TopicPartition) -> UnifiedLog:
        directory, config = f"/{topic_partition}", LogConfig()
        self._files.make_directory(directory)
        request = LoadRequest(
            config,
            was_clean=True,
            recovery_point=0,
            log_start_offset=0,
            now_ms=0,
            producer_id_expiration_ms=MAX_MINUTES * 60_000,
        )
        loaded = create_log(LogDirectory(self._files, directory, OpenSegments(len(REPLICAS))), request)
        return UnifiedLog(topic_partition, loaded, config, now_ms=0)

    def begin(self, end_ms: int) -> None:
        self._sample_ms = max(end_ms // SAMPLES, 1)
        period_ms = max(self._choice.max_ms // 2, 1)
        self._agenda.at(self._draws.randrange(period_ms), self._look)
        self._agenda.at(0, self._sample)

    def _look(self) -> None:
        for led in self.led.values():
            led.look()
        self._agenda.after(max(self._choice.max_ms // 2, 1), self._look)

    def _sample(self) -> None:
        for led in self.led.values():
            led.sample()
        self._agenda.after(self._sample_ms, self._sample)

    def outcome(self, workload: str, end_ms: int) -> Outcome:
        all_led = list(self.led.values())
        for led in all_led:
            led.end()
        latencies = sorted(latency for led in all_led for latency in led.latencies_ms)
        joined = [led.joined_after_ms for led in all_led if led.joined_after_ms is not None]
        return Outcome(
            workload,
            self._choice,
            end_ms,
            shrinks=sum(led.shrinks for led in all_led),
            expands=sum(led.expands for led in all_led),
            removals=sum(led.removals for led in all_led),
            false_alarms=sum(led.false_alarms for led in all_led),
            to_be_found=sum(each.is_to_be_found for led in all_led for each in led.ailments),
            detection_ms=tuple(ms for led in all_led for ms in led.detection_ms()),
            isr_updates=sum(led.isr_updates for led in all_led),
            refused_ms=sum(led.refused_ms for led in all_led),
            stalled_ms=sum(led.stalled_ms for led in all_led),
            writes=sum(led.writes for led in all_led),
            writes_refused=sum(led.writes_refused for led in all_led),
            commit_p50_ms=percentile(latencies, 0.5),
            commit_p99_ms=percentile(latencies, 0.99),
            commit_max_ms=max((led.longest_wait_ms for led in all_led), default=0),
            joined_after_ms=max(joined, default=None),
            out_of_isr=tuple(span for led in all_led for span in led.out_spans),
            ailing=tuple(
                Span(led.partition.topic_partition, each.follower, each.from_ms, min(led.ends_ms(each), end_ms))
                for led in all_led
                for each in led.ailments
                if each.excuses
            ),
            lags={key: tuple(points) for led in all_led for key, points in led.lags.items()},
            decisions=tuple(self._decisions),
        )


class _LedPartition:
    """One partition at its leader: the production `Partition`, and what is counted of it."""

    def __init__(
        self,
        partition: Partition,
        agenda: _Agenda,
        draws: Random,
        ailments: Sequence[Ailment],
        trace: list[Seen] | None,
        record: RecordDecision,
    ) -> None:
        self.partition = partition
        self._record = record
        self.ailments = ailments
        self.on_append: list[Callable[[], None]] = []
        """Fetches that wait for records; each is called once."""
        self.shrinks = self.expands = self.removals = self.false_alarms = self.isr_updates = 0
        self.refused_ms = self.stalled_ms = self.writes = self.writes_refused = self.longest_wait_ms = 0
        self.joined_after_ms: int | None = None
        self.latencies_ms: list[int] = []
        self.out_spans: list[Span] = []
        self.lags: dict[str, list[tuple[int, int]]] = {
            f"{partition.topic_partition} broker {follower}": [] for follower in FOLLOWERS
        }
        self._agenda = agenda
        self._draws = draws
        self._trace = trace
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self._stalled_until_ms = 0
        self._greatest_lag = dict.fromkeys(FOLLOWERS, 0)
        self._under_min_since_ms: int | None = None
        self._out_since_ms = {broker_id: 0 for broker_id in FOLLOWERS if broker_id not in partition.state.isr}
        self._found_ms: dict[int, int] = {}
        # A follower that was ailing is excused until it has caught up again.
        self._recovering: set[BrokerId] = set()

    # -- what happens

    def append(self, records: int, acks: int) -> None:
        partition, now_ms = self.partition, self._agenda.now_ms
        self.writes += 1
        try:
            partition.append_as_leader(bytearray(_batch(records)), required_acks=acks, now_ms=now_ms, wall_ms=now_ms)
        except RequestError as refusal:
            if refusal.code is not ErrorCode.NOT_ENOUGH_REPLICAS:
                raise
            self.writes_refused += 1
            return
        if self._trace is not None:
            self._trace.append(Seen(now_ms, partition.topic_partition, LEADER, records))
        self._note_lag()
        self._uncommitted.append((partition.log.log_end_offset, now_ms))
        self._settle()
        waiting, self.on_append = self.on_append, []
        for answer in waiting:
            answer()

    def on_fetch(self, follower: BrokerId, offset: Offset) -> None:
        partition, now_ms = self.partition, self._agenda.now_ms
        if self._trace is not None:
            self._trace.append(Seen(now_ms, partition.topic_partition, follower, offset))
        end_offset = partition.log.log_end_offset
        ailing = self._ails(follower)
        if ailing:
            self._recovering.add(follower)
        elif offset >= end_offset:
            self._recovering.discard(follower)
        result = partition.record_follower_fetch(follower, -1, offset, leader_end_offset=end_offset, now_ms=now_ms)
        self._settle()
        if result.proposal is not None:
            self._write(result.proposal)

    def look(self) -> None:
        proposal = self.partition.propose_shrink(self._agenda.now_ms)
        if proposal is not None:
            self._write(proposal)

    def sample(self) -> None:
        """The greatest lag since the last sample: a burst that came and went between two is seen."""
        self._note_lag()
        for follower, behind in self._greatest_lag.items():
            self.lags[f"{self.partition.topic_partition} broker {follower}"].append((self._agenda.now_ms, behind))
            self._greatest_lag[follower] = 0

    def _note_lag(self) -> None:
        end_offset = self.partition.log.log_end_offset
        for replica in self.partition.remote_replicas():
            behind = end_offset - max(replica.log_end_offset, 0)
            if behind > self._greatest_lag[replica.broker_id]:
                self._greatest_lag[replica.broker_id] = behind

    # -- the ISR

    def _write(self, proposal: IsrProposal) -> None:
        self.isr_updates += 1
        self._agenda.after(self._draws.randint(*ISR_WRITE_MS), lambda: self._on_written(proposal))

    def _on_written(self, proposal: IsrProposal) -> None:
        partition, now_ms = self.partition, self._agenda.now_ms
        before = partition.state.isr
        state = proposal.state._replace(partition_epoch=proposal.partition_epoch + 1)
        for decision in partition.on_isr_committed(proposal, state, now_ms=now_ms).decisions:
            self._record(decision)
        gone = [broker_id for broker_id in before if broker_id not in state.isr]
        self.shrinks += bool(gone)
        self.expands += len(state.isr) > len(before)
        for broker_id in gone:
            self._on_removed(broker_id, now_ms)
        for broker_id in state.isr:
            if broker_id not in before:
                self._on_joined(broker_id, now_ms)
        self._note_min_isr(now_ms)
        self._settle()

    def _on_removed(self, follower: BrokerId, now_ms: int) -> None:
        self.removals += 1
        self._out_since_ms[follower] = now_ms
        self.false_alarms += not (follower in self._recovering or self._ails(follower))
        for index, ailment in enumerate(self.ailments):
            if ailment.follower == follower and ailment.from_ms <= now_ms < ailment.until_ms:
                self._found_ms.setdefault(index, now_ms - ailment.from_ms)

    def _on_joined(self, follower: BrokerId, now_ms: int) -> None:
        since_ms = self._out_since_ms.pop(follower)
        self.out_spans.append(Span(self.partition.topic_partition, follower, since_ms, now_ms))
        is_new = any(each.kind is AilmentKind.NEW and each.follower == follower for each in self.ailments)
        if is_new and self.joined_after_ms is None:
            self.joined_after_ms = now_ms

    def _ails(self, follower: BrokerId) -> bool:
        """Whether something ails the follower that excuses to throw it out. A new one is excused until it joined."""
        now_ms = self._agenda.now_ms
        return any(
            each.excuses and each.follower == follower and each.from_ms <= now_ms < self.ends_ms(each)
            for each in self.ailments
        )

    def ends_ms(self, ailment: Ailment) -> int:
        """When an ailment ends: a new follower is new until it has joined."""
        if ailment.kind is AilmentKind.NEW and self.joined_after_ms is not None:
            return self.joined_after_ms
        return ailment.until_ms

    def detection_ms(self) -> list[int]:
        return [ms for index, ms in self._found_ms.items() if self.ailments[index].is_to_be_found]

    # -- what producers feel

    def _note_min_isr(self, now_ms: int) -> None:
        if self.partition.is_under_min_isr:
            if self._under_min_since_ms is None:
                self._under_min_since_ms = now_ms
        elif self._under_min_since_ms is not None:
            self.refused_ms += now_ms - self._under_min_since_ms
            self._under_min_since_ms = None

    def _settle(self) -> None:
        """Takes note of the writes that are committed by now."""
        high_watermark, now_ms = self.partition.log.high_watermark, self._agenda.now_ms
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            _end_offset, at_ms = self._uncommitted.popleft()
            self.latencies_ms.append(now_ms - at_ms)
            self._note_wait(at_ms, now_ms)

    def _note_wait(self, at_ms: int, now_ms: int) -> None:
        self.longest_wait_ms = max(self.longest_wait_ms, now_ms - at_ms)
        since_ms = max(at_ms + STALLED_AFTER_MS, self._stalled_until_ms)
        if now_ms > since_ms:
            self.stalled_ms += now_ms - since_ms
            self._stalled_until_ms = now_ms

    def end(self) -> None:
        """Closes what is open."""
        now_ms = self._agenda.now_ms
        if self._uncommitted:
            self._note_wait(self._uncommitted[0][1], now_ms)
        if self._under_min_since_ms is not None:
            self.refused_ms += now_ms - self._under_min_since_ms
        for follower, since_ms in self._out_since_ms.items():
            self.out_spans.append(Span(self.partition.topic_partition, follower, since_ms, now_ms))
            for index, ailment in enumerate(self.ailments):
                # Out before it fell ill, and never back: there was nothing to find.
                if ailment.follower == follower and since_ms < ailment.from_ms:
                    self._found_ms.setdefault(index, 0)


@dataclass(slots=True)
class _Fetcher:
    """One follower's fetches of one partition."""

    agenda: _Agenda
    led: _LedPartition
    follower: BrokerId
    ailments: Sequence[Ailment]
    draws: Random
    offset: Offset
    waiting: int = field(default=0)
    """The number of the fetch that waits for records."""

    def begin(self) -> None:
        self._send()

    def _send(self) -> None:
        self.agenda.at(self._awake_at(self.agenda.now_ms) + self._network_ms(), self._arrive)

    def _arrive(self) -> None:
        self.led.on_fetch(self.follower, self.offset)
        self.waiting += 1
        if self.offset < self.led.partition.log.log_end_offset:
            self._answer()
            return
        number = self.waiting
        self.led.on_append.append(lambda: self._end_wait(number))
        self.agenda.after(FETCH_WAIT_MS, lambda: self._end_wait(number))

    def _end_wait(self, number: int) -> None:
        if number == self.waiting:
            self.waiting += 1
            self._answer()

    def _answer(self) -> None:
        records_per_s = self._records_per_s()
        most = max(records_per_s * ANSWER_MS // 1000, 1)
        count = min(self.led.partition.log.log_end_offset - self.offset, most)
        taken_in_ms = self._awake_at(self.agenda.now_ms + self._network_ms()) + count * 1000 // records_per_s
        self.agenda.at(taken_in_ms, lambda: self._take_in(count))

    def _take_in(self, count: int) -> None:
        self.offset += count
        self._send()

    def _network_ms(self) -> int:
        return self.draws.randint(*NETWORK_MS)

    def _records_per_s(self) -> int:
        now_ms = self.agenda.now_ms
        slow = [
            each.records_per_s
            for each in self.ailments
            if each.kind is AilmentKind.SLOW and each.from_ms <= now_ms < each.until_ms
        ]
        return min(slow, default=HEALTHY_RECORDS_PER_S)

    def _awake_at(self, at_ms: int) -> int:
        """When a follower that wants to act at `at_ms` does so."""
        for each in self.ailments:
            if not each.from_ms <= at_ms < each.until_ms:
                continue
            if each.kind is AilmentKind.STUCK:
                return each.until_ms
            if each.kind is AilmentKind.PAUSES and (into_ms := (at_ms - each.from_ms) % each.every_ms) < each.pause_ms:
                return at_ms + each.pause_ms - into_ms
        return at_ms


@cache
def _batch(records: int) -> bytes:
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(0, None, b"")
    return builder.build()


def _fill(log: UnifiedLog, records: int) -> None:
    """Records of an earlier leader epoch, all committed."""
    while log.log_end_offset < records:
        count = min(records - log.log_end_offset, FILL_RECORDS)
        log.append_as_leader(bytearray(_batch(count)), 0, 0)
    log.advance_high_watermark(log.log_end_offset)
