"""A decision of the brokers in words: what changed, why, and its evidence.

Decides how grave a kind is, which words a field has, and where its subject is looked at. Pure: decisions in, values
out. What the brokers wrote (`why`) is said in the reader's language where the form of the sentence is known
(sentence_translation.py); then their own words, which are English, are part of the evidence.

    I1  every field of a decision is shown; one that is not known here has its own name
    I2  a time is shown as a time, and how long before the decision it was; an offset with its distance to the log's end
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from markupsafe import Markup

from kavka.console.look.format import clock, duration, path_part, safe
from kavka.console.look.i18n import ENGLISH
from kavka.decisions import Decision, DecisionKind, Fact, RecordedDecision, brokers_in, is_quantity

if TYPE_CHECKING:
    from kavka.console.look.charts import Look

GRAVE: Final = frozenset(
    {
        DecisionKind.LEADER_NOT_ELECTED,
        DecisionKind.PRODUCE_REFUSED,
        DecisionKind.LOG_DIRECTORY_OFFLINE,
        DecisionKind.INVARIANT_VIOLATED,
        DecisionKind.ILLEGAL_MOVE_REFUSED,
    }
)
NOTABLE: Final = frozenset(
    {
        DecisionKind.ISR_SHRUNK,
        DecisionKind.ISR_CHANGE_REFUSED,
        DecisionKind.LOG_TRUNCATED,
        DecisionKind.FENCED,
        DecisionKind.BROKER_WENT,
        DecisionKind.BROKER_UNREACHABLE,
        DecisionKind.SESSION_EXPIRED,
        DecisionKind.CONTROLLER_RESIGNED,
        DecisionKind.REASSIGNMENT_REFUSED,
        DecisionKind.TOPIC_NOT_CREATED,
        DecisionKind.ACCESS_DENIED,
        DecisionKind.AUTHENTICATION_FAILED,
        DecisionKind.DEAD_LETTERS_FAILED,
        DecisionKind.TOKEN_REFUSED,
        DecisionKind.CERTIFICATE_REFUSED,
    }
)
CAUSES: Final = frozenset(
    {
        DecisionKind.BROKER_WENT,
        DecisionKind.BROKER_UNREACHABLE,
        DecisionKind.BROKER_SHUTTING_DOWN,
        DecisionKind.SESSION_EXPIRED,
        DecisionKind.CONTROLLER_ELECTED,
        DecisionKind.LOG_DIRECTORY_OFFLINE,
    }
)
CONSEQUENCES: Final = frozenset({DecisionKind.LEADERSHIP_TAKEN, DecisionKind.FOLLOWING})
NEWS_SPREADS_MS: Final = 10_000
"""For how long after an election brokers may still refuse each other's epochs."""
TOGETHER_MS: Final = 2_000
MOST_OTHERS: Final = 50
CAUSE_MS: Final = 60_000
"""How long before a decision another one may be its cause."""
EPOCH_MS: Final = 1_000_000_000_000
"""A number of ms from here on is a moment since 1970, below it a stretch of time."""
PROPOSED: Final = "proposed_isr"
"""Evidence that only the controller has, of an ISR that a leader proposed."""
_OF_BROKER: Final = re.compile(r"broker_(\d+)_(.+)")


@dataclass(frozen=True, slots=True)
class Story:
    """One decision in words. `level` is bad, warn or ok; `link` leads to its subject's page, '' where there is none."""

    decision_id: str
    decision: Decision
    level: str
    kind: str
    subject: str
    link: str
    changes: tuple[str, ...]
    why: str
    language: str
    """Of `why`."""
    evidence: tuple[tuple[str, Markup], ...]

    @property
    def at_ms(self) -> int:
        return self.decision.at_ms


class DecisionText(NamedTuple):
    """A story, and others like it at that time."""

    story: Story
    others: tuple[Story, ...]
    more: int
    """How many there are beyond `others`."""


def describe(recorded: RecordedDecision, cluster: str, look: Look) -> Story:
    """`cluster` is its name in addresses."""
    decision = recorded.decision
    said = look.translate.sentence(decision.why)
    return Story(
        recorded.decision_id,
        decision,
        level_of(decision),
        str(look.translate.plain(decision.kind.value)),
        subject_of(decision),
        link_to(decision, cluster),
        tuple(_changes(decision, look)),
        sentence(decision.why) if said is None else f"{said}。",
        ENGLISH if said is None else look.translate.language,
        tuple(_evidence(decision, look)) if said is None else (*_evidence(decision, look), _own_words(decision, look)),
    )


