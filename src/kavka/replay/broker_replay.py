"""BrokerReplay: has a broker's recorded inputs decided again, by the same code, and compares what comes out.

Decides where a replay differs from what was recorded. Who is in sync, what is committed and who leads is decided by
production code alone: `Partition` on a `MetadataLog`, the controller's questions, `judge` and `with_elr`. Must not know
how a ring is read, nor how a replay is shown.

What is compared, input by input:

    partition    the why-records that an input led to; the high watermark after it; whether an ISR was proposed, and
                 which one; whether a leader gave up. Where a file of the ring begins, the partition as a whole
    controller   each question's answer (elections, reassignments, controlled shutdowns), each verdict on a proposed
                 ISR, and the why-records of both

    I1  a partition is replayed from where all of it is known: the beginning of a ring's file, or its own
    I2  what comes after a gap is not compared until then: it was decided from what is lost
    I3  a difference is reported once: what follows from it in the same partition is not, until all of it is known again

Source: none; the idea is that of deterministic replay, which the simulator has of its own runs.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kavka.broker.decisions.decision_log import is_kept
from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.decide.election import PartitionChange
from kavka.controller.decide.eligible_leaders import with_elr
from kavka.controller.decide.isr_proposals import Accepted, Proposal, Verdict, judge, verdict_decision
from kavka.controller.decide.questions import question_of
from kavka.controller.decide.reasons import partition_change_decision
from kavka.decisions import Decision, DecisionKind, RecordedDecision
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.flight.format import (
    BROKEN,
    PROPOSED,
    REFUSED,
    REPEATED,
    RESIGNED,
    Check,
    Fetch,
    broker_ids,
    snapshot_of,
    state_of,
    verdict_name,
)
from kavka.flight.ring_reader import Gap, Told
from kavka.model import NO_LEADER, BrokerId, LeaderAndIsr, Offset, TopicPartition
from kavka.replay.metadata_log import MetadataLog, records_up_to
from kavka.replication.decide.isr_states import CommittedIsr, IsrProposal
from kavka.replication.decide.lag_policy import lag_policy
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.decide.partition_results import PartitionRefusal
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.partition_snapshot import PartitionSnapshot
from kavka.replication.decide.replica import NO_BROKER_EPOCH, BrokerStatus
from kavka.zookeeper.znodes import BrokerRegistration, PartitionState, TopicAssignment

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog

ACKS_LEADER: Final = 1
PARTITION_KINDS: Final = (
    DecisionKind.ISR_SHRUNK,
    DecisionKind.ISR_EXPANDED,
    DecisionKind.ISR_CHANGE_REFUSED,
    DecisionKind.LEADERSHIP_TAKEN,
    DecisionKind.FOLLOWING,
)
"""What a `Partition` decides; its evidence distinguishes what it refuses."""
MAX_STATES: Final = 8
"""Of one partition, for one proposal: the controller judges it five times at the most."""
FENCED_BY_PARTITION: Final = ("asked_epoch", "registered_epoch", "later_epoch")
_STATUS: Final = BrokerStatus()
_LEAVING: Final = BrokerStatus(is_shutting_down=True)


class Difference(NamedTuple):
    """Where a replay came out otherwise."""

    at_ms: int
    broker_id: BrokerId
    partition: TopicPartition
    what: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        where = f"{self.partition}, broker {self.broker_id}"
        return f"{where}: {self.what}: recorded {self.recorded}; replayed {self.replayed}"


class Happened(NamedTuple):
    """An input, or a decision, when it was replayed. `partition` is as it is after it."""

    at_ms: int
    """By the broker's wall clock."""
    broker_id: BrokerId
    told: Any
    partition: ReplayedPartition | None = None


class _LiveBrokers:
    """`ReplicaEligibility` as the controller last reported it."""

    def __init__(self) -> None:
        self.ids: frozenset[BrokerId] = frozenset()
        self.leaving: frozenset[BrokerId] = frozenset()

    def status(self, broker_id: BrokerId) -> BrokerStatus | None:
        if broker_id not in self.ids:
            return None
        return _LEAVING if broker_id in self.leaving else _STATUS


