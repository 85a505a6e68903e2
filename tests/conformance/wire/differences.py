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


def _produced(index: int, base_offset: int) -> dict[str, Any]:
    """The answer for one partition of a topic, as ProduceResponse 13 has it."""
    partition = {
        "index": index,
        "error_code": 0,
        "base_offset": base_offset,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
        "current_leader": None,
    }
    return {"topic_id": "<id of topic-*>", "partition_responses": [partition]}


def _offset(index: int, offset: int, metadata: str) -> dict[str, Any]:
    """The answer for one partition, as OffsetFetchResponse has it since version 8."""
    committed = {"committed_offset": offset, "committed_leader_epoch": -1, "metadata": metadata}
    return {"partition_index": index, "error_code": 0} | committed


def _offsets_of_topic(**name: str) -> list[dict[str, Any]]:
    return [name | {"partitions": [_offset(0, 5, "here")]}]


_BY_NAME, _BY_ID = _offsets_of_topic(name="topic-*"), _offsets_of_topic(topic_id="<id of topic-*>")
_TOLD_ONCE = "three bytes of a request, sent again and again, would bring thousands of offsets each"
_LATE = "of the numbered requests that brokers of kavka send none is taken after a later one"
_TWO_PRODUCERS = "PRODUCER_FENCED: Kafka takes it for a retry, and tells a producer the epoch of the one that took over"
_NOT_THERE = "the request that would have made it came late"
_DELETED_ANYWAY = "a state of a topic that is gone can be deleted, too; Kafka's keeper does that by itself"

