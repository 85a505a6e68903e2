"""The pages of Kafka Connect over a real one: a worker of Apache Kafka 4.3.1 on kavka's broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Producer

from tests.apache_kafka import PeerMissing, Release
from tests.kit.connect_workers import ConnectWorkers, file_sink, file_source
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(600)]
SOON_S = 120.0


class Live(NamedTuple):
    broker: KavkaProcess
    workers: ConnectWorkers
    client: ConsoleClient
    files: Path

    def text(self, path: str) -> str:
        return self.client.get(f"/c/live/connect{path}").text


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("connect")
    try:
        with KavkaProcess(directory / "broker") as broker:
            release = Release.named("kraft")
            with ConnectWorkers(directory / "workers", broker.bootstrap, release=release, group="console") as workers:
                settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{broker.bootstrap}"\n'
                settings += f'connect = "{workers.address("worker-1")}"\n'
                with ConsoleProcess(settings, directory / "console") as console:
                    client = ConsoleClient(console.address)
                    eventually("the cluster", lambda: "reachable" in console.log)
                    yield Live(broker, workers, client, directory)
                    assert not console.failures, console.failures
    except PeerMissing as missing:
        pytest.skip(str(missing))


def test_a_connector_whose_task_has_failed_is_told_with_its_reason_and_runs_after_a_restart(live: Live) -> None:
    producer = Producer({"bootstrap.servers": live.broker.bootstrap})
    producer.produce("orders", value="one line")
    assert producer.flush(60) == 0
    file = live.files / "not-there-yet" / "sink.txt"
    live.workers.begin("sink", file_sink(file, "orders"))
    eventually("the failure", lambda: "1 failed" in live.text(""), timeout_s=SOON_S, every_s=0.5)
    listed = live.text("")
    assert "4.3.1" in listed
    assert "works with another cluster" not in listed, "it says the id of the very cluster"
    assert "FileStreamSinkConnector" in listed
    assert "orders" in listed
    one = live.text("/sink")
    assert "FAILED" in one
    assert "Exception" in one, "the reason"
    file.parent.mkdir()
    client = live.client
    form = client.get("/c/live/do/connector?connector=sink&what=restart-failed")
    preview = client.submit(form, "/do/connector", what="restart-failed")
    assert "task 0 FAILED RUNNING" in preview.text
    assert "committed" in client.submit(preview, "/do/connector", step="run").text
    eventually("it runs", lambda: "FAILED" not in live.text("/sink"), timeout_s=SOON_S, every_s=0.5)
    eventually("it works", lambda: file.exists() and "one line" in file.read_text(), timeout_s=SOON_S, every_s=0.5)


def test_a_connector_is_paused_goes_on_and_is_stopped(live: Live) -> None:
    lines = live.files / "lines.txt"
    lines.write_text("a\nb\n")
    config = {name: value for name, value in file_source(lines, "lines").items() if name != "exactly.once.support"}
    live.workers.put("source", config)
    client = live.client
    for what, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
        form = client.get(f"/c/live/do/connector?connector=source&what={what}")
        done = client.submit(client.submit(form, "/do/connector", what=what), "/do/connector", step="run")
        assert "committed" in done.text, what
        eventually(state, lambda: state in live.text("/source"), timeout_s=SOON_S, every_s=0.5)  # noqa: B023
    assert live.client.get("/c/live/connect/no-such").status == 404
