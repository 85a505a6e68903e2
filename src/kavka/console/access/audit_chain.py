"""The chain of the audit log: each row with the hash of itself and of all rows before it.

Decides what a row's hash is, and whether a log is still the one that was written. Must not know what the rows mean.

    link   hash = SHA-256(hash before | kind | number | the row's values as JSON); before the first row: 32 zero bytes

Whoever changes, removes, inserts or reorders rows has to compute every later hash anew, and whoever noted a head
(`NUMBER:HASH`) elsewhere sees that. Without a noted head two things stay unseen: rows cut off at the end, and a file
whose every hash was computed anew.

I1  A row and its link are written in one transaction.
I2  A log that was begun without a chain gets its rows chained once, in the order in which they were written.

Source: RFC 6962 for the idea of a noted head; the chain is a plain one, since the whole log is read anyway.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

TABLES: Final = {"begun": "audit_begun", "ended": "audit_ended"}
FIRST: Final = bytes(32)


class Head(NamedTuple):
    """The last link: how many there are, and its hash (hex)."""

    links: int
    digest: str

    def __str__(self) -> str:
        return f"{self.links}:{self.digest}"


class Verdict(NamedTuple):
    """Whether the log is as it was written. `problem` says where it is not, and is empty if it is."""

    head: Head
    problem: str = ""


def head_of(text: str) -> Head:
    """A head as it was noted. Raises ValueError."""
    links, colon, digest = text.strip().partition(":")
    if not colon or not links.isdecimal() or len(links) > 15 or len(digest) != 64:
        raise ValueError(f"{text[:100]!r} is no head: expected NUMBER:HASH, as `kavka console audit verify` prints it")
    return Head(int(links), digest.lower())


class AuditChain:
    """The links of one log, in the ledger."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        is_new = not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit_chain'").fetchone()
        database.execute(
            "CREATE TABLE IF NOT EXISTS audit_chain (link INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
            "number INTEGER NOT NULL, digest BLOB NOT NULL, UNIQUE (kind, number)) STRICT"
        )
        for what in ("UPDATE", "DELETE"):
            database.execute(
                f"CREATE TRIGGER IF NOT EXISTS audit_chain_{what.lower()} BEFORE {what} ON audit_chain "
                "BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END"
            )
        if is_new:
            self._chain_what_is_there()

    def add(self, kind: str, number: int) -> None:
        """Links the row that was just written, in the same transaction."""
        row = self._row(kind, number)
        last = self._database.execute("SELECT link, digest FROM audit_chain ORDER BY link DESC LIMIT 1").fetchone()
        link, before = (0, FIRST) if last is None else (last["link"], bytes(last["digest"]))
        self._database.execute(
            "INSERT INTO audit_chain VALUES (?, ?, ?, ?)", (link + 1, kind, number, _digest(before, kind, row))
        )

    def verify(self, noted: Head | None = None) -> Verdict:
        """Computes every hash anew. `noted`: a head that somebody kept elsewhere, which has to be in the chain."""
        before, expected, is_noted = FIRST, 0, noted is None or noted.links == 0
        seen = dict.fromkeys(TABLES, 0)
        for link in self._database.execute("SELECT * FROM audit_chain ORDER BY link"):
            expected += 1
            known = Head(expected - 1, before.hex())
            if link["link"] != expected:
                return Verdict(known, f"link {expected} is missing")
            if link["kind"] not in TABLES:
                return Verdict(known, f"link {expected} is of no kind that there is")
            row = self._row(link["kind"], link["number"])
            if row is None:
                return Verdict(known, f"entry {link['number']} ({link['kind']}) was removed")
            before = _digest(before, link["kind"], row)
            if before != bytes(link["digest"]):
                return Verdict(known, f"entry {link['number']} ({link['kind']}) is not what was written")
            seen[link["kind"]] += 1
            is_noted = is_noted or (noted == Head(expected, before.hex()))
        head = Head(expected, before.hex())
        for kind, table in TABLES.items():
            rows = self._database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            if rows != seen[kind]:
                return Verdict(
                    head, f"{rows - seen[kind]} rows of {table} are in no link: they were written past the log"
                )
        if not is_noted:
            return Verdict(head, f"the head that was noted, {noted}, is not in the chain: the log was cut or rewritten")
        return Verdict(head)

    def _row(self, kind: str, number: int) -> Sequence[Any] | None:
        found = self._database.execute(f"SELECT * FROM {TABLES[kind]} WHERE number = ?", (number,)).fetchone()
        return None if found is None else tuple(found)

    def _chain_what_is_there(self) -> None:
        for kind, number in list(self._in_order()):
            self.add(kind, number)

    def _in_order(self) -> Iterator[tuple[str, int]]:
        for row in self._database.execute(
            "SELECT at_ms, 0 AS is_end, number FROM audit_begun UNION ALL "
            "SELECT at_ms, 1, number FROM audit_ended ORDER BY at_ms, number, is_end"
        ):
            yield ("ended" if row["is_end"] else "begun"), row["number"]


def _digest(before: bytes, kind: str, row: Sequence[Any] | None) -> bytes:
    text = json.dumps([kind, *(row or ())], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(before + text.encode()).digest()
