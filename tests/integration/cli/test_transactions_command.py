"""`kavka transactions` against kavka and against Apache Kafka 3.9 and 4.x, with a producer of librdkafka."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.kit.command_line import run_alone

Run = Callable[..., subprocess.CompletedProcess[bytes]]

PEERS = {"kavka": "kavka_broker", "apache 3.9": "apache_kafka", "apache 4": "apache_kafka_kraft"}
TIMEOUT_S = 60


@pytest.fixture(params=[name if name == "kavka" else pytest.param(name, marks=pytest.mark.kafka) for name in PEERS])
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(PEERS[request.param]).bootstrap)


@pytest.fixture
def run(bootstrap: str) -> Run:
    def run_command(*words: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
        result = run_alone("transactions", *words, KAVKA_BOOTSTRAP=bootstrap)
        assert result.returncode == status, result.stderr.decode()
        return result

    return run_command


def answer(result: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(result.stdout)


@pytest.fixture
def opened(bootstrap: str) -> tuple[str, str, Producer]:
    """A transactional id, a topic, and a producer that has a transaction open in it."""
    name, topic = f"tx-{uuid.uuid4().hex[:8]}", f"orders-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(TIMEOUT_S)
    return name, topic, producer


def test_an_open_transaction_is_shown_and_aborted(run: Run, opened: tuple[str, str, Producer]) -> None:
    name, topic, _producer = opened
    (listed,) = [one for one in answer(run("list", "--json")) if one["transactional_id"] == name]
    assert listed["state"] == "Ongoing"
    assert name in run("list", "--state", "Ongoing").stdout.decode()
    assert name not in run("list", "--state", "Empty").stdout.decode()
    (described,) = answer(run("describe", name, "--json"))
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    (producer,) = answer(run("describe-producers", topic, "--partition", "0", "--json"))
    assert (producer["producer_id"], producer["transaction_start"]) == (described["producer_id"], 0)
    assert "No transaction hangs" in run("find-hanging", "--topic", topic).stderr.decode()
    place = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    assert "--yes" in run("abort", *place, status=2).stderr.decode()
    run("abort", *place, "--yes")
    (producer,) = answer(run("describe-producers", topic, "--partition", "0", "--json"))
    assert producer["transaction_start"] == -1
    assert "no open transaction" in run("abort", *place, "--yes", status=1).stderr.decode()


def test_a_producer_is_terminated(run: Run, opened: tuple[str, str, Producer]) -> None:
    name, _topic, _producer = opened
    run("force-terminate", name, "--yes")
    deadline = time.monotonic() + TIMEOUT_S
    while answer(run("describe", name, "--json"))[0]["state"] != "Empty":
        assert time.monotonic() < deadline
    assert "there is no such transactional id" in run("describe", "nobody", status=1).stderr.decode()