def level_of(decision: Decision) -> str:
    if decision.kind in GRAVE or decision.evidence.get("unclean") is True:
        return "bad"
    if decision.kind is DecisionKind.LOG_TRUNCATED and _end(decision.before) == _end(decision.after):
        return "ok"  # An epoch without records was forgotten: nothing was cut off.
    return "warn" if decision.kind in NOTABLE else "ok"


def _end(log: Mapping[str, object]) -> object:
    return log.get("log_end_offset")


def subject_of(decision: Decision) -> str:
    """What it is about for a reader: a topic that the controller made is the topic's story."""
    topic = decision.evidence.get("topic")
    if decision.partition is None and isinstance(topic, str):
        return topic
    return decision.subject


def link_to(decision: Decision, cluster: str) -> str:
    place = f"/c/{path_part(cluster)}"
    if decision.partition is not None:
        name = decision.partition
        return f"{place}/topics/{path_part(name.topic)}?partition={name.partition}"
    topic = decision.evidence.get("topic")
    if isinstance(topic, str) and decision.kind is not DecisionKind.TOPIC_DELETED:
        return f"{place}/topics/{path_part(topic)}"
    if decision.group is not None:
        return f"{place}/groups/{path_part(decision.group)}"
    if decision.about_broker >= 0:
        return f"{place}/brokers/{decision.about_broker}"
    return f"{place}/brokers"


def causes_of(decision: Decision, everything: Iterable[RecordedDecision]) -> list[RecordedDecision]:
    """What befell brokers and the controller shortly before, and may be why; the latest first."""
    return [
        each
        for each in sorted(everything, key=lambda each: -each.decision.at_ms)
        if each.decision.kind in CAUSES and 0 <= decision.at_ms - each.decision.at_ms <= CAUSE_MS
    ]


def of_broker(everything: Iterable[RecordedDecision], broker: int) -> list[RecordedDecision]:
    """Decisions about the broker itself, and those by which it entered or left an ISR or a lead."""
    return [each for each in everything if each.decision.about_broker == broker or broker in _moved(each.decision)]


