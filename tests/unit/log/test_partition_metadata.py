"""partition.metadata: when it is written, and when it has to be synced."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kavka.errors import InconsistentMetadata
from kavka.log.decide.checkpoint import PARTITION_METADATA, parse_partition_metadata
from kavka.log.partition_metadata import PartitionMetadata
from kavka.log.segment import LogDirectory, OpenSegments
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import PARTITION

FIRST, OTHER = UUID(int=7), UUID(int=8)
noted: dict[LogDirectory, None] = {}


@pytest.fixture
def metadata(tmp_path: Path) -> PartitionMetadata:
    noted.clear()
    directory = LogDirectory(LocalFileSystem(), str(tmp_path), OpenSegments(), noted=noted)
    return PartitionMetadata(directory, None, is_unwritten=False, is_unsynced=False)


def on_disk(metadata: PartitionMetadata) -> UUID:
    return parse_partition_metadata(Path(metadata.path).read_bytes())


def test_the_file_lies_beside_the_records(metadata: PartitionMetadata, tmp_path: Path) -> None:
    assert metadata.path == str(tmp_path / PARTITION_METADATA) == str(tmp_path / "partition.metadata")


def test_an_id_is_taken_once_and_no_other_one(metadata: PartitionMetadata) -> None:
    metadata.assign(FIRST, PARTITION)
    assert (metadata.topic_id, metadata.is_unwritten, len(noted)) == (FIRST, True, 1)
    metadata.write()
    noted.clear()
    metadata.assign(FIRST, PARTITION)
    assert (metadata.is_unwritten, len(noted)) == (False, 0), "it has it already"
    with pytest.raises(InconsistentMetadata) as refusal:
        metadata.assign(OTHER, PARTITION)
    assert metadata.topic_id == FIRST
    assert refusal.value.path == metadata.path
    assert f"the log of orders-0 has the topic id {FIRST}, expected {OTHER}" in str(refusal.value)


def test_writing_it_is_worth_a_look_of_the_periodic_work(metadata: PartitionMetadata) -> None:
    metadata.assign(FIRST, PARTITION)
    noted.clear()
    metadata.write()
    assert (metadata.is_unwritten, on_disk(metadata), len(noted)) == (False, FIRST, 1)


def test_what_is_written_ahead_counts_as_unwritten_and_is_written_once(metadata: PartitionMetadata) -> None:
    metadata.assign(FIRST, PARTITION)
    metadata.write_ahead()
    assert (metadata.is_unwritten, on_disk(metadata)) == (True, FIRST)
    Path(metadata.path).write_bytes(b"untouched")
    metadata.write_ahead()
    metadata.write()
    assert Path(metadata.path).read_bytes() == b"untouched"
    assert not metadata.is_unwritten


def test_what_lies_there_is_replaced(metadata: PartitionMetadata) -> None:
    Path(metadata.path).write_bytes(b"version: 0\ntopic_id: of the topic that had the name before, and is deleted\n")
    metadata.assign(FIRST, PARTITION)
    metadata.write()
    assert on_disk(metadata) == FIRST


def test_in_another_directory_it_is_written_again(metadata: PartitionMetadata, tmp_path: Path) -> None:
    metadata.assign(FIRST, PARTITION)
    metadata.write_ahead()
    (tmp_path / "moved").mkdir()
    metadata._directory.path = str(tmp_path / "moved")
    metadata.write_ahead()
    assert on_disk(metadata) == FIRST


@pytest.mark.parametrize(
    ("log_end_offset", "is_unwritten", "is_unsynced", "expected"),
    [
        (0, True, True, False),
        (1, True, False, True),
        (1, False, True, True),
        (1, True, True, True),
        (1, False, False, False),
    ],
)
def test_it_is_due_as_soon_as_there_are_records(
    metadata: PartitionMetadata, log_end_offset: int, is_unwritten: bool, is_unsynced: bool, expected: bool
) -> None:
    metadata.is_unwritten, metadata.is_unsynced = is_unwritten, is_unsynced
    assert metadata.is_due(log_end_offset) is expected
