"""Java's KafkaShareConsumer: each record is done once, by whom and after how many deliveries the members say.

`share/Queue.java` does what docs/groups.md shows, and more. It runs on Apache Kafka too, which shows that it asks for
what Kafka does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance.clients.check_program import set_up
from tests.conformance.clients.share_brokers import SHARE_BROKERS, serving

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

VERSION = "4.3.1"
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M")
RUN_S = 240


@pytest.mark.parametrize("brokers", SHARE_BROKERS)
def test_a_queue(brokers: str, tmp_path: Path) -> None:
    command = [*JAVA, "-cp", set_up("setup_java_clients.sh", VERSION, "share"), "Queue"]
    with serving(brokers, tmp_path) as bootstrap:
        done = subprocess.run([*command, bootstrap], capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ALL OK" in done.stdout
