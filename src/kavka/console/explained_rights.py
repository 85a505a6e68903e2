"""ExplainedRights: what somebody may do in the console, and which line of its settings decides that.

Decides from a settings file's text, whose rights are asked for, and names of clusters and topics. Must not know users
of the console's database, nor how the answer is printed.

I1  What is told is what the pages ask (rights.py, masks.py), not a second opinion: each answer is made by taking the
    grants one by one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.console.masks import Mask, mask_of
from kavka.console.rights import Grant, Rights, Role, parse_grant
from kavka.console.settings import ConsoleSettings

_HEADER: Final = re.compile(r"\s*\[\[\s*(user|mask|sso\s*\.\s*rule)\s*\]\]")
_ANY_HEADER: Final = re.compile(r"\s*\[")
QUESTIONS: Final = ("see it", "change it", "delete it", "read its messages", "read what is masked in them")
"""About a topic, in the order of answers."""


class Source(NamedTuple):
    """A grant and where it stands: a line of the file, 0 where it is in none or cannot be told."""

    grant: Grant
    line: int = 0
    by: str = ""
    """What else gives it: the database, or the group or subject of a rule."""


class Answer(NamedTuple):
    """One question about a topic of a cluster. `source` is None where the answer is no. `note`: why it is no
    although a right gives it."""

    cluster: str
    topic: str
    question: str
    source: Source | None
    note: str = ""

    @property
    def is_yes(self) -> bool:
        return self.source is not None and not self.note


class MaskedField(NamedTuple):
    """What is masked in a topic's messages, and the line that says so."""

    field: str
    line: int


class Block(NamedTuple):
    """The lines of one table. `first` is its header's number, 0 where it is not known."""

    first: int
    texts: Sequence[str]

    def line_of(self, value: str) -> int:
        """The line that holds a text."""
        for number, text in enumerate(self.texts):
            if value in text:
                return self.first + number
        return self.first


class ExplainedRights:
    """The rights of somebody, by the settings and the text that they were read from. masks: where these stand."""

    def __init__(self, settings: ConsoleSettings, sources: Sequence[Source], masks: Sequence[Block]) -> None:
        self._settings = settings
        self._masks = masks
        self.sources = tuple(sources)

    def clusters_of(self, grant: Grant) -> list[str]:
        """The clusters of the settings that a grant is about."""
        return [each.name for each in self._settings.clusters if grant.is_on(each.name)]

    def about(self, cluster: str, topic: str) -> list[Answer]:
        """An answer to each question."""
        tests: tuple[Callable[[Rights], bool], ...] = (
            lambda rights: rights.on_topic(cluster, topic, Role.VIEWER),
            lambda rights: rights.on_topic(cluster, topic, Role.OPERATOR),
            lambda rights: rights.on_topic(cluster, topic, Role.ADMIN),
            lambda rights: rights.reads_values(cluster, topic),
            lambda rights: rights.reads_unmasked(cluster, topic),
        )
        read_only = any(each.name == cluster and each.read_only for each in self._settings.clusters)
        answers = []
        for question, test in zip(QUESTIONS, tests, strict=True):
            source = next((each for each in self.sources if test(Rights([each.grant]))), None)
            is_change = question in ("change it", "delete it")
            note = "the cluster is read_only: nobody changes it" if read_only and is_change and source else ""
            answers.append(Answer(cluster, topic, question, source, note))
        return answers

    def masked(self, cluster: str, topic: str) -> list[MaskedField]:
        """The fields that are masked for them in the topic's messages, whether they may read these or not."""
        if Rights(each.grant for each in self.sources).reads_unmasked(cluster, topic):
            return []
        found = []
        for mask, block in zip(self._settings.masks, self._masks, strict=True):
            of_mask = mask_of([mask], cluster, topic)
            fields = () if of_mask is None else of_mask.fields
            found += [MaskedField(field, block.line_of(f'"{field}"')) for field in fields]
        return found


def of_user(settings: ConsoleSettings, text: str, name: str) -> list[Source] | None:
    """The grants of a user of the settings; None where they do not name this user."""
    document, lines = tomllib.loads(text), _Lines(text)
    users = document.get("user", [])
    for number, user in enumerate(users):
        if user["name"] == name:
            return _sources(user.get("rights", []), lines.block("user", number, len(users)))
    return None


def of_groups(settings: ConsoleSettings, text: str, groups: Sequence[str], subject: str) -> list[Source]:
    """The grants of somebody who logs in by the provider with these groups."""
    document, lines = tomllib.loads(text), _Lines(text)
    rules: list[Mapping[str, Any]] = document.get("sso", {}).get("rule", [])
    found: list[Source] = []
    for number, rule in enumerate(rules):
        group = rule.get("group", "")
        if (group in groups) if group else (rule["subject"] == subject):
            by = f"group {group}" if group else f"subject {rule['subject']}"
            sources = _sources(rule["rights"], lines.block("sso.rule", number, len(rules)))
            found += [source._replace(by=by) for source in sources]
    return found


def mask_blocks(masks: Sequence[Mask], text: str) -> list[Block]:
    """Where the masks of the settings stand."""
    lines = _Lines(text)
    return [lines.block("mask", number, len(masks)) for number in range(len(masks))]


class _Lines:
    """Where tables begin. TOML's reader tells no line numbers: where the headers that are found are not as many as the
    tables that it read (a table may be written in other ways), no number is told."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._headers: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            if header := _HEADER.match(line):
                self._headers.setdefault("".join(header[1].split()), []).append(number)

    def block(self, kind: str, number: int, count: int) -> Block:
        headers = self._headers.get(kind, [])
        if len(headers) != count:
            return Block(0, ())
        first = last = headers[number]
        while last + 1 < len(self._lines) and not _ANY_HEADER.match(self._lines[last + 1]):
            last += 1
        return Block(first + 1, self._lines[first : last + 1])


def _sources(rights: Sequence[str], block: Block) -> list[Source]:
    return [Source(parse_grant(each), block.line_of(each)) for each in rights]
