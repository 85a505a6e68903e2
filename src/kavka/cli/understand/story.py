"""What decisions tell about one thing: which of them belong to its story, and the sentences that tell it.

Pure: decisions in, lines out. A partition's story has, besides its own decisions, those about the controller and about
the brokers that held it, as far as they came shortly before: a leader moved because a broker went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from kavka.cli.output import printable
from kavka.decisions import Decision, DecisionKind, Fact, RecordedDecision, brokers_in, is_quantity
from kavka.model import TopicPartition

CAUSE_MS = 60_000
"""How long before a partition's own decision another one may be its cause."""
NEAR_MS = 30_000
"""How far from `--at` a decision may lie to be told with it."""
TRANSACTIONS_TOPIC = "__transaction_state"
CAUSES = (
    DecisionKind.BROKER_WENT,
    DecisionKind.BROKER_CAME,
    DecisionKind.BROKER_UNREACHABLE,
    DecisionKind.BROKER_SHUTTING_DOWN,
    DecisionKind.SESSION_EXPIRED,
    DecisionKind.CONTROLLER_ELECTED,
    DecisionKind.CONTROLLER_RESIGNED,
    DecisionKind.LOG_DIRECTORY_OFFLINE,
)
OF_BROKERS = (
    DecisionKind.BROKER_WENT,
    DecisionKind.BROKER_CAME,
    DecisionKind.BROKER_UNREACHABLE,
    DecisionKind.BROKER_SHUTTING_DOWN,
    DecisionKind.BROKER_RESTARTED,
    DecisionKind.SESSION_EXPIRED,
    DecisionKind.LOG_DIRECTORY_OFFLINE,
)
"""What `kavka why broker` tells of all of them."""


class Subject(NamedTuple):
    """What a story is about; all None for everything. A topic without a partition stands for all of its own."""

    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    group: str | None = None
    controller: bool = False
    denied: bool = False
    """Requests that were refused for want of a right; `topic` and `principal` narrow them."""
    principal: str | None = None
    all_brokers: bool = False
    """What became of brokers, whichever it is: the word `broker` without an id."""
    slow: bool = False
    """Requests that took too long; `topic` narrows them."""

    def __str__(self) -> str:
        if self.denied:
            whose = "" if self.principal is None else f" to {self.principal}"
            where = "" if self.topic is None else f" on topic {self.topic}"
            return f"requests that were denied{whose}{where}"
        if self.slow:
            return "slow requests"
        if self.topic is not None:
            return self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        if self.all_brokers:
            return "brokers"
        if self.broker is not None:
            return f"broker {self.broker}"
        if self.group is not None:
            return f"group {self.group}"
        return "the controller" if self.controller else "the cluster"

    def names(self, partition: TopicPartition | None) -> bool:
        """Whether the subject is this partition, or its topic."""
        return (
            partition is not None
            and partition.topic == self.topic
            and (self.partition is None or partition.partition == self.partition)
        )

    def concerns(self, decision: Decision) -> bool:
        """Whether `decision` is about this very thing."""
        if self.denied:
            evidence = decision.evidence
            return (
                decision.kind is DecisionKind.ACCESS_DENIED
                and self.topic in (None, evidence.get("topic"))
                and self.principal in (None, evidence.get("principal"))
            )
        if self.slow:
            is_slow = decision.kind is DecisionKind.REQUEST_SLOW
            return is_slow and self.topic in (None, decision.evidence.get("topic"))
        if self.topic is not None:
            if decision.kind is DecisionKind.REQUEST_SLOW:
                same = self.partition in (None, decision.evidence.get("partition"))
                return same and decision.evidence.get("topic") == self.topic
            if decision.partition is None:  # The topic was created or deleted, or given more partitions.
                return decision.evidence.get("topic") == self.topic
            return self.names(decision.partition)
        if self.all_brokers:
            return decision.kind in OF_BROKERS
        if self.broker is not None:
            return decision.about_broker == self.broker or self.broker in _brokers_changed(decision)
        if self.group is not None:
            return decision.group == self.group
        if self.controller:
            return decision.subject == "controller"
        return True


