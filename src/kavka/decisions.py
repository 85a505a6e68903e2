"""Decision: why something happened in the cluster, as a value.

Every room that decides something an operator may ask about later (who leads, who is in sync, who was refused, what was
cut off a log) returns or records one `Decision`: what, about which partition, broker or group, what was before and
after, the evidence with its numbers, and one sentence that says why. This module knows the form only; what becomes of
the records is the broker's matter (`broker/decisions/decision_log.py`: the topic `__kavka_decisions` and a ring in
memory).

    I1  a decision is a value: whoever records it changes nothing by it, and never waits for it
    I2  `evidence`, `before` and `after` hold only what JSON holds: numbers, texts, booleans, lists of them, None

As JSON (docs/decisions.md has the fields): one object, `version` 1; readers pass over fields that they do not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kavka.model import NO_EPOCH, NO_LEADER, BrokerId, LeaderEpoch, TopicPartition

Fact: TypeAlias = "int | float | str | bool | tuple[Fact, ...] | list[Fact] | None"
Facts: TypeAlias = Mapping[str, Fact]


class DecisionKind(Enum):
    """What was decided. The value is the phrase in logs, in the topic and on the command line."""

    ISR_SHRUNK = "isr shrunk"
    ISR_EXPANDED = "isr expanded"
    ISR_CHANGE_REFUSED = "isr change refused"
    LEADER_ELECTED = "leader elected"
    LEADER_NOT_ELECTED = "leader not elected"
    LEADERSHIP_TAKEN = "leadership taken"
    FOLLOWING = "following"
    LOG_TRUNCATED = "log truncated"
    FENCED = "fenced"
    PRODUCE_REFUSED = "produce refused"
    CONTROLLER_ELECTED = "controller elected"
    CONTROLLER_RESIGNED = "controller resigned"
    BROKER_CAME = "broker came"
    BROKER_WENT = "broker went"
    BROKER_UNREACHABLE = "broker unreachable"
    BROKER_SHUTTING_DOWN = "broker shutting down"
    BROKER_RESTARTED = "broker restarted"
    SESSION_EXPIRED = "session expired"
    TOPIC_CREATED = "topic created"
    TOPIC_NOT_CREATED = "topic not created"
    TOPIC_DELETED = "topic deleted"
    PARTITIONS_ADDED = "partitions added"
    LEADERS_REBALANCED = "leaders rebalanced"
    REASSIGNMENT_STARTED = "reassignment started"
    REASSIGNMENT_FINISHED = "reassignment finished"
    REASSIGNMENT_CANCELLED = "reassignment cancelled"
    REASSIGNMENT_REFUSED = "reassignment refused"
    LOG_DIRECTORY_OFFLINE = "log directory offline"
    GROUP_REBALANCED = "group rebalanced"
    SHARE_RECORDS_RELEASED = "share records released"
    SHARE_RECORDS_ARCHIVED = "share records archived"
    DEAD_LETTERS_WRITTEN = "dead letters written"
    DEAD_LETTERS_FAILED = "dead letters failed"
    ACCESS_DENIED = "access denied"
    THROTTLED = "throttled"
    REQUEST_SLOW = "request slow"
    AUTHENTICATION_FAILED = "authentication failed"
    TOKEN_CHANGED = "delegation token changed"
    TOKEN_REFUSED = "delegation token refused"
    CERTIFICATE_REFUSED = "certificate refused"
    ILLEGAL_MOVE_REFUSED = "illegal move refused"
    INVARIANT_VIOLATED = "invariant violated"


class Decision(NamedTuple):
    """One why-record.

    Exactly one of `partition`, `group`, `about_broker` says what it concerns; none of them: the controller.
    `why` is a sentence with its numbers. `at_ms` is the wall clock of the broker that decided, `broker_id`.
    """

    kind: DecisionKind
    at_ms: int
    broker_id: BrokerId
    why: str
    partition: TopicPartition | None = None
    about_broker: BrokerId = NO_LEADER
    group: str | None = None
    leader_epoch: LeaderEpoch = NO_EPOCH
    controller_epoch: int = -1
    before: Facts = {}  # noqa: RUF012 - a NamedTuple's default is shared, and never changed (I1)
    after: Facts = {}  # noqa: RUF012 - likewise
    evidence: Facts = {}  # noqa: RUF012 - likewise

    @property
    def subject(self) -> str:
        """What it concerns, as the key of its record: `orders-3`, `broker 2`, `group g`, `controller`."""
        if self.partition is not None:
            return str(self.partition)
        if self.group is not None:
            return f"group {self.group}"
        if self.about_broker != NO_LEADER:
            return f"broker {self.about_broker}"
        return "controller"


def is_quantity(name: str) -> bool:
    """Whether a fact of this name is an amount, whose digits may be grouped for people. Ids, epochs, ports, processes
    and offsets are names: somebody copies them into a command.

    >>> is_quantity("slowed_ms"), is_quantity("pid"), is_quantity("log_end_offset")
    (True, False, False)
    """
    return name.rpartition("_")[2] in QUANTITIES


QUANTITIES = frozenset({"ms", "bytes", "records", "lost", "moved", "count", "tokens", "before", "space"})
"""How names of facts end that are amounts."""


def brokers_in(fact: Fact) -> set[int]:
    """The brokers that a fact of `isr`, `leader`, `replicas` or `controller` names: one id or a list; none is -1."""
    if isinstance(fact, bool) or fact is None:
        return set()
    if isinstance(fact, int):
        return {fact} if fact >= 0 else set()
    if isinstance(fact, (list, tuple)):
        return {value for value in fact if isinstance(value, int)}
    return set()


RecordDecision: TypeAlias = Callable[[Decision], None]
"""Takes note of a decision; returns at once and never raises."""


def forget(decision: Decision) -> None:
    """A `RecordDecision` for those that nobody asks: tests and tools."""


REPEATED_INTERVAL_MS = 60_000
"""How long further decisions of a kind are counted only (`Repeats`)."""
MOST_KINDS = 10_000
"""Kinds that are counted; then all counts begin anew."""


class Repeats:
    """Which of many decisions that are alike are recorded: the first of an interval of each kind. The others are
    counted, and the next record says how many there were. Clients may choose what a kind is: there is a bound."""

    __slots__ = ("_counted",)

    def __init__(self) -> None:
        self._counted: dict[tuple[object, ...], tuple[int, int]] = {}
        """By kind: until when further ones are counted only, and how many were."""

    def __len__(self) -> int:
        """How many kinds are counted."""
        return len(self._counted)

    def since_last(self, kind: tuple[object, ...], now_ms: int) -> int | None:
        """One more of the kind. None: it is counted, and no more; else how many were since the last record: then either
        `record` or `put_off` is to follow."""
        until_ms, unrecorded = self._counted.get(kind, (now_ms, 0))
        if now_ms >= until_ms:
            return unrecorded
        self._counted[kind] = (until_ms, unrecorded + 1)
        return None

    def record(self, kind: tuple[object, ...], now_ms: int) -> None:
        """It is recorded."""
        self._note(kind, now_ms + REPEATED_INTERVAL_MS, 0)

    def put_off(self, kind: tuple[object, ...], until_ms: int, unrecorded: int) -> None:
        """It is not: there is no room for it before `until_ms`. `unrecorded` as from `since_last`."""
        self._note(kind, until_ms, unrecorded + 1)

    def _note(self, kind: tuple[object, ...], until_ms: int, unrecorded: int) -> None:
        if kind not in self._counted and len(self._counted) >= MOST_KINDS:
            self._counted.clear()
        self._counted[kind] = (until_ms, unrecorded)


DECISIONS_TOPIC = "__kavka_decisions"
"""Where the brokers keep their decisions."""
RING_FILES = ("kavka-decisions.1.jsonl", "kavka-decisions.0.jsonl")
"""A broker's own ring in its first log directory: older, newer. Kafka's log loading passes over such files."""
RING_MARK = b'{"carried":"'
"""How a line of the ring begins that is no decision: it says up to where the topic has what stands before it."""
FORMAT_VERSION = 1
YEAR_9000_MS = 221_845_392_000_000
"""Times beyond it are none that a calendar has in every zone."""


class MalformedDecision(ValueError):
    """A record that is no decision, or of a format that is not known."""


class RecordedDecision(NamedTuple):
    """A decision as it stands in the topic and in a broker's ring. `decision_id` is unique in a cluster: it tells a
    record that was written twice."""

    decision_id: str
    decision: Decision


_JSON: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


class _LastText:
    """What the last decision says as JSON, behind its id: each is written into the flight recorder and into the topic,
    one right after the other, and tens of thousands come at once when a controller takes over."""

    def __init__(self) -> None:
        self._last: tuple[Decision, str] | None = None
        """One value: brokers in threads of one process share it, and none may get the text of another's decision."""

    def of(self, decision: Decision) -> str:
        last = self._last
        if last is None or last[0] is not decision:
            last = self._last = (decision, _JSON.encode(_fields(decision)))
        return last[1]


