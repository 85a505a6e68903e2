"""The offsets of a micro-batch, out of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from kavka.model import TopicPartition
from kavka_spark.backfill import Range
from kavka_spark.lakehouse.batch import read_batch
from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.offsets import Offsets

ID, OTHER = "2f4c7c0e-0000-4000-8000-000000000001", "2f4c7c0e-0000-4000-8000-000000000002"


def checkpoint(path: Path, *batches: list[object]) -> str:
    (path / "offsets").mkdir()
    (path / "metadata").write_text('{"id":"the-query"}')
    for number, sources in enumerate(batches):
        lines = ["v1", '{"batchWatermarkMs":0}', *(each if each == "-" else json.dumps(each) for each in sources)]
        (path / "offsets" / str(number)).write_text("\n".join(map(str, lines)))
    return str(path)


def test_a_batch_goes_from_the_end_of_the_one_before_to_its_own(tmp_path: Path) -> None:
    found = read_batch(checkpoint(tmp_path, [{"a": {"0": 5}}], [{"a": {"0": 9, "1": 4}}]), 1)
    assert found.query == "the-query"
    assert found.starts == {TopicPartition("a", 0): 5}
    assert found.ends == {TopicPartition("a", 0): 9, TopicPartition("a", 1): 4}


def test_the_first_batch_says_where_it_began(tmp_path: Path) -> None:
    ends = {"a": {"0": 5}, "topic ids": {"a": ID}, "began at": {"a": {"0": 2}}}
    found = read_batch(checkpoint(tmp_path, [ends]), 0)
    assert found.starts == {TopicPartition("a", 0): 2}
    assert found.topic_ids == {"a": ID}


def test_what_the_source_itself_writes_is_read_whole(tmp_path: Path) -> None:
    """The source's own form: what it has besides must not make a topic look like another kind of source."""
    name = TopicPartition("a", 0)
    ends = Offsets({name: 9}, {"a": UUID(ID)}, Offsets({name: 2}, {}), {name: 2}, {name: (Range(0, 2, 1),)})
    found = read_batch(checkpoint(tmp_path, [ends.to_json()]), 0)
    assert (found.starts, found.ends, found.filled_in) == ({name: 2}, {name: 9}, ((name, 0, 1),))
    assert found.began == {name: 2}


def test_offsets_of_a_form_that_is_not_known_are_no_other_source(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, [{"a": {"0": 9}, "topic ids": {"a": ID}, "of a later version": [1]}])
    with pytest.raises(TableRefused, match="a form that this version of kavka does not know"):
        read_batch(path, 0)


def test_what_sparks_own_source_wrote_does_not_say_where_it_began(tmp_path: Path) -> None:
    assert read_batch(checkpoint(tmp_path, [{"a": {"0": 5}}]), 0).starts == {}


def test_a_topic_that_was_made_anew_begins_at_0(tmp_path: Path) -> None:
    before, after = {"a": {"0": 50}, "topic ids": {"a": ID}}, {"a": {"0": 3}, "topic ids": {"a": OTHER}}
    assert read_batch(checkpoint(tmp_path, [before], [after]), 1).starts == {TopicPartition("a", 0): 0}


def test_sources_that_are_no_topics_have_no_offsets(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, [17, {"logOffset": 3}, "-", {"a": {"0": 5}}])
    assert read_batch(path, 0).ends == {TopicPartition("a", 0): 5}


def test_of_two_sources_with_one_partition_the_lower_offset_counts(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, [{"a": {"0": 5}}, {"a": {"0": 7}}], [{"a": {"0": 9}}, {"a": {"0": 8}}])
    found = read_batch(path, 1)
    assert (found.starts, found.ends) == ({TopicPartition("a", 0): 5}, {TopicPartition("a", 0): 8})


@pytest.mark.parametrize("text", ["", "v9\n{}\n{}"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = checkpoint(tmp_path, [])
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(TableRefused, match="does not tell the offsets of batch 0: expected offsets of version v1"):
        read_batch(path, 0)


def test_a_checkpoint_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableRefused, match="checkpointLocation"):
        read_batch(str(tmp_path / "none"), 3)
