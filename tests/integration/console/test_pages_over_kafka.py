"""Every page over Apache Kafka 3.9 with ZooKeeper and 4 in KRaft, in both languages, while all is well and while a
broker is dead: nothing fails, and what cannot be known there says why."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.console.test_pages_in_chinese import GROUP, TOPIC, C, everywhere, fill, told
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]

HEAP = "-Xmx256M -Xms128M"
SETTINGS = {"auto.create.topics.enable": "false", "min.insync.replicas": "2"}


class Live:
    def __init__(self, kafka: ApacheKafka, console: ConsoleProcess) -> None:
        self.kafka = kafka
        self.reader = ConsoleClient(console.address)
        self.chinese = ConsoleClient(console.address, {"Accept-Language": "zh"})

    def look(self) -> str:
        """What is wrong with any page."""
        wrong = []
        for path in everywhere():
            page, again = self.reader.get(path), self.chinese.get(path)
            if page.status >= 500 and not path.startswith("/c/away") and "zookeeper" not in path:
                wrong.append(f"{path}: {page.status} {page.text}")
            wrong += [f"{path}: unknown without a reason" for _ in re.findall(r'<span class="unknown">', page.html)]
            english = {path: again.english()}
            wrong += told(english).splitlines()
        return "\n".join(wrong)

    def health(self, *words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "kavka.cli.main", "health", "-b", self.kafka.bootstrap, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        return done.returncode, done.stdout

    def checks(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in json.loads(self.health("--json")[1])["checks"]}


@pytest.fixture(scope="module", params=["zk", "kraft"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("pages")
    try:
        kafka = ApacheKafka(directory / "kafka", mode=request.param, brokers=3, settings=SETTINGS, heap=HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        fill(kafka.bootstrap)
        zookeeper = f'zookeeper = "{kafka.zookeeper}"\n' if request.param == "zk" else ""
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{kafka.bootstrap}"\n{zookeeper}'
        settings += '[[cluster]]\nname = "away"\nbootstrap = "127.0.0.1:1"\n'
        with ConsoleProcess(settings, directory / "console") as console:
            found = Live(kafka, console)
            eventually("the console knows the group", lambda: found.reader.get(f"{C}/groups/{GROUP}").status == 200)
            eventually("and settings", lambda: "min.insync" in found.reader.get(f"{C}/topics/{TOPIC}").html)
            yield found
            assert not console.failures, console.failures


def test_every_page_while_all_is_well(live: Live) -> None:
    wrong = live.look()
    assert not wrong, wrong
    assert "does not record its reasons" in live.reader.get(f"{C}/decisions").text
    status, text = live.health("--all")
    assert "controller" in text
    found = live.checks()
    assert found["controller"]["outcome"] == "passed"
    assert found["controller-changes"]["outcome"] == "unknown", "one look cannot tell"
    assert "metrics" in found["request-queue"]["evidence"]
    assert status == 1, "topics of one replica and settings without room are told"


def test_the_controller_is_the_quorums_and_stays_the_same(live: Live) -> None:
    if live.kafka.mode != "kraft":
        pytest.skip("with ZooKeeper Metadata tells")
    described = live.kafka.tool("metadata-quorum", "--bootstrap-server", live.kafka.bootstrap, "describe", "--status")
    leader = re.search(r"LeaderId:\s+(\d+)", described)
    assert leader is not None, described
    for _ in range(10):
        assert f"Broker {leader[1]} is the controller" in live.reader.get(f"{C}/brokers").text


def test_every_page_while_a_broker_is_dead(live: Live) -> None:
    os.kill(int((live.kafka.data_dir / "broker-3.pid").read_text()), signal.SIGKILL)
    eventually("it is seen", lambda: "not alive" in live.reader.get(f"{C}/brokers").text, timeout_s=60)
    wrong = live.look()
    assert not wrong, wrong
    found = live.checks()
    assert found["brokers-alive"]["findings"] == [
        {"kind": "broker", "name": "3", "why": found["brokers-alive"]["findings"][0]["why"]}
    ]
    live.kafka.start_node("broker-3")
    eventually("it is back", lambda: "not alive" not in live.reader.get(f"{C}/brokers").text, timeout_s=60)
    changes = live.reader.get(f"{C}/decisions").html
    assert "→" in changes, "what the console saw of ISRs is there"
