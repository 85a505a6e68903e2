"""Rules that make a principal's name of a certificate's distinguished name: ssl.principal.mapping.rules.

Decides which rule fits and what it makes. Must not know certificates or listeners.

    DEFAULT                        the distinguished name as it is
    RULE:pattern/replacement/LU    where the pattern matches the whole name; L or U changes the case of the result

I1  The first rule that fits decides. Where none does the connection fails, as in Kafka.
I2  A name is mapped in bounded time, whatever the pattern and whoever chose the name; one that takes longer is refused.
I3  A replacement that Java could not use is refused when the rules are read. Kafka closes each connection instead.

Patterns are Python's regular expressions, with Java's meaning (`bounded_patterns`). Java's are the same but for few
forms (\\p{...}, \\Q...\\E, sets within sets), which are refused when the rules are read.

Source: Kafka's SslPrincipalMapper (KIP-371); Java's Matcher.appendReplacement.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kavka.security.bounded_patterns import BoundedPattern, Match, TooLaborious

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_GROUP_NAME: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_DIGITS: Final = re.compile("[0-9]+")


class NoMatchingRule(ValueError):
    """No rule fits a distinguished name."""


class _Rule(NamedTuple):
    """`pattern` None: DEFAULT. The replacement is made of texts and of groups' numbers."""

    pattern: BoundedPattern | None
    replacement: tuple[str | int, ...] = ()
    case: str = ""


class PrincipalRules:
    """The rules of one setting. Raises ValueError for a text that is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._rules = [rule for found in _SPLITTER.finditer(text.strip()) if (rule := _parse(found[1])) is not None]

    def name(self, distinguished_name: str) -> str:
        """The principal's name. Raises NoMatchingRule."""
        try:
            for rule in self._rules:
                if rule.pattern is None:
                    return distinguished_name
                if rule.pattern.fullmatch(distinguished_name) is not None:
                    made = _replaced(rule, rule.pattern, distinguished_name)
                    return made.lower() if rule.case == "L" else made.upper() if rule.case == "U" else made
        except TooLaborious as error:
            raise NoMatchingRule(
                f"ssl.principal.mapping.rules take too long ({error}) with a distinguished name of "
                f"{len(distinguished_name)} characters that begins with {distinguished_name[:100]!r}: {self.text}"
            ) from error
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
        pattern = BoundedPattern(match[2])
        return _Rule(pattern, _replacement(match[3], pattern), match[4])
    except ValueError as error:
        raise ValueError(f"Invalid rule: {text}: {error}") from error


def _replaced(rule: _Rule, pattern: BoundedPattern, text: str) -> str:
    made, end = list[str](), 0
    for found in pattern.find_all(text):
        made += text[end : found.start], _expanded(rule.replacement, found)
        end = found.end
    return "".join(made) + text[end:]


def _expanded(replacement: tuple[str | int, ...], found: Match) -> str:
    return "".join(found.group(part) if isinstance(part, int) else part for part in replacement)


def _replacement(form: str, pattern: BoundedPattern) -> tuple[str | int, ...]:
    """Java's form: $1 is a group, as many digits as there are groups for, and ${name} one with a name; a backslash
    takes what follows as it is. Kafka leaves a number that no group has as it stands, if there are groups at all.
    Raises ValueError for what Java could not use."""
    parts: list[str | int] = []
    at, groups = 0, pattern.group_count
    while at < len(form):
        one, rest = form[at], form[at + 1 :]
        if one == "\\":
            parts.append(rest[:1])
            at += 2
            continue
        if one != "$":
            parts.append(one)
            at += 1
            continue
        name, digits = _GROUP_NAME.match(rest), _DIGITS.match(rest)
        if name is not None and name[1] in pattern.names:
            parts.append(pattern.names[name[1]])
            at += 1 + name.end()
        elif digits is not None and int(digits[0][0]) <= groups:
            size = 1
            while size < len(digits[0]) and int(digits[0][: size + 1]) <= groups:
                size += 1
            parts.append(int(digits[0][:size]))
            at += 1 + size
        elif digits is not None and groups:
            parts.append(one)
            at += 1
        else:
            raise ValueError(f"the replacement asks for a group that the pattern does not have: {form}")
    return tuple(parts)