class ReplayedPartition:
    """A partition that is decided about again."""

    def __init__(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, broker_id: BrokerId, rules: PartitionRules
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = MetadataLog()
        self.partition = Partition(
            topic_partition,
            topic_id,
            # What a Partition asks of a log is what a MetadataLog answers.
            cast("UnifiedLog", self.log),
            local_broker_id=broker_id,
            min_insync_replicas=1,
            rules=rules,
        )
        self.recorded: list[Decision] = []
        """Why-records that no input has come for yet."""
        self.untold: list[Decision] = []
        """Why-records that happen with the next input: they stand before it."""
        self.proposal: IsrProposal | None = None
        """What the last input proposed."""
        self.is_lost = False

    def reach(self, end_offset: Offset, now_ms: int) -> None:
        """What was appended since the last input."""
        if end_offset <= self.log.log_end_offset:
            return
        if self.partition.is_leader:
            self.partition.append_as_leader(
                records_up_to(end_offset), required_acks=ACKS_LEADER, now_ms=now_ms, wall_ms=now_ms
            )
        else:
            self.log.log_end_offset = end_offset


class BrokerReplay:
    """One broker's ring. `wanted` names the partitions to replay; all without it."""

    def __init__(self, wanted: Callable[[TopicPartition], bool] = lambda partition: True) -> None:
        self._wanted = wanted
        self.broker_id = BrokerId(NO_LEADER)
        self.versions: dict[str, None] = {}
        """Of kavka, that wrote it."""
        self.differences: list[Difference] = []
        self.gaps: list[Gap] = []
        self.inputs = 0
        self.decisions = 0
        """Why-records of partitions and of the controller that were made again."""
        self.elections = 0
        self.isr_changes = 0
        self._rules = PartitionRules()
        self._live = _LiveBrokers()
        self._partitions: dict[int, ReplayedPartition] = {}
        self._by_name: dict[TopicPartition, ReplayedPartition] = {}
        self._made: list[Decision] = []
        self._at_ms = 0
        self._controller = _ControllerReplay(self._differ)

    def replay(self, told: Iterator[Told | Gap]) -> Iterator[Happened]:
        """What happened, in order, while it is replayed."""
        for each in told:
            if isinstance(each, Gap):
                self.gaps.append(each)
                self._lose_all()
                continue
            happened = self._take(each)
            if happened is None:
                continue
            yield happened
            found = happened.partition
            if found is not None and found.untold:
                untold, found.untold = found.untold, []
                for decision in untold:
                    yield Happened(happened.at_ms, self.broker_id, decision, found)

    def _take(self, told: Told) -> Happened | None:
        entry = told.entry
        match entry:
            case Fetch():
                return self._on_input(told, entry.partition, entry.at_ms, lambda found: self._on_fetch(found, entry))
            case Check():
                return self._on_input(told, entry.partition, entry.at_ms, lambda found: self._on_check(found, entry))
            case RecordedDecision():
                return self._on_decision(told, entry.decision)
            case dict():
                return self._on_fact(told, entry)
        raise AssertionError(entry)

    # -- what a partition was told

    def _on_input(
        self, told: Told, number: int, at_ms: int, feed: Callable[[ReplayedPartition], None]
    ) -> Happened | None:
        found = self._partitions.get(number)
        if found is None:
            return None
        self._at_ms = at_ms + told.wall_ahead_ms
        self.inputs += 1
        if not found.is_lost:
            self._feed(found, feed)
        return Happened(self._at_ms, self.broker_id, told.entry, found)

    def _feed(self, found: ReplayedPartition, feed: Callable[[ReplayedPartition], None]) -> None:
        self._made.clear()
        try:
            feed(found)
        except InvariantViolation as violation:
            self._differ(found.topic_partition, "an invariant", "kept", str(violation))
        except (KeyError, RequestError) as problem:
            self._differ(found.topic_partition, "an input", "taken", repr(problem))
        self._compare_decisions(found)

    def _compare_decisions(self, found: ReplayedPartition) -> None:
        made = [decision for decision in self._made if is_kept(decision)]
        recorded, found.recorded = found.recorded, []
        self.decisions += len(recorded)
        self.isr_changes += sum(each.kind in _ISR_CHANGES for each in recorded)
        for index in range(max(len(made), len(recorded))):
            before = recorded[index] if index < len(recorded) else None
            again = made[index] if index < len(made) else None
            if before is None or again is None or _facts(before) != _facts(again):
                self._differ(found.topic_partition, "a decision", _said(before, again), _said(again, before))
                return

    def _expect(self, found: ReplayedPartition, what: str, recorded: object, replayed: object) -> None:
        if recorded != replayed:
            self._differ(found.topic_partition, what, str(recorded), str(replayed))

    def _differ(self, partition: TopicPartition, what: str, recorded: str, replayed: str) -> None:
        found = self._by_name.get(partition)
        if found is not None:
            if found.is_lost:
                return
            found.is_lost = True
        self.differences.append(Difference(self._at_ms, self.broker_id, partition, what, recorded, replayed))

    def _on_fetch(self, found: ReplayedPartition, entry: Fetch) -> None:
        partition = found.partition
        found.reach(entry.leader_end_offset, entry.at_ms)
        found.proposal = None
        try:
            result = partition.record_follower_fetch(
                entry.broker_id,
                entry.broker_epoch,
                entry.offset,
                leader_end_offset=entry.leader_end_offset,
                log_start_offset=entry.log_start_offset,
                now_ms=entry.at_ms,
            )
        except RequestError as refusal:
            self._note(refusal)
            self._expect(found, f"a fetch of broker {entry.broker_id}", _taken(entry.flags), "refused")
            return
        except InvariantViolation as violation:
            if not entry.flags & BROKEN:
                self._differ(found.topic_partition, "an invariant", "kept", str(violation))
            return
        self._expect(found, f"a fetch of broker {entry.broker_id}", _taken(entry.flags), "taken")
        if entry.flags & REPEATED:
            return
        found.proposal = result.proposal
        self._expect_proposal(found, entry.flags)
        self._expect(found, "the high watermark", entry.high_watermark, found.log.high_watermark)

    def _on_check(self, found: ReplayedPartition, entry: Check) -> None:
        partition = found.partition
        found.reach(entry.log_end_offset, entry.at_ms)
        found.proposal = None
        if entry.only_raised:
            partition.raise_high_watermark(entry.at_ms)
            self._expect(found, "the high watermark", entry.high_watermark, found.log.high_watermark)
            return
        resigned = partition.resign_if_fenced(entry.at_ms)
        self._expect(found, "whether it leads on", not entry.flags & RESIGNED, resigned is None)
        if resigned is not None:
            self._made += resigned.decisions
        if resigned is not None or entry.flags & (RESIGNED | BROKEN):
            return
        found.proposal = partition.propose_shrink(entry.at_ms)
        self._expect_proposal(found, entry.flags)
        self._expect(found, "the high watermark", entry.high_watermark, found.log.high_watermark)

    def _expect_proposal(self, found: ReplayedPartition, flags: int) -> None:
        if not flags & PROPOSED:
            again = found.proposal
            said = "none" if again is None else f"{list(again.isr)}: {again.decision.why}"
            self._expect(found, "a proposal of an ISR", "none", said)
        elif found.proposal is None:
            self._differ(found.topic_partition, "a proposal of an ISR", "one", "none")

    # -- facts

    def _on_fact(self, told: Told, fact: dict[str, Any]) -> Happened | None:
        name = fact["f"]
        if name in ("lead", "follow", "answer"):
            feed = {"lead": self._on_lead, "follow": self._on_follow, "answer": self._on_answer}[name]
            return self._on_input(told, fact["p"], fact["at"], lambda found: feed(found, fact))
        at_ms = fact["at"] + told.wall_ahead_ms if "at" in fact else self._at_ms or told.wall_ms
        found: ReplayedPartition | None = None
        match name:
            case "life":
                at_ms = at_ms if fact["again"] else fact["began"]
                self._on_life(fact)
            case "partition":
                found = self._on_whole(fact)
                if found is None:
                    return None
            case "brokers":
                self._live.ids = frozenset(map(BrokerId, fact["live"]))
                # A record of an earlier version of kavka has it not.
                self._live.leaving = frozenset(map(BrokerId, fact.get("leaving", ())))
            case "proposal":
                found = self._partitions.get(fact["p"])
                if found is not None and found.proposal is not None and not found.is_lost:
                    again = found.proposal
                    recorded = ([list(each) for each in fact["isr"]], fact["on"])
                    replayed = ([list(each) for each in again.new_isr], again.partition_epoch)
                    self._expect(found, "a proposal of an ISR", recorded, replayed)
                return None
            case "asked" | "kept" | "judged":
                partition = TopicPartition(fact["topic"], fact["partition"])
                if not self._wanted(partition):
                    return None
                self._at_ms = at_ms
                self.inputs += 1
                self._controller.on_fact(partition, fact)
        return Happened(at_ms, self.broker_id, fact, found)

    def _on_life(self, fact: dict[str, Any]) -> None:
        is_first = self.broker_id == NO_LEADER
        self.broker_id = BrokerId(fact["broker"])
        self.versions[str(fact["kavka"])] = None
        if fact["again"] and not is_first:
            return
        policy = lag_policy(fact["policy"], max_ms=fact["max_ms"], max_messages=fact["max_messages"])
        self._rules = PartitionRules(policy, eligibility=self._live, holds_under_min_isr=fact["holds"])
        self._live.ids = self._live.leaving = frozenset()
        self._partitions.clear()
        self._by_name.clear()

    def _on_whole(self, fact: dict[str, Any]) -> ReplayedPartition | None:
        topic_partition = TopicPartition(fact["topic"], fact["partition"])
        if not self._wanted(topic_partition):
            return None
        topic_id = uuid.UUID(hex=fact["id"])
        snapshot = snapshot_of(fact, topic_partition, topic_id)
        former = self._partitions.get(fact["p"])
        if former is not None and not former.is_lost:
            self._expect(former, "the partition", _essence(snapshot), _essence(former.partition.snapshot()))
        found = ReplayedPartition(topic_partition, topic_id, self.broker_id, self._rules)
        found.log.be_at(log_start_offset=fact["log_start"], high_watermark=fact["hw"], log_end_offset=fact["end"])
        found.partition.restore(snapshot)
        self._partitions[fact["p"]] = self._by_name[topic_partition] = found
        return found

    def _bring_log(self, found: ReplayedPartition, fact: dict[str, Any]) -> None:
        """The log is where it was before the input."""
        if found.partition.is_leader:
            found.reach(fact["end"], fact["at"])
            self._expect(found, "the high watermark", fact["hw"], found.log.high_watermark)
        else:
            found.log.be_at(log_start_offset=fact["start"], high_watermark=fact["hw"], log_end_offset=fact["end"])
        found.partition.min_insync_replicas = fact["min"]

    def _on_lead(self, found: ReplayedPartition, fact: dict[str, Any]) -> None:
        self._bring_log(found, fact)
        change = found.partition.become_leader(
            state_of(fact["state"]),
            broker_ids(fact["replicas"]),
            adding=broker_ids(fact["adding"]),
            removing=broker_ids(fact["removing"]),
            now_ms=fact["at"],
            is_new=fact["new"],
        )
        self._made += change.decisions
        self._expect(found, "the high watermark", fact["then"], found.log.high_watermark)

    def _on_follow(self, found: ReplayedPartition, fact: dict[str, Any]) -> None:
        self._bring_log(found, fact)
        change = found.partition.become_follower(
            state_of(fact["state"]),
            broker_ids(fact["replicas"]),
            adding=broker_ids(fact["adding"]),
            removing=broker_ids(fact["removing"]),
            now_ms=fact["at"],
        )
        self._made += change.decisions

    def _on_answer(self, found: ReplayedPartition, fact: dict[str, Any]) -> None:
        self._bring_log(found, fact)
        partition = found.partition
        proposal = partition.snapshot().in_flight
        if fact["of"] != "awaited":
            proposal = _nobodys(found)
        elif proposal is None:
            self._differ(found.topic_partition, "an answer to a proposal", "awaited", "nothing was proposed")
            return
        state = state_of(fact["state"]) if "state" in fact else None
        if fact["is"] == "committed":
            assert state is not None
            change = partition.on_isr_committed(proposal, state, now_ms=fact["at"])
        else:
            change = partition.on_isr_rejected(proposal, state, ErrorCode[fact["error"]], now_ms=fact["at"])
        self._made += change.decisions
        self._expect(found, "the high watermark", fact["then"], found.log.high_watermark)

    # -- decisions

    def _on_decision(self, told: Told, decision: Decision) -> Happened | None:
        topic_partition = decision.partition
        if topic_partition is not None and not self._wanted(topic_partition):
            return None
        # Partitions tell times by the clock that never jumps, all others by the wall clock.
        at_ms = min(decision.at_ms, told.wall_ms)
        if topic_partition is None:
            if decision.kind is DecisionKind.CONTROLLER_ELECTED:
                self._controller.forget()
            return Happened(at_ms, self.broker_id, decision)
        if decision.controller_epoch >= 0:
            self._at_ms = at_ms
            made_again = self._controller.on_decision(topic_partition, decision)
            self.decisions += made_again
            self.elections += made_again and decision.kind in _ELECTIONS
            self.isr_changes += made_again and decision.kind in _ISR_CHANGES
            return Happened(at_ms, self.broker_id, decision)
        found = self._by_name.get(topic_partition)
        if _is_partitions(decision):
            at_ms = decision.at_ms + told.wall_ahead_ms
        if found is not None and not found.is_lost and _is_partitions(decision):
            found.recorded.append(decision)
            if decision.kind is DecisionKind.PRODUCE_REFUSED or "asked_epoch" in decision.evidence:
                self._at_ms = at_ms
                self._feed(found, lambda found: self._refuse(found, decision))
            else:
                found.untold.append(decision)
                return None
        return Happened(at_ms, self.broker_id, decision, found)

    def _refuse(self, found: ReplayedPartition, decision: Decision) -> None:
        """The request that was refused; before it those that were refused without a report."""
        partition, facts = found.partition, decision.evidence
        untold = dict(partition.snapshot().suppressed).get(decision.kind, 0)
        last = {kind: at_ms for kind, at_ms, _interval_ms in partition.snapshot().last_recorded}
        end_offset = facts.get("log_end_offset")
        if isinstance(end_offset, int):
            found.reach(end_offset, decision.at_ms)
        more = facts.get("not_recorded_since", 0)
        times = (more - untold if isinstance(more, int) else 0) * [last.get(decision.kind, decision.at_ms)]
        for at_ms in [*times, decision.at_ms]:
            try:
                if decision.kind is DecisionKind.PRODUCE_REFUSED:
                    partition.append_as_leader(
                        records_up_to(found.log.log_end_offset), required_acks=ACKS_ALL, now_ms=at_ms, wall_ms=at_ms
                    )
                else:
                    broker, epoch = facts["fetching_broker"], facts["asked_epoch"]
                    assert isinstance(broker, int)
                    assert isinstance(epoch, int)
                    partition.follower(BrokerId(broker), epoch, at_ms)
            except RequestError as refusal:
                self._note(refusal)
                continue
            self._differ(found.topic_partition, "a request", "refused", "granted")
            return

    def _note(self, refusal: RequestError) -> None:
        if isinstance(refusal, PartitionRefusal):
            self._made += refusal.decisions

    def _lose_all(self) -> None:
        for found in self._partitions.values():
            found.is_lost = True
            found.recorded.clear()
            found.untold.clear()
        self._controller.forget()


_ISR_CHANGES: Final = (DecisionKind.ISR_SHRUNK, DecisionKind.ISR_EXPANDED)
_ELECTIONS: Final = (DecisionKind.LEADER_ELECTED, DecisionKind.LEADER_NOT_ELECTED)


class _ControllerReplay:
    """The controller's questions and verdicts, asked again."""

    def __init__(self, differ: Callable[[TopicPartition, str, str, str], None]) -> None:
        self._differ = differ
        self._changes: dict[TopicPartition, tuple[PartitionState, PartitionChange]] = {}
        self._verdicts: dict[TopicPartition, tuple[list[PartitionState | None], Proposal, Verdict]] = {}
        """With the states that the proposal was judged by: more than one, where somebody else wrote meanwhile."""

    def forget(self) -> None:
        """Another leader epoch, or a gap: nothing that was asked before is answered after it."""
        self._changes.clear()
        self._verdicts.clear()

    def on_fact(self, partition: TopicPartition, fact: dict[str, Any]) -> None:
        before = None if fact["state"] is None else _state(partition, fact["state"])
        match fact["f"]:
            case "asked":
                assert before is not None
                fields = {name: value for name, value in fact.items() if name not in _NOT_OF_QUESTION}
                change = question_of(fields).answer(before)
                again = "no change" if change is None else change.state.encode().decode()
                if again != fact["answer"]:
                    self._differ(partition, f"who leads and who is in sync ({fact['question']})", fact["answer"], again)
                if change is not None:
                    self._changes[partition] = (before, change)
            case "kept":
                assert before is not None
                self._on_kept(partition, before, fact)
            case "judged":
                self._on_judged(partition, before, fact)

    def _on_kept(self, partition: TopicPartition, before: PartitionState, fact: dict[str, Any]) -> None:
        kept = with_elr(
            before,
            _state(partition, fact["after"]),
            staying=fact["staying"],
            needed=fact["needed"],
            unclean=fact["unclean"],
        )
        if kept.encode().decode() != fact["answer"]:
            self._differ(partition, "eligible leader replicas", fact["answer"], kept.encode().decode())
        after = _state(partition, fact["after"])
        if partition in self._changes and self._changes[partition][1].state == after:
            known, change = self._changes[partition]
            self._changes[partition] = (known, change._replace(state=kept))
        if partition in self._verdicts:
            states, proposal, verdict = self._verdicts[partition]
            if isinstance(verdict, Accepted) and verdict.state == after:
                self._verdicts[partition] = (states, proposal, verdict._replace(state=kept))

    def _on_judged(self, partition: TopicPartition, before: PartitionState | None, fact: dict[str, Any]) -> None:
        context = ControllerContext(epoch=fact["controller_epoch"])
        context.brokers = {
            BrokerId(each): LiveBroker(BrokerRegistration(BrokerId(each), (), 0), epoch)
            for each, epoch in fact["epochs"]
            if epoch != NO_BROKER_EPOCH
        }
        context.shutting_down = dict.fromkeys(broker_ids(fact["shutting_down"]), 0)
        context.unreachable = dict.fromkeys(broker_ids(fact["unreachable"]), 0)
        assignment = TopicAssignment(partition.topic, {partition.partition: broker_ids(fact["replicas"])}, None)
        context.topics[partition.topic] = KnownTopic(assignment, 0)
        if fact["deleted"]:
            context.topics_to_delete[partition.topic] = None
        if before is not None:
            context.states[partition] = KnownState(before, fact["version"])
        proposal = Proposal(
            partition,
            BrokerId(fact["leader"]),
            fact["leader_epoch"],
            tuple((BrokerId(broker_id), epoch) for broker_id, epoch in fact["isr"]),
            fact["recovery"],
            fact["on"],
        )
        verdict = judge(proposal, context, version=fact["api_version"])
        if verdict_name(type(verdict).__name__) != verdict_name(fact["verdict"]):
            self._differ(partition, "a verdict on a proposed ISR", fact["verdict"], str(verdict))
        known = self._verdicts.get(partition)
        states = known[0] if known is not None and known[1] == proposal else []
        self._verdicts[partition] = ([*states, before][-MAX_STATES:], proposal, verdict)

    def on_decision(self, partition: TopicPartition, decision: Decision) -> bool:
        """Whether it is one that was made again."""
        made = self._again(partition, decision)
        if not made:
            return False
        if all(_facts(again) != _facts(decision) for again in made):
            self._differ(partition, "a decision", _said(decision, made[-1]), _said(made[-1], decision))
        return True

    def _again(self, partition: TopicPartition, decision: Decision) -> list[Decision | None]:
        """What the decision may be, made again; nothing where the question was not recorded."""
        told: dict[str, Any] = {
            "at_ms": decision.at_ms,
            "broker_id": decision.broker_id,
        }
        if "proposed_isr" in decision.evidence:
            judged = self._verdicts.pop(partition, None)
            if judged is None:
                return []
            states, proposal, verdict = judged
            return [
                verdict_decision(proposal, verdict, before, **told, controller_epoch=decision.controller_epoch)
                for before in states
            ]
        if decision.kind not in (*_ELECTIONS, DecisionKind.ISR_SHRUNK) or partition not in self._changes:
            return []
        state, change = self._changes.pop(partition)
        unreachable = decision.evidence.get("unreachable", ())
        assert isinstance(unreachable, list | tuple)
        ids = broker_ids([each for each in unreachable if isinstance(each, int)])
        return [partition_change_decision(partition, state, change, **told, unreachable=ids)]


_NOT_OF_QUESTION: Final = ("f", "topic", "partition", "at", "state", "version", "answer", "staying")


def _state(partition: TopicPartition, text: str) -> PartitionState:
    return PartitionState.decode(partition, text.encode())


def _taken(flags: int) -> str:
    return "refused" if flags & REFUSED else "broke an invariant" if flags & BROKEN else "taken"


def _is_partitions(decision: Decision) -> bool:
    """Whether a `Partition` decided it."""
    if decision.kind is DecisionKind.FENCED:
        return any(name in decision.evidence for name in FENCED_BY_PARTITION)
    return decision.kind in PARTITION_KINDS or decision.kind is DecisionKind.PRODUCE_REFUSED


def _facts(decision: Decision | None) -> object:
    """What is compared: all of it, as JSON has it, but the sentence. Its facts are in the evidence, and another build
    words it in another way."""
    if decision is None:
        return None
    facts = decision._asdict()
    del facts["why"]
    facts["kind"] = decision.kind.value
    return json.loads(json.dumps(facts))


def _said(decision: Decision | None, other: Decision | None) -> str:
    """The decision, with what differs from the other one."""
    if decision is None:
        return "none"
    words = f"{decision.kind.value}, {decision.why}"
    if other is None or (other.kind, other.why) != (decision.kind, decision.why):
        return words
    facts, others = _facts(decision), _facts(other)
    assert isinstance(facts, dict)
    assert isinstance(others, dict)
    apart = {name: value for name, value in facts.items() if value != others[name]}
    return f"{words} {json.dumps(apart)}"


def _essence(snapshot: PartitionSnapshot) -> object:
    """What a partition is, but for the times of fetches that repeat each other."""
    pending = None if isinstance(snapshot.isr, CommittedIsr) else (snapshot.isr.proposal.isr)
    return (
        snapshot.role,
        tuple(snapshot.state),
        snapshot.replicas,
        snapshot.isr.isr,
        pending,
        snapshot.newest_epoch,
        snapshot.leader_epoch_start_offset if snapshot.role == "leader" else None,
    )


def _nobodys(found: ReplayedPartition) -> IsrProposal:
    """A proposal that no answer is awaited for any more."""
    decision = Decision(DecisionKind.ISR_SHRUNK, 0, found.partition.local_broker_id, "nobody wants it any more")
    state = LeaderAndIsr(found.partition.local_broker_id, -1, (), -1)
    return IsrProposal(
        found.topic_partition, found.topic_id, state.leader, state.leader_epoch, state.partition_epoch, (), decision
    )