DIFFERENCES = (
    *(
        Difference(
            "offset_fetch_of_the_same_again",
            "all twice|one twice",
            r"\.groups",
            [{"group_id": "group-*", "topics": topics, "error_code": 0}],
            _TOLD_ONCE,
        )
        for topics in (_BY_NAME, _BY_ID)
    ),
    Difference("offset_fetch_of_the_same_again", "a topic twice", r"\.groups\[0\]\.topics", _BY_ID, _TOLD_ONCE),
    Difference(
        "offset_fetch_of_the_same_again",
        "a partition twice",
        r"\.groups\[0\]\.topics\[0\]\.partitions",
        [_offset(0, 5, "here"), _offset(1, -1, "")],
        "as Kafka 3.9; 4.3 tells it again, with up to four thousand bytes for the four of the request",
    ),
    Difference(
        "consumer_group_describe",
        "unknown twice",
        r"\.groups",
        [
            {
                "error_code": 69,
                "error_message": "<text>",
                "group_id": "nowhere-*",
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "assignor_name": "",
                "members": [],
                "authorized_operations": -2147483648,
            }
        ],
        "a group is told once: its name, sent again and again, would bring all its members each time",
    ),
    Difference(
        "alter_partition_reassignments",
        "nothing to cancel|topic without partitions|no topics",
        r"\.error_message",
        None,
        "as Kafka 4.3 says that all went well; 3.9, and 4.3 where nothing was asked, have the empty string",
    ),
    Difference(
        "alter_partition_reassignments",
        "nothing to cancel|cancelled, in equal number",
        r".*partitions\[0\]\.error_message",
        "<text>",
        "as Kafka 3.9, which says in words what was wrong; 4.3 gives the code alone",
    ),
    Difference(
        "alter_partition_reassignments",
        "topic without partitions",
        r"\.responses",
        [],
        "as Kafka 3.9: an answer for each partition that was asked about, and none for a topic alone",
    ),
    Difference(
        "create_partitions_of_several",
        "empty name",
        r"\.results\[0\]\.error_message",
        "<text>",
        "as Kafka 3.9 of other unknown names, which says in words what was wrong; 4.3 gives the code alone",
    ),
    Difference(
        "create_too_many_new_partitions",
        "to 10,002",
        r"\[0\]",
        44,
        "POLICY_VIOLATION, as for new topics; Kafka 4.3's UNKNOWN_SERVER_ERROR is an exception, 3.9 makes them",
    ),
    Difference(
        "elect_leaders_of_odd_shapes",
        "unknown kind, nothing",
        r"\.error_code",
        42,
        "INVALID_REQUEST names the client's mistake; 4.3 says it of partitions alone, of which there are none here",
    ),
    Difference(
        "controlled_shutdown_of_nobody",
        "unknown broker, another epoch",
        r"\.error_code",
        8,
        "BROKER_NOT_AVAILABLE, as without an epoch; Kafka's UNKNOWN_SERVER_ERROR is an exception that nobody caught",
    ),
    Difference(
        "find_coordinator_of_each_kind",
        "of a share group's partition, too early",
        r".*\.error_message",
        "<text>",
        "kavka says in words what was wrong; Kafka gives the code alone",
    ),
    Difference(
        "describe_topic_partitions_by_pages",
        "empty name",
        r"\.topics\[0\]\.error_code",
        17,
        "INVALID_TOPIC_EXCEPTION names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception",
    ),
    Difference(
        "describe_topic_partitions_by_pages",
        "empty name",
        r"\.topics\[0\]\.topic_authorized_operations",
        3576,
        "as the row above",
    ),
    *(
        Difference("alter_user_scram_credentials", "upsert of an empty password", rf".*\.{field}", value, reason)
        for field, value, reason in (
            (
                "error_code",
                93,
                "UNACCEPTABLE_CREDENTIAL names the mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception",
            ),
            ("error_message", "<text>", "as the row above"),
        )
    ),
    *(
        Difference("incremental_alter_lists", "append an empty text", rf"\.responses\[0\]\.{field}", value, reason)
        for field, value, reason in (
            ("error_code", 0, "there is nothing to append; Kafka appends an element without a letter, and refuses it"),
            ("error_message", None, "as the row above"),
        )
    ),
    *(
        Difference("list_offsets_of_several", "unknown isolation", rf".*\.{field}", value, reason)
        for field, value, reason in (
            ("error_code", 0, "what is not read_committed reads all; Kafka's UNKNOWN_SERVER_ERROR is an exception"),
            ("offset", 3, "as the row above"),
            ("leader_epoch", 0, "as the row above"),
        )
    ),
    Difference(
        "list_offsets_of_several",
        "no partitions",
        r"\.topics",
        [{"name": "topic-*", "partitions": []}],
        "as Kafka 3.9 in the versions that it has: an answer for each entry of the request",
    ),
    Difference(
        "list_offsets_of_several",
        "topic twice",
        r"\.topics",
        [
            {
                "name": "topic-*",
                "partitions": [
                    {"partition_index": index, "error_code": 0, "timestamp": -1, "offset": offset, "leader_epoch": 0}
                ],
            }
            for index, offset in ((1, 0), (0, 3))
        ],
        "as the row above",
    ),
    Difference(
        "metadata_creates_topics",
        "the first time",
        r"\.topics\[0\]\.error_code",
        5,
        "LEADER_NOT_AVAILABLE in version 13, too, which Kafka 3.9 does not have: a topic is on its way in all versions",
    ),
    Difference(
        "produce_refused_batches",
        "two batches|magic 1|cut short|unknown codec",
        r"\.responses\[0\]\.partition_responses\[0\]\.log_start_offset",
        0,
        "kavka tells where the log starts with every refusal of a batch that it could read as one",
    ),
    Difference(
        "produce_malformed_records(_deflated)?|produce_lists_bad_records|produce_odd_deltas",
        "garbage(, behind forty good ones)?|length of ten bytes.*|no keys, then garbage|offsets all 0, deflated",
        r"\.responses\[0\]\.partition_responses\[0\]\.error_code",
        87,
        "INVALID_RECORD names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception that nobody caught",
    ),
    Difference(
        "produce_malformed_records_deflated",
        "length behind the end|negative length|shorter than its fields",
        r"\.responses\[0\]\.partition_responses\[0\]\.error_code",
        87,
        "Kafka does not compare a deflated record's length with its fields, and its consumer then fails for good",
    ),
    Difference(
        "produce_malformed_records_deflated",
        "length behind the end|negative length|shorter than its fields",
        r"\.responses\[0\]\.partition_responses\[0\]\.base_offset",
        -1,
        "as the row above",
    ),
    Difference(
        "fetch_what_waits",
        "behind what is uncommitted, read committed",
        r"\.waited",
        True,
        "who asks for more than it may see yet waits for it; Kafka answers at once, and is asked again at once",
    ),
    *(
        Difference(
            "produce_to_a_partition_twice",
            "twice",
            rf"\.{field}",
            value,
            "each entry is appended and answered; Kafka appends the last one alone. No client sends such a thing",
        )
        for field, value in (("base_offsets", [0, 1]), ("end_offset", 3))
    ),
    Difference(
        "produce_odd_frames",
        "lz4, (two frames|a frame of nothing before|a stored block of nothing before the others)",
        r"\.error_code",
        -1,
        "what one codec cannot read as a whole is answered like what none can; Kafka says INVALID_RECORD here",
    ),
    Difference(
        "produce_odd_frames",
        "lz4, (bytes|zeros|a frame of nothing) behind|lz4, wrong content checksum|snappy, (two|a) frames?( of .*)?",
        r"\.error_code",
        -1,
        "Kafka's own reader reads past it, and readers of others do not: librdkafka's consumers would stop there",
    ),
    Difference(
        "produce_by_topic_id",
        "an id twice, other partitions",
        r"\.responses",
        [_produced(1, 3), _produced(0, 9)],
        "an answer for each entry of the request; Kafka puts those of one topic together. No client sends such a thing",
    ),
    Difference(
        "metadata_by_zero_id",
        "no name|no name beside a name",
        r"(\.topics\[\d\])?\.error_code",
        42,
        "INVALID_REQUEST names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception that nobody caught",
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
        "classic,consumer,streams",
        "the newer group protocols are served from the start, as in Apache Kafka 4",
    ),
    Difference(
        "produce_.*",
        ".*",
        r"\.responses\[0\]\.partition_responses\[\d\]\.error_message",
        "<text>",
        "kavka says why it refused a batch where Kafka gives the code alone",
    ),
    Difference(
        "incremental_alter_configs|alter_broker_loggers",
        "unknown operation",
        r"\.responses\[0\]\.error_code",
        42,
        "INVALID_REQUEST names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception that nobody caught",
    ),
    Difference(
        "incremental_alter_configs|alter_broker_loggers",
        "unknown operation",
        r"\.responses\[0\]\.error_message",
        "<text>",
        "as the row above",
    ),
    Difference(
        "end_txn_of_what_was_refused",
        "abort before there was any|abort after a commit",
        r"\.error_code",
        0,
        "another transaction was begun, in which there is nothing: INVALID_TXN_STATE would end librdkafka's producer",
    ),
    Difference(
        "end_txn_with_the_epoch_before_that_of_another_producer",
        "abort|commit",
        r"\.error_code",
        90,
        _TWO_PRODUCERS,
    ),
    Difference(
        "end_txn_with_the_epoch_before_that_of_another_producer",
        "abort",
        r"\.producer_(id|epoch)",
        -1,
        _TWO_PRODUCERS,
    ),
    Difference(
        "share_(acknowledge|acknowledge_edges|acknowledge_of_odd_shapes|fetch|group_heartbeat)_refused|share_fetch_of_odd_shapes",
        ".*",
        r".*\.error_message",
        "<text>",
        "kavka says in words what was wrong; Kafka gives the code alone",
    ),
    Difference(
        "describe_share_group_offsets",
        "four accepted, two rejected|all of a group|with an unknown topic",
        r".*\.start_offset",
        4,
        "kavka stores the start offset as it is after a change, Kafka as it was before; the lag is the same",
    ),
    Difference(
        "delete_share_groups",
        "a new one of this name, described",
        r".*\.lag",
        10,
        "as the row below",
    ),
    Difference(
        "delete_share_groups",
        "a new one of this name, described",
        r".*\.start_offset",
        0,
        "where a group begins is stored before anything is given out, so that a leader who dies then loses no record",
    ),
    Difference(
        "share_fetch_refused",
        "another's acknowledgement",
        r".*\.acknowledge_error_code",
        42,
        "nobody was given a record behind the last that was acquired, so none is remembered; Kafka remembers its batch",
    ),
    Difference(
        "share_fetch_refused|share_fetch_of_a_deleted_topic",
        "unknown topic|deleted(, again)?",
        r"\.error_code",
        0,
        "an unknown topic among others is told of with UNKNOWN_TOPIC_ID; Kafka's UNKNOWN_SERVER_ERROR is an exception",
    ),
    Difference(
        "share_fetch_refused|share_fetch_of_a_deleted_topic",
        "unknown topic|deleted(, again)?",
        r"\.acquisition_lock_timeout_ms",
        30_000,
        "as the row above",
    ),
    *(
        Difference(
            scenario,
            step,
            r"\.responses",
            [
                {
                    "topic_id": topic_id,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "error_code": 100,
                            "error_message": None,
                            "acknowledge_error_code": 0,
                            "acknowledge_error_message": None,
                            "current_leader": {"leader_id": 0, "leader_epoch": 0},
                            "records": [],
                            "acquired_records": [],
                        }
                    ],
                }
            ],
            "as the row above",
        )
        for scenario, step, topic_id in (
            ("share_fetch_refused", "unknown topic", "<id>"),
            ("share_fetch_of_a_deleted_topic", "deleted(, again)?", "<id of second-*>"),
        )
    ),
    Difference(
        "share_fetch_for_no_group",
        "no name",
        r".*\.error_code",
        24,
        "INVALID_GROUP_ID names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception",
    ),
    Difference(
        "describe_share_group_offsets_of_no_group",
        "no name",
        r".*\.error_code",
        24,
        "as the row above",
    ),
    *(
        Difference("describe_share_group_offsets_of_no_group", "no name, no partitions", rf".*\.{field}", value, reason)
        for field, value, reason in (
            ("error_code", 0, "nothing is asked of the group, so nothing is wrong with its name"),
            ("error_message", None, "as the row above"),
        )
    ),
    Difference(
        "share_fetch_of_odd_shapes",
        "a mode that there is not",
        r"\.error_code",
        42,
        "INVALID_REQUEST names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception that nobody caught",
    ),
    *(
        Difference(
            "share_fetch_of_odd_shapes",
            "what the session before acquired",
            rf".*\.{field}",
            value,
            "a new session ends the one before, and frees what is locked in it; with Kafka it stays locked",
        )
        for field, value in (("acknowledge_error_code", 3), ("acknowledge_error_message", "<text>"))
    ),
    *(
        Difference(
            "delete_share_group_state",
            "partition that is not there|unknown topic",
            rf".*\.{field}",
            said,
            _DELETED_ANYWAY,
        )
        for field, said in (("error_code", 0), ("error_message", None))
    ),
    Difference(
        "(read|write)_share_group_state",
        "partition that is not there|unknown topic",
        r".*\.error_code",
        3,
        "that the topic is not there is said whether it had a state or not; Kafka says that it had none",
    ),
    Difference(
        "initialize_share_group_state|read_share_group_state_summary",
        "(start not known|higher epoch), summary|made",
        r".*\.leader_epoch",
        -1,
        "no leader has read it, which is told apart from one in epoch 0: a write that comes late finds a new state",
    ),
    Difference(
        "read_share_group_state_summary",
        "written to|for a leader|for an older leader",
        r".*\.leader_epoch",
        3,
        "a leader that writes without having read leads all the same; with Kafka its predecessor may go on writing",
    ),
    Difference(
        "share_group_subscriptions",
        "another",
        r"\.member_epoch",
        2,
        "the answer waits for the states of new partitions, and has them; Kafka's member gets them 5 s later",
    ),
    Difference(
        "share_group_subscriptions",
        "another",
        r"\.assignment\.topic_partitions",
        [{"topic_id": "<id of second-*>", "partitions": [0, 1]}],
        "as the row above",
    ),
    Difference(
        "share_group_epochs",
        "the former|the former again",
        r"\.assignment",
        {
            "topic_partitions": [
                {"topic_id": "<id of second-*>", "partitions": [0]},
                {"topic_id": "<id of topic-*>", "partitions": [0]},
            ]
        },
        "who comes with its former epoch has not heard of its present one; with Kafka it has to name its topics",
    ),
    *(
        Difference("write_share_group_state_late", step, rf".*\.{field}", value, _LATE)
        for step, code in (("late", 42), ("before anybody has read|of a later state|of the state before", 124))
        for field, value in (("error_code", code), ("error_message", "<text>"))
    ),
    *(
        Difference("write_share_group_state_late", step, r".*\.start_offset", start, _LATE)
        for step, start in (
            ("before anybody has read, read|of the state before, read", 0),
            ("late, read|of a later state, read", 4),
        )
    ),
    Difference("write_share_group_state_late", "late, read", r".*\.state_batches", [], _LATE),
    *(
        Difference("initialize_share_group_state_late", step, rf".*\.{field}", value, reason)
        for step, start, offsets, reason in (
            ("without a start again, read", 4, (5, 6), "who asks for a state without a start undoes no position"),
            ("set again, read", 9, (10, 10), "a numbered request sets a position once"),
        )
        for field, value in (
            ("start_offset", start),
            (
                "state_batches",
                [
                    {
                        "first_offset": offsets[0],
                        "last_offset": offsets[1],
                        "delivery_state": 2,
                        "delivery_count": 1,
                    }
                ],
            ),
        )
    ),
    *(
        Difference("delete_share_group_state_late", "late|made late(, read)?", rf".*\.{field}", value, _LATE)
        for field, value in (("error_code", 42), ("error_message", "<text>"))
    ),
    *(
        Difference("delete_share_group_state_late", "made late, read", rf".*\.{field}", 0, _NOT_THERE)
        for field in ("state_epoch", "start_offset")
    ),
    *(
        Difference("delete_share_group_state_late", "late, read", rf".*\.{field}", value, _LATE)
        for field, value in (("error_code", 0), ("error_message", None), ("state_epoch", 4), ("start_offset", -1))
    ),
)


def undocumented(scenario: str, step: str, differing: Iterable[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    """Those of (path, found, expected) that no row of the table covers."""
    return [
        (path, found, expected)
        for path, found, expected in differing
        if not any(row.covers(scenario, step, path, found) for row in DIFFERENCES)
    ]
