"""Where kavka answers otherwise than Apache Kafka, on purpose, and why.

A row says what kavka answers in one field. The tests fail where it answers anything else, so a row cannot hide another
difference. A row that nothing needs any more fails a test of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """`scenario` and `step` are whole names or regular expressions, `path` a regular expression of the field's path."""

    scenario: str
    step: str
    path: str
    kavka: Any
    reason: str

    def covers(self, scenario: str, step: str, path: str, found: Any) -> bool:
        return (
            found == self.kavka
            and re.fullmatch(self.scenario, scenario) is not None
            and re.fullmatch(self.step, step) is not None
            and re.fullmatch(self.path, path) is not None
        )


DIFFERENCES = (
    Difference(
        "produce_.*",
        ".*",
        r"\.responses\[0\]\.partition_responses\[0\]\.error_message",
        "<text>",
        "kavka says why it refused a batch where Kafka gives the code alone",
    ),
    Difference(
        "incremental_alter_configs",
        "unknown operation",
        r"\.responses\[0\]\.error_code",
        42,
        "INVALID_REQUEST names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception that nobody caught",
    ),
    Difference(
        "incremental_alter_configs",
        "unknown operation",
        r"\.responses\[0\]\.error_message",
        "<text>",
        "as the row above",
    ),
)


def undocumented(scenario: str, step: str, differing: Iterable[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    """Those of (path, found, expected) that no row of the table covers."""
    return [
        (path, found, expected)
        for path, found, expected in differing
        if not any(row.covers(scenario, step, path, found) for row in DIFFERENCES)
    ]
