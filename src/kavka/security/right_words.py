"""Rights in short words, as `kavka users add` and `kavka.testing` take them.

Decides what a word means. Must not know command lines.

    read:orders-*     Read on the topics whose names begin with orders-; read:* on all, read:orders on that one
    group billing     Read on the group, as consumers need it

I1  What is not one of these words is an error: nothing is granted by a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kavka.security.acls import Binding, Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType

TOPIC_WORDS: Final = {
    "read": Operation.READ,
    "write": Operation.WRITE,
    "create": Operation.CREATE,
    "delete": Operation.DELETE,
    "alter": Operation.ALTER,
    "describe": Operation.DESCRIBE,
    "all": Operation.ALL,
}


class NoRight(ValueError):
    """A text that is no right."""


def rights(user: str, allowed: Iterable[str], groups: Iterable[str]) -> list[Binding]:
    """What allows a user, from every host, what `allowed` (WORD:TOPIC) and `groups` say. Raises NoRight."""
    wanted = [_topic_right(text) for text in allowed]
    wanted += [(_pattern(ResourceType.GROUP, group), Operation.READ) for group in groups]
    return sorted(
        {Binding(pattern, Entry(f"User:{user}", "*", operation, Permission.ALLOW)) for pattern, operation in wanted}
    )


def _topic_right(text: str) -> tuple[Pattern, Operation]:
    word, colon, topic = text.partition(":")
    if not colon or not topic or word.lower() not in TOPIC_WORDS:
        raise NoRight(f"{text}: not WORD:TOPIC")
    return _pattern(ResourceType.TOPIC, topic), TOPIC_WORDS[word.lower()]


def _pattern(kind: ResourceType, text: str) -> Pattern:
    if text != "*" and text.endswith("*"):
        return Pattern(kind, text[:-1], PatternType.PREFIXED)
    return Pattern(kind, text, PatternType.LITERAL)