def parse_subject(words: Sequence[str]) -> Subject:
    """TOPIC-PARTITION, TOPIC, `broker N`, `group G`, `controller`, `denied` or `slow`. Raises ValueError.

    A topic whose name ends like a partition (`a-1`) is told apart by its partitions only: `a-1` is partition 1 of `a`.
    """
    match list(words):
        case []:
            return Subject()
        case ["denied"]:
            return Subject(denied=True)
        case ["slow"]:
            return Subject(slow=True)
        case ["controller"]:
            return Subject(controller=True)
        case ["broker"]:
            return Subject(all_brokers=True)
        case ["broker", number]:
            if not number.isdecimal():
                raise ValueError(f"broker {number}: a broker's id is a number")
            return Subject(broker=int(number))
        case ["group", name]:
            return Subject(group=name)
        case ["topic", name]:
            return Subject(topic=name)
        case [name]:
            topic, dash, number = name.rpartition("-")
            if dash and topic and number.isdecimal():
                return Subject(topic=topic, partition=int(number))
            return Subject(topic=name)
    raise ValueError(
        f"{' '.join(words)!r}: name TOPIC-PARTITION, TOPIC, `broker N`, `group G`, `controller`, `denied` or `slow`"
    )


def select(decisions: Iterable[RecordedDecision], subject: Subject, *, at_ms: int | None = None) -> list[Decision]:
    """The decisions that tell the story of `subject`, in order; with `at_ms` what led to how things stood then."""
    everything = [recorded.decision for recorded in decisions]
    own = [decision for decision in everything if subject.concerns(decision)]
    if subject.group is not None and not own:
        own = [decision for decision in everything if _keeps_groups_away(decision)]
    if at_ms is not None:
        own = _around(own, at_ms)
    if subject.topic is None or subject.denied or subject.slow:
        return own
    brokers = {broker for decision in own for broker in _brokers(decision)}
    told = {id(decision) for decision in own}  # Identity within this call only; the order is `everything`'s.
    moments = [decision.at_ms for decision in own]
    for decision in everything:
        is_cause = decision.kind in CAUSES and (decision.about_broker < 0 or decision.about_broker in brokers)
        if is_cause and any(0 <= moment - decision.at_ms <= CAUSE_MS for moment in moments):
            told.add(id(decision))
    return [decision for decision in everything if id(decision) in told]


def standing(decisions: Iterable[RecordedDecision], subject: Subject, at_ms: int) -> Iterator[str]:
    """Who led each partition of a topic at a moment, in which epoch, and who was in sync: a line for each of which a
    change is recorded, before that moment or after it."""
    before: dict[TopicPartition, dict[str, Fact]] = {}
    since_ms: dict[TopicPartition, int] = {}
    for recorded in decisions:
        decision = recorded.decision
        partition = decision.partition
        if partition is None or not subject.names(partition) or decision.kind not in STANDING:
            continue
        known = before.setdefault(partition, {})
        if decision.at_ms <= at_ms:
            if decision.leader_epoch >= _as_int(known.get("leader_epoch")):
                known.update({name: decision.after[name] for name in STANDS if name in decision.after})
                known["leader_epoch"] = decision.leader_epoch
                since_ms[partition] = decision.at_ms
        else:
            for name in STANDS:
                if name in decision.before:
                    known.setdefault(name, decision.before[name])
    for partition, facts in sorted(before.items()):
        said = ", ".join(f"{_words(name)} {_shown(name, facts[name])}" for name in STANDS if name in facts)
        since = f" (since {_clock(since_ms[partition])})" if partition in since_ms else ""
        yield f"{partition}: {said}{since}"


STANDS = ("leader", "leader_epoch", "isr")
STANDING = (
    DecisionKind.LEADER_ELECTED,
    DecisionKind.LEADER_NOT_ELECTED,
    DecisionKind.LEADERSHIP_TAKEN,
    DecisionKind.ISR_SHRUNK,
    DecisionKind.ISR_EXPANDED,
)
"""What changes who leads and who is in sync."""


def _as_int(fact: Fact) -> int:
    return fact if isinstance(fact, int) else -1


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _keeps_groups_away(decision: Decision) -> bool:
    """Whether a topic of the groups' coordinators could not be made: a group that nobody heard of may wait for it."""
    return decision.kind is DecisionKind.TOPIC_NOT_CREATED and decision.evidence.get("topic") != TRANSACTIONS_TOPIC


def _around(decisions: Sequence[Decision], at_ms: int) -> list[Decision]:
    """Of each subject the last decision of each kind before `at_ms`, and all that lie near it."""
    before: dict[tuple[str, DecisionKind], Decision] = {}
    for decision in decisions:
        if decision.at_ms <= at_ms:
            before[decision.subject, decision.kind] = decision
    return [
        decision
        for decision in decisions
        if abs(decision.at_ms - at_ms) <= NEAR_MS or before.get((decision.subject, decision.kind)) is decision
    ]


