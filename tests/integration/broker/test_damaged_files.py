"""Files that are damaged when a broker starts: what can be made anew is, damaged records are never served, and a
partition's damage is its own."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.protocol.messages import InitProducerIdRequest
from kavka.records.builder import BatchBuilder, ProducerStamp
from tests.kit.broker_client import EARLIEST, LATEST, BrokerClient, batch, read_records
from tests.kit.kavka_process import KavkaProcess

BATCHES, PER_BATCH = 60, 5
DAMAGED, SOUND = 0, 1
# Not long ago: producers that were silent for a day are forgotten.
STARTED_MS = int(time.time() * 1000) - 60_000
SETTINGS = {"log.segment.bytes": "20000", "log.index.interval.bytes": "500"}


class Filled(NamedTuple):
    """A data directory whose broker was killed: topic "t" of two partitions with the same records, a producer's state
    in both."""

    data_dir: Path
    values: list[bytes]
    producer_id: int


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Filled]:
    """A filled directory after a clean stop, and the same after kill -9."""
    directory = tmp_path_factory.mktemp("filled")
    broker = KavkaProcess(directory / "cleanly", settings=SETTINGS)
    with broker, BrokerClient(broker.port) as client:
        client.create_topic("t", partitions=2)
        producer_id = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4).producer_id
        values = [b"%d:" % number + bytes(150) for number in range(BATCHES * PER_BATCH)]
        for first in range(0, len(values), PER_BATCH):
            records = stamped(producer_id, first, values[first : first + PER_BATCH])
            for partition in (DAMAGED, SOUND):
                assert client.produce("t", records, partition=partition).base_offset == first
        broker.stop()
        shutil.copytree(directory / "cleanly", directory / "killed")
        (directory / "killed" / "logs" / ".kafka_cleanshutdown").unlink()
    return {how: Filled(directory / how, values, producer_id) for how in ("cleanly", "killed")}


def stamped(producer_id: int, sequence: int, values: list[bytes]) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(STARTED_MS + sequence, b"key", value)
    return bytes(builder.build(stamp=ProducerStamp(producer_id, 0, sequence)))


@pytest.fixture
def damaged_start(
    filled: dict[str, Filled], tmp_path: Path, start_kavka: Any
) -> Callable[[str, Callable[[Path], None]], tuple[KavkaProcess, Filled]]:
    """damaged_start(how it was stopped, damage): a broker on a copy of the directory with `damage(logs)` done to it."""

    def start(stopped: str, damage: Callable[[Path], None]) -> tuple[KavkaProcess, Filled]:
        data_dir = tmp_path / "data"
        shutil.copytree(filled[stopped].data_dir, data_dir)
        damage(data_dir / "logs")
        return start_kavka(data_dir=data_dir, settings=SETTINGS), filled[stopped]

    return start


def garble(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(max(path.stat().st_size, 40)))


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


DAMAGES = [garble, halve, empty, remove]


def assert_all_is_there(client: BrokerClient, filled: Filled) -> None:
    """Every record by offset and by time, and the producer goes on where it was: nothing was forgotten."""
    for partition in (DAMAGED, SOUND):
        assert client.values("t", partition=partition) == filled.values
        for offset in (0, 7, 123, 299):
            assert read_records(client.fetch("t", offset, partition=partition).records, offset)[0][0] == offset
        found = client.offset("t", STARTED_MS + 150, partition=partition)
        assert found.offset == 150
        end = len(filled.values)
        again = client.produce(
            "t", stamped(filled.producer_id, end - PER_BATCH, filled.values[-PER_BATCH:]), partition=partition
        )
        assert (again.error_code, again.base_offset) == (0, end - PER_BATCH), "a retry was appended a second time"
        on = client.produce("t", stamped(filled.producer_id, end, [b"on"] * PER_BATCH), partition=partition)
        assert (on.error_code, on.base_offset) == (0, end)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("stopped", ["cleanly", "killed"])
def test_indexes_snapshots_and_checkpoints_are_made_anew(
    stopped: str, damage: Callable[[Path], None], damaged_start: Any, connect: Any
) -> None:
    def damage_all(logs: Path) -> None:
        derived = [
            path
            for path in sorted(logs.rglob("*"))
            if path.suffix in (".index", ".timeindex", ".snapshot", ".txnindex") or path.name.endswith("-checkpoint")
        ]
        if stopped == "cleanly" and damage is remove:
            # After a clean stop no snapshot means no producer, in Apache Kafka too: nobody reads the whole log for it.
            derived = [path for path in derived if path.suffix != ".snapshot"]
        assert len([path for path in derived if path.suffix == ".index"]) >= 4
        for path in derived:
            damage(path)

    broker, filled = damaged_start(stopped, damage_all)
    assert_all_is_there(connect(broker.port), filled)
    assert "Traceback" not in broker.log_tail(lines=100)


def segments(logs: Path, partition: int) -> list[Path]:
    return sorted((logs / f"t-{partition}").glob("*.log"))


def position_of_batch(data: bytes, index: int) -> tuple[int, int]:
    """(position, base offset) of a segment's batch."""
    position = 0
    for _ in range(index):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return position, int.from_bytes(data[position : position + 8], "big")


