"""SsoSettings: the provider by which people log in to the console, and which rights they have by what it says of them.

Decides what the table `[sso]` may say, and which rights follow from groups. Must not know HTTP, tokens nor sessions.

    [sso]
    issuer = "https://login.example.com/realms/main"    # as the provider calls itself, letter by letter
    client_id = "kavka-console"
    client_secret = "env:KAVKA_SSO_SECRET"              # or file:PATH; without: public = true
    address = "https://kavka.example.com"               # of the console, as browsers know it
    label = "Example"                                   # on the button; without: the issuer's host
    scopes = ["openid", "profile", "groups"]            # what is asked for
    name_claim = "preferred_username"                   # how somebody is called on pages and in the audit log
    groups_claim = "groups"                             # a list of texts; a.b: b inside of a
    clock_skew_s = 30
    authorities = "/etc/ssl/login-ca.pem"               # without: those that the machine trusts

    [[sso.rule]]
    group = "kafka-ops"                                 # or subject = "...": one person, by the provider's number
    rights = ["operator on prod, topics payments-*, values"]

I1  Nobody has a right that no rule gives.
I2  What is missing or makes no sense ends the start: no default stands for an issuer, a client, an address or a secret.
I3  The secret is in no repr and no message.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kavka.console.rights import Rights, parse_grant
from kavka.errors import ConfigError
from kavka.security.secret import Secret

CALLBACK: Final = "/login/sso/callback"
"""Where the provider sends browsers back to, below `address`."""
USER_PREFIX: Final = "sso:"
MOST_RULES: Final = 1_000
MOST_RIGHTS: Final = 200
"""Of one rule."""
MOST_SKEW_S: Final = 300
LONGEST_SECRET: Final = 4_096
_TYPES: Final[Mapping[str, type]] = {
    "issuer": str,
    "client_id": str,
    "client_secret": str,
    "public": bool,
    "address": str,
    "label": str,
    "scopes": list,
    "name_claim": str,
    "groups_claim": str,
    "clock_skew_s": int,
    "authorities": str,
    "rule": list,
}


class SsoRule(NamedTuple):
    """The rights of a group, or of one subject; the other of the two is ''."""

    group: str
    subject: str
    rights: Rights


class Identity(NamedTuple):
    """Who logged in. `subject` is the provider's number for them, `groups` those that it names."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]

    @property
    def user_name(self) -> str:
        """How pages and the audit log call them. No other user can be called so: names of the console's own users have
        no colon, and of two people with the same name the providers or the subjects differ."""
        number = f"{self.issuer}\n{self.subject}"
        return f"{USER_PREFIX}{self.name}#{hashlib.sha256(number.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SsoSettings:
    """The table, checked. `secret` is empty for a public client."""

    issuer: str
    client_id: str
    address: str
    secret: Secret = field(default_factory=lambda: Secret(""), repr=False)
    label: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    clock_skew_s: int = 30
    authorities: str = ""
    rules: tuple[SsoRule, ...] = ()

    @property
    def redirect_uri(self) -> str:
        return self.address + CALLBACK

    @property
    def is_https(self) -> bool:
        return self.address.startswith("https:")

    def counted(self, groups: Collection[str]) -> tuple[str, ...]:
        """Those groups that a rule names."""
        return tuple(sorted({rule.group for rule in self.rules if rule.group} & {*groups}))

    def rights_of(self, subject: str, groups: Collection[str]) -> Rights:
        """All that the rules give; nothing where none fits."""
        fitting = [rule for rule in self.rules if (rule.group in groups if rule.group else rule.subject == subject)]
        return Rights(grant for rule in fitting for grant in rule.rights)


