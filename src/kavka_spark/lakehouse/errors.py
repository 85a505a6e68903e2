"""What a table refuses. Each message says what was found, and the way out. In each case nothing was committed."""

from __future__ import annotations

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
