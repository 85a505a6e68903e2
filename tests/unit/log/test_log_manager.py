"""All logs of a broker: directories, identity, placement, checkpoints, deletion, failure, clean and unclean stops."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.errors import InconsistentMetadata, InvariantViolation, LogDirectoryLocked, LogsContradict, StorageError
from kavka.filesystem import Buffer
from kavka.log.decide.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kavka.log.decide.directory_names import parse_directory_name
from kavka.log.home_loader import LoadReport
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFileSystem
from tests.kit.garbage import left_behind
from tests.unit.log.log_support import NOW_MS, FailingFileSystem, append, batch, offsets, write_checkpoints

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=7)
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=1_000)


def manager(
    *directories: Path, filesystem: LocalFileSystem | None = None, broker_id: int | None = 1, cluster: str | None = "c"
) -> LogManager:
    draws = iter(range(1, 1 << 20))
    return LogManager(
        filesystem or LocalFileSystem(),
        [str(directory) for directory in directories],
        LogManagerSettings(broker_id, cluster),
        lambda topic: CONFIG,
        draw=lambda limit: next(draws) % limit,
    )


def started(*directories: Path, filesystem: LocalFileSystem | None = None) -> LogManager:
    logs = manager(*directories, filesystem=filesystem)
    logs.load(NOW_MS)
    return logs


def restarted(logs: LogManager, *directories: Path) -> tuple[LogManager, LoadReport]:
    """A new manager on the directories after the old one was killed (a clean stop has closed it before)."""
    logs.release()
    again = manager(*directories)
    return again, again.load(NOW_MS)


def found(logs: LogManager, partition: TopicPartition = ORDERS) -> UnifiedLog:
    log = logs.get(partition)
    assert log is not None
    return log


# -- identity and locks


def test_a_new_directory_is_made_and_marked_as_this_brokers(tmp_path: Path) -> None:
    started(tmp_path / "a" / "b")
    text = (tmp_path / "a" / "b" / "meta.properties").read_text()
    assert {"version=0", "broker.id=1", "cluster.id=c"} <= set(text.split("\n"))


@pytest.mark.parametrize(("broker_id", "cluster"), [(2, "c"), (1, "d")])
def test_a_directory_of_another_broker_or_cluster_is_refused(tmp_path: Path, broker_id: int, cluster: str) -> None:
    started(tmp_path).close(NOW_MS)
    logs = manager(tmp_path, broker_id=broker_id, cluster=cluster)
    with pytest.raises(InconsistentMetadata, match="expected"):
        logs.load(NOW_MS)
    started(tmp_path).release()


def test_a_broker_without_an_id_takes_the_one_of_its_directory(tmp_path: Path) -> None:
    started(tmp_path).close(NOW_MS)
    logs = manager(tmp_path, broker_id=None, cluster=None)
    logs.load(NOW_MS)
    assert (logs.broker_id, logs.cluster_id) == (1, "c")


def test_garbage_in_meta_properties_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=2\nnode.id=3\n")
    with pytest.raises(InconsistentMetadata):
        started(tmp_path)


def test_a_directory_that_another_broker_uses_is_refused(tmp_path: Path) -> None:
    first = started(tmp_path)
    with pytest.raises(LogDirectoryLocked):
        started(tmp_path)
    first.release()
    started(tmp_path)


def test_a_directory_may_be_named_only_once(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation):
        manager(tmp_path, tmp_path)


# -- partitions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ORDERS),
        ("a-b-12", TopicPartition("a-b", 12)),
        (".audit-0", TopicPartition(".audit", 0)),
        ("-0-1", TopicPartition("-0", 1)),
        ("orders-0.abc-delete-2", TopicPartition("orders-0.abc-delete", 2)),
        ("orders", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-0.abc-delete", None),
        ("orders-0.abc-future", None),
        ("meta.properties", None),
    ],
)
def test_a_directorys_name_tells_its_partition(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


def test_a_partition_is_made_once_and_found_again(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    assert logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS) is log
    assert [one.topic_partition for one in logs] == [ORDERS]
    assert (tmp_path / "orders-0").is_dir()


@pytest.mark.setting("log.dirs")
def test_new_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    logs.get_or_create(TopicPartition("t", 0), TOPIC_ID, NOW_MS, directory=str(tmp_path / "b"))
    for number in range(1, 9):
        logs.get_or_create(TopicPartition("t", number), TOPIC_ID, NOW_MS)
    assert [len(list((tmp_path / name).glob("t-*"))) for name in "abc"] == [3, 3, 3]


def test_a_partition_cannot_be_put_into_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        started(tmp_path / "a").get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(tmp_path / "b"))


def test_the_topic_id_is_on_disk_before_the_first_record(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
    again, _ = restarted(logs, tmp_path)
    assert found(again).topic_id == TOPIC_ID
    with pytest.raises(InconsistentMetadata):
        again.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)


def test_a_log_without_a_topic_id_takes_one(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, None, NOW_MS), batch())
    again, _ = restarted(logs, tmp_path)
    assert found(again).topic_id is None
    again.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    again.close(NOW_MS)
    assert found(restarted(again, tmp_path)[0]).topic_id == TOPIC_ID


def test_garbage_instead_of_a_topic_id_is_reported_and_replaced(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id: 7x")
    again, report = restarted(logs, tmp_path)
    assert [(partition, reason.what) for partition, reason in report.reasons] == [(ORDERS, "topic id unknown")]
    again.get_or_create(ORDERS, TOPIC_ID, NOW_MS).write_topic_id()
    assert restarted(again, tmp_path)[1].reasons == []


def test_one_partition_in_two_directories_stops_the_start(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(tmp_path / "a"))
    (tmp_path / "b" / "orders-0").mkdir()
    with pytest.raises(LogsContradict, match="remove one of the two"):
        restarted(logs, tmp_path / "a", tmp_path / "b")


# -- stops


def test_a_clean_stop_is_believed_once(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), *(batch(2) for _ in range(9)))
    logs.close(NOW_MS, broker_epoch=12)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == 12
    again, report = restarted(logs, tmp_path)
    assert (report.loaded, report.recovered, report.broker_epochs) == (1, 0, {str(tmp_path): 12})
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (found(again).high_watermark, found(again).recovery_point) == (18, 18)
    _, report = restarted(again, tmp_path)
    assert (report.loaded, report.recovered) == (1, 1)


def test_a_stop_was_clean_if_every_directory_has_a_mark_that_can_be_believed(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    logs = manager(one, other)
    assert not logs.load(NOW_MS).was_clean, "empty: whatever was there is gone"
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(one)), *(batch(2) for _ in range(9)))
    logs.close(NOW_MS)
    again, report = restarted(logs, one, other)
    assert report.was_clean
    again.close(NOW_MS)
    (other / ".kafka_cleanshutdown").unlink()
    again, report = restarted(again, one, other)
    assert not report.was_clean
    again.close(NOW_MS)
    last = max((one / "orders-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-7])
    _, report = restarted(again, one, other)
    assert not report.was_clean, "the mark vouches for more than is there"


def test_a_start_that_fails_leaves_no_clean_mark(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(tmp_path / "a"))
    logs.close(NOW_MS)
    (tmp_path / "b" / "orders-0").mkdir()
    with pytest.raises(InconsistentMetadata):
        started(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_nothing_is_lost_by_a_kill(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), *(batch(2) for _ in range(9)))
    write_checkpoints(logs, HIGH_WATERMARK_CHECKPOINT)
    again, report = restarted(logs, tmp_path)
    assert report.reasons == []
    assert found(again).high_watermark == 18
    assert offsets(found(again)) == list(range(18))


@pytest.mark.parametrize("topic", [".audit", "-", "a-0.b-delete", "a-0.b-future", "a-0.b-stray", "x" * 249])
def test_a_topic_keeps_its_records_over_a_restart_whatever_its_name(tmp_path: Path, topic: str) -> None:
    partition, path = TopicPartition(topic, 0), tmp_path / f"{topic}-0"
    logs = started(tmp_path)
    append(logs.get_or_create(partition, TOPIC_ID, NOW_MS), batch(2))
    logs.close(NOW_MS)
    again = started(tmp_path)
    assert offsets(again.get_or_create(partition, TOPIC_ID, NOW_MS, is_new=False), 0) == [0, 1]
    assert path.exists()


def test_the_high_watermark_after_a_kill_is_the_one_that_was_checkpointed(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, batch(2))
    write_checkpoints(logs, HIGH_WATERMARK_CHECKPOINT)
    append(log, batch(2))
    again, _ = restarted(logs, tmp_path)
    assert (found(again).high_watermark, found(again).log_end_offset) == (2, 4)


def test_the_log_start_after_a_kill_is_the_one_that_was_checkpointed(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, batch(9))
    write_checkpoints(logs, LOG_START_OFFSET_CHECKPOINT)
    assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n0\n"
    log.delete_records(4)
    write_checkpoints(logs, LOG_START_OFFSET_CHECKPOINT)
    assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n1\norders 0 4\n"
    assert found(restarted(logs, tmp_path)[0]).log_start_offset == 4


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ],
)
@pytest.mark.parametrize("data", [b"", b"garbage\n\n\n", b"0\n5\norders 0 7\n"])
def test_a_lost_checkpoint_loses_no_record(tmp_path: Path, name: str, data: bytes) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch(9))
    logs.close(NOW_MS)
    (tmp_path / name).write_bytes(data)
    again, _ = restarted(logs, tmp_path)
    log = found(again)
    log.advance_high_watermark(9)
    assert offsets(log) == list(range(9))


def test_after_a_flush_only_the_last_segment_is_recovered(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, *(batch(2) for _ in range(9)))
    assert logs.logs_to_flush(NOW_MS) == [log]
    log.flush(NOW_MS)
    assert logs.logs_to_flush(NOW_MS) == []
    write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\norders 0 18\n"
    # Damage below the recovery point is not looked for.
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert restarted(logs, tmp_path)[1].reasons == []


def test_files_that_are_no_partitions_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir(parents=True)
    (tmp_path / "orders-0.abc-stray").mkdir()
    logs = started(tmp_path)
    assert len(logs) == 0
    assert (tmp_path / "orders-0.abc-stray").exists()


def test_a_truncation_takes_the_checkpointed_recovery_point_back(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, *(batch(2) for _ in range(9)))
    log.flush(NOW_MS)
    write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
    assert logs.truncate_to(ORDERS, 6, NOW_MS)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\norders 0 6\n"
    assert not logs.truncate_to(ORDERS, 6, NOW_MS)
    logs.truncate_fully_and_start_at(ORDERS, 2, NOW_MS, log_start_offset=1)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\norders 0 2\n"
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)


def test_a_truncation_takes_the_checkpointed_high_watermark_and_log_start_back(tmp_path: Path) -> None:
    """Where the leader was elected uncleanly, a follower's log may begin and end earlier than before.

    A checkpoint from before would have the next start drop everything that was written since, or take it for committed.
    """
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, *(batch(2) for _ in range(9)))
    log.delete_records(14)
    log.delete_old_segments(NOW_MS)
    for name in (LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        write_checkpoints(logs, name)
    logs.truncate_to(ORDERS, 4, NOW_MS)
    for base_offset in (4, 6, 8):
        log.append_as_follower(batch(2, base_offset=base_offset, leader_epoch=1), NOW_MS)
    again, report = restarted(logs, tmp_path)
    assert [reason.what for _, reason in report.reasons] == []
    assert (found(again).log_start_offset, found(again).log_end_offset, found(again).high_watermark) == (4, 10, 4)


def with_a_damaged_log(path: Path, lost: str) -> tuple[LogManager, LoadReport]:
    """A start after a clean stop with two directories. In the first one a log has a damaged batch in its first segment,
    and no whole file of this name."""
    logs = started(path / "a", path / "b")
    for number in range(2):
        log = logs.get_or_create(TopicPartition("orders", number), TOPIC_ID, NOW_MS)
        append(log, *(batch(2, producer_id=3, sequence=2 * each) for each in range(9)))
    logs.close(NOW_MS)
    directory = path / "a" / "orders-0"
    for file in directory.glob(lost):
        file.write_bytes(b"lost")
    data = bytearray((directory / "00000000000000000000.log").read_bytes())
    data[16] = 9
    (directory / "00000000000000000000.log").write_bytes(data)
    return restarted(logs, path / "a", path / "b")


def test_where_damage_hides_who_wrote_what_the_directory_is_offline_with_a_sentence(tmp_path: Path) -> None:
    logs, report = with_a_damaged_log(tmp_path, "*.snapshot")
    (directory,) = report.offline
    assert directory == str(tmp_path / "a")
    assert f"{directory}/orders-0: has damaged records" in str(report.offline[directory])
    assert "magic 9" in str(report.offline[directory])
    assert found(logs, TopicPartition("orders", 1)).log_end_offset == 18


def test_where_damage_hides_the_leader_epochs_the_log_goes_on_without(tmp_path: Path) -> None:
    logs, report = with_a_damaged_log(tmp_path, "leader-epoch-checkpoint")
    assert report.offline == {}
    assert "leader epochs unknown" in [reason.what for _, reason in report.reasons]
    log = found(logs)
    assert (log.log_end_offset, log.epoch_entries) == (18, [])
    append(log, batch(1), leader_epoch=4)
    assert log.end_offset_for_epoch(0) == (0, 18)


# -- deletion and retention


@pytest.mark.setting("file.delete.delay.ms")
def test_a_deleted_partition_is_gone_at_once_and_its_files_later(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
    assert logs.delete(ORDERS, NOW_MS)
    assert not logs.delete(ORDERS, NOW_MS)
    assert logs.get(ORDERS) is None
    (path,) = tmp_path.glob("orders-0.*-delete")
    assert logs.take_removals(NOW_MS + 999) == []
    due = logs.take_removals(NOW_MS + 1_000)
    assert due == [str(path)]
    logs.remove_paths(due)
    assert not path.exists()
    logs.remove_paths(due)


def test_a_deleted_log_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """Its indexes and its producers stayed in memory until a full collection, which is far away in a quiet broker."""
    logs = started(tmp_path)

    def made_and_deleted() -> None:
        append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
        assert logs.delete(ORDERS, NOW_MS)

    assert left_behind(UnifiedLog, made_and_deleted) == 0


def test_a_file_that_cannot_be_removed_keeps_no_other_from_being_removed(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    in_the_way = tmp_path / "a" / "00000000000000000000.log.deleted"
    in_the_way.mkdir()
    other = tmp_path / "b" / "00000000000000000000.log.deleted"
    other.write_bytes(b"records")
    with pytest.raises(StorageError) as error:
        logs.remove_paths([str(in_the_way), str(other)])
    assert error.value.path == str(in_the_way)
    assert not other.exists()


def test_a_partition_may_be_made_anew_before_the_old_files_are_gone(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch(5))
    logs.delete(ORDERS, NOW_MS)
    log = logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)
    append(log, batch())
    assert log.log_end_offset == 1
    logs.delete(ORDERS, NOW_MS)
    assert len(list(tmp_path.glob("orders-0.*-delete"))) == 2


CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")


def with_checkpoints_of_a_former_log(path: Path) -> LogManager:
    """Orders-0 has begun at 26 and ended at 30, and every checkpoint says so."""
    logs = started(path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, *(batch(3) for _ in range(10)))
    log.delete_records(26)
    log.flush(NOW_MS)
    write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
    write_checkpoints(logs, LOG_START_OFFSET_CHECKPOINT)
    write_checkpoints(logs, HIGH_WATERMARK_CHECKPOINT)
    for name in CHECKPOINTS:
        assert "orders 0 " in (path / name).read_text()
    return logs


@pytest.mark.parametrize("how", ["deleted", "set aside", "deleted before a restart"])
def test_what_checkpoints_say_of_a_former_log_does_not_hold_for_its_successor(tmp_path: Path, how: str) -> None:
    """Else a kill -9 right after: the log start of the former one above the new one's end, and all of it is dropped;
    its recovery point, and a torn tail is not looked for; its high watermark, and more counts as committed than is."""
    logs = with_checkpoints_of_a_former_log(tmp_path)
    if how == "set aside":
        logs.set_aside(ORDERS)
    else:
        logs.delete(ORDERS, NOW_MS)
    if how == "deleted before a restart":
        logs, _report = restarted(logs, tmp_path)
    successor = logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)
    append(successor, batch(5))
    again, _report = restarted(logs, tmp_path)
    log = found(again)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 5, 0)


def test_a_checkpoint_that_was_made_before_is_not_written_after_a_later_one(tmp_path: Path) -> None:
    """A worker may be slow: what it was given before a log was deleted would bring its offsets back."""
    logs = with_checkpoints_of_a_former_log(tmp_path)
    log = found(logs)
    log.delete_records(28)
    (late,) = logs.checkpoints_due(LOG_START_OFFSET_CHECKPOINT)
    logs.delete(ORDERS, NOW_MS)
    logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)
    logs.write_checkpoint(late)
    assert "orders" not in (tmp_path / "log-start-offset-checkpoint").read_text()


@pytest.mark.parametrize("when", ["first", "before", "within", "after"])
def test_a_flush_of_a_deleted_log_leaves_its_epochs_to_no_successor(tmp_path: Path, when: str) -> None:
    """1. A worker syncs a log. 2. Its topic is deleted, made again, and flushed. 3. The worker comes to the epochs."""

    def delete_and_create() -> None:
        filesystem.on_epochs = None
        logs.delete(ORDERS, NOW_MS)
        log = logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)
        append(log, *(batch(2) for _ in range(9)), leader_epoch=1)
        log.flush(NOW_MS)

    filesystem = EpochsFileSystem(when)
    logs = started(tmp_path, filesystem=filesystem)
    former = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(former, batch(1), leader_epoch=2)
    append(former, batch(1), leader_epoch=7)
    task = former.prepare_flush()
    assert task is not None
    filesystem.on_epochs = delete_and_create
    if when == "first":
        delete_and_create()
    task.sync()
    logs.close(NOW_MS)
    assert found(restarted(logs, tmp_path)[0]).epoch_entries == [(1, 0)]


class EpochsFileSystem(LocalFileSystem):
    """Calls `on_epochs` before, after, or in the middle of the writing of a leader epoch checkpoint."""

    def __init__(self, when: str) -> None:
        self.when = when
        self.on_epochs: Callable[[], None] | None = None

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        call = self.on_epochs if path.endswith("leader-epoch-checkpoint") else None
        if call is not None and self.when in ("before", "within"):
            call()
        if call is not None and self.when == "within":
            raise StorageError(path, "No such file or directory")  # It was beside, and is in the renamed directory.
        super().write_atomically(path, data, durable=durable)
        if call is not None and self.when == "after":
            call()


def test_where_checkpoints_cannot_forget_a_former_log_there_is_no_successor(tmp_path: Path) -> None:
    logs = with_checkpoints_of_a_former_log(tmp_path)
    logs.release()
    filesystem = FailingFileSystem()
    logs = started(tmp_path, filesystem=filesystem)
    logs.delete(ORDERS, NOW_MS)
    filesystem.budget = 0
    with pytest.raises(StorageError):
        logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)
    assert logs.get(ORDERS) is None
    assert list(logs.offline_directories) == [str(tmp_path)]


def test_files_of_a_deletion_that_was_interrupted_go_after_the_start(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
    logs.delete(ORDERS, NOW_MS)
    again, report = restarted(logs, tmp_path)
    assert (report.loaded, again.get(ORDERS)) == (0, None)
    again.remove_paths(again.take_removals(NOW_MS))
    assert not list(tmp_path.glob("*-delete"))


def test_a_directory_that_somebody_named_so_is_not_taken_for_a_deletion(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
    logs.close(NOW_MS)
    kept = [tmp_path / name for name in ("orders-0-delete", "before-the-delete", "a.b-delete")]
    for directory in kept:
        directory.mkdir()
        (directory / "records").write_bytes(b"the only copy")
    again, _ = restarted(logs, tmp_path)
    again.remove_paths(again.take_removals(NOW_MS + 10_000))
    assert all((directory / "records").exists() for directory in kept)


def test_the_name_of_a_deleted_directory_fits_into_255_bytes(tmp_path: Path) -> None:
    logs = started(tmp_path)
    long = TopicPartition("x" * 249, 1000)
    logs.get_or_create(long, TOPIC_ID, NOW_MS)
    logs.delete(long, NOW_MS)
    (path,) = tmp_path.glob("*-delete")
    assert len(path.name) == 255


@pytest.mark.setting("retention.bytes")
def test_retention_goes_over_all_logs(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for number in range(3):
        log = logs.get_or_create(
            TopicPartition("t", number), TOPIC_ID, NOW_MS, config=LogConfig(segment_bytes=100, retention_bytes=0)
        )
        append(log, batch(), batch())
    deleted = logs.delete_old_segments(NOW_MS)
    assert [partition.partition for partition, _ in deleted] == [0, 1, 2]
    paths = logs.take_removals(NOW_MS + 60_000)
    logs.remove_paths(paths)
    assert paths
    assert not list(tmp_path.glob("*/*.deleted"))


@pytest.mark.setting("producer.id.expiration.ms")
def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    append(log, batch(producer_id=4))
    logs.expire_producers(NOW_MS)
    assert list(log.producers.producers) == [4]
    logs.expire_producers(NOW_MS + 24 * 3_600_000)
    assert list(log.producers.producers) == []


# -- failure


def test_the_failure_of_one_directory_leaves_the_others_alone(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    logs = started(tmp_path / "a", tmp_path / "b", filesystem=disk)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    broken = logs.get_or_create(first, TOPIC_ID, NOW_MS)
    whole = logs.get_or_create(second, TOPIC_ID, NOW_MS)
    append(broken, batch())
    disk.budget = 10
    with pytest.raises(StorageError) as error:
        broken.append_as_leader(batch(), 0, NOW_MS)
    disk.budget = 1 << 20
    assert logs.on_storage_error(error.value.path, error.value) == [first]
    assert logs.live_directories == [str(tmp_path / "b")]
    assert list(logs.offline_directories) == [str(tmp_path / "a")]
    assert logs.get(first) is None
    append(whole, batch())
    assert logs.on_storage_error(error.value.path, error.value) == []
    logs.get_or_create(first, TOPIC_ID, NOW_MS)
    assert (tmp_path / "b" / "t-0").is_dir()
    logs.close(NOW_MS)
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_a_truncation_that_meets_damaged_records_stops_its_log_and_leaves_the_directory_alone(tmp_path: Path) -> None:
    logs = started(tmp_path)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    damaged = logs.get_or_create(first, TOPIC_ID, NOW_MS)
    whole = logs.get_or_create(second, TOPIC_ID, NOW_MS)
    append(damaged, batch(), batch(), batch())
    append(whole, batch())
    with open(tmp_path / "t-0" / f"{0:020}.log", "r+b") as file:
        file.seek(len(batch()) + 16)  # The second batch's magic.
        file.write(b"\x09")
    with pytest.raises(StorageError, match="cannot be truncated") as error:
        logs.truncate_to(first, 2, NOW_MS)
    assert logs.on_storage_error(error.value.path, error.value) == []
    assert logs.live_directories == [str(tmp_path)]
    append(whole, batch())
    for change in (lambda: append(damaged, batch()), lambda: logs.get_or_create(first, TOPIC_ID, NOW_MS)):
        with pytest.raises(StorageError, match="cannot be truncated"):
            change()
    logs.close(NOW_MS)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again, _report = restarted(logs, tmp_path)
    assert (found(again, first).log_end_offset, found(again, second).log_end_offset) == (1, 2)


def test_a_directory_that_cannot_be_made_is_offline_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file is in the way")
    logs = manager(tmp_path / "a", tmp_path / "b")
    report = logs.load(NOW_MS)
    assert list(report.offline) == [str(tmp_path / "a")]
    assert logs.live_directories == [str(tmp_path / "b")]
    first, second = logs.describe()
    assert (first.error is not None, first.total_bytes) == (True, -1)
    assert second.error is None
    assert second.total_bytes >= second.usable_bytes > 0


def test_without_any_directory_the_broker_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file is in the way")
    with pytest.raises(StorageError, match="no usable log directory is left"):
        started(tmp_path / "a")


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    logs = started(tmp_path, filesystem=disk)
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    disk.budget = 0
    write_checkpoints(logs, HIGH_WATERMARK_CHECKPOINT)
    assert logs.live_directories == []


def test_a_directory_that_fails_while_it_is_closed_gets_no_clean_mark(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    logs = started(tmp_path, filesystem=disk)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch())
    disk.fail_syncs = True
    logs.close(NOW_MS)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = started(tmp_path)
    found(again).advance_high_watermark(1)
    assert offsets(found(again)) == [0]


def test_a_partition_whose_directory_cannot_be_renamed_is_gone_with_its_disk(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    logs = started(tmp_path, filesystem=disk)
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    disk.fail_renames = True
    with pytest.raises(StorageError):
        logs.delete(ORDERS, NOW_MS)
    assert logs.get(ORDERS) is None
    assert logs.live_directories == []


def test_a_partition_on_a_disk_that_is_not_mounted_takes_its_directory_offline_with_a_sentence(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(tmp_path / "a")), batch(2))
    logs.close(NOW_MS)
    (tmp_path / "a" / "orders-0").rename(tmp_path / "disk")
    (tmp_path / "a" / "orders-0").symlink_to(tmp_path / "disk")
    logs = started(tmp_path / "a", tmp_path / "b")
    assert offsets(found(logs), 0) == [0, 1]
    logs.close(NOW_MS)
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    logs = started(tmp_path / "a", tmp_path / "b")
    (failure,) = logs.offline_directories.values()
    assert "is a link to" in str(failure)
    assert logs.live_directories == [str(tmp_path / "b")]
    with pytest.raises(StorageError):
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, is_new=False)


def test_logs_are_closed_in_order_when_no_directory_is_left(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch(2))
    logs.on_storage_error(str(tmp_path), StorageError(str(tmp_path), "broke"))
    logs.close(NOW_MS)
    assert logs.is_released
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_when_the_logs_are_closed_none_is_made(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.close(NOW_MS)
    with pytest.raises(StorageError, match="the broker is stopping"):
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)


class Counting(LocalFileSystem):
    """Counts what is asked of the disk about names."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def exists(self, path: str) -> bool:
        self.calls.append("exists")
        return super().exists(path)

    def make_directory(self, path: str) -> None:
        self.calls.append("make_directory")
        super().make_directory(path)

    def make_new_directory(self, path: str) -> bool:
        self.calls.append("make_new_directory")
        return super().make_new_directory(path)


def test_a_new_partition_asks_the_disk_for_its_directory_and_for_nothing_else(tmp_path: Path) -> None:
    disk = Counting()
    logs = started(tmp_path, filesystem=disk)
    disk.calls.clear()
    for number in range(10):
        logs.get_or_create(TopicPartition("orders", number), TOPIC_ID, NOW_MS)
    assert disk.calls == ["make_new_directory"] * 10


def test_a_stray_of_its_name_is_moved_aside_in_every_directory(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    for name in ("a", "b"):
        (tmp_path / name / "orders-0").mkdir()
        (tmp_path / name / "orders-0" / "kept").write_text(name)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    assert list(Path(log.directory).iterdir()) == []
    kept = [path.read_text() for path in tmp_path.glob("*/orders-0.*-stray/kept")]
    assert sorted(kept) == ["a", "b"]
    assert len(list(tmp_path.glob("*/orders-0"))) == 1


def test_a_log_directory_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is gone"):
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    assert not (tmp_path / "a").exists()
    assert logs.live_directories == [str(tmp_path / "b")]
