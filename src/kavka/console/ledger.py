"""The ledger: the SQLite file of what must not be lost: users, sessions, the audit log, jobs.

Decides how the file is opened. Must not know what is in it: every store (users, sessions, audit, jobs) makes its own
tables where they are missing.

I1  What a store has committed is on the disk (synchronous=FULL): a job that was begun is known after a power cut.
I2  A connection belongs to one thread, that of the event loop; statements are short, so nothing waits for them long.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEDGER = "ledger.sqlite"
"""Its name in the console's data directory."""
BUSY_TIMEOUT_MS = 5_000
"""How long a statement waits while another process writes: `kavka console user add` beside a running console."""
OWNER_ONLY = 0o600


def open_ledger(path: Path) -> sqlite3.Connection:
    """The file at `path`, made where it is missing and readable by its owner alone. Raises sqlite3.Error, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY))
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All statements of the block, or none of them. Not to be nested, and nothing may be awaited inside."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