def parse_sso(table: object, where: str, environment: Mapping[str, str] = os.environ) -> SsoSettings:
    """The table of a settings file. Raises ConfigError, which names what is wrong or missing."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: write it as a table: [sso]")
    for name, value in table.items():
        if name not in _TYPES:
            raise ConfigError(f"{where}: unknown setting {name!r}; known are {', '.join(sorted(_TYPES))}")
        if type(value) is not _TYPES[name]:
            shown = "" if name == "client_secret" else f" {value!r}"
            raise ConfigError(f"{where}: {name} is{shown} not of the type {_TYPES[name].__name__}")
    for name in ("issuer", "client_id", "address"):
        if not table.get(name):
            raise ConfigError(f"{where}: {name} is missing")
    named = ("label", "name_claim", "groups_claim", "clock_skew_s", "authorities")
    made: dict[str, Any] = {name: table[name] for name in named if name in table}
    if "scopes" in table:
        made["scopes"] = _scopes(table["scopes"], where)
    for name in ("name_claim", "groups_claim"):
        if made.get(name) == "":
            raise ConfigError(f"{where}: {name} is empty")
    if not 0 <= made.get("clock_skew_s", 0) <= MOST_SKEW_S:
        raise ConfigError(f"{where}: clock_skew_s is {made['clock_skew_s']}, expected 0 to {MOST_SKEW_S}")
    issuer = table["issuer"]
    return SsoSettings(
        issuer=_issuer(issuer, where),
        client_id=table["client_id"],
        address=_address(table["address"], where),
        secret=_secret(table, where, environment),
        **{**made, "label": made.get("label") or urlsplit(issuer).netloc},
        rules=_rules(table.get("rule", []), where),
    )


def _issuer(text: str, where: str) -> str:
    parts = _split(text, "issuer", where)
    if parts.scheme != "https" or parts.query or parts.fragment:
        raise ConfigError(f"{where}: issuer is {text!r}, expected https://HOST[/PATH]")
    return text


def _address(text: str, where: str) -> str:
    parts = _split(text, "address", where)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError(f"{where}: address is {text!r}, expected https://HOST[:PORT] without a path")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        raise ConfigError(
            f"{where}: address is {text!r}, expected https://HOST[:PORT]. In clear the provider's answer, which lets "
            "its holder in, would be shown to the network; only this machine's loopback may be http"
        )
    return text.rstrip("/")


def _split(text: str, name: str, where: str) -> Any:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as problem:
        raise ConfigError(f"{where}: {name} is {text!r}: {problem}") from problem
    if not parts.hostname or "@" in parts.netloc or port == 0 or any(each <= " " for each in text):
        raise ConfigError(f"{where}: {name} is {text!r}, expected an address with a host, without a login before it")
    return parts


def _secret(table: Mapping[str, Any], where: str, environment: Mapping[str, str]) -> Secret:
    is_public = table.get("public", False)
    said = table.get("client_secret", "")
    if is_public and said:
        raise ConfigError(f"{where}: a public client has no client_secret: leave out one of the two")
    if not is_public and not said:
        raise ConfigError(
            f'{where}: client_secret is missing: "env:NAME", "file:PATH" or the secret itself. Where the provider '
            "knows this console as a client without one: public = true"
        )
    if said.startswith("env:"):
        name = said.removeprefix("env:")
        if not environment.get(name):
            raise ConfigError(f"{where}: client_secret is in the variable {name}, which is not set")
        return Secret(environment[name])
    if said.startswith("file:"):
        path = said.removeprefix("file:")
        try:
            with open(path, encoding="utf-8") as file:
                said = file.read(LONGEST_SECRET + 1).strip()
        except (OSError, UnicodeDecodeError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "it is no text"
            raise ConfigError(f"{where}: client_secret is in {path}, which cannot be read: {why}") from None
        if not said or len(said) > LONGEST_SECRET:
            raise ConfigError(f"{where}: client_secret is in {path}, which is empty or too long")
    return Secret(said)


def _scopes(found: list[Any], where: str) -> tuple[str, ...]:
    if not all(isinstance(each, str) and each and " " not in each for each in found) or "openid" not in found:
        raise ConfigError(f'{where}: scopes is {found!r}, expected a list of words with "openid" among them')
    return tuple(found)


def _rules(found: list[Any], where: str) -> tuple[SsoRule, ...]:
    if not found:
        raise ConfigError(f"{where}: there is no [[sso.rule]]: whoever logs in would have no right at all")
    if len(found) > MOST_RULES:
        raise ConfigError(f"{where}: {len(found)} rules, expected at most {MOST_RULES}")
    return tuple(_rule(each, f"{where}: rule {number}") for number, each in enumerate(found, 1))


def _rule(table: object, where: str) -> SsoRule:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: write each under its own [[sso.rule]]")
    unknown = [name for name in table if name not in ("group", "subject", "rights")]
    if unknown:
        raise ConfigError(f"{where}: unknown setting {unknown[0]!r}; known are group, rights, subject")
    group, subject, rights = table.get("group", ""), table.get("subject", ""), table.get("rights")
    if not isinstance(group, str) or not isinstance(subject, str) or bool(group) == bool(subject):
        raise ConfigError(f"{where}: expected either group or subject, a text")
    if not isinstance(rights, list) or not rights or len(rights) > MOST_RIGHTS:
        raise ConfigError(f"{where}: rights is {rights!r}, expected a list of 1 to {MOST_RIGHTS}")
    return SsoRule(group, subject, _rights(rights, where))


def _rights(texts: Sequence[object], where: str) -> Rights:
    try:
        return Rights(parse_grant(str(each)) for each in texts)
    except ValueError as problem:
        raise ConfigError(f"{where}: {problem}") from problem


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