def _brokers_changed(decision: Decision) -> set[int]:
    """Brokers that entered or left a set, or took or lost the lead, by this decision."""
    changed: set[int] = set()
    for name in {*decision.before, *decision.after}:
        before, after = brokers_in(decision.before.get(name)), brokers_in(decision.after.get(name))
        if name in ("isr", "leader", "replicas", "controller"):
            changed |= before ^ after
    return changed


def _brokers(decision: Decision) -> set[int]:
    found = set()
    for facts in (decision.before, decision.after):
        for name in ("isr", "leader", "replicas"):
            found |= brokers_in(facts.get(name))
    return found | ({decision.about_broker} if decision.about_broker >= 0 else set())


def tell(decisions: Sequence[Decision], subject: Subject) -> Iterator[str]:
    """The story, a few lines for each decision: when, what changed, why, who decided, on which evidence."""
    day = ""
    for decision in decisions:
        moment = datetime.fromtimestamp(decision.at_ms / 1000).astimezone()
        if (today := moment.strftime("%A %Y-%m-%d (%Z)")) != day:
            day = today
            yield f"{day}"
        mark = " " if subject.concerns(decision) else "·"
        clock = moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
        yield f"{mark} {clock}  {headline(decision)}"
        yield f"                 {_sentence(decision.why)}"
        details = _details(decision, without="remedy" if subject.denied else "")
        if details:
            yield f"                 ({details})"


def dominant_stages(decisions: Iterable[Decision]) -> Iterator[str]:
    """Which stage took most of the time of slow requests, and which broker: a line for each, the most frequent first.

    A why-record stands for itself and for those before it that got none.
    """
    counts: dict[tuple[str, int], int] = {}
    apis: dict[tuple[str, int], dict[str, None]] = {}
    for decision in decisions:
        evidence = decision.evidence
        place = (str(evidence.get("stage", "?")), int(decision.about_broker))
        more = evidence.get("unrecorded_before", 0)
        counts[place] = counts.get(place, 0) + 1 + (more if isinstance(more, int) else 0)
        apis.setdefault(place, {})[str(evidence.get("api", "?"))] = None
    total = sum(counts.values())
    for (stage, broker_id), count in sorted(counts.items(), key=lambda each: -each[1]):
        named = printable(", ".join(apis[stage, broker_id]))
        yield f"{count:>6,} of {total:,}  {stage}, broker {broker_id}  ({named})"


def headline(decision: Decision) -> str:
    """What happened, in one line without its reason."""
    text = f"{printable(decision.subject)}: {decision.kind.value}"
    changes = []
    for name in dict.fromkeys([*decision.before, *decision.after]):
        before, after = decision.before.get(name), decision.after.get(name)
        if name in decision.before and name in decision.after and before != after:
            changes.append(f"{_words(name)} {_shown(name, before)} -> {_shown(name, after)}")
        elif name in decision.after and name not in decision.before:
            changes.append(f"{_words(name)} {_shown(name, after)}")
    return f"{text}, {', '.join(changes)}" if changes else text


def _details(decision: Decision, *, without: str) -> str:
    parts = [f"decided by broker {decision.broker_id}"]
    if decision.leader_epoch >= 0:
        parts.append(f"leader epoch {decision.leader_epoch}")
    if decision.controller_epoch >= 0:
        parts.append(f"controller epoch {decision.controller_epoch}")
    parts += [f"{_words(name)} {_value(name, value)}" for name, value in decision.evidence.items() if name != without]
    return "; ".join(parts)


def _words(name: str) -> str:
    return {"isr": "in sync"}.get(name, name.replace("_", " "))


def _shown(name: str, value: Fact) -> str:
    """A value that may be Kafka's -1 for none."""
    return "none" if value == -1 and name in ("leader", "leader_epoch", "controller") else _value(name, value)


def _value(name: str, value: Fact) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if value >= 10_000 and is_quantity(name) else str(value)
        case list() | tuple():
            return ",".join(_value("", each) for each in value) or "none"
        case _:
            return printable(str(value))


def _sentence(text: str) -> str:
    text = printable(text.strip())
    if not text:
        return "No reason was recorded."
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
