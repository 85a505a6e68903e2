"""Where leader epochs start and end."""

from kavka.log.decide.leader_epochs import EpochEntry, LeaderEpochs

ENTRIES = [EpochEntry(2, 10), EpochEntry(5, 20), EpochEntry(6, 35)]


def test_an_epoch_ends_where_the_next_known_one_starts() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.end_offset(2, 50) == (2, 20)
    assert epochs.end_offset(5, 50) == (5, 35)


def test_the_first_epoch_of_a_partition_is_one_like_others() -> None:
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(1, 20)])
    assert [epochs.end_offset(epoch, 50) for epoch in (0, 1)] == [(0, 20), (1, 50)]


def test_the_latest_epoch_ends_at_the_log_end() -> None:
    assert LeaderEpochs(ENTRIES).end_offset(6, 50) == (6, 50)


def test_an_unknown_epoch_between_known_ones_ends_with_the_one_below_it() -> None:
    assert LeaderEpochs(ENTRIES).end_offset(4, 50) == (2, 20)


def test_an_epoch_below_all_known_ones_ends_where_the_first_starts() -> None:
    assert LeaderEpochs(ENTRIES).end_offset(1, 50) == (1, 10)


def test_nothing_is_known_of_an_epoch_above_the_latest_nor_in_an_empty_log() -> None:
    assert LeaderEpochs(ENTRIES).end_offset(7, 50) == (-1, -1)
    assert LeaderEpochs(ENTRIES).end_offset(-1, 50) == (-1, -1)
    assert LeaderEpochs().end_offset(0, 0) == (-1, -1)


def test_assigning_the_latest_epoch_again_where_it_is_or_later_changes_nothing() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert not epochs.assign(6, 35)
    assert not epochs.assign(6, 40)
    assert epochs.entries == ENTRIES


def test_the_latest_epoch_may_turn_out_to_have_begun_earlier() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(6, 30)
    assert epochs.entries == [*ENTRIES[:2], (6, 30)]


def test_a_new_epoch_replaces_later_epochs_and_starts_that_are_not_before_its_own() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(7, 35)
    assert epochs.entries == [*ENTRIES[:2], (7, 35)]
    assert epochs.assign(3, 15)
    assert epochs.entries == [(2, 10), (3, 15)]
    assert epochs.latest_epoch == 3


def test_an_epoch_below_the_latest_takes_the_place_of_later_ones_wherever_it_begins() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(4, 40)
    assert epochs.entries == [(2, 10), (4, 40)]


def test_the_epoch_of_an_offset_is_the_last_that_started() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 34, 99)] == [-1, 2, 2, 5, 5, 6]


def test_truncation_at_the_end_drops_epochs_that_start_there_or_later() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert not epochs.truncate_from_end(36)
    assert epochs.truncate_from_end(35)
    assert epochs.entries == ENTRIES[:2]
    assert epochs.latest_epoch == 5
    assert epochs.truncate_from_end(0)
    assert epochs.latest_epoch == -1


def test_truncation_at_the_start_keeps_the_epoch_that_the_log_now_starts_in() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert not epochs.truncate_from_start(10)
    assert epochs.truncate_from_start(25)
    assert epochs.entries == [(5, 25), (6, 35)]
    assert not epochs.truncate_from_start(25)


def test_a_log_start_within_the_first_epoch_has_it_begin_there() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15), *ENTRIES[1:]]


def test_a_log_start_below_the_first_epoch_changes_nothing() -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert not epochs.truncate_from_start(3)
    assert epochs.entries == ENTRIES


def test_a_log_that_begins_anew_knows_of_no_epoch() -> None:
    epochs = LeaderEpochs(ENTRIES)
    epochs.clear()
    assert (epochs.entries, epochs.latest_epoch, epochs.epoch_at(40)) == ([], -1, -1)
