"""Where kavka answers otherwise than either line of Apache Kafka, with three brokers, on purpose, and why."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.wire.differences import Difference

_STALE: Final = (
    "a move that takes another one's place forgets which replicas that one removed, as in 3.9; 4.3 goes on to list "
    "them, and does not count them"
)
DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(".*", ".*", r"\.error_message", None, "no message without an error, as 4.3; 3.9 has an empty one"),
    Difference(
        "a_deleted_topic_is_in_the_way_of_its_name", "grown", r"\.results\[0\]\.error_code", 3,
        "a topic that was deleted is not there, as in 4.3, which gives no message",
    ),
    *(
        Difference(
            "a_reassignment_that_crawls", f"{step}, as many as there are",
            rf"\.responses\[0\]\.partitions\[0\]\.{field}", value, _STALE,
        )
        for step, code, message in (("two", 38, "<text>"), ("three", 0, None))
        for field, value in (("error_code", code), ("error_message", message))
    ),
)  # fmt: skip


def covering(scenario: str, step: str, path: str, found: Any) -> Difference | None:
    """The row that says why."""
    return next((row for row in DIFFERENCES if row.covers(scenario, step, path, found)), None)
