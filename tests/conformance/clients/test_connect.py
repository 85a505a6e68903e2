"""Kafka Connect, distributed: a line of a file becomes a record, and a line of another file, while a worker comes back.

What becomes of tasks whose worker is killed while lines come all the time is `make ecosystem`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing, Release
from tests.conformance.clients.waiting import wait_until
from tests.kit.committed_records import committed_records
from tests.kit.connect_workers import ConnectWorkers, file_sink, file_source

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture(params=["zk", "kraft"], ids=["connect-3.9", "connect-4.3"])
def release(request: pytest.FixtureRequest) -> Release:
    found = Release.named(request.param)
    try:
        found.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    return found


def test_lines_go_from_file_to_topic_to_file(
    bootstrap: str, replication_factor: int, release: Release, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    topic = fresh("lines")
    source, sink = f"{topic}-source", f"{topic}-sink"  # a sink's name is its group's
    read, written = tmp_path / "read.txt", tmp_path / "written.txt"
    first, second = [f"line {number}" for number in range(500)], [f"later line {number}" for number in range(500)]

    def append(lines: list[str]) -> None:
        with read.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def has_written(lines: list[str]) -> bool:
        return written.exists() and written.read_text().splitlines() == lines

    append(first)
    with ConnectWorkers(
        tmp_path / "connect", bootstrap, release=release, group=f"connect-{topic}", replicas=replication_factor
    ) as workers:
        workers.put(source, file_source(read, topic))
        workers.put(sink, file_sink(written, topic))
        wait_until(lambda: has_written(first))
        workers.stop_in_order("worker-1")
        append(second)
        workers.start_again("worker-1")
        workers.wait_until_running(source)
        wait_until(lambda: has_written([*first, *second]))
    assert [(record.value or b"").decode() for record in committed_records(bootstrap, topic)] == [*first, *second]
