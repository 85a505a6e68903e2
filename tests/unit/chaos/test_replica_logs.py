"""Two replicas are compared batch by batch, whatever segments they are in."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.replica_logs import HEADER, differences


def stored(base_offset: int, *, records: int = 1, epoch: int = 0, content: bytes = b"value") -> bytes:
    length = HEADER.size - 12 + len(content)
    return HEADER.pack(base_offset, length, epoch, 2, 0, 0, records - 1, -1, -1) + content


def log(directory: Path, **segments: bytes) -> Path:
    directory.mkdir(parents=True)
    for name, data in segments.items():
        (directory / f"{int(name[1:]):020d}.log").write_bytes(data)
    return directory


def test_equal_logs_in_other_segments_are_equal(tmp_path: Path) -> None:
    batches = [stored(0, records=3), stored(3), stored(4, epoch=1)]
    one = log(tmp_path / "one", s0=b"".join(batches))
    other = log(tmp_path / "other", s0=batches[0], s3=batches[1] + batches[2])
    assert differences({0: one, 1: other}, 5) == []


def test_what_lies_above_the_high_watermark_does_not_count(tmp_path: Path) -> None:
    one = log(tmp_path / "one", s0=stored(0) + stored(1, content=b"left"))
    other = log(tmp_path / "other", s0=stored(0) + stored(1, content=b"right"))
    assert differences({0: one, 1: other}, 1) == []


def test_another_content_below_the_high_watermark_is_told_with_its_offset(tmp_path: Path) -> None:
    one = log(tmp_path / "one", s0=stored(0) + stored(1, content=b"left"))
    other = log(tmp_path / "other", s0=stored(0) + stored(1, content=b"right"))
    (text,) = differences({0: one, 1: other}, 2)
    assert "broker 1 has 1..1 of epoch 0" in text


def test_another_epoch_alone_is_a_difference(tmp_path: Path) -> None:
    one, other = log(tmp_path / "one", s0=stored(0)), log(tmp_path / "other", s0=stored(0, epoch=1))
    assert len(differences({0: one, 1: other}, 1)) == 1


def test_a_replica_that_ends_below_the_high_watermark_is_told(tmp_path: Path) -> None:
    one, other = log(tmp_path / "one", s0=stored(0) + stored(1)), log(tmp_path / "other", s0=stored(0))
    assert differences({0: one, 1: other}, 2) == ["broker 1 ends before 1, which broker 0 has"]


def test_a_torn_batch_ends_a_log(tmp_path: Path) -> None:
    one = log(tmp_path / "one", s0=stored(0) + stored(1)[:-1])
    assert differences({0: one}, 2) == ["no replica holds all records below the high watermark 2"]
