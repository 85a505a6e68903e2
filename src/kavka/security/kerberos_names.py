"""Kerberos principals, and the rules that make a user's short name of one: sasl.kerberos.principal.to.local.rules.

Decides what a principal's text means, which rule fits it and what the rule makes. Must not know tickets or listeners.

    DEFAULT                            the first component, of a principal in this machine's realm
    RULE:[n:format](match)s/from/to/g/L
        n        how many components the principal has: 1 (alice@REALM) or 2 (kafka/host@REALM)
        format   the base text: $0 is the realm, $1 and $2 the components
        match    where it is given, it must match the whole base text
        s/.../   what is replaced in the base text: the first place, with g each
        L, U     the case of the result

    I1  The first rule that fits decides. Where none does the login fails.
    I2  A short name has neither "/" nor "@": a rule that makes such a one fails the login, as in Kafka.
    I3  A name that Kerberos writes with a backslash, because a component has one of its signs, is refused: Kafka's
        rules do not know such names, and would take its parts for components.

A rule's replacement is checked when it is used, as in Kafka: a rule that fits nobody harms nobody. Patterns are
matched in bounded time; see `bounded_patterns`.

Source: Kafka's KerberosName, KerberosRule, KerberosShortNamer; Java's Matcher.appendReplacement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.security.bounded_patterns import BoundedPattern, Match, TooLaborious

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?", re.ASCII
)
_PARAMETER: Final = re.compile(r"([^$]*)(?:\$(\d*))?", re.ASCII)
_GROUP_NAME: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_NOT_SIMPLE: Final = re.compile("[/@]")
MAX_COMPONENTS: Final = 2**31 - 1
"""The greatest number of components that a rule may name, as in Java."""


class NoShortName(ValueError):
    """A principal that no rule makes a name of."""


class KerberosName(NamedTuple):
    """`host` and `realm` are None where the text has none."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Raises NoShortName."""
        found = _NAME.fullmatch(text)
        if "\\" in text or (found is None and "@" in text):
            raise NoShortName(f"Malformed Kerberos name: {text}")
        return cls(text, None, None) if found is None else cls(found[1], found[2], found[3])

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" + ("" if self.realm is None else f"@{self.realm}")


class _Rule(NamedTuple):
    """`components` None: DEFAULT."""

    text: str
    components: int | None = None
    format: str = ""
    match: BoundedPattern | None = None
    pattern: BoundedPattern | None = None
    replacement: str = ""
    is_repeated: bool = False
    case: str = ""


class ShortNames:
    """The rules of one setting, on a machine whose realm is `default_realm`. Raises ValueError for a text that is none,
    with Kafka's sentence."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._default_realm = default_realm
        self._rules = [_parse(text) for text in rules]

    def of(self, name: KerberosName) -> str:
        """The short name. Raises NoShortName."""
        if name.realm is None and name.host is None:
            return name.service
        parameters = [name.realm or "", name.service, *(() if name.host is None else (name.host,))]
        for rule in self._rules:
            try:
                made = self._applied(rule, parameters)
            except TooLaborious as error:
                raise NoShortName(f"auth_to_local rule {rule.text} takes too long with {name}: {error}") from error
            if made is not None:
                return made
        raise NoShortName(f"No rules apply to {name}, rules [{', '.join(rule.text for rule in self._rules)}]")

    def _applied(self, rule: _Rule, parameters: Sequence[str]) -> str | None:
        if rule.components is None:
            made = parameters[1] if parameters[0] == self._default_realm else None
        elif rule.components == len(parameters) - 1:
            base = _formatted(rule.format, parameters)
            if rule.match is not None and rule.match.fullmatch(base) is None:
                return None
            made = base if rule.pattern is None else _replaced(rule, rule.pattern, base)
        else:
            return None
        if made is None:
            return None
        if _NOT_SIMPLE.search(made):
            raise NoShortName(f"Non-simple name {made} after auth_to_local rule {rule.text}")
        return made.lower() if rule.case == "L" else made.upper() if rule.case == "U" else made


def _parse(text: str) -> _Rule:
    found = _RULE.match(text)
    if found is None:
        raise ValueError(f"Invalid rule: {text}")
    if found.end() != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[found.end() :]}`")
    if found[1] is not None:
        return _Rule(text)
    if not found[2] or int(found[2]) > MAX_COMPONENTS:
        raise ValueError(f"Invalid rule: {text}: it does not say of how many components a principal is")
    try:
        match, pattern = (None if group is None else BoundedPattern(group) for group in (found[4], found[5]))
    except ValueError as error:
        raise ValueError(f"Invalid rule: {text}: {error}") from error
    return _Rule(text, int(found[2]), found[3], match, pattern, found[6] or "", found[7] == "g", found[8] or "")


def _formatted(form: str, parameters: Sequence[str]) -> str:
    made: list[str] = []
    at = 0
    while at < len(form):
        found = _PARAMETER.match(form, at)
        assert found is not None, "it matches any text"
        made.append(found[1])
        if found[2] is not None:
            if not found[2]:
                raise NoShortName(f"bad format in username mapping in {form}")
            if int(found[2]) >= len(parameters):
                raise NoShortName(
                    f"index {found[2]} from {form} is outside of the valid range 0 to {len(parameters) - 1}"
                )
            made.append(parameters[int(found[2])])
        at = found.end()
    return "".join(made)


def _replaced(rule: _Rule, pattern: BoundedPattern, base: str) -> str:
    made, end = list[str](), 0
    for found in pattern.find_all(base):
        made += base[end : found.start], _expanded(rule, pattern, found)
        end = found.end
        if not rule.is_repeated:
            break
    return "".join(made) + base[end:]


def _expanded(rule: _Rule, pattern: BoundedPattern, match: Match) -> str:
    """Java's replacement: $1 or ${name} is a group, as many digits as there are groups for; a backslash takes what
    follows as it is."""
    form, made = rule.replacement, list[str]()
    at, groups = 0, pattern.group_count
    while at < len(form):
        one, rest = form[at], form[at + 1 :]
        if one == "\\" and rest:
            made.append(rest[0])
            at += 2
        elif one == "$" and (name := _GROUP_NAME.match(rest)) and name[1] in pattern.names:
            made.append(match.group(pattern.names[name[1]]))
            at += 1 + name.end()
        elif one == "$" and (digits := re.match("[0-9]+", rest)) and int(digits[0][0]) <= groups:
            size = 1
            while size < len(digits[0]) and int(digits[0][: size + 1]) <= groups:
                size += 1
            made.append(match.group(int(digits[0][:size])))
            at += 1 + size
        elif one in "\\$":
            raise NoShortName(f"Illegal group reference in the replacement of auth_to_local rule {rule.text}")
        else:
            made.append(one)
            at += 1
    return "".join(made)
