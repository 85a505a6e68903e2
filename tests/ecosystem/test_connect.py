"""Kafka Connect, distributed: what a worker that is killed was doing is done by another, nothing lost, nothing twice.

The connectors are Kafka's own for files. The source is an exactly-once one (KIP-618): its records and the positions in
the file are one transaction, and a zombie of it is fenced. The sink is at-least-once, with every broker: after a kill
it writes lines again that it had written since its last commit, and never leaves one out.
"""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from types import TracebackType

import pytest

from tests.apache_kafka import Release
from tests.kit.committed_records import committed_records
from tests.kit.connect_workers import ConnectWorkers, file_sink, file_source
from tests.kit.process_cluster import eventually

pytestmark = pytest.mark.timeout(600)

LINES_AT_ONCE = 10
BETWEEN_LINES_S = 0.05
BEFORE_A_KILL = 300
"""So many lines more are in the topic, and others are under way."""
PROGRESS_TIMEOUT_S = 90.0
"""A dead worker's session, a rebalance, the transaction that it left open."""

PLACES = [
    pytest.param(broker, release, id=f"{broker}-connect-{version}")
    for release, version in (("zk", "3.9"), ("kraft", "4.3"))
    for broker in ("kavka", f"kafka-{version}")
]


class GrowingFile:
    """A file to which a thread appends numbered lines, for as long as the `with` lasts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._grow, daemon=True)

    def _grow(self) -> None:
        while not self._ended.wait(BETWEEN_LINES_S):
            more = [f"line {len(self.lines) + number}" for number in range(LINES_AT_ONCE)]
            with self.path.open("a") as file:
                file.write("".join(f"{line}\n" for line in more))
            self.lines += more

    def __enter__(self) -> GrowingFile:
        self.path.write_text("")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


@pytest.mark.parametrize(("bootstrap", "release"), PLACES, indirect=True)
def test_tasks_of_killed_workers_are_taken_over_with_nothing_lost_or_doubled(
    bootstrap: str, release: Release, tmp_path: Path
) -> None:
    topic = f"lines-{uuid.uuid4().hex[:8]}"
    source, sink = f"{topic}-source", f"{topic}-sink"  # a sink's name is its group's
    written = tmp_path / "written.txt"

    def in_topic() -> list[str]:
        return [(record.value or b"").decode() for record in committed_records(bootstrap, topic)]

    def wait_for_lines(count: int) -> None:
        eventually(
            f"{count} lines in the topic",
            lambda: len(in_topic()) >= count,
            timeout_s=PROGRESS_TIMEOUT_S,
            every_s=0.5,
        )

    place = tmp_path / "connect"
    with ConnectWorkers(place, bootstrap, release=release, group=f"connect-{topic}", workers=2) as workers:
        with GrowingFile(tmp_path / "read.txt") as growing:
            workers.put(source, file_source(growing.path, topic))
            workers.put(sink, file_sink(written, topic))
            for connector in (source, sink, source):
                wait_for_lines(len(in_topic()) + BEFORE_A_KILL)
                killed = workers.worker_of(connector)
                workers.kill(killed)
                workers.wait_until_taken_over(connector, killed)
                workers.start_again(killed)
            wait_for_lines(len(in_topic()) + BEFORE_A_KILL)
        lines = growing.lines
        wait_for_lines(len(lines))
        eventually(
            "all lines in the sink's file",
            lambda: set(written.read_text().splitlines()) >= set(lines),
            timeout_s=PROGRESS_TIMEOUT_S,
            every_s=0.5,
        )
        workers.wait_until_running(source)
        workers.wait_until_running(sink)

    assert in_topic() == lines
    assert set(written.read_text().splitlines()) == set(lines)