_LAST: Final = _LastText()


def encode_decision(recorded: RecordedDecision) -> bytes:
    """The record's value: one JSON object, on one line."""
    decision_id, rest = _JSON.encode(recorded.decision_id), _LAST.of(recorded.decision)[1:]
    return f'{{"version":{FORMAT_VERSION},"id":{decision_id},{rest}'.encode()


def _fields(decision: Decision) -> dict[str, object]:
    fields: dict[str, object] = {
        "kind": decision.kind.value,
        "at_ms": decision.at_ms,
        "broker": decision.broker_id,
        "subject": decision.subject,
        "why": decision.why,
    }
    if decision.partition is not None:
        fields["topic"], fields["partition"] = decision.partition
    if decision.group is not None:
        fields["group"] = decision.group
    if decision.about_broker != NO_LEADER:
        fields["about_broker"] = decision.about_broker
    if decision.leader_epoch != NO_EPOCH:
        fields["leader_epoch"] = decision.leader_epoch
    if decision.controller_epoch >= 0:
        fields["controller_epoch"] = decision.controller_epoch
    for name, facts in (("before", decision.before), ("after", decision.after), ("evidence", decision.evidence)):
        if facts:
            fields[name] = dict(facts)
    return fields


def ring_mark(decision_id: str = "") -> bytes:
    """A line of the ring: the topic has the decision of this id, and all before it. Without an id: from here on there
    are such marks. To readers of decisions it is a `MalformedDecision`."""
    return RING_MARK + decision_id.encode() + b'"}'


