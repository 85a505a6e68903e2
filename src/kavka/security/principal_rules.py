"""Rules that make a principal's name of a certificate's distinguished name: ssl.principal.mapping.rules.

Decides which rule fits and what it makes. Must not know certificates or listeners.

    DEFAULT                        the distinguished name as it is
    RULE:pattern/replacement/LU    where the pattern matches the whole name; L or U changes the case of the result

I1  The first rule that fits decides. Where none does the connection fails, as in Kafka.

Patterns are Python's regular expressions; Java's are the same but for few forms (possessive quantifiers before Python
3.11, character class intersections), which are refused when the rules are read if Python does not know them.

Source: Kafka's SslPrincipalMapper (KIP-371).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)


class NoMatchingRule(ValueError):
    """No rule fits a distinguished name."""


class _Rule(NamedTuple):
    """`pattern` None: DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""


class PrincipalRules:
    """The rules of one setting. Raises ValueError for a text that is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._rules = [rule for found in _SPLITTER.finditer(text.strip()) if (rule := _parse(found[1])) is not None]

    def name(self, distinguished_name: str) -> str:
        """The principal's name. Raises NoMatchingRule."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name):
                made = _replaced(rule, distinguished_name)
                return made.lower() if rule.case == "L" else made.upper() if rule.case == "U" else made
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}: {self.text}")


def _parse(text: str) -> _Rule | None:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        unmatched = text[match.end() :] if match else text
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{unmatched}`")
    if match[1] is not None:
        return _Rule(None)
    if match[2] is None:
        return None
    try:
        return _Rule(re.compile(with_python_groups(match[2])), match[3], match[4])
    except re.error as error:
        raise ValueError(f"Invalid rule: {text}: {error}") from error


def with_python_groups(pattern: str) -> str:
    """Java writes named groups as (?<name>...)."""
    return re.sub(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", r"(?P<\1>", pattern)


def _replaced(rule: _Rule, text: str) -> str:
    assert rule.pattern is not None
    return rule.pattern.sub(lambda match: _expanded(rule.replacement, match), text)


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement: $1 is a group, as many digits as there are groups for; a backslash takes what follows as
    it is. A reference to a group that does not exist is left as it stands."""
    made: list[str] = []
    at, groups = 0, match.re.groups
    while at < len(replacement):
        one = replacement[at]
        if one == "\\" and at + 1 < len(replacement):
            made.append(replacement[at + 1])
            at += 2
        elif one == "$" and (digits := re.match(r"[0-9]+", replacement[at + 1 :])) and int(digits[0][0]) <= groups:
            size = 1
            while size < len(digits[0]) and int(digits[0][: size + 1]) <= groups:
                size += 1
            made.append(match[int(digits[0][:size])] or "")
            at += 1 + size
        else:
            made.append(one)
            at += 1
    return "".join(made)
