"""Apache's own programs on `kavka zookeeper`: ZooKeeper's command line, and a Kafka broker in ZooKeeper mode."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.apache_kafka import PeerMissing, Release, installed
from tests.conformance.zookeeper.zookeeper_process import ZooKeeperProcess
from tests.kit.kavka_process import HOST, answers_metadata
from tests.kit.ports import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    try:
        installed("zk")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    # Java's servers on two cores pause longer than sessions of the tests beside this one last.
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"), tick_ms=2000) as process:
        yield process


def tool(name: str, *arguments: str, text: str = "", timeout_s: float = 60.0) -> str:
    """What one of Kafka's tools prints, with `text` on its standard input."""
    result = subprocess.run(
        Release.named("zk").tool_command(name, *arguments),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return result.stdout


def broker_ids(server: ZooKeeperProcess) -> list[str]:
    """Brokers that are registered below /kafka."""
    client = KazooClient(hosts=f"{server.address}/kafka")
    client.start(timeout=10)
    try:
        return sorted(client.get_children("/brokers/ids"))
    finally:
        client.stop()
        client.close()


def test_apaches_command_line(server: ZooKeeperProcess) -> None:
    script = """
create /cli one
create -s /cli/s- x
create -e /cli/e y
create -c /cli/c
create -t 60000 /cli/t z
get -s /cli
set -v 0 /cli two
set -v 0 /cli three
addWatch -m PERSISTENT_RECURSIVE /cli
create /cli/watched
removewatches /cli
ls -R /cli
getAllChildrenNumber /cli
getEphemerals /cli
getAcl /cli
setAcl /cli world:anyone:cdrwa
addauth digest alice:secret
whoami
sync /cli
stat /cli/e
deleteall /cli
ls /
quit
"""
    printed = tool("zookeeper-shell", "-server", server.address, text=script)
    for expected in (
        "Created /cli/s-0000000000",
        "Created /cli/c",
        "Created /cli/t",
        "one\ncZxid = 0x",
        "version No is not valid : /cli",
        "WatchedEvent state:SyncConnected type:NodeCreated path:/cli/watched",
        "/cli\n/cli/c\n/cli/e\n/cli/s-0000000000\n/cli/t\n/cli/watched",
        "[/cli/e]",
        "'world,'anyone\n: cdrwa",
        "digest: alice",
        "Sync is OK",
        "[zookeeper]",
    ):
        assert expected in printed, f"{expected!r} is not in:\n{printed}"
    assert "Exception" not in printed, printed


@pytest.mark.thorough
def test_a_kafka_broker_runs_on_it(server: ZooKeeperProcess, tmp_path: Path) -> None:
    port = free_port()
    bootstrap = f"{HOST}:{port}"
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://{bootstrap}\nlog.dirs={tmp_path / 'logs'}\n"
        f"zookeeper.connect={server.address}/kafka\nzookeeper.session.timeout.ms=18000\n"
        "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
    )
    output = (tmp_path / "broker.log").open("w")
    broker = subprocess.Popen(
        ["java", "-Xmx512M", "-cp", f"{installed('zk')}/*", "kafka.Kafka", properties],
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    try:
        while not answers_metadata(port):
            assert broker.poll() is None, (tmp_path / "broker.log").read_text()[-3000:]
            time.sleep(0.05)
        printed = tool("topics", "--bootstrap-server", bootstrap, "--create", "--topic", "t", "--partitions", "3")
        assert "Created topic t." in printed
        records = "".join(f"record {number}\n" for number in range(100))
        tool("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", text=records)
        consumed = tool(
            *("console-consumer", "--bootstrap-server", bootstrap, "--topic", "t", "--from-beginning"),
            *("--max-messages", "100", "--timeout-ms", "30000"),
        )
        lines = {line for line in consumed.splitlines() if line.startswith("record ")}
        assert lines == set(records.splitlines()), consumed[-2000:]
        assert broker_ids(server) == ["1"]
        broker.terminate()
        assert broker.wait(40) is not None
        assert broker_ids(server) == [], "its session was closed, and its registration with it"
    finally:
        broker.kill()
        broker.wait()
        output.close()
