"""Action: what an operator may change: first shown, then confirmed, then done once, and written down.

Decides the way that every action goes, whatever it does. Must not know HTML, nor what any action does.

    1  form      the operator says what is wanted
    2  preview   what would change, what could go wrong, the same on the command line; nothing is done
    3  run       the preview is made again: if the cluster has changed since, so that it is another, it is shown again
                 instead, with what others did meanwhile. Else the action is written down, done, and its outcome too.

I1  Nothing is sent before the preview that the operator saw is still what would happen.
I2  A confirmation is carried out once: its key is unique in the audit log, and a second one finds the first.
I3  An outcome is committed, rejected or unknown; unknown is never told as one of the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.console.access.audit import Outcome
from kavka.errors import ConnectionFailed, ErrorCode, KavkaError, RequestError
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

Values = Mapping[str, str]
"""What a form says: names of its fields to text. A box that is not ticked is not there."""

TIMEOUT_S = 45.0
READ_TIMEOUT_S = 10.0
LONGEST_FIELD = 2 * 1024 * 1024
"""Characters of one field."""


class Field(NamedTuple):
    """One field of a form. kind: text, number (a whole one), decimal, area, box, choice, hidden, moment (a time,
    read in the zone that the field `zone` names), note (a text to read), or facts (to read: names and values in turn,
    in `choices`), or secret (never given back in a form). `label` and `hint` are texts of ours.

    `suggests`: names that the form offers while one is typed: topics (those that the operator may change), groups,
    brokers, or settings (those of `choices`). `chooses`: what typing here chooses in another field, name=value."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    suggests: str = ""
    chooses: str = ""


class Change(NamedTuple):
    """A row of what changes; '' for what is not there."""

    what: str
    before: str
    after: str


class Warned(NamedTuple):
    """What could go wrong. level: bad or warn."""

    level: str
    text: Statement


class Preview(NamedTuple):
    """What would be done. `target` is what the audit log finds it by; `type_name` has to be typed to confirm, if any;
    `button` is the word on the button."""

    target: str
    summary: Statement
    changes: tuple[Change, ...] = ()
    warnings: tuple[Warned, ...] = ()
    commands: tuple[str, ...] = ()
    before: str = ""
    wanted: str = ""
    button: str = "Do it"
    is_danger: bool = False
    type_name: str = ""
    undo: tuple[str, ...] = ()
    """Command lines that take it back, where that can be; the audit log has them, too."""

    @property
    def fingerprint(self) -> str:
        """Two previews with the same one say the same."""
        said = [self.target, self.changes, str(self.summary), self.before, self.wanted]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


class Result(NamedTuple):
    """How it came out. `after`: what is there now, as far as it could be read."""

    outcome: Outcome
    after: str = ""
    remark: str = ""


class ActionRefused(ValueError):
    """The form asks for what cannot be; the message says what and what to do. Nothing was done."""


class Action(ABC):
    """One kind of action. `role` may do it; `section` is the part of the console that it belongs to. `is_cheap`: its
    preview asks little of the cluster, so that a script may ask for it while the form is filled in."""

    is_cheap = True
    name: str
    title: str
    role: str
    section: str

    @abstractmethod
    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        """The form, filled with `values` where they are given. Raises ActionRefused, KavkaError."""

    @abstractmethod
    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        """What these values would do now. Raises ActionRefused, KavkaError."""

    @abstractmethod
    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        """Does it. Raises RequestError where the cluster refuses, ConnectionFailed where the outcome is unknown."""

    @abstractmethod
    async def look(self, watch: ClusterWatch, values: Values) -> str:
        """What is there now, for the log. Raises KavkaError."""

    @abstractmethod
    def topics(self, values: Values) -> Sequence[str] | None:
        """The topics that the form names: rights are asked for each. None where it is about more than topics."""

    def link(self, base: str, values: Values) -> str:
        """Where to go on afterwards."""
        return f"{base}/{self.section}"

    def is_ambiguous(self, refused: RequestError) -> bool:
        """Whether this refusal may come of our own first attempt, whose answer was lost: the client tries again."""
        return refused.code is ErrorCode.REQUEST_TIMED_OUT


async def carry_out(action: Action, watch: ClusterWatch, values: Values) -> Result:
    """Carries the action out and returns its outcome. Never raises for what the cluster does."""
    remark = ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await action.execute(watch, values)
        outcome = Outcome.COMMITTED
    except RequestError as refused:
        outcome = Outcome.UNKNOWN if action.is_ambiguous(refused) else Outcome.REJECTED
        remark = f"{refused.code.name}: {refused}"
    except ActionRefused as refused:
        outcome, remark = Outcome.REJECTED, str(refused)
    except (ConnectionFailed, TimeoutError) as lost:
        outcome, remark = Outcome.UNKNOWN, str(lost) or f"no answer within {TIMEOUT_S:g} s"
    except KavkaError as problem:
        outcome, remark = Outcome.REJECTED, str(problem)
    return Result(outcome, await _now(action.look(watch, values)), remark)


async def _now(looking: Awaitable[str]) -> str:
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await looking
    except (KavkaError, ActionRefused, TimeoutError) as problem:
        return f"not known: {problem or 'the cluster does not answer'}"


# ------------------------------------------------------------------------------------------------------ reading a form


def text(values: Values, name: str, what: str) -> str:
    """A field that has to be there. Raises ActionRefused."""
    found = values.get(name, "").strip()
    if not found:
        raise ActionRefused(f"{what} is missing")
    return found


def topic_field(values: Values) -> Field:
    """The topic that the form is about, as far as nobody has said which."""
    return Field("topic", "Topic", "text", values.get("topic", ""), required=True, suggests="topics")


def group_field(values: Values) -> Field:
    """The same for a group."""
    return Field("group", "Group", "text", values.get("group", ""), required=True, suggests="groups")


def topic_of(values: Values) -> Sequence[str]:
    """The topic that a form names; none as long as it names none."""
    name = values.get("topic", "").strip()
    return [name] if name else []


def whole(values: Values, name: str, what: str, *, least: int = 0, most: int = 2**31 - 1) -> int:
    """A number that has to be there. Raises ActionRefused."""
    found = text(values, name, what)
    if not found.removeprefix("-").isdecimal() or len(found) > 20 or not least <= int(found) <= most:
        raise ActionRefused(f"{what} is {found[:40]!r}: a number from {least} to {most} is needed")
    return int(found)


def settings(values: Values, name: str) -> dict[str, str]:
    """name=value lines. Raises ActionRefused."""
    found: dict[str, str] = {}
    for line in values.get(name, "").splitlines():
        if not line.strip():
            continue
        setting, equals, value = line.partition("=")
        if not equals or not setting.strip():
            raise ActionRefused(f"{line[:80]!r} is not name=value")
        if setting.strip() in found:
            raise ActionRefused(f"{setting.strip()} is given twice")
        found[setting.strip()] = value.strip()
    return found


def quoted(word: str) -> str:
    """A word as a shell takes it."""
    import shlex

    return shlex.quote(word)
