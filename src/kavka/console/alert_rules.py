"""AlertRule: whom a rule tells, of what; Condition: what of it is so now.

Decides which conditions of a cluster a rule is about. Pure. Must not know when something is sent.

    check NAME        a health check fails                                    while it fails
    lag GROUP         a group's lag is at least so many records               while it is
    unreachable       the cluster does not answer                             while it does not
    decision ID       a decision of one of these kinds was made               an event: told once

I1  Of a cluster that does not answer only that is told: what else held goes on as it was, until it is known again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from kavka.decisions import DecisionKind
from kavka.errors import ConfigError
from kavka.observe.health.report import Severity

if TYPE_CHECKING:
    from kavka.decisions import RecordedDecision
    from kavka.observe.health.report import HealthReport
    from kavka.observe.snapshot import GroupView

MOST_RULES: Final = 100
MOST_CONDITIONS: Final = 500
"""Of one rule on one cluster at a time."""
LONGEST_TEXT: Final = 1_000
UNREACHABLE: Final = "unreachable"
PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"
_TYPES: Final[Mapping[str, type]] = {
    "name": str,
    "cluster": str,
    "severity": str,
    "checks": list,
    "groups": str,
    "lag": int,
    "decisions": list,
    "for_s": int,
    "repeat_s": int,
    "console": str,
    "webhook": str,
    "slack": str,
    "pagerduty": str,
    "pagerduty_address": str,
    "mail": dict,
}
_MAIL: Final[Mapping[str, type]] = {
    "server": str,
    "sender": str,
    "to": list,
    "username": str,
    "password": str,
    "tls": bool,
}


class Mail(NamedTuple):
    """A mail server and who writes to whom. tls: STARTTLS before anything else."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    username: str = ""
    password: str = ""
    tls: bool = True


class Target(NamedTuple):
    """Where something is sent. kind: webhook, slack, pagerduty or mail. address: where over HTTP. key: PagerDuty's."""

    kind: str
    address: str = ""
    key: str = ""
    mail: Mail | None = None

    @property
    def label(self) -> str:
        """What may be shown of it: no path and no key, which are secrets with Slack and PagerDuty."""
        where = ", ".join(self.mail.to) if self.mail is not None else urlsplit(self.address).hostname or ""
        return f"{self.kind} {where}"


class AlertRule(NamedTuple):
    """Patterns are those of a shell. lag 0: not asked about. for_s: how long a condition has to hold to be told."""

    name: str
    targets: tuple[Target, ...]
    cluster: str = "*"
    severity: Severity | None = None
    """Checks from this severity on; None: only those that `checks` names."""
    checks: tuple[str, ...] = ()
    groups: str = "*"
    lag: int = 0
    decisions: tuple[str, ...] = ()
    for_s: int = 60
    repeat_s: int = 4 * 3_600
    console: str = ""
    """This console's address, for links; '' without."""


class Condition(NamedTuple):
    """What is so. `path`: its page, below the cluster's. is_event: it was, and has no end."""

    key: str
    severity: str
    text: str
    path: str = ""
    is_event: bool = False


class Seen(NamedTuple):
    """What is known of a cluster now."""

    is_reachable: bool
    why: str
    report: HealthReport | None
    groups: Sequence[GroupView]
    decisions: Sequence[RecordedDecision]
    """Those that came since the last look."""


def conditions(rule: AlertRule, seen: Seen) -> list[Condition]:
    """What this rule is about, and is so."""
    if not seen.is_reachable:
        text = f"the cluster does not answer: {seen.why or 'no reason is known'}"
        return [Condition(UNREACHABLE, "critical", text[:LONGEST_TEXT])] if _tells_unreachable(rule) else []
    found = [*_checks(rule, seen.report), *_lags(rule, seen.groups), *_decisions(rule, seen.decisions)]
    return found[:MOST_CONDITIONS]


def _tells_unreachable(rule: AlertRule) -> bool:
    return rule.severity is not None or any(fnmatchcase(UNREACHABLE, each) for each in rule.checks)


def _checks(rule: AlertRule, report: HealthReport | None) -> Iterable[Condition]:
    for result in () if report is None else report.failed:
        check = result.check
        is_severe = rule.severity is not None and (
            check.severity is Severity.CRITICAL or rule.severity is check.severity
        )
        if not is_severe and not any(fnmatchcase(check.name, each) for each in rule.checks):
            continue
        objects = [f"{each.name}: {each.why}" for each in result.findings[:5]]
        more = f", and {result.failed - 5} more" if result.failed > 5 else ""
        evidence = "; ".join(objects) + more if objects else str(result.evidence)
        text = f"{evidence}. {check.advice}"
        yield Condition(f"check {check.name}", check.severity.value, text[:LONGEST_TEXT], f"#check-{check.name}")


