"""The audit log: who did what to which cluster, what it was before and after, and how it came out.

Decides how an action is written down. Must not know what the actions are.

An action is written twice, and never changed: before it is sent ("begun"), and when its outcome is known. So an action
that the console's own end interrupted stands there as unknown.

I1  Rows are added only: the tables refuse UPDATE and DELETE, and each row is a link of a chain of hashes (audit_chain).
I2  The key of an action is used once: the second who comes with it gets `AlreadyDone`, and nothing is sent again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from kavka.console.access.audit_chain import AuditChain, Head, Verdict
from kavka.console.ledger import transaction

LONGEST_TEXT = 20_000
"""Characters kept of what was before and after; the rest is left out, and said to be."""
PAGE_ROWS = 200


class Outcome(Enum):
    """The three outcomes of a remote write, and two of our own."""

    COMMITTED = "committed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    DENIED = "denied"
    """The role may not do it, or the login was wrong."""


class Entry(NamedTuple):
    """One action. `outcome` is None while it is under way, or where the console ended in the middle of it."""

    number: int
    at_ms: int
    user: str
    address: str
    cluster: str
    action: str
    target: str
    before: str
    wanted: str
    command: str
    ended_ms: int | None
    outcome: Outcome | None
    after: str
    remark: str


class AuditRecord(NamedTuple):
    """What is about to be done. `key` is unique for each confirmation."""

    key: str
    user: str
    address: str
    cluster: str
    action: str
    target: str
    before: str = ""
    wanted: str = ""
    command: str = ""


class AlreadyDone(Exception):
    """The key was used before: this is the same confirmation again."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"action {entry.number} has been done already")
        self.entry = entry


class AuditLog:
    """The log, in the console's database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute(
            "CREATE TABLE IF NOT EXISTS audit_begun (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL "
            "UNIQUE, at_ms INTEGER NOT NULL, user TEXT NOT NULL, address TEXT NOT NULL, cluster TEXT NOT NULL, "
            "action TEXT NOT NULL, target TEXT NOT NULL, before TEXT NOT NULL, wanted TEXT NOT NULL, "
            "command TEXT NOT NULL) STRICT"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS audit_ended (number INTEGER PRIMARY KEY REFERENCES audit_begun, "
            "at_ms INTEGER NOT NULL, outcome TEXT NOT NULL, after TEXT NOT NULL, remark TEXT NOT NULL) STRICT"
        )
        for table in ("audit_begun", "audit_ended"):
            for what in ("UPDATE", "DELETE"):
                database.execute(
                    f"CREATE TRIGGER IF NOT EXISTS {table}_{what.lower()} BEFORE {what} ON {table} "
                    "BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END"
                )
        with transaction(database):
            self._chain = AuditChain(database)

    def begin(self, record: AuditRecord, now_ms: int) -> int:
        """Writes that it is about to be done; returns its number. Raises AlreadyDone."""
        known = self.with_key(record.key)
        if known is not None:
            raise AlreadyDone(known)
        try:
            with transaction(self._database):
                cursor = self._database.execute(
                    "INSERT INTO audit_begun (key, at_ms, user, address, cluster, action, target, before, wanted, "
                    "command) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (record.key, now_ms, *record[1:6], *map(_short, record[6:])),
                )
                assert cursor.lastrowid is not None
                self._chain.add("begun", cursor.lastrowid)
                return cursor.lastrowid
        except sqlite3.IntegrityError:  # Another process was quicker.
            known = self.with_key(record.key)
            if known is None:
                raise
            raise AlreadyDone(known) from None

    def end(self, number: int, outcome: Outcome, now_ms: int, *, after: str = "", remark: str = "") -> None:
        """Writes how it came out; once."""
        with transaction(self._database):
            self._database.execute(
                "INSERT INTO audit_ended VALUES (?, ?, ?, ?, ?)",
                (number, now_ms, outcome.value, _short(after), _short(remark)),
            )
            self._chain.add("ended", number)

    def verify(self, noted: Head | None = None) -> Verdict:
        """Whether the log is as it was written; with `noted`, whether it goes on from there."""
        return self._chain.verify(noted)

    def record(self, record: AuditRecord, outcome: Outcome, now_ms: int, *, remark: str = "") -> None:
        """Both at once, for what is nothing remote: a login, a logout, a refusal."""
        self.end(self.begin(record, now_ms), outcome, now_ms, remark=remark)

    def find(self, number: int) -> Entry | None:
        found = self._select("WHERE b.number = ?", (number,))
        return found[0] if found else None

    def with_key(self, key: str) -> Entry | None:
        """The action of this confirmation, if it was carried out."""
        found = self._select("WHERE b.key = ?", (key,))
        return found[0] if found else None

    def entries(
        self,
        *,
        cluster: str = "",
        user: str = "",
        text: str = "",
        of: Sequence[str] | None = None,
        before_number: int = 0,
        limit: int = PAGE_ROWS,
    ) -> list[Entry]:
        """The newest first, of a cluster, of a user, with `text` in what it was done to; before a number to go on.

        of: only those of these clusters.
        """
        conditions, values = ["1 = 1"], list[object]()
        if of is not None:
            conditions.append(f"b.cluster IN ({', '.join('?' * len(of))})")
            values += of
        if cluster:
            conditions.append("b.cluster = ?")
            values.append(cluster)
        if user:
            conditions.append("b.user = ?")
            values.append(user)
        if text:
            conditions.append("instr(lower(b.action || ' ' || b.target), lower(?)) > 0")
            values.append(text)
        if before_number:
            conditions.append("b.number < ?")
            values.append(before_number)
        return self._select(f"WHERE {' AND '.join(conditions)} ORDER BY b.number DESC LIMIT ?", [*values, limit])

    def every(self) -> Iterator[Entry]:
        """All entries, the oldest first, read as they are asked for."""
        at = 0
        while found := self._select("WHERE b.number > ? ORDER BY b.number LIMIT ?", (at, PAGE_ROWS)):
            yield from found
            at = found[-1].number

    def since(self, cluster: str, target: str, at_ms: int) -> list[Entry]:
        """What was done to a thing since then, the oldest first: a second operator has to see it."""
        return self._select(
            "WHERE b.cluster = ? AND b.target = ? AND b.at_ms >= ? ORDER BY b.number LIMIT ?",
            (cluster, target, at_ms, PAGE_ROWS),
        )

    def _select(self, rest: str, values: Sequence[object]) -> list[Entry]:
        rows = self._database.execute(
            "SELECT b.number, b.at_ms, b.user, b.address, b.cluster, b.action, b.target, b.before, b.wanted, "
            "b.command, e.at_ms, e.outcome, coalesce(e.after, ''), coalesce(e.remark, '') "
            f"FROM audit_begun b LEFT JOIN audit_ended e ON e.number = b.number {rest}",
            values,
        )
        return [_entry(row) for row in rows]


def _entry(row: sqlite3.Row) -> Entry:
    begun, (ended_ms, outcome, after, remark) = tuple(row)[:10], tuple(row)[10:]
    return Entry._make([*begun, ended_ms, None if outcome is None else Outcome(outcome), after, remark])


def _short(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n... and {len(text) - LONGEST_TEXT:,} characters more"
