"""Rights: what somebody may do, on which clusters, with which topics, and whether messages are shown to them.

Decides from grants. Must not know requests, how somebody logged in, nor what a page shows.

    grant    a role on the clusters that a pattern names, with the topics that patterns name. `reads_values`: messages,
             too; `unmasked`: those fields of them, too, that are masked for others (masks.py)

I1  What no grant gives is refused: who has none may do nothing.
I2  A grant counts whole: the role of one grant is never joined with the topics or the messages of another.
"""

from __future__ import annotations

from enum import IntEnum
from fnmatch import fnmatchcase
from typing import NamedTuple


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1
    """Look at everything but messages, which are a right of their own."""
    OPERATOR = 2
    """Change what can be changed back: topics, settings, offsets, moves of replicas; produce."""
    ADMIN = 3
    """Delete topics, records and groups, too."""


def role_named(text: str) -> Role:
    """Raises ValueError, which says what there is."""
    try:
        return Role[text.upper()]
    except KeyError:
        raise ValueError(f"{text!r} is no role: viewer, operator or admin") from None


class Grant(NamedTuple):
    """Patterns are those of a shell: `*` is any text. `topics` ("*",): all of them, and what is not about a topic."""

    role: Role
    cluster: str = "*"
    topics: tuple[str, ...] = ("*",)
    reads_values: bool = False
    is_unmasked: bool = False

    def is_on(self, cluster: str) -> bool:
        return fnmatchcase(cluster, self.cluster)

    def has_topic(self, topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in self.topics)

    @property
    def has_all_topics(self) -> bool:
        return "*" in self.topics

    def __str__(self) -> str:
        """As in `operator on prod, topics payments-*, values`."""
        words = [f"{self.role.name.lower()} on {self.cluster}"]
        if not self.has_all_topics:
            words.append(f"topics {' '.join(self.topics)}")
        words += ["values"] * self.reads_values + ["unmasked"] * self.is_unmasked
        return ", ".join(words)


class Rights(tuple[Grant, ...]):
    """All grants of somebody."""

    __slots__ = ()

    @property
    def highest(self) -> Role | None:
        """The highest role on any cluster; None without a grant."""
        return max((grant.role for grant in self), default=None)

    def anywhere(self, role: Role) -> bool:
        """On one cluster at least, with all topics or some."""
        return any(grant.role >= role for grant in self)

    def everywhere(self, role: Role) -> bool:
        """On all clusters, those that are added later included."""
        return any(grant.role >= role and grant.cluster == "*" and grant.has_all_topics for grant in self)

    def on(self, cluster: str, role: Role) -> bool:
        """On this cluster, with all topics or some."""
        return any(grant.role >= role and grant.is_on(cluster) for grant in self)

    def on_all_topics(self, cluster: str, role: Role) -> bool:
        """On this cluster, for what is not about one topic, too."""
        return any(grant.role >= role and grant.is_on(cluster) and grant.has_all_topics for grant in self)

    def on_topic(self, cluster: str, topic: str, role: Role) -> bool:
        return any(grant.role >= role and grant.is_on(cluster) and grant.has_topic(topic) for grant in self)

    def reads_values(self, cluster: str, topic: str) -> bool:
        return any(grant.reads_values and grant.is_on(cluster) and grant.has_topic(topic) for grant in self)

    def reads_unmasked(self, cluster: str, topic: str) -> bool:
        """Whether masks of the topic's messages do not hold for them."""
        return any(
            grant.reads_values and grant.is_unmasked and grant.is_on(cluster) and grant.has_topic(topic)
            for grant in self
        )


def full(role: Role) -> Rights:
    """Of a role without bounds: messages, too, but for what is masked in them."""
    return Rights([Grant(role, reads_values=True)])


def parse_grant(text: str) -> Grant:
    """A grant as its text says it. Raises ValueError.

    >>> str(parse_grant("operator on prod, topics payments-* audit, values"))
    'operator on prod, topics payments-* audit, values'
    """
    first, *rest = [part.strip() for part in text.split(",")]
    words = first.split()
    if len(words) != 3 or words[1] != "on":
        raise ValueError(f"{text!r}: expected ROLE on CLUSTER[, topics PATTERN ...][, values[, unmasked]]")
    grant = Grant(role_named(words[0]), words[2])
    for part in rest:
        name, *patterns = part.split() or [""]
        if name == "topics" and patterns:
            grant = grant._replace(topics=tuple(patterns))
        elif part == "values":
            grant = grant._replace(reads_values=True)
        elif part == "unmasked":
            grant = grant._replace(is_unmasked=True)
        else:
            raise ValueError(f"{text!r}: {part!r} is none of topics PATTERN, values, unmasked")
    if grant.is_unmasked and not grant.reads_values:
        raise ValueError(f"{text!r}: unmasked is about messages, and takes values beside it")
    return grant