def _lags(rule: AlertRule, groups: Sequence[GroupView]) -> Iterable[Condition]:
    if not rule.lag:
        return
    from urllib.parse import quote

    for group in groups:
        if fnmatchcase(group.group_id, rule.groups) and group.commits and (group.lag or 0) >= rule.lag:
            text = f"group {group.group_id} is {group.lag:,} records behind, {rule.lag:,} or more is told"
            yield Condition(
                f"lag {group.group_id}", "warning", text[:LONGEST_TEXT], f"groups/{quote(group.group_id, safe='')}"
            )


def _decisions(rule: AlertRule, decisions: Sequence[RecordedDecision]) -> Iterable[Condition]:
    for each in decisions:
        decision = each.decision
        if any(fnmatchcase(decision.kind.value, kind) for kind in rule.decisions):
            text = f"{decision.kind.value}, {decision.subject}: {decision.why}"
            path = f"decisions/{each.decision_id}"
            yield Condition(f"decision {each.decision_id}", "info", text[:LONGEST_TEXT], path, is_event=True)


# ------------------------------------------------------------------------------------------------------------ settings


def parse_alert(table: Mapping[str, Any], where: str) -> AlertRule:
    """One [[alert]] of the settings. Raises ConfigError, which says what is wrong."""
    name = str(table.get("name", ""))
    if not name:
        raise ConfigError(f"{where}: an [[alert]] has no name")
    where = f"{where}: alert {name}"
    _check(table, _TYPES, where)
    targets = _targets(table, where)
    if not targets:
        raise ConfigError(f"{where}: nobody is told; give it webhook, slack, pagerduty or mail")
    severity = None
    if "severity" in table:
        try:
            severity = Severity(table["severity"])
        except ValueError:
            raise ConfigError(f"{where}: severity is {table['severity']!r}, expected critical or warning") from None
    checks, decisions = _texts(table, "checks", where), _texts(table, "decisions", where)
    if severity is None and not checks and not decisions and not table.get("lag"):
        raise ConfigError(f"{where}: it is about nothing; give it severity, checks, lag or decisions")
    for each in decisions:
        if not any(fnmatchcase(kind.value, each) for kind in DecisionKind):
            raise ConfigError(f"{where}: no kind of decision is {each!r}; docs/decisions.md lists them")
    for key, least in (("lag", 1), ("for_s", 0), ("repeat_s", 60)):
        if table.get(key, least) < least:
            raise ConfigError(f"{where}: {key} is {table[key]}, expected {least} or more")
    plain = {key: table[key] for key in ("cluster", "groups", "lag", "for_s", "repeat_s", "console") if key in table}
    return AlertRule(name, targets, severity=severity, checks=checks, decisions=decisions, **plain)


def _targets(table: Mapping[str, Any], where: str) -> tuple[Target, ...]:
    found = [Target(kind, _address(table[kind], f"{where}: {kind}")) for kind in ("webhook", "slack") if kind in table]
    if "pagerduty" in table:
        address = _address(table.get("pagerduty_address", PAGERDUTY), f"{where}: pagerduty_address")
        found.append(Target("pagerduty", address, table["pagerduty"]))
    if "mail" in table:
        found.append(Target("mail", mail=_mail(table["mail"], f"{where}: mail")))
    return tuple(found)


def _mail(table: Mapping[str, Any], where: str) -> Mail:
    _check(table, _MAIL, where)
    host, _, port = str(table.get("server", "")).partition(":")
    to = _texts(table, "to", where)
    if not host or not table.get("sender") or not to or (port and not port.isdecimal()):
        raise ConfigError(f'{where}: expected {{ server = "HOST:PORT", sender = "...", to = ["..."] }}')
    if any("\n" in each or "\r" in each or "@" not in each for each in (*to, table["sender"])):
        raise ConfigError(f"{where}: sender and to are addresses, as in alerts@example.com")
    more = {key: table[key] for key in ("username", "password", "tls") if key in table}
    return Mail(host, int(port or 587), table["sender"], to, **more)


def _address(text: str, where: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{where}: expected an address that begins with https:// or http://")
    return text


def _texts(table: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ConfigError(f"{where}: {name} is a list of texts")
    return tuple(found)


def _check(table: Mapping[str, Any], types: Mapping[str, type], where: str) -> None:
    for name, value in table.items():
        if name not in types:
            raise ConfigError(f"{where}: unknown setting {name!r}; known are {', '.join(sorted(types))}")
        if type(value) is not types[name]:
            raise ConfigError(f"{where}: {name} is of the wrong kind, expected {types[name].__name__}")
