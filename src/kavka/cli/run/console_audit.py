"""`kavka console audit`: the console's audit log as lines of JSON, and whether it is as it was written.

Decides how an entry is printed. Must not know how the log is kept (console.access.audit). A running console is not
disturbed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json
from kavka.cli.output import Failure, done, json_text, printable, usage
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka.console.access.audit import AuditLog, Entry

app = CommandLine(help="Export the console's audit log, and check that nobody changed it.")

Data = Annotated[str, typer.Option("--data", "-d", metavar="DIRECTORY", help="The console's data directory.")]
DEFAULT_DATA = "kavka-console"


@app.command("export")
def export(data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """Print all entries, the oldest first, one line each.

    With --json each line is a JSON object with the whole entry. An entry without an outcome is still running, or the
    console stopped in the middle of it.

    [bold]Examples[/bold]

    kavka console audit export

    kavka console audit export --json | jq 'select(.outcome == "denied")'
    """
    for entry in _log(data).every():
        if as_json:
            print(json_text(_fields(entry)))
            continue
        at = datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        outcome = "" if entry.outcome is None else entry.outcome.value
        words = (at, entry.user, entry.address, entry.cluster, entry.action, entry.target, outcome)
        print(entry.number, *(printable(word) or "-" for word in words), sep="  ")


@app.command("verify")
def verify(
    noted: Annotated[
        str | None,
        typer.Option("--from", metavar="NUMBER:HASH", help="A head that was printed before, and has to be in the log."),
    ] = None,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Check that the audit log is as it was written, and print its head.

    Each row carries the hash of all rows before it. Keep the head in another place, and give it with --from next time.
    Without it, a log that was cut at its end, or rewritten as a whole, passes.

    [bold]Examples[/bold]

    kavka console audit verify

    kavka console audit verify --from 212:9f2c...
    """
    from kavka.console.access.audit_chain import head_of

    try:
        head = None if noted is None else head_of(noted)
    except ValueError as problem:
        usage(str(problem))
    verdict = _log(data).verify(head)
    if verdict.problem:
        raise Failure(
            f"the audit log was changed after it was written: {verdict.problem}",
            f"keep a copy of {Path(data) / 'ledger.sqlite'} as evidence; it is intact up to {verdict.head}",
        )
    facts = {"links": verdict.head.links, "head": str(verdict.head)}
    done(f"The audit log is as it was written. Its head is {verdict.head}", facts, as_json=as_json)


def _fields(entry: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = entry._asdict()
    fields["outcome"] = None if entry.outcome is None else entry.outcome.value
    return fields


def _log(data: str) -> AuditLog:
    import sqlite3

    try:
        from kavka.console.access.audit import AuditLog
        from kavka.console.ledger import LEDGER, open_ledger
    except ModuleNotFoundError as missing:
        raise Failure(f"the console needs {missing.name}", install_command("console")) from missing
    if not (Path(data) / LEDGER).exists():
        raise Failure(f"{data} has no audit log", "name the console's data directory with --data")
    try:
        return AuditLog(open_ledger(Path(data) / LEDGER))
    except (OSError, sqlite3.Error) as problem:
        raise Failure(f"{data}: {problem}") from problem
