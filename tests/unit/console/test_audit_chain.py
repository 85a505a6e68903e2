"""The chain of the audit log: what is changed, removed, put in or cut off behind the console's back is found."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kavka.cli.run.console import app as console
from kavka.console.access.audit import AuditLog, AuditRecord, Outcome
from kavka.console.access.audit_chain import head_of
from kavka.console.ledger import LEDGER, open_ledger


def record(key: str) -> AuditRecord:
    return AuditRecord(key, "ada", "10.0.0.7", "prod", "topic.delete", f"topic {key}", "8 partitions", "", "kavka ...")


@pytest.fixture
def written(tmp_path: Path) -> sqlite3.Connection:
    """A log with three actions: done, refused, and one that the console's end interrupted."""
    database = open_ledger(tmp_path / LEDGER)
    log = AuditLog(database)
    log.end(log.begin(record("a"), 1), Outcome.COMMITTED, 2, after="gone")
    log.record(record("b"), Outcome.DENIED, 3)
    log.begin(record("c"), 4)
    return database


def by_force(database: sqlite3.Connection, *statements: str) -> None:
    """As somebody does who has the file: the triggers are no obstacle."""
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute("PRAGMA foreign_keys=OFF")
    for statement in statements:
        database.execute(statement)


def test_a_log_that_nobody_touched_is_right_and_goes_on_from_each_of_its_heads(written: sqlite3.Connection) -> None:
    log = AuditLog(written)
    first = log.verify()
    assert (first.problem, first.head.links) == ("", 5)
    log.end(3, Outcome.UNKNOWN, 9)
    after = AuditLog(written).verify(head_of(str(first.head)))
    assert (after.problem, after.head.links) == ("", 6)


@pytest.mark.parametrize(
    ("force", "found"),
    [
        ("UPDATE audit_begun SET user = 'eve' WHERE number = 1", "entry 1 .begun. is not what was written"),
        ("UPDATE audit_ended SET outcome = 'rejected' WHERE number = 1", "entry 1 .ended. is not what"),
        ("DELETE FROM audit_begun WHERE number = 2", "entry 2 .begun. was removed"),
        ("DELETE FROM audit_chain WHERE link = 2", "link 2 is missing"),
        ("INSERT INTO audit_ended VALUES (3, 5, 'committed', '', '')", "1 rows of audit_ended are in no link"),
    ],
)
def test_what_was_changed_behind_the_consoles_back_is_found(
    written: sqlite3.Connection, force: str, found: str
) -> None:
    by_force(written, force)
    problem = AuditLog(written).verify().problem
    assert found.replace(".begun.", "(begun)").replace(".ended.", "(ended)") in problem


def test_a_log_that_was_cut_at_its_end_is_found_by_a_head_that_was_noted(written: sqlite3.Connection) -> None:
    noted = AuditLog(written).verify().head
    by_force(written, "DELETE FROM audit_chain WHERE link = 5", "DELETE FROM audit_begun WHERE number = 3")
    assert AuditLog(written).verify().problem == ""
    assert "is not in the chain" in AuditLog(written).verify(noted).problem


def test_a_log_of_before_the_chain_is_chained_once(written: sqlite3.Connection) -> None:
    by_force(written, "DROP TABLE audit_chain")
    assert AuditLog(written).verify().problem == ""
    by_force(written, "DELETE FROM audit_chain")
    assert "in no link" in AuditLog(written).verify().problem


def test_the_command_line_exports_all_and_tells_a_changed_log(written: sqlite3.Connection, tmp_path: Path) -> None:
    told = CliRunner().invoke(console, ["audit", "export", "--json", "--data", str(tmp_path)])
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(line["number"], line["user"], line["outcome"]) for line in lines] == [
        (1, "ada", "committed"),
        (2, "ada", "denied"),
        (3, "ada", None),
    ]
    assert (lines[0]["before"], lines[0]["after"], lines[0]["address"]) == ("8 partitions", "gone", "10.0.0.7")
    plain = CliRunner().invoke(console, ["audit", "export", "--data", str(tmp_path)]).stdout.splitlines()
    assert plain[2] == "3  1970-01-01T00:00:00.004+00:00  ada  10.0.0.7  prod  topic.delete  topic c  -"
    right = CliRunner().invoke(console, ["audit", "verify", "--data", str(tmp_path), "--json"])
    head = json.loads(right.stdout)["head"]
    assert CliRunner().invoke(console, ["audit", "verify", "--data", str(tmp_path), "--from", head]).exit_code == 0
    by_force(written, "UPDATE audit_begun SET user = 'eve' WHERE number = 1")
    wrong = CliRunner().invoke(console, ["audit", "verify", "--data", str(tmp_path)])
    assert wrong.exit_code == 1
