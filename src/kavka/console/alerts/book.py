"""AlertBook: each condition's way from its first sight to its end, and silences, in the ledger.

Decides when something is told. Must not know rules' wishes but two times, nor how anything is sent.

    seen for the first time   pending since then
    still seen after for_s    firing: told at once, and again every repeat_s
    not seen any more         pending: forgotten. Firing and told: over, and that is told. Firing, never told: forgotten
    an event                  firing at once, told once, then forgotten
    silenced                  nothing is told meanwhile; what still fires when the silence ends is told then

I1  What was told stands in the ledger with the time: a restart of the console neither tells it twice nor forgets that
    its end is to be told.
I2  It counts as told when it was sent, or was given up. A console that ends in between sends it again.
I3  A rule that is gone from the settings takes its alerts with it, untold.

Source: Prometheus' pending, firing and resolved.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from kavka.console.alert_rules import AlertRule, Condition

MOST_ALERTS: Final = 10_000
MOST_SILENCES: Final = 200
LONGEST_SILENCE_MS: Final = 90 * 24 * 3_600_000


class Alert(NamedTuple):
    """A condition that a rule is about. `fired_ms` is None while pending, `told_ms` while it was not told, `over_ms`
    while it holds."""

    rule: str
    cluster: str
    key: str
    severity: str
    text: str
    path: str
    is_event: bool
    since_ms: int
    fired_ms: int | None = None
    told_ms: int | None = None
    over_ms: int | None = None


class Silence(NamedTuple):
    """Nothing is told of what `pattern` takes in (as `check under-*`, `lag billing`, `*`), until then."""

    number: int
    cluster: str
    pattern: str
    until_ms: int
    by: str
    why: str


class Notice(NamedTuple):
    """Something that is to be told. status: firing, resolved or event."""

    alert: Alert
    status: str


class AlertBook:
    """`ledger` belongs to the event loop's thread."""

    def __init__(self, ledger: sqlite3.Connection) -> None:
        self._ledger = ledger
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS alert (rule TEXT, cluster TEXT, key TEXT, severity TEXT, text TEXT, path TEXT, "
            "is_event INTEGER, since_ms INTEGER, fired_ms INTEGER, told_ms INTEGER, over_ms INTEGER, "
            "PRIMARY KEY (rule, cluster, key))"
        )
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS silence (number INTEGER PRIMARY KEY, cluster TEXT, pattern TEXT, "
            "until_ms INTEGER, by TEXT, why TEXT)"
        )
        self._alerts: dict[tuple[str, str, str], Alert] = {
            (row["rule"], row["cluster"], row["key"]): Alert(**{**dict(row), "is_event": bool(row["is_event"])})
            for row in ledger.execute("SELECT * FROM alert")
        }

    def keep_rules(self, rules: Iterable[AlertRule]) -> None:
        """Forgets what rules left behind that are gone (I3)."""
        names = {rule.name for rule in rules}
        for alert in [each for each in self._alerts.values() if each.rule not in names]:
            self._forget(alert)

    def take(self, rule: AlertRule, cluster: str, now: Sequence[Condition], at_ms: int, *, is_known: bool) -> None:
        """What this rule sees of a cluster now. is_known: False where what is not seen may go on all the same."""
        seen = {each.key: each for each in now}
        for alert in [each for each in self._alerts.values() if (each.rule, each.cluster) == (rule.name, cluster)]:
            if alert.key in seen or alert.is_event or not is_known or alert.over_ms is not None:
                continue
            if alert.told_ms is None:
                self._forget(alert)
            else:
                self._put(alert._replace(over_ms=at_ms))
        for key, each in seen.items():
            known = self._alerts.get((rule.name, cluster, key))
            if known is None or (known.over_ms is not None and not known.is_event):
                if len(self._alerts) >= MOST_ALERTS:
                    continue
                known = Alert(rule.name, cluster, key, each.severity, each.text, each.path, each.is_event, at_ms)
            fired = known.fired_ms
            if fired is None and (each.is_event or at_ms - known.since_ms >= rule.for_s * 1_000):
                fired = at_ms
            self._put(known._replace(severity=each.severity, text=each.text, fired_ms=fired))

    def due(self, rules: Mapping[str, AlertRule], at_ms: int) -> list[Notice]:
        """What is to be told now."""
        silences = self.silences(at_ms)
        found = []
        for alert in self._alerts.values():
            rule = rules.get(alert.rule)
            if rule is None or alert.fired_ms is None or is_silenced(alert, silences):
                continue
            if alert.over_ms is not None:
                found.append(Notice(alert, "resolved"))
            elif alert.is_event:
                found.append(Notice(alert, "event"))
            elif alert.told_ms is None or at_ms - alert.told_ms >= rule.repeat_s * 1_000:
                found.append(Notice(alert, "firing"))
        return found

    def told(self, notice: Notice, at_ms: int) -> None:
        """It was sent, or given up."""
        alert = self._alerts.get(notice.alert[:3])
        if alert is None:
            if notice.status == "firing":  # It was over before it was told: then its end is told, too.
                self._put(notice.alert._replace(told_ms=at_ms, over_ms=at_ms))
            return
        if notice.status == "resolved" and alert.over_ms is None:
            return  # It began anew before its end was told: this is another one.
        if notice.status in ("resolved", "event"):
            self._forget(alert)
        else:
            self._put(alert._replace(told_ms=at_ms))

    def holds(self, notice: Notice) -> bool:
        """Whether it is still so: what fires has not ended, what has ended does not fire again."""
        alert = self._alerts.get(notice.alert[:3])
        if notice.status == "resolved":
            return alert is None or alert.over_ms is not None
        return notice.status == "event" or (alert is not None and alert.over_ms is None)

    def alerts(self, cluster: str) -> list[Alert]:
        """Of one cluster: firing first, the oldest first."""
        found = [each for each in self._alerts.values() if each.cluster == cluster]
        return sorted(found, key=lambda each: (each.fired_ms is None, each.since_ms, each.rule, each.key))

    # -- silences

    def silences(self, at_ms: int, cluster: str | None = None) -> list[Silence]:
        """Those that hold, of one cluster or of all."""
        rows = self._ledger.execute("SELECT * FROM silence WHERE until_ms > ? ORDER BY until_ms", (at_ms,))
        found = [Silence(**dict(row)) for row in rows]
        return [each for each in found if cluster is None or each.cluster == cluster]

    def silence(self, wanted: Silence, at_ms: int) -> None:
        """Adds one; its number is not looked at. Raises ValueError where there are too many, or it is too long."""
        if len(self.silences(at_ms)) >= MOST_SILENCES:
            raise ValueError(f"there are {MOST_SILENCES} silences already: end some first")
        if not 0 < wanted.until_ms - at_ms <= LONGEST_SILENCE_MS:
            raise ValueError("a silence ends in the future, within 90 days")
        self._ledger.execute("DELETE FROM silence WHERE until_ms <= ?", (at_ms,))
        self._ledger.execute(
            "INSERT INTO silence (cluster, pattern, until_ms, by, why) VALUES (?, ?, ?, ?, ?)", wanted[1:]
        )

    def end_silence(self, number: int, cluster: str) -> None:
        self._ledger.execute("DELETE FROM silence WHERE number = ? AND cluster = ?", (number, cluster))

    # -- the ledger

    def _put(self, alert: Alert) -> None:
        key = alert[:3]
        if self._alerts.get(key) != alert:
            self._alerts[key] = alert
            self._ledger.execute(f"INSERT OR REPLACE INTO alert VALUES ({', '.join('?' * len(alert))})", alert)

    def _forget(self, alert: Alert) -> None:
        self._alerts.pop(alert[:3], None)
        self._ledger.execute("DELETE FROM alert WHERE rule = ? AND cluster = ? AND key = ?", alert[:3])


def is_silenced(alert: Alert, silences: Iterable[Silence]) -> bool:
    return any(each.cluster == alert.cluster and fnmatchcase(alert.key, each.pattern) for each in silences)
