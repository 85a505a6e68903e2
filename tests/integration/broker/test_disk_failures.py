"""A disk that fills up or goes away: Kafka's error, the other disks go on, and nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import DescribeLogDirsRequest, FindCoordinatorRequest, OffsetCommitRequest
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.kit.broker_client import BrokerClient, Closed, SteadyClient, batch
from tests.kit.kavka_process import KavkaProcess

CHUNK = bytes(300_000)
HALTED = 70


def log_directories(client: BrokerClient) -> dict[str, tuple[ErrorCode, set[tuple[str, int]]]]:
    """Each log directory's error and partitions."""
    answer = client.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        result.log_dir: (
            ErrorCode(result.error_code),
            {(topic.name, log.partition_index) for topic in result.topics for log in topic.partitions},
        )
        for result in answer.results
    }


def produce_until_refused(client: BrokerClient, topic: str, partition: int) -> tuple[int, ErrorCode | None]:
    """(number of acknowledged records, the refusal); the refusal is None where the connection was closed."""
    for number in range(100):
        try:
            answer = client.produce(topic, bytes(batch(b"%d:" % number + CHUNK)), partition=partition)
        except Closed:
            return number, None
        if answer.error_code:
            return number, ErrorCode(answer.error_code)
    raise AssertionError("the disk never filled up")


def numbers(values: list[bytes]) -> list[int]:
    return [int(value.split(b":")[0]) for value in values]


@pytest.fixture
def two_disks(tmp_path: Path, small_disk: Callable[[str], Any], start_kavka: Callable[..., KavkaProcess]) -> Any:
    """(broker, path of the large disk's directory, the small disk) with a log directory on each."""
    small = small_disk("8m")
    large = tmp_path / "large"
    settings = {"log.dirs": f"{large},{small.path}/logs", "log.index.size.max.bytes": "4096"}
    return start_kavka(settings=settings), large, small


