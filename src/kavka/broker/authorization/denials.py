"""Denials: a request that was refused for want of a right becomes a why-record, counted and not repeated.

Decides which denial is recorded: the first of a minute for each principal, host, API, operation and resource; the
others are counted, and the next record says how many there were. Also writes the line that Kafka writes to the logger
`kafka.authorizer.logger`, which tools read.

    I1  what is remembered has a bound, and so has what one caller can have recorded: names are the caller's choice
    I2  names are the caller's choice in a command, too, which somebody will paste: each is quoted for the shell
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kavka.decisions import REPEATED_INTERVAL_MS, Decision, DecisionKind, Fact, RecordDecision, Repeats
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.security.acls import Binding, Operation, Permission
from kavka.security.authorizer import Question, Remedy, Rule, Verdict
from kavka.security.principals import ANY_HOST, Principal
from kavka.security.resource_patterns import PatternType, ResourceType

log = Logger("kafka.authorizer.logger")

MAX_RECORDED: Final = 100
"""Denials of one principal at one host that are recorded within REPEATED_INTERVAL_MS; others are counted only (I1)."""
MAX_CALLERS: Final = 10_000
"""Principals at hosts whose records are counted; then all begin anew."""


class Denial(NamedTuple):
    """What was asked, why it was refused, and through which request."""

    question: Question
    verdict: Verdict
    listener: str
    client_id: str
    api: str
    generation: int
    remedy: Remedy | None = None
    """What would allow it; None if no list can."""

    @property
    def commands(self) -> str:
        """The commands that would allow it. Empty if none can."""
        if self.remedy is None:
            return ""
        removed, added = self.remedy
        commands = [_command("remove", binding) for binding in removed]
        return " && ".join(commands if added is None else [*commands, _command("add", added)])

    def sentence(self) -> str:
        """Why it was refused."""
        principal, host, asked, kind, name = self.question
        resource = f"{kind.word} {name}" if name else "any resource"
        return printable(
            f"{principal} from host {host} may not {asked.word} on {resource} ({self.api}): {self._reason()}"
        )

    def _reason(self) -> str:
        _, rule, binding, misfit = self.verdict
        if rule is Rule.DENIED:
            return f"an ACL denies it: {binding}"
        if rule is Rule.WRONG_LISTENER:
            return f"only brokers send it, and listener {self.listener} is not theirs"
        if rule is Rule.NO_ACL:
            return "there is no ACL for the resource"
        if binding is not None:
            return f"no ACL allows it; the nearest is {binding}, but {misfit}"
        if rule is Rule.REFUSED:
            return misfit or "the authorizer refused it"
        return "no ACL allows it"

    def line(self) -> str:
        """As Kafka logs it."""
        principal, host, asked, kind, name = self.question
        resource = f"{kind.word}:LITERAL:{name}" if name else f"{kind.word}:UNKNOWN:NONE"
        return printable(
            f"Principal = {principal} is Denied Operation = {asked.word} from host = {host} on resource = {resource} "
            f"for request = {self.api.title().replace('_', '')} with resourceRefCount = 1"
        )


def printable(text: str) -> str:
    """The text without what a terminal or a log would obey: control characters as escapes."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _quoted(text: str) -> str:
    """One word for the shell (I2)."""
    from shlex import quote

    if text.isprintable():
        return quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable(escaped)}'"


def _command(action: str, binding: Binding) -> str:
    (kind, name, pattern_type), entry = binding
    who = "allow" if entry.permission is Permission.ALLOW else "deny"
    host = "" if entry.host == ANY_HOST else f" --{who}-host {_quoted(entry.host)}"
    prefixed = " --resource-pattern-type prefixed" if pattern_type is PatternType.PREFIXED else ""
    return (
        f"kavka acls {action} --{who}-principal {_quoted(entry.principal)}{host} --operation {entry.operation.word} "
        f"{_resource(kind, name)}{prefixed}"
    )


def _resource(kind: ResourceType, name: str) -> str:
    option = f"--{_OPTIONS[kind]}"
    return option if kind is ResourceType.CLUSTER else f"{option} {_quoted(name)}"


def command(principal: str, operations: Iterable[Operation], resources: Iterable[tuple[ResourceType, str]]) -> str:
    """The command that allows a principal all of these operations on all of these resources, from every host."""
    rights = " ".join(f"--operation {operation.word}" for operation in operations)
    places = " ".join(_resource(kind, name) for kind, name in resources)
    return f"kavka acls add --allow-principal {_quoted(principal)} {rights} {places}"


_OPTIONS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
    ResourceType.DELEGATION_TOKEN: "delegation-token",
    ResourceType.USER: "user-principal",
}


class _Caller:
    """How much of one principal at one host was recorded in an interval."""

    __slots__ = ("left", "unrecorded", "until_ms")

    def __init__(self, until_ms: int, unrecorded: int) -> None:
        self.until_ms = until_ms
        self.left = MAX_RECORDED
        self.unrecorded = unrecorded


class Denials:
    """Records them with `record`, for broker `broker_id`."""

    def __init__(self, broker_id: BrokerId, record: RecordDecision, *, wall_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._record = record
        self._wall_ms = wall_ms
        self._repeats = Repeats()
        self._callers: dict[tuple[Principal, str], _Caller] = {}
        self.count = 0
        """All denials since the start."""

    def on_denied(self, question: Question, api: str, now_ms: int, describe: Callable[[], Denial]) -> None:
        """`describe` is called for the denials that are recorded."""
        self.count += 1
        kind = (*question, api)
        unrecorded = self._repeats.since_last(kind, now_ms)
        if unrecorded is None:
            return
        caller = self._caller(question, now_ms)
        if not caller.left:
            caller.unrecorded += 1
            return
        caller.left -= 1
        unrecorded += caller.unrecorded
        caller.unrecorded = 0
        self._repeats.record(kind, now_ms)
        denial = describe()
        log.info(denial.line())
        self._record(self._decision(denial, unrecorded))

    def _caller(self, question: Question, now_ms: int) -> _Caller:
        who = (question.principal, question.host)
        caller = self._callers.get(who)
        if caller is None or now_ms >= caller.until_ms:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            caller = self._callers[who] = _Caller(
                now_ms + REPEATED_INTERVAL_MS, 0 if caller is None else caller.unrecorded
            )
        return caller

    def _decision(self, denial: Denial, unrecorded: int) -> Decision:
        question, verdict = denial.question, denial.verdict
        evidence: dict[str, Fact] = {
            "principal": str(question.principal),
            "host": question.host,
            "operation": question.operation.word,
            "resource_type": question.resource_type.word,
            "resource": question.name,
            "api": denial.api,
            "client_id": denial.client_id,
            "listener": denial.listener,
            "rule": verdict.rule.value,
            "generation": denial.generation,
            "unrecorded_before": unrecorded,
        }
        if denial.commands:
            evidence["remedy"] = denial.commands
        if question.resource_type is ResourceType.TOPIC and question.name:
            evidence["topic"] = question.name
        if verdict.binding is not None:
            evidence["acl"] = str(verdict.binding)
        return Decision(
            DecisionKind.ACCESS_DENIED,
            self._wall_ms(),
            self._broker_id,
            denial.sentence(),
            about_broker=self._broker_id,
            evidence=evidence,
        )
