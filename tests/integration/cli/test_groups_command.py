"""`kavka groups` against kavka and against Apache Kafka 3.9 and 4.x, with members of librdkafka."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.kit.command_line import run_alone

Run = Callable[..., subprocess.CompletedProcess[bytes]]

PEERS = {"kavka": "kavka_broker", "apache 3.9": "apache_kafka", "apache 4": "apache_kafka_kraft"}


@pytest.fixture(params=[name if name == "kavka" else pytest.param(name, marks=pytest.mark.kafka) for name in PEERS])
def broker(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Which peer it is, and its address."""
    found = request.getfixturevalue(PEERS[request.param])
    return str(request.param), str(found.bootstrap)


@pytest.fixture
def run(broker: tuple[str, str]) -> Run:
    def run_command(*words: str, given: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        result = run_alone(*words, given=given, KAVKA_BOOTSTRAP=broker[1])
        assert result.returncode == status, result.stderr.decode()
        return result

    return run_command


def answer(result: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(result.stdout)


def offsets(result: subprocess.CompletedProcess[bytes], key: str) -> list[int | None]:
    found = answer(result)
    return [place[key] for place in (found[0] if isinstance(found, list) else found)["offsets"]]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_from_its_first_member_to_its_end(
    run: Run, broker: tuple[str, str], protocol: str, tmp_path: Path
) -> None:
    peer, bootstrap = broker
    if protocol == "consumer" and peer == "apache 3.9":
        pytest.skip("3.9 with ZooKeeper does not serve the newer protocol")
    topic = group = f"groups-{time.time_ns()}"
    run("topics", "create", topic, "-p", "2")
    run("produce", topic, "-p", "0", given=b"".join(b"%d\n" % number for number in range(10)))
    run("produce", topic, "-p", "1", given=b"".join(b"%d\n" % number for number in range(10)))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": "reader",
        }
    )
    consumer.subscribe([topic])
    read, deadline = 0, time.monotonic() + 60
    while read < 20 and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        read += message is not None and message.error() is None
    assert read == 20
    consumer.commit(asynchronous=False)

    listed = next(one for one in answer(run("groups", "list", "--json")) if one["group_id"] == group)
    assert (listed["kind"], listed["protocol_type"]) == (protocol, "consumer")
    (described,) = answer(run("groups", "describe", group, "--json"))
    assert described["state"] == "Stable"
    assert [member["client"] for member in described["members"]] == ["reader"]
    assert described["members"][0]["partitions"] == [[topic, 0], [topic, 1]]
    assert [(place["committed"], place["lag"]) for place in described["offsets"]] == [(10, 0), (10, 0)]
    assert b"reader" in run("groups", "describe", group, "--members").stdout
    refused = run("groups", "reset-offsets", group, "-t", topic, "--to-earliest", status=1)
    assert b"its members would overwrite" in refused.stderr
    assert b"NON_EMPTY_GROUP" in run("groups", "delete", group, "--yes", status=1).stderr
    run("groups", "delete-offsets", group, "-t", topic, "--yes", status=1)
    consumer.close()

    run("groups", "reset-offsets", group, "-t", topic, "--to-earliest")
    assert offsets(run("groups", "describe", group, "--json"), "committed") == [10, 10], "a preview"
    for words, expected in (
        (["-t", f"{topic}:0", "--to-offset", "3"], [3, 10]),
        (["-t", topic, "--shift-by", "-4"], [0, 6]),
        (["--all-topics", "--shift-by", "2"], [2, 8]),
        (["--all-topics", "--to-latest"], [10, 10]),
        (["--all-topics", "--by-duration", "PT1H"], [0, 0]),
        (["--all-topics", "--to-datetime", "2100-01-01T00:00:00"], [10, 10]),
    ):
        run("groups", "reset-offsets", group, *words, "--execute")
        assert offsets(run("groups", "describe", group, "--json"), "committed") == expected, words
    exported = tmp_path / "offsets.csv"
    exported.write_bytes(run("groups", "reset-offsets", group, "--all-topics", "--to-current", "--export").stdout)
    run("groups", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
    run("groups", "reset-offsets", group, "--from-file", str(exported), "--execute")
    assert offsets(run("groups", "describe", group, "--json"), "committed") == [10, 10]
    unasked = run("groups", "delete-offsets", group, "-t", f"{topic}:1", status=2)
    assert b"add --yes to do it" in unasked.stderr
    run("groups", "delete-offsets", group, "-t", f"{topic}:1", "--yes")
    assert offsets(run("groups", "describe", group, "--json"), "committed") == [10]
    unasked = run("groups", "delete", group, status=2)
    assert b"Nothing was done. This would delete 1 group with all committed offsets" in unasked.stderr
    assert b"--yes" in unasked.stderr
    assert group in run("groups", "list").stdout.decode()
    run("groups", "delete", group, "--yes")
    assert group not in run("groups", "list").stdout.decode()
    run("groups", "describe", group, status=1)
