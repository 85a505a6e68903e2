"""The snapshots of what a log knows of its producers: which is loaded, and which may go."""

from pathlib import Path

from kavka.filesystem import Buffer
from kavka.log.decide.producer_state import ProducerState
from kavka.log.producer_snapshots import ProducerSnapshots
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import DAY_MS, NOW_MS, log_directory
from tests.unit.log.test_producer_state import header


def snapshots(path: Path, *offsets: int) -> ProducerSnapshots:
    """Those of a log to which one producer after another wrote a record, at these offsets."""
    found, state = ProducerSnapshots(log_directory(path)), ProducerState()
    for number in range(max(offsets)):
        state.append(header(producer_id=number), number)
        state.end_offset = number + 1
        if number + 1 in offsets:
            assert found.take(state) == str(path / f"{number + 1:020d}.snapshot")
    assert left(found, path) == sorted(offsets)
    return found


def left(found: ProducerSnapshots, path: Path) -> list[int]:
    """The offsets of the snapshots that are there; the files are the same."""
    assert [int(file.stem) for file in sorted(path.glob("*.snapshot"))] == found.offsets
    return found.offsets


def loaded(found: ProducerSnapshots, up_to: int) -> tuple[ProducerState, list[str]]:
    state, bad = ProducerState(), list[str]()
    found.load(state, up_to, 1, NOW_MS, DAY_MS, lambda path, why: bad.append(Path(path).name))
    return state, bad


def test_a_snapshot_is_taken_once_and_never_below_another_one(tmp_path: Path) -> None:
    found, state = snapshots(tmp_path, 2, 4), ProducerState()
    for offset in (4, 3):
        state.end_offset = offset
        assert found.take(state) is None
    assert left(found, tmp_path) == [2, 4]


def test_a_snapshot_waits_for_no_sync(tmp_path: Path) -> None:
    """It is taken with each roll, on the way of a produce request."""
    written: list[bool] = []

    class Noting(LocalFileSystem):
        def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
            written.append(durable)

    state = ProducerState()
    state.end_offset = 5
    assert ProducerSnapshots(log_directory(tmp_path, Noting())).take(state) is not None
    assert written == [False]


def test_the_latest_snapshot_that_is_not_above_the_end_is_loaded(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 2, 4)
    for up_to, known in ((5, 4), (4, 4), (3, 2), (2, 2)):
        state, bad = loaded(found, up_to)
        assert (state.end_offset, sorted(state.producers), bad) == (known, list(range(known)), [])
    state, _ = loaded(found, 1)
    assert (state.end_offset, sorted(state.producers)) == (1, [])
    assert left(found, tmp_path) == [2, 4]


def test_snapshots_that_cannot_be_used_are_told_and_removed_up_to_one_that_can(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 1, 2, 3, 4)
    (tmp_path / f"{2:020d}.snapshot").unlink()
    (tmp_path / f"{3:020d}.snapshot").write_bytes(b"torn")
    state, bad = loaded(found, 3)
    assert (state.end_offset, bad) == (1, [f"{3:020d}.snapshot", f"{2:020d}.snapshot"])
    assert left(found, tmp_path) == [1, 4]


def test_a_truncation_takes_the_snapshots_of_what_it_took(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 2, 4, 6)
    found.remove_above(4)
    assert left(found, tmp_path) == [2, 4]
    found.remove_above(1)
    assert left(found, tmp_path) == []


def test_the_snapshot_of_the_first_segment_that_is_left_stays(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 2, 4, 6)
    found.remove_below(4)
    assert left(found, tmp_path) == [4, 6]


def test_of_those_that_belong_to_no_segment_only_the_last_one_stays(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 1, 2, 3, 5, 6)
    found.remove_strays([0, 2])
    assert left(found, tmp_path) == [2, 6]


def test_those_of_segments_that_compaction_joined_go_but_for_the_last_one(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 1, 2, 3, 4)
    found.remove_at({1, 3, 4})
    assert left(found, tmp_path) == [2, 4]


def test_a_log_that_begins_anew_keeps_none(tmp_path: Path) -> None:
    found = snapshots(tmp_path, 1, 2)
    found.remove_all()
    assert left(found, tmp_path) == []
