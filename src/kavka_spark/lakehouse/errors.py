"""What a table refuses. Each message says what was found, and the way out. In each case but StoreFailed nothing was
committed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kavka.errors import KavkaError


class LakehouseError(KavkaError):
    """Below it are all errors of tables."""


class BatchRefused(LakehouseError):
    """A micro-batch that does not follow on what the table holds: its rows would be there twice, or some never."""


class SchemaRefused(LakehouseError):
    """Rows whose columns do not fit into the table."""


class TableRefused(LakehouseError):
    """A table, or its place, that this sink cannot write to."""


class CommitConflict(LakehouseError):
    """Somebody else has committed since the table was looked at. Nothing was committed; look again."""


class StoreFailed(LakehouseError):
    """A disk, a store or a catalog that failed amid a write: full, broken or away. Of a commit it is unknown whether it
    came through; the batch that comes again finds out."""


COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
"""delta-rs sets them into its messages."""


@contextmanager
def stored(what: str, failures: type[Exception] = OSError) -> Iterator[None]:
    """What fails in here is a StoreFailed: `what` could not be done."""
    try:
        yield
    except LakehouseError:
        raise
    except failures as failure:
        why = " ".join(COLOURS.sub("", str(failure)).split()) or type(failure).__name__
        raise StoreFailed(
            f"{what}: {why}. Once that is mended (has the disk room?), start the query again: it writes the batch, or "
            "leaves it out where its commit has come through"
        ) from failure