@pytest.mark.parametrize("where", ["in the first segment", "in the last segment"])
@pytest.mark.parametrize("what", ["a bit of a record", "a batch's length", "a batch's magic"])
def test_a_damaged_batch_is_never_served_and_the_prefix_is_kept(
    where: str, what: str, damaged_start: Any, connect: Any
) -> None:
    kept: list[int] = []

    def damage(logs: Path) -> None:
        path = segments(logs, DAMAGED)[0 if where == "in the first segment" else -1]
        data = bytearray(path.read_bytes())
        start, first_offset = position_of_batch(data, 3)
        kept.append(first_offset)
        match what:
            case "a bit of a record":
                data[start + 200] ^= 4
            case "a batch's length":
                data[start + 8 : start + 12] = (2**31 - 1).to_bytes(4, "big")
            case _:
                data[start + 16] = 77
        path.write_bytes(data)
        # The recovery point says that all of it is on the disk; a disk that lies is found all the same.
        (logs / "recovery-point-offset-checkpoint").unlink()

    broker, filled = damaged_start("killed", damage)
    client = connect(broker.port)
    assert client.values("t", partition=DAMAGED) == filled.values[: kept[0]]
    assert client.offset("t", LATEST, partition=DAMAGED).offset == kept[0]
    assert client.values("t", partition=SOUND) == filled.values
    assert client.produce("t", bytes(batch(b"on")), partition=DAMAGED).base_offset == kept[0]
    recovered = [line for line in broker.log_file.read_text().splitlines() if "log recovered" in line]
    assert recovered
    assert all("t-0" in line for line in recovered)
    broker.restart()
    assert connect(broker.port).values("t", partition=DAMAGED) == [*filled.values[: kept[0]], b"on"]


@pytest.mark.parametrize("stopped", ["cleanly", "killed"])
def test_a_truncated_last_segment_keeps_its_whole_batches(stopped: str, damaged_start: Any, connect: Any) -> None:
    def damage(logs: Path) -> None:
        path = segments(logs, DAMAGED)[-1]
        path.write_bytes(path.read_bytes()[:-10])

    broker, filled = damaged_start(stopped, damage)
    client = connect(broker.port)
    end = len(filled.values) - PER_BATCH
    assert client.values("t", partition=DAMAGED) == filled.values[:end]
    assert client.values("t", partition=SOUND) == filled.values
    assert client.produce("t", bytes(batch(b"on")), partition=DAMAGED).base_offset == end
    assert client.values("t", partition=DAMAGED)[-1] == b"on"


@pytest.mark.parametrize("stopped", ["cleanly", "killed"])
def test_an_unreadable_partition_harms_no_other(stopped: str, damaged_start: Any, connect: Any) -> None:
    """Files that no broker wrote, and a log file that holds no batch at all."""

    def damage(logs: Path) -> None:
        for path in segments(logs, DAMAGED):
            garble(path)
        (logs / "t-0" / "notes.txt").write_text("what is this")
        (logs / "t-0" / "99999999999999999999999.log").write_text("no offset")
        (logs / "not-a-partition").mkdir()
        (logs / "t-x").mkdir()
        if stopped == "killed":
            (logs / "recovery-point-offset-checkpoint").unlink()

    broker, filled = damaged_start(stopped, damage)
    client = connect(broker.port)
    assert client.values("t", partition=SOUND) == filled.values
    assert client.produce("t", bytes(batch(b"on")), partition=SOUND).error_code == 0
    if stopped == "killed":
        assert client.values("t", partition=DAMAGED) == []
        start = client.offset("t", EARLIEST, partition=DAMAGED).offset
        assert client.produce("t", bytes(batch(b"again")), partition=DAMAGED).base_offset == start
        assert client.values("t", partition=DAMAGED) == [b"again"]


def zookeeper_log(data_dir: Path) -> Path:
    return sorted((data_dir / "kavka-zookeeper").glob("log.*"))[-1]


def test_a_torn_end_of_the_metadata_is_cut_off(filled: dict[str, Filled], tmp_path: Path, connect: Any) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(filled["killed"].data_dir, data_dir)
    log = zookeeper_log(data_dir)
    log.write_bytes(log.read_bytes() + b"\0\0\1\0half a frame")
    with KavkaProcess(data_dir, settings=SETTINGS) as broker:
        client = connect(broker.port)
        assert client.values("t", partition=SOUND) == filled["killed"].values
        client.create_topic("after")


def test_damaged_metadata_are_refused_in_one_sentence_and_kept(filled: dict[str, Filled], tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(filled["killed"].data_dir, data_dir)
    log = zookeeper_log(data_dir)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x40
    log.write_bytes(data)
    broker = KavkaProcess(data_dir, settings=SETTINGS)
    broker.launch()
    assert broker.wait_until_ended() == 1
    assert str(log) in broker.log_tail()
    assert "Next:" in broker.log_tail()
    assert "Traceback" not in broker.log_tail()
    assert log.read_bytes() == data