def test_a_full_disk_takes_its_directory_offline_and_no_other(two_disks: Any, connect: Any) -> None:
    broker, large, small = two_disks
    client = connect(broker.port)
    topic = client.create_topic(partitions=4)
    placed = log_directories(client)
    on_small = sorted(index for name, index in placed[f"{small.path}/logs"][1] if name == topic)
    on_large = sorted(index for name, index in placed[str(large)][1] if name == topic)
    assert (len(on_small), len(on_large)) == (2, 2)
    full, beside = on_small
    with SteadyClientOn(client, broker.port, large) as good:
        assert client.produce(topic, bytes(batch(b"0:beside")), partition=beside).error_code == 0
        acknowledged, refusal = produce_until_refused(client, topic, full)
        assert refusal is ErrorCode.KAFKA_STORAGE_ERROR
        assert acknowledged > 10

        for partition in on_small:
            refused = client.produce(topic, bytes(batch(b"late")), partition=partition)
            assert ErrorCode(refused.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
            assert ErrorCode(client.fetch(topic, partition=partition).error_code) is ErrorCode.KAFKA_STORAGE_ERROR
        assert log_directories(client)[f"{small.path}/logs"] == (ErrorCode.KAFKA_STORAGE_ERROR, set())
        described = {found.partition_index: found for found in client.topics(topic)[topic].partitions}
        for partition in on_small:
            assert ErrorCode(described[partition].error_code) is ErrorCode.LEADER_NOT_AVAILABLE
            assert described[partition].leader_id == -1
            assert described[partition].offline_replicas == [1]
        for partition in on_large:
            assert described[partition].leader_id == 1
            assert client.produce(topic, bytes(batch(b"0:fine")), partition=partition).error_code == 0
        new_topic = client.create_topic(partitions=3)
        assert all(
            client.produce(new_topic, bytes(batch(b"new")), partition=index).error_code == 0 for index in range(3)
        )
    assert good.rounds
    offline = [line for line in broker.log_file.read_text().splitlines() if "log directory offline" in line]
    assert len(offline) == 1
    assert "No space left on device" in offline[0]
    assert "make room on the disk and restart the broker" in offline[0]
    assert broker.stop() == 0

    small.resize("32m")
    broker.start()
    again = connect(broker.port)
    assert numbers(again.values(topic, partition=full))[:acknowledged] == list(range(acknowledged))
    assert again.values(topic, partition=beside) == [b"0:beside"]
    for partition in on_large:
        assert again.values(topic, partition=partition) == [b"0:fine"]
    assert again.produce(topic, bytes(batch(b"1:after")), partition=full).error_code == 0


class SteadyClientOn(SteadyClient):
    """A good client whose topic lies on the given directory: it must not notice what happens to the other."""

    def __init__(self, client: BrokerClient, port: int, directory: Path) -> None:
        super().__init__(port)
        while (self.topic, 0) not in log_directories(client)[str(directory)][1]:
            self.stop()
            super().__init__(port)


def test_a_broker_whose_only_disk_is_full_halts_and_serves_all_after_more_space(
    small_disk: Callable[[str], Any], start_kavka: Callable[..., KavkaProcess], connect: Any
) -> None:
    small = small_disk("8m")
    broker = start_kavka(data_dir=small.path / "data")
    client = connect(broker.port)
    topic = client.create_topic()
    acknowledged, refusal = produce_until_refused(client, topic, 0)
    assert refusal is None
    assert acknowledged > 10
    assert broker.wait_until_ended() == HALTED
    assert "broker halted" in broker.log_tail()
    assert "No space left on device" in broker.log_tail()

    small.resize("32m")
    broker.start()
    again = connect(broker.port)
    assert numbers(again.values(topic))[:acknowledged] == list(range(acknowledged))
    assert again.produce(topic, bytes(batch(b"1000:after"))).error_code == 0


def test_metadata_that_find_no_room_halt_the_broker_and_what_was_acknowledged_is_kept(
    tmp_path: Path, small_disk: Callable[[str], Any], start_kavka: Callable[..., KavkaProcess], connect: Any
) -> None:
    small = small_disk("1m")
    broker = start_kavka(settings={"log.dirs": str(tmp_path / "logs"), "kavka.zookeeper.data.dir": f"{small.path}/zk"})
    client = connect(broker.port)
    topics: list[str] = []

    def create_on_and_on() -> None:
        for number in range(2000):
            topic = client.create_topic(f"t-{number}", partitions=20)
            assert client.produce(topic, bytes(batch(b"%d" % number))).error_code == 0
            topics.append(topic)

    with pytest.raises(Closed):
        create_on_and_on()
    assert len(topics) > 20
    assert broker.wait_until_ended() == HALTED
    assert "the embedded ZooKeeper's disk failed" in broker.log_tail()
    assert "No space left on device" in broker.log_tail()

    small.resize("16m")
    broker.start()
    client = connect(broker.port)
    for number, topic in enumerate(topics):
        assert client.values(topic) == [b"%d" % number]
    assert client.create_topic("after") == "after"


def test_a_disk_that_is_full_at_the_first_start_is_one_clear_sentence(
    small_disk: Callable[[str], Any], start_kavka: Callable[..., KavkaProcess], connect: Any
) -> None:
    small = small_disk("1m")
    filler = small.path / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(2 << 20))
    broker = KavkaProcess(small.path / "data", log_file=small.path.parent / "full.log")
    broker.launch()
    assert broker.wait_until_ended() != 0
    assert "No space left on device" in broker.log_tail()
    assert "Traceback" not in broker.log_tail()

    filler.unlink()
    with broker:
        client = connect(broker.port)
        assert client.produce(client.create_topic(), bytes(batch(b"room"))).error_code == 0


def test_a_directory_that_vanishes_under_the_broker_is_a_storage_error(
    tmp_path: Path, start_kavka: Callable[..., KavkaProcess], connect: Any
) -> None:
    stays, goes = tmp_path / "stays", tmp_path / "goes"
    broker = start_kavka(settings={"log.dirs": f"{stays},{goes}", "log.segment.bytes": "100000"})
    client = connect(broker.port)
    topic = client.create_topic(partitions=2)
    placed = log_directories(client)
    ((_name, gone),) = placed[str(goes)][1]
    ((_name, kept),) = placed[str(stays)][1]
    shutil.rmtree(goes)
    # The open segment takes what it can; the next one cannot be made.
    refusals = [client.produce(topic, bytes(batch(bytes(60_000))), partition=gone).error_code for _ in range(4)]
    assert ErrorCode(refusals[-1]) is ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce(topic, bytes(batch(b"kept")), partition=kept).error_code == 0
    assert log_directories(client)[str(goes)][0] is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(
    tmp_path: Path, start_kavka: Any, connect: Any
) -> None:
    """Found by the broker's own work: nobody produces to the partition any more."""
    stays, goes = tmp_path / "stays", tmp_path / "goes"
    settings = {"log.dirs": f"{stays},{goes}", "replica.high.watermark.checkpoint.interval.ms": "50"}
    broker = start_kavka(settings=settings)
    client = connect(broker.port)
    topic = client.create_topic(partitions=2)
    ((_name, gone),) = log_directories(client)[str(goes)][1]
    assert client.produce(topic, bytes(batch(b"before")), partition=gone).error_code == 0
    # At once: the broker writes a checkpoint into it every 50 ms, also while its files are being removed.
    goes.rename(tmp_path / "gone")
    into_nothing = client.produce(topic, bytes(batch(b"into a file that is gone")), partition=gone)
    # A checkpoint that was due may have found out before.
    assert into_nothing.error_code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    wait_for(lambda: client.fetch(topic, partition=gone).error_code == ErrorCode.KAFKA_STORAGE_ERROR)
    assert client.topics(topic)[topic].partitions[gone].leader_id == -1
    assert client.produce(topic, bytes(batch(b"kept")), partition=1 - gone).error_code == 0


