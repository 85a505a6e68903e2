"""Stories: short runs of a small cluster, each about one thing, and what must have happened in it.

Decides what is played before a fault is put in, and what a story is worth nothing without. A story is a plan, a length,
and what administrators and faults do in it at given times. Its milestones are what it is about: records copied to a new
replica, a segment rolled, a transaction ended. A fault at every step of a move that copies nothing would show nothing.

    I1  who watches for milestones draws nothing and changes nothing: a story has one digest with and without it
    I2  a milestone says what came of something (a log, a znode, an answer), not that it was asked for
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.coordinator.transactions.decide.records import decode_transaction_record
from kavka.coordinator.transactions.decide.state import TransactionState
from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.model import TopicPartition
from kavka.simulator.clients.members import GROUP
from kavka.simulator.faults.mix import Strike
from kavka.simulator.faults.share_faults import IDLERS
from kavka.simulator.rules.transaction_rules import LEDGER
from kavka.simulator.runs.swarm import Plan
from kavka.simulator.world import TOPIC, World

if TYPE_CHECKING:
    from kavka.replication.decide.partition import Partition
    from kavka.simulator.host.broker import SimulatedBroker

LOOK_STEPS: Final = 20
"""After so many steps each it is looked for milestones: a timer would be a moment of its own, where time may stop."""
WAIT_MS: Final = 1_000
LEADER: Final = 3
"""Of the one partition of "orders", at the beginning. Broker 1 is the controller then."""
FOLLOWER: Final = 2
ORDERS: Final = TopicPartition(TOPIC, 0)
INVOICES: Final = TopicPartition("invoices", 0)
TRANSACTIONS: Final = TopicPartition("__transaction_state", 0)
OFFSETS: Final = TopicPartition("__consumer_offsets", 0)


class Milestone(NamedTuple):
    """Something that must have happened. `name` is a sentence that is true then."""

    name: str
    holds: Callable[[Witness], bool]


class Witness:
    """Watches one run for milestones. `reached`: at which step each held first, as it was looked."""

    def __init__(self, world: World, milestones: tuple[Milestone, ...]) -> None:
        self.world = world
        self.decided: Counter[DecisionKind] = Counter()
        self.reached: dict[str, int] = {}
        self.replicas_at_first: dict[TopicPartition, tuple[int, ...]] = {}
        """Of each partition, when it was seen first."""
        self._milestones = milestones
        self._since_ms: dict[str, int] = {}
        for broker in world.brokers.values():
            broker.on_decision = self._keep(broker.on_decision)
        self._look()

    @property
    def missed(self) -> tuple[str, ...]:
        return tuple(each.name for each in self._milestones if each.name not in self.reached)

    def _keep(self, told: RecordDecision) -> RecordDecision:
        def keep(decision: Decision) -> None:
            self.decided[decision.kind] += 1
            told(decision)

        return keep

    def _look(self) -> None:
        for partition, replicas in self.world.observer.assigned.items():
            self.replicas_at_first.setdefault(partition, replicas)
        for each in self._milestones:
            if each.name not in self.reached and each.holds(self):
                self.reached[each.name] = self.world.scheduler.steps
        if self.missed:
            self.world.scheduler.at_step(self.world.scheduler.steps + LOOK_STEPS, self._look)

    # -- what milestones ask

    def saw(self, state: str, times: int = 1) -> bool:
        """One of `rare_states.STATES`."""
        return self.world.observer.states.counts[state] >= times

    def replica(self, broker_id: int, which: TopicPartition) -> Partition | None:
        """As its running broker has it."""
        broker = self.world.brokers[broker_id].broker
        return None if broker is None else broker.replicas.partition(*which)

    def leader(self, which: TopicPartition) -> Partition | None:
        """The replica that leads, if it knows."""
        stored = self.world.observer.stored.get(which)
        if stored is None or stored.state.leader not in self.world.brokers:
            return None
        found = self.replica(stored.state.leader, which)
        return found if found is not None and found.is_leader else None

    def lasts(self, name: str, ms: int, holds: bool) -> bool:
        """Whether something has held for so long, whenever it was looked."""
        now_ms = self.world.scheduler.now_ms
        if not holds:
            self._since_ms.pop(name, None)
            return False
        return now_ms - self._since_ms.setdefault(name, now_ms) >= ms


class Story(NamedTuple):
    """`strikes` count from the moment when writes began; `seconds` is the virtual time in which faults are explored."""

    plan: Plan
    seconds: float
    strikes: tuple[Strike, ...]
    milestones: tuple[Milestone, ...]

    @property
    def brokers(self) -> range:
        return range(1, self.plan.brokers + 1)


# -- milestones


def _decided(name: str, kind: DecisionKind, times: int = 1) -> Milestone:
    return Milestone(name, lambda witness: witness.decided[kind] >= times)


def _saw(name: str, state: str, times: int = 1) -> Milestone:
    return Milestone(name, lambda witness: witness.saw(state, times))


def _records_wait(witness: Witness) -> bool:
    leader = witness.leader(ORDERS)
    waits = leader is not None and leader.log.high_watermark < leader.log.log_end_offset
    return witness.lasts(WAITED.name, WAIT_MS, waits)


def _are_committed_then(witness: Witness) -> bool:
    leader = witness.leader(ORDERS)
    return WAITED.name in witness.reached and leader is not None and _is_committed(leader)


def _is_committed(leader: Partition) -> bool:
    return leader.log.high_watermark == leader.log.log_end_offset > 0


def _is_committed_in_a_later_epoch(witness: Witness) -> bool:
    leader = witness.leader(ORDERS)
    return (
        leader is not None and leader.leader_epoch > 0 and leader.log.high_watermark > leader.leader_epoch_start_offset
    )


def _is_copied(witness: Witness) -> bool:
    """A broker that had no replica has one with all records, and is in sync."""
    stored, leader = witness.world.observer.stored.get(INVOICES), witness.leader(INVOICES)
    if stored is None or leader is None or not leader.log.log_end_offset:
        return False
    for broker_id in stored.state.isr:
        replica = witness.replica(broker_id, INVOICES)
        if broker_id in witness.replicas_at_first[INVOICES] or replica is None:
            continue
        if replica.log.log_start_offset == 0 and replica.log.log_end_offset == leader.log.log_end_offset:
            return True
    return False


def _has_records(witness: Witness) -> bool:
    leader = witness.leader(INVOICES)
    return leader is not None and _is_committed(leader)


def _has_records_anew(witness: Witness) -> bool:
    return witness.saw("topic made anew") and _has_records(witness)


def _has_rolled(witness: Witness) -> bool:
    replicas = [witness.replica(broker_id, ORDERS) for broker_id in witness.world.brokers]
    return all(replica is not None and len(replica.log.segments) >= 3 for replica in replicas)


def _are_deleted(witness: Witness) -> bool:
    replicas = [witness.replica(broker_id, ORDERS) for broker_id in witness.world.brokers]
    return all(replica is not None and replica.log.log_start_offset > 0 for replica in replicas)


def _has_committed_offsets(witness: Witness) -> bool:
    return any(offset > 0 for offset in witness.world.observer.groups.positions(GROUP).values())


def _is_complete(witness: Witness) -> bool:
    """By the coordinators' log, as far as it is committed."""
    leader = witness.leader(TRANSACTIONS)
    if leader is None:
        return False
    seen = witness.world.observer.replicas[TRANSACTIONS][witness.world.observer.stored[TRANSACTIONS].state.leader]
    for batch in seen.batches(0, leader.log.high_watermark):
        for record in batch.records():
            value = None if record.value is None else bytes(record.value)
            found = decode_transaction_record(bytes(record.key or b""), value)
            state = None if found is None or found.transaction is None else found.transaction.state
            if state is TransactionState.COMPLETE_COMMIT:
                return True
    return False