def essential(decisions: Sequence[RecordedDecision]) -> list[RecordedDecision]:
    """Without what only follows from another decision: that a broker leads or follows because a leader was elected,
    and that requests were fenced while the news of a later epoch spread. The page of decisions has them all."""
    elected = {
        (each.decision.subject, each.decision.at_ms // NEWS_SPREADS_MS + step)
        for each in decisions
        if _changes_epoch(each.decision)
        for step in (0, 1)
    }
    return [
        each
        for each in without_echoes(decisions)
        if each.decision.kind not in CONSEQUENCES
        and not (
            each.decision.kind is DecisionKind.FENCED
            and (each.decision.subject, each.decision.at_ms // NEWS_SPREADS_MS) in elected
        )
    ]


def _changes_epoch(decision: Decision) -> bool:
    before, after = decision.before.get("leader_epoch"), decision.after.get("leader_epoch")
    return decision.kind is DecisionKind.LEADER_ELECTED or (after is not None and before != after)


def fold(decisions: Iterable[RecordedDecision]) -> list[list[RecordedDecision]]:
    """Decisions of one kind that one broker made at about the same time, together: a death moves many leaders. Each
    group stands where its first one stood."""
    groups: list[list[RecordedDecision]] = []
    latest: dict[tuple[DecisionKind, int], list[RecordedDecision]] = {}
    for each in decisions:
        key = (each.decision.kind, each.decision.broker_id)
        group = latest.get(key)
        if group is None or abs(group[0].decision.at_ms - each.decision.at_ms) > TOGETHER_MS:
            group = latest[key] = []
            groups.append(group)
        group.append(each)
    return groups


def describe_folded(groups: Iterable[Sequence[RecordedDecision]], cluster: str, look: Look) -> list[DecisionText]:
    """Each group as the story of its first, and those of the next MOST_OTHERS."""
    return [
        DecisionText(
            describe(first, cluster, look),
            tuple(describe(each, cluster, look) for each in others[:MOST_OTHERS]),
            max(len(others) - MOST_OTHERS, 0),
        )
        for first, *others in groups
    ]


def without_echoes(decisions: Sequence[RecordedDecision]) -> list[RecordedDecision]:
    """Without the controller's record of an ISR change whose reason the leader recorded: that one says why."""
    told = {
        (each.decision.subject, each.decision.kind, repr(each.decision.after.get("isr")))
        for each in decisions
        if PROPOSED not in each.decision.evidence
    }
    return [
        each
        for each in decisions
        if PROPOSED not in each.decision.evidence
        or (each.decision.subject, each.decision.kind, repr(each.decision.after.get("isr"))) not in told
    ]


def _moved(decision: Decision) -> set[int]:
    moved: set[int] = set()
    for name in ("isr", "leader", "replicas", "controller"):
        before, after = brokers_in(decision.before.get(name)), brokers_in(decision.after.get(name))
        moved |= before ^ after
    return moved


# -- words


def sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _changes(decision: Decision, look: Look) -> Iterable[str]:
    """`leader 3 → 2`, one for each field that is another than before."""
    for name in dict.fromkeys([*decision.before, *decision.after]):
        before, after = decision.before.get(name), decision.after.get(name)
        if name in decision.before and name in decision.after:
            if before != after:
                yield f"{_word(name, look)} {_plain(name, before, look)} → {_plain(name, after, look)}"
        elif name in decision.after:
            yield f"{_word(name, look)} {_plain(name, after, look)}"


def _evidence(decision: Decision, look: Look) -> Iterable[tuple[str, Markup]]:
    _ = look.translate
    yield _("decided by"), Markup(_("broker {n}", n=decision.broker_id))
    if decision.leader_epoch >= 0:
        yield _word("leader_epoch", look), safe(decision.leader_epoch)
    if decision.controller_epoch >= 0:
        yield _word("controller_epoch", look), safe(decision.controller_epoch)
    for name, value in decision.evidence.items():
        yield _label(name, look), _value(name, value, decision, look)


def _own_words(decision: Decision, look: Look) -> tuple[str, Markup]:
    return look.translate("in the broker's own words"), Markup('<span lang="en">{}</span>').format(
        safe(sentence(decision.why))
    )


def _label(name: str, look: Look) -> str:
    match = _OF_BROKER.fullmatch(name)
    if match is None:
        return _word(name, look)
    return look.translate("broker {n}, {what}", n=match[1], what=_word(match[2], look))


def _word(name: str, look: Look) -> str:
    text = _WORDS.get(name) or name.removesuffix("_ms").replace("_", " ")
    return str(look.translate.plain(text))


_WORDS: Final = {
    "isr": "in sync",
    "last_caught_up_ms": "last caught up",
    "last_fetch_ms": "last fetched",
    "live": "alive",
    "log_end_offset_of_joining": "log end offset of the joining replica",
}


def _value(name: str, value: Fact, decision: Decision, look: Look) -> Markup:
    """A value with what makes it readable: how long before, how far behind."""
    _ = look.translate
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith("_ms"):
            if value < 0:
                return safe(_("never"))
            if value < EPOCH_MS:
                return safe(duration(value))
            at = clock(value, look.zone, decision.at_ms, millis=True)
            return Markup("{} ({})").format(
                at, _("{t} before the decision", t=duration(max(decision.at_ms - value, 0)))
            )
        end = decision.evidence.get("log_end_offset")
        if name.endswith("_log_end_offset") and isinstance(end, int):
            return Markup("{} ({})").format(value, _("{n} records behind the leader", n=f"{max(end - value, 0):,}"))
    return safe(_plain(name, value, look))


def _plain(name: str, value: Fact, look: Look) -> str:
    _ = look.translate
    match value:
        case None:
            return str(_("none"))
        case bool():
            return str(_("yes") if value else _("no"))
        case int():
            if value == -1 and name in ("leader", "leader_epoch", "controller"):
                return str(_("none"))
            return f"{value:,}" if value >= 10_000 and is_quantity(name) else str(value)
        case list() | tuple():
            return ", ".join(_plain("", each, look) for each in value) or str(_("none"))
        case _:
            return str(value)
