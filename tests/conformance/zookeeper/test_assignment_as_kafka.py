"""Replicas of the same wish, placed by Kafka's own AdminUtils and by kavka: the same brokers in the same order."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from kavka.controller.decide.assignment import BrokerRack, assign_replicas_from
from kavka.model import BrokerId
from tests.apache_kafka import PeerMissing, installed

pytestmark = pytest.mark.kafka

CASES = 300


def wishes(rng: random.Random) -> list[tuple[int, int, int, int, list[BrokerRack]]]:
    cases = []
    for _ in range(CASES):
        ids = rng.sample(range(30), rng.randrange(1, 10))
        rack_count = rng.randrange(4)
        brokers = [BrokerRack(BrokerId(one), f"r{rng.randrange(rack_count)}" if rack_count else None) for one in ids]
        first = rng.choice([0, 0, 3, 7])
        cases.append((rng.randrange(1, 30), rng.randrange(1, len(ids) + 1), rng.randrange(len(ids)), first, brokers))
    return cases


def test_kafka_places_the_replicas_alike() -> None:
    try:
        jars = installed("zk")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    cases = wishes(random.Random(7))
    lines = [
        f"{count} {factor} {start} {first} "
        + " ".join(str(one.broker_id) + (f":{one.rack}" if one.rack else "") for one in sorted(brokers))
        for count, factor, start, first, brokers in cases
    ]
    harness = Path(__file__).with_name("AssignReplicas.java")
    command = [os.environ.get("JAVA", "java"), "-cp", f"{jars}/*", str(harness)]
    result = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=100)
    theirs = [
        {int(p): tuple(map(int, replicas.split(", "))) for p, replicas in re.findall(r"(\d+)=\[([\d, ]+)\]", line)}
        for line in result.stdout.splitlines()
    ]
    ours = [
        assign_replicas_from(brokers, count, factor, first_partition=first, start=start)
        for count, factor, start, first, brokers in cases
    ]
    assert len(theirs) == CASES
    assert ours == theirs
