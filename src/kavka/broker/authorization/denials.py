"""Denials: a request that was refused for want of a right becomes a why-record, counted and not repeated.

Decides which denial is recorded: the first of a minute for each principal, operation and resource; the others are
counted, and the next record says how many there were. Also writes the line that Kafka writes to the logger
`kafka.authorizer.logger`, which tools read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.decisions import Decision, DecisionKind, Fact, RecordDecision
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.security.acls import ResourceType
from kavka.security.authorizer import Question, Rule, Verdict

log = Logger("kafka.authorizer.logger")

INTERVAL_MS: Final = 60_000
"""How long further denials of a kind are counted only."""
MAX_KINDS: Final = 10_000
"""Kinds of denials that are counted; then all counts begin anew."""


class Denial(NamedTuple):
    """What was asked, why it was refused, and through which request."""

    question: Question
    verdict: Verdict
    listener: str
    client_id: str
    api: str
    generation: int

    @property
    def remedy(self) -> str:
        """The command that would allow it."""
        question = self.question
        name = "ANY" if not question.name else question.name
        resource = _OPTIONS[question.resource_type.name]
        on = f"--{resource}" if resource == "cluster" else f"--{resource} '{name}'"
        if self.verdict.rule is Rule.DENIED and self.verdict.binding is not None:
            pattern, entry = self.verdict.binding
            kind = "" if pattern.pattern_type.name == "LITERAL" else " --resource-pattern-type prefixed"
            where = "--cluster" if resource == "cluster" else f"--{resource} '{pattern.name}'"
            return (
                f"kavka acls remove --deny-principal '{entry.principal}' --deny-host '{entry.host}' "
                f"--operation {entry.operation.word} {where}{kind}"
            )
        return f"kavka acls add --allow-principal '{question.principal}' --operation {question.operation.word} {on}"

    def sentence(self) -> str:
        """Why it was refused."""
        verdict = self.verdict
        principal, host, asked, kind, name = self.question
        operation, api = asked.word, self.api
        resource = f"{kind.word} {name}" if name else "any resource"
        if verdict.rule is Rule.DENIED:
            acl = verdict.binding
            return f"{principal} from host {host} may not {operation} on {resource} ({api}): an ACL denies it: {acl}"
        if verdict.rule is Rule.NO_ACL:
            why = "there is no ACL for the resource"
            return f"{principal} from host {host} may not {operation} on {resource} ({api}): {why}"
        if verdict.binding is not None:
            nearest, misfit = verdict.binding, verdict.misfit
            return (
                f"{principal} from host {host} may not {operation} on {resource} ({api}): no ACL allows it; the "
                f"nearest is {nearest}, but {misfit}"
            )
        why = "no ACL allows it"
        if verdict.rule is Rule.REFUSED:
            why = verdict.misfit or "the authorizer refused it"
        return f"{principal} from host {host} may not {operation} on {resource} ({api}): {why}"

    def line(self) -> str:
        """As Kafka logs it."""
        question = self.question
        return (
            f"Principal = {question.principal} is Denied Operation = {question.operation.word} from host = "
            f"{question.host} on resource = {question.resource_type.word}:LITERAL:{question.name} for request = "
            f"{self.api.title().replace('_', '')} with resourceRefCount = 1"
        )


_OPTIONS: Final = {
    "TOPIC": "topic",
    "GROUP": "group",
    "CLUSTER": "cluster",
    "TRANSACTIONAL_ID": "transactional-id",
    "DELEGATION_TOKEN": "delegation-token",
    "USER": "user-principal",
}


class Denials:
    """Records them with `record`, for broker `broker_id`."""

    def __init__(self, broker_id: BrokerId, record: RecordDecision, *, wall_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._record = record
        self._wall_ms = wall_ms
        self._counted: dict[tuple[object, ...], tuple[int, int]] = {}
        """By kind: until when further ones are counted only, and how many were."""
        self.count = 0
        """All denials since the start."""

    def on_denied(self, question: Question, now_ms: int, describe: Callable[[], Denial]) -> None:
        """`describe` is called for the denials that are recorded."""
        self.count += 1
        kind = (question.principal, question.operation, question.resource_type, question.name)
        until_ms, unrecorded = self._counted.get(kind, (now_ms, 0))
        if now_ms < until_ms:
            self._counted[kind] = (until_ms, unrecorded + 1)
            return
        if len(self._counted) >= MAX_KINDS:
            self._counted.clear()
        self._counted[kind] = (now_ms + INTERVAL_MS, 0)
        denial = describe()
        log.info(denial.line())
        self._record(self._decision(denial, unrecorded))

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
            "remedy": denial.remedy,
        }
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