def _told_committed(witness: Witness) -> bool:
    return witness.world.observer.transactions.told_committed > 0


def _are_markers_there(witness: Witness) -> bool:
    ledger = [witness.leader(each) for each in witness.world.observer.stored if each.topic == LEDGER]
    written = [each for each in ledger if each is not None and each.log.log_end_offset]
    return _told_committed(witness) and all(each.log.last_stable_offset == each.log.log_end_offset for each in written)


def _was_flushed_before(witness: Witness) -> bool:
    replica = witness.replica(LEADER, ORDERS)
    is_stopping = witness.decided[DecisionKind.BROKER_SHUTTING_DOWN] > 0
    return not is_stopping and replica is not None and replica.log.recovery_point > 0


def _is_back(broker: SimulatedBroker) -> bool:
    return broker.life > 1 and broker.is_serving


def _is_in_sync_again(witness: Witness) -> bool:
    stored = witness.world.observer.stored.get(ORDERS)
    return _is_back(witness.world.brokers[LEADER]) and stored is not None and LEADER in stored.state.isr


def _shared(name: str, move: str) -> Milestone:
    return Milestone(name, lambda witness: witness.world.observer.shares.moves[move] > 0)


def _is_loaded_again(witness: Witness) -> bool:
    return witness.world.observer.shares.moves["loaded"] >= 2


