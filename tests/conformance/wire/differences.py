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
        "produce_refused_batches",
        "two batches|magic 1|cut short|unknown codec",
        r"\.responses\[0\]\.partition_responses\[0\]\.log_start_offset",
        0,
        "kavka tells where the log starts with every refusal of a batch that it could read as one",
    ),
    Difference(
        "produce_checks_of_topic_settings",
        "no key|no key, deflated|too old",
        r"\.responses\[0\]\.partition_responses\[0\]\.record_errors",
        [{"batch_index": 0, "batch_index_error_message": "<text>"}],
        "kavka stops at the first bad record of a batch, which is refused whole; Kafka lists all of them",
    ),
    Difference(
        "produce_checks_of_topic_settings",
        "too new",
        r"\.responses\[0\]\.partition_responses\[0\]\.record_errors",
        [],
        "the batch's header says enough to refuse it; its records are not looked at",
    ),
    Difference(
        "delete_topics",
        "twice in one request",
        r"\.responses",
        [{"name": "three-*", "topic_id": "<id>", "error_code": 42, "error_message": "<text>"}],
        "kavka refuses a topic that is named twice in every version; Kafka 3.9 answers success for it in version 6",
    ),
    Difference(
        "describe_every_default_of_brokers",
        r"group\.consumer\.migration\.policy",
        "",
        "<not asked>",
        "a setting of Kafka 4 for the newer group protocol, which is not there yet",
    ),
    Difference(
        "describe_every_default_of_brokers",
        r"group\.coordinator\.rebalance\.protocols",
        r"(\.synonyms\[0\])?\.value",
        "classic,consumer",
        "the newer group protocol is served from the start, as in Apache Kafka 4",
    ),
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
