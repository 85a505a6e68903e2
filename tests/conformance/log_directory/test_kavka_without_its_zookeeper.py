"""kavka whose ZooKeeper directory was lost serves its logs as before, and leaves alone what no topic has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.log_directory.log_directory_load import (
    TIMEOUT_S,
    append,
    read_all,
    wait_for_log_start,
    write_load,
)

STRAY_RECORDS = [b"left alone"]


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_records_groups_and_ids_come_back_from_the_logs(start_kavka: Any, how: str) -> None:
    settings = {"log.flush.start.offset.checkpoint.interval.ms": "200"}
    broker = start_kavka(settings={"broker.id": "7", **settings})
    write_load(broker.bootstrap, segment_bytes=65_536, large_bytes=500, transactions=False, new_protocol=False)
    wait_for_log_start(broker.data_dir / "logs")
    before = read_all(broker.bootstrap)
    if how == "stopped":
        broker.stop()
    else:
        broker.kill()
        # Nothing was written to it: there is but its directory.
        before.topic_ids.pop("empty")
    shutil.rmtree(broker.data_dir / "kavka-zookeeper")
    # The broker's id is not named: it is the one that the log directory has.
    broker.settings = settings
    broker.start()
    after = read_all(broker.bootstrap)
    assert before.topic_ids.items() <= after.topic_ids.items()
    assert after._replace(topic_ids={}) == before._replace(topic_ids={})
    # The first producer after the loss must not be taken for one that the logs remember.
    append(broker.bootstrap, "codecs", 0, [b"new"])
    assert read_all(broker.bootstrap).partitions["codecs", 0][2][-1].value == b"new"


def test_a_log_of_no_topic_is_left_alone_until_a_topic_of_its_name_is_made(start_kavka: Any) -> None:
    broker = start_kavka()
    for topic in ("kept", "other"):
        append(broker.bootstrap, topic, 0, STRAY_RECORDS)
    broker.stop()
    logs = broker.data_dir / "logs"
    shutil.copytree(logs / "other-0", logs / "stray-0")
    shutil.copytree(logs / "kept-0", logs / "kept-1")
    before = files_of(logs / "stray-0")
    broker.start()
    assert "logs left alone" in broker.log_tail()
    assert "stray-0" in broker.log_tail()
    assert "kept-1" in broker.log_tail()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert sorted(admin.list_topics(timeout=TIMEOUT_S).topics) == ["kept", "other"]
    assert files_of(logs / "stray-0") == before
    admin.create_topics([NewTopic("stray", 1, 1)])["stray"].result(TIMEOUT_S)
    append(broker.bootstrap, "stray", 0, [b"fresh"])
    (aside,) = logs.glob("stray-0.*-stray")
    assert files_of(aside) == before
    broker.restart()
    assert admin.list_topics(timeout=TIMEOUT_S).topics["stray"].partitions[0].leader == 1