def _was_changed(witness: Witness, times: int) -> bool:
    return witness.world.observer.shares.moves["set anew"] >= times


def _idlers_have_a_state(witness: Witness) -> bool:
    return any(key.group_id == IDLERS for key in witness.world.observer.shares.log.kept)


def _idlers_had_a_state(witness: Witness) -> bool:
    return any(key.group_id == IDLERS for key in witness.world.observer.shares.log.former)


def _streamed(name: str, move: str, times: int = 1) -> Milestone:
    return Milestone(name, lambda witness: witness.world.observer.streams.moves[move] >= times)


def _has_new_coordinator(witness: Witness) -> bool:
    """Another broker leads the group's partition, and has moved the group on."""
    home = witness.world.observer.stored.get(OFFSETS)
    assignments = witness.world.observer.streams.kept.assignment_epoch
    return home is not None and home.state.leader_epoch > 0 and assignments > 3


def _are_ten_done(witness: Witness) -> bool:
    return any(kept.start >= 10 for kept in witness.world.observer.shares.log.kept.values())


WAITED: Final = Milestone("records waited for the follower", _records_wait)


# -- the stories


def _plan(
    *,
    seed: int = 1,
    settings: Mapping[str, str] | None = None,
    members: int = 0,
    transactors: int = 0,
    sharers: int = 0,
    streamers: int = 0,
) -> Plan:
    own = {"offsets.topic.replication.factor": "3", "zookeeper.session.timeout.ms": "4000", **(settings or {})}
    if transactors:
        own |= {"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "3"}
        own |= {"transaction.state.log.min.isr": "2"}
    return Plan(
        seed,
        mean_pause_s=0.2,
        settings=own,
        members=members,
        transactors=transactors,
        sharers=sharers,
        streamers=streamers,
    )


def strike(at_ms: int, kind: str, **arguments: object) -> Strike:
    """As a regression's, with arguments of any type that JSON has."""
    return Strike.from_json({"at_ms": at_ms, "kind": kind, **arguments})


def _created(at_ms: int, replicas: int) -> Strike:
    return strike(at_ms, "create topic", topic=INVOICES.topic, partitions=1, replicas=replicas)


def _moved(at_ms: int, *to: int) -> Strike:
    return strike(at_ms, "move", topic=INVOICES.topic, partition=0, to=list(to))


STORIES: Final[Mapping[str, Story]] = {
    "produce": Story(
        _plan(),
        1.5,
        (),
        (Milestone("five records are acknowledged", lambda witness: witness.world.clients.acked >= 5),),
    ),
    "a follower behind": Story(
        _plan(),
        3.0,
        (strike(50, "pause", broker=FOLLOWER, ms=2_500),),
        (WAITED, Milestone("they are committed when it is back", _are_committed_then)),
    ),
    "ISR shrink and expansion": Story(
        _plan(settings={"replica.lag.time.max.ms": "1500"}),
        6.0,
        (strike(50, "pause", broker=FOLLOWER, ms=3_500),),
        (
            _decided("the ISR has shrunk", DecisionKind.ISR_SHRUNK),
            _decided("the ISR has expanded", DecisionKind.ISR_EXPANDED),
        ),
    ),
    "clean election": Story(
        _plan(),
        2.0,
        (strike(200, "session", broker=LEADER),),
        (
            _decided("a leader is elected", DecisionKind.LEADER_ELECTED),
            Milestone("a record is committed in its epoch", _is_committed_in_a_later_epoch),
        ),
    ),
    "controller change": Story(
        _plan(),
        2.0,
        (strike(200, "new controller"),),
        (_saw("another broker is the controller", "controller changed"),),
    ),
    # Three moves around the circle: from wherever the first two replicas are, one of them copies.
    "reassignment": Story(
        _plan(),
        4.0,
        (_created(50, replicas=2), _moved(1_200, 1, 2), _moved(2_000, 2, 3), _moved(2_800, 3, 1)),
        (
            Milestone("there were records to move", _has_records),
            Milestone("a new replica has copied them", _is_copied),
            _decided("a move is finished", DecisionKind.REASSIGNMENT_FINISHED),
            _saw("a former replica is deleted", "log deleted"),
        ),
    ),
    "topic deleted and made again": Story(
        _plan(),
        4.0,
        (
            _created(50, replicas=3),
            strike(1_200, "delete topic", topic=INVOICES.topic),
            _created(2_000, replicas=3),
        ),
        (
            Milestone("the first topic had records", _has_records),
            _saw("its logs are deleted", "log deleted", 3),
            _saw("the topic is made anew", "topic made anew"),
            Milestone("the second topic has records", _has_records_anew),
        ),
    ),
    "log roll": Story(
        _plan(settings={"log.segment.bytes": "384"}),
        4.5,
        (),
        (Milestone("every replica has three segments", _has_rolled),),
    ),
    "records deleted": Story(
        _plan(),
        2.5,
        (strike(1_200, "delete records", topic=TOPIC, partition=0, share=0.6),),
        (Milestone("every replica begins later", _are_deleted),),
    ),
    "group commit and rebalance": Story(
        _plan(members=2, settings={"group.initial.rebalance.delay.ms": "100"}),
        7.0,
        (strike(1_000, "member leaves", place=0, ms=3_500),),
        (
            Milestone("offsets are committed", _has_committed_offsets),
            _decided("members have come and gone", DecisionKind.GROUP_REBALANCED, 3),
        ),
    ),
    "a transaction to its end": Story(
        _plan(seed=16, transactors=1),  # a seed whose producer does not wait long
        3.0,
        (),
        (
            Milestone("its producer knows that it is committed", _told_committed),
            Milestone("each partition has its marker", _are_markers_there),
            Milestone("its coordinator has it as COMPLETE_COMMIT", _is_complete),
        ),
    ),
    "share group": Story(
        _plan(seed=1, sharers=2),  # a seed that shows the bugs of `share_mutants`
        6.0,
        (strike(1_500, "share member crashes", place=0, ms=1_000), strike(3_500, "share member disconnects", place=1)),
        (
            _shared("records are given out", "given"),
            _shared("some are accepted", "accepted"),
            _shared("some are given out again", "given again"),
            _shared("a session is over before its locks are", "session over"),
            _shared("a dead letter is committed", "dead letter written"),
            _shared("its record is archived", "buried"),
            Milestone("ten records are done for good", _are_ten_done),
        ),
    ),
    # Its session ends while it sleeps; when it wakes, locks are over that it still knows, of records that others have.
    "a share group's leader asleep": Story(
        _plan(seed=13, sharers=2),  # as above
        11.0,
        (strike(2_500, "pause", broker=LEADER, ms=6_000),),
        (
            _shared("records are given out", "given"),
            _decided("another leader is elected", DecisionKind.LEADER_ELECTED),
            Milestone("it has read the group's state", _is_loaded_again),
            _shared("some are given out again", "given again"),
        ),
    ),
    # All members leave, an administrator changes something, and they come back: three times.
    "a share group's administrator": Story(
        _plan(sharers=2),
        17.0,
        (
            strike(4_000, "share group set anew", share=0.3, ms=2_000),
            strike(8_500, "share group forgets", ms=2_000),
            strike(13_000, "share group deleted", ms=2_000),
        ),
        (
            _shared("records are given out", "given"),
            _shared("an administrator sets the group's position", "set anew"),
            Milestone("its positions are forgotten", lambda witness: _was_changed(witness, 2)),
            Milestone("it is deleted, and made again", lambda witness: _was_changed(witness, 3)),
        ),
    ),
    # It is no member any more, and its session at the leader lives: what the leader knows is of before the change.
    "a share group's member asleep": Story(
        _plan(sharers=2),
        18.0,
        (
            strike(1_500, "share member pauses", place=0, ms=20_000),
            strike(3_000, "share group set anew", share=0.3, ms=11_000),
        ),
        (
            _shared("records are given out", "given"),
            _shared("an administrator sets the group's position", "set anew"),
            Milestone("its state is read again", _is_loaded_again),
        ),
    ),
    "a topic of a share group is deleted": Story(
        _plan(sharers=2),
        6.0,
        (strike(500, "share topic deleted", ms=2_500),),
        (
            _shared("records are given out", "given"),
            Milestone("a group has a state of it", _idlers_have_a_state),
            Milestone("the state is deleted", _idlers_had_a_state),
        ),
    ),
    # Whoever hears of the deletion cannot write: what it would have deleted is found when the others are back.
    "a topic of a share group is deleted while two brokers are away": Story(
        _plan(sharers=2),
        13.0,
        (
            strike(500, "share topic deleted", ms=3_500),
            strike(3_600, "kill", broker=2, back_ms=5_000, regardless=True),
            strike(3_600, "kill", broker=3, back_ms=5_000, regardless=True),
        ),
        (
            _shared("records are given out", "given"),
            Milestone("a group has a state of it", _idlers_have_a_state),
            Milestone(
                "two brokers are back", lambda witness: all(_is_back(witness.world.brokers[each]) for each in (2, 3))
            ),
            Milestone("the state is deleted", _idlers_had_a_state),
        ),
    ),
    # A group that reads what transactions have written, and is given other settings meanwhile.
    "a share group's settings": Story(
        _plan(seed=3, sharers=2, transactors=1),
        18.0,
        (
            strike(300, "share group configured", setting="share.isolation.level", value="read_committed"),
            strike(6_000, "share group configured", setting="share.delivery.count.limit", value="3"),
            strike(11_000, "share group configured", setting="share.record.lock.duration.ms", value="2000"),
        ),
        (
            _shared("records are given out", "given"),
            _shared("they are committed ones", "given committed"),
            _shared("aborted ones are passed over", "aborted"),
        ),
    ),
    # Its members sleep while a producer aborts and commits, and then read in one what several transactions left.
    "what transactions left for a share group": Story(
        _plan(seed=5, sharers=2, transactors=1),
        22.0,
        (
            strike(100, "share group configured", setting="share.isolation.level", value="read_committed"),
            strike(200, "share member pauses", place=0, ms=14_000),
            strike(200, "share member pauses", place=1, ms=14_000),
        ),
        (
            _shared("records are given out", "given"),
            _shared("they are committed ones", "given committed"),
            _shared("aborted ones are passed over", "aborted"),
        ),
    ),
    # One leaves and comes back, and is given tasks that the others must give back first; another is killed.
    "streams group": Story(
        _plan(seed=9, streamers=3, settings={"group.streams.session.timeout.ms": "2000"}),
        11.0,
        (
            strike(2_500, "streams member leaves", place=2, ms=2_000),
            strike(7_000, "streams member crashes", place=0, ms=1_500),
            strike(9_000, "change standbys", count=2),
        ),
        (
            _streamed("a task is given back and given to another", "task given back"),
            _streamed("a task of who was killed is given to another", "member gone"),
            _streamed("standby tasks are given", "standby given"),
            _streamed("offsets of tasks are committed", "committed"),
        ),
    ),
    "a streams group's coordinator": Story(
        _plan(streamers=2),
        9.0,
        (
            strike(2_000, "session", broker=1),
            strike(3_000, "session", broker=2),
            strike(4_000, "session", broker=3),
            strike(6_000, "streams member leaves", place=0, ms=800),
        ),
        (
            _streamed("tasks are given", "task given later"),
            Milestone("another broker coordinates the group, and assigns", _has_new_coordinator),
        ),
    ),
    # Small segments, so that the log was flushed before: what a stop has to sync is not all of it.
    "clean stop": Story(
        _plan(settings={"log.segment.bytes": "384"}),
        5.5,
        (strike(3_000, "restart", broker=LEADER, back_ms=1_200),),
        (
            Milestone("the log was flushed before the stop", _was_flushed_before),
            _saw("a leader has handed over", "election at a controlled shutdown"),
            Milestone("the stopped broker is back in sync", _is_in_sync_again),
        ),
    ),
    # The same without an earlier segment: no snapshot of producers is there but the one that the stop takes.
    "clean stop of a first segment": Story(
        _plan(settings={"log.flush.interval.messages": "5"}),
        5.5,
        (strike(2_000, "restart", broker=LEADER, back_ms=1_200),),
        (
            Milestone("the log was flushed before the stop", _was_flushed_before),
            _decided("a broker stops in order", DecisionKind.BROKER_SHUTTING_DOWN),
            Milestone("the stopped broker is back in sync", _is_in_sync_again),
        ),
    ),
    "preferred leaders": Story(
        _plan(),
        4.0,
        (strike(100, "restart", broker=LEADER, back_ms=800), strike(3_000, "elect")),
        (_saw("the preferred leader leads again", "election of the preferred leader"),),
    ),
}
"""By name. Each is a second or a few: what is near its beginning is explored as well as its end."""
