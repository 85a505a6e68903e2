"""What a log's results say where it says nothing else."""

from kavka.log.log_results import ENOUGH_BYTES, AppendResult, ReadResult


def test_what_was_appended_is_no_duplicate_and_what_was_not_found_has_no_bytes() -> None:
    assert not AppendResult(0, 4, -1, 0).is_duplicate
    assert ReadResult([], 0, 7).available_bytes == 0


def test_enough_is_more_than_any_fetch_can_ask_for() -> None:
    assert ENOUGH_BYTES > (1 << 31) - 1