def decode_decision(data: bytes) -> RecordedDecision:
    """The decision of a record's value. Raises MalformedDecision."""
    try:
        fields = json.loads(data)
        if fields["version"] != FORMAT_VERSION:
            raise MalformedDecision(f"format version {fields['version']}, {FORMAT_VERSION} is known")
        _check(fields)
        partition = TopicPartition(fields["topic"], fields["partition"]) if "topic" in fields else None
        decision = Decision(
            DecisionKind(fields["kind"]),
            int(fields["at_ms"]),
            BrokerId(fields["broker"]),
            str(fields["why"]),
            partition,
            BrokerId(fields.get("about_broker", NO_LEADER)),
            fields.get("group"),
            fields.get("leader_epoch", NO_EPOCH),
            fields.get("controller_epoch", -1),
            fields.get("before", {}),
            fields.get("after", {}),
            fields.get("evidence", {}),
        )
        return RecordedDecision(str(fields["id"]), decision)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise MalformedDecision(f"no decision: {problem!r}") from problem


def _check(fields: Mapping[str, object]) -> None:
    """Whether those who read it can rely on its types: who may write to the topic writes what he likes. Raises
    MalformedDecision."""
    for name in ("broker", "about_broker", "partition", "leader_epoch", "controller_epoch"):
        value = fields.get(name, 0)
        if type(value) is not int or not -1 <= value < 2**31:
            raise MalformedDecision(f"{name} is no number of 32 bits")
    at_ms = fields["at_ms"]
    if type(at_ms) is not int or not 0 <= at_ms < YEAR_9000_MS:
        raise MalformedDecision("at_ms is no time")
    for name in ("topic", "group"):
        if not isinstance(fields.get(name, ""), str):
            raise MalformedDecision(f"{name} is no text")
    for name in ("before", "after", "evidence"):
        if not isinstance(fields.get(name, {}), dict):
            raise MalformedDecision(f"{name} is no object")