def test_groups_whose_log_is_on_a_failed_disk_are_not_coordinated_and_the_broker_goes_on(
    tmp_path: Path, start_kavka: Any, connect: Any
) -> None:
    stays, goes = tmp_path / "stays", tmp_path / "goes"
    broker = start_kavka(settings={"log.dirs": f"{stays},{goes}", "offsets.topic.num.partitions": "2"})
    client = connect(broker.port)
    topic = client.create_topic(partitions=2)
    groups = [f"group-{number}" for number in range(8)]
    wait_for(lambda: client.ask(FindCoordinatorRequest(key="group-0", key_type=0), 3).error_code == 0)
    wait_for(lambda: {commit(client, group, topic) for group in groups} == {ErrorCode.NONE})
    shutil.rmtree(goes)
    ((_name, gone),) = {found for found in log_directories(client)[str(goes)][1] if found[0] == topic}
    # Whatever asks the disk for a new file finds out.
    new_topics = [client.try_to_create_topic(f"new-{number}") for number in range(4)]
    assert ErrorCode.NONE in new_topics
    wait_for(lambda: client.fetch(topic, partition=gone).error_code == ErrorCode.KAFKA_STORAGE_ERROR)

    some = {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
    wait_for(lambda: {commit(client, group, topic) for group in groups} == some)
    found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=groups), 4).coordinators
    assert {ErrorCode(answer.error_code) for answer in found} == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def commit(client: BrokerClient, group: str, topic: str) -> ErrorCode:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return ErrorCode(client.ask(request, 8).topics[0].partitions[0].error_code)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["a file in its place", "read-only"])
def test_a_directory_that_cannot_be_used_at_the_start_leaves_the_others_in_service(
    how: str,
    tmp_path: Path,
    small_disk: Callable[[str], Any],
    start_kavka: Callable[..., KavkaProcess],
    connect: Any,
) -> None:
    bad = small_disk("8m")
    good, lost = tmp_path / "good", bad.path / "logs"
    broker = start_kavka(settings={"log.dirs": f"{good},{lost}"})
    client = connect(broker.port)
    topic = client.create_topic(partitions=2)
    for partition in range(2):
        assert client.produce(topic, bytes(batch(b"%d" % partition)), partition=partition).error_code == 0
    placed = log_directories(client)
    ((_name, hidden),) = placed[str(lost)][1]
    assert broker.stop() == 0
    if how == "read-only":
        bad.make_read_only()
    else:
        lost.rename(bad.path / "elsewhere")
        lost.write_text("in the way")

    broker.start()
    client = connect(broker.port)
    assert log_directories(client)[str(lost)][0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert client.values(topic, partition=1 - hidden) == [b"%d" % (1 - hidden)]
    # Its records are out of reach, not gone: a new log in the other directory would say that there were none.
    assert ErrorCode(client.fetch(topic, partition=hidden).error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not (good / f"{topic}-{hidden}").exists()
    new_topic = client.create_topic()
    assert client.produce(new_topic, bytes(batch(b"new"))).error_code == 0
    assert broker.stop() == 0

    if how == "read-only":
        bad.make_writable()
    else:
        lost.unlink()
        (bad.path / "elsewhere").rename(lost)
    broker.start()
    client = connect(broker.port)
    assert client.values(topic, partition=hidden) == [b"%d" % hidden]
    assert client.values(new_topic) == [b"new"]


@pytest.mark.parametrize("how", ["a file in its place", "read-only"])
def test_a_broker_without_any_usable_directory_does_not_start(
    how: str, tmp_path: Path, small_disk: Callable[[str], Any]
) -> None:
    if how == "read-only":
        disk = small_disk("1m")
        disk.make_read_only()
        data, words = disk.path / "data" / "logs", "Read-only file system"
    else:
        data, words = tmp_path / "data" / "logs", "no directory"
        data.parent.mkdir()
        data.write_text("in the way")
    broker = KavkaProcess(tmp_path / "unused", settings={"log.dirs": str(data)})
    broker.launch()
    assert broker.wait_until_ended() == 1
    lines = broker.log_tail().strip().splitlines()
    assert any(words in line and str(data.parent) in line for line in lines), lines
    assert any("Next:" in line for line in lines), lines
    assert "Traceback" not in broker.log_tail()
