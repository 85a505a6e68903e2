"""kcat: the command line that people reach for first."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.clients.client_samples import CODECS
from tests.conformance.clients.waiting import TIMEOUT_S

MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]

# A field of its own between key, value and the next record; \x1e never occurs in the values.
KEY_DELIMITER, DELIMITER = "\t", "\x1e"

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat: `make setup` as root, or the package")


def kcat(bootstrap: str, *arguments: str, text: str = "", may_fail: bool = False) -> str:
    result = subprocess.run(
        ["kcat", "-b", bootstrap, "-X", "topic.metadata.propagation.max.ms=2000", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if may_fail:
        return result.stdout + result.stderr
    assert result.returncode == 0, result.stderr
    return result.stdout


def send(bootstrap: str, topic: str, values: list[str], *arguments: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-D", DELIMITER, *arguments, text=DELIMITER.join(values))


def receive(bootstrap: str, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """What partition 0 holds up to its end, one dictionary a record."""
    lines = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-J", *arguments).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("idempotent", ["false", "true"], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent(bootstrap: str, make_topic: MakeTopic, codec: str, idempotent: str) -> None:
    topic = make_topic()
    sent = [f"key-{number}{KEY_DELIMITER}value-{number} ü " + "abcdefghij" * 40 for number in range(30)]
    headers = ["-H", "trace=1", "-H", "blank="]
    send(bootstrap, topic, sent, "-K", KEY_DELIMITER, "-z", codec, "-X", f"enable.idempotence={idempotent}", *headers)
    records = receive(bootstrap, topic)
    assert [f"{record['key']}{KEY_DELIMITER}{record['payload']}" for record in records] == sent
    assert [record["offset"] for record in records] == list(range(30))
    assert {record["tstype"] for record in records} == {"create"}
    assert {tuple(record["headers"]) for record in records} == {("trace", "1", "blank", "")}


def test_an_empty_value_may_be_sent_as_null(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    send(bootstrap, topic, [f"gone{KEY_DELIMITER}"], "-K", KEY_DELIMITER, "-Z")
    (record,) = receive(bootstrap, topic)
    assert (record["key"], record["payload"]) == ("gone", None)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_records(bootstrap: str, make_topic: MakeTopic, acks: str) -> None:
    topic = make_topic()
    # Also tells that the new leader serves: without acknowledgement nobody else would.
    kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1")
    send(bootstrap, topic, ["a", "b", "c"], "-X", f"acks={acks}")
    assert [record["payload"] for record in receive(bootstrap, topic)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("start", "offsets"),
    [("beginning", list(range(10))), ("6", [6, 7, 8, 9]), ("-2", [8, 9])],
    ids=["beginning", "middle of a batch", "two before the end"],
)
def test_reading_starts_where_it_was_told(
    bootstrap: str, make_topic: MakeTopic, start: str, offsets: list[int]
) -> None:
    topic = make_topic()
    send(bootstrap, topic, [str(number) for number in range(10)], "-z", "gzip")
    records = receive(bootstrap, topic, "-o", start)
    assert [record["offset"] for record in records] == offsets
    assert [record["payload"] for record in records] == [str(offset) for offset in offsets]


def test_offsets_are_queried_by_timestamp(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    send(bootstrap, topic, ["a", "b", "c"])
    first_timestamp_ms = receive(bootstrap, topic)[0]["ts"]
    for timestamp, offset in ((-2, 0), (-1, 3), (first_timestamp_ms, 0), (first_timestamp_ms + 3_600_000, -1)):
        assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:{timestamp}").strip() == f"{topic} [0] offset {offset}"


def test_a_group_resumes_where_it_was(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic, group = make_topic(), fresh("group")
    send(bootstrap, topic, [str(number) for number in range(8)])
    read = ["-q", "-X", "auto.offset.reset=earliest", "-f", "%o\n"]
    first = kcat(bootstrap, *read, "-c", "5", "-G", group, topic)
    rest = kcat(bootstrap, *read, "-e", "-G", group, topic)
    assert (first + rest).split() == [str(number) for number in range(8)]


def test_the_cluster_and_its_topics_are_listed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    listing = json.loads(kcat(bootstrap, "-L", "-J"))
    assert sorted(broker["name"] for broker in listing["brokers"]) == sorted(bootstrap.split(","))
    broker_ids = {broker["id"] for broker in listing["brokers"]}
    assert listing["controllerid"] in broker_ids
    (described,) = [entry for entry in listing["topics"] if entry["topic"] == topic]
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert {partition["leader"] for partition in described["partitions"]} == broker_ids


def test_an_unknown_topic_is_created_by_a_producer(bootstrap: str, admin: AdminClient, fresh: Fresh) -> None:
    topic = fresh("auto")
    send(bootstrap, topic, ["first"])
    assert [record["payload"] for record in receive(bootstrap, topic)] == ["first"]


def test_a_record_over_max_message_bytes_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1000)
    said = kcat(bootstrap, "-P", "-t", topic, "-p", "0", text="x" * 2000, may_fail=True)
    assert "Message size too large" in said
    assert receive(bootstrap, topic) == []
