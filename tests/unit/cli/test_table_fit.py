"""A table in a terminal: words and numbers stay whole where they can."""

from __future__ import annotations

import pytest

from kavka.cli.table_fit import Fit, fit_of

BROKERS = ["Broker", "Address", "State", "Rack", "Controller", "Leads", "Preferred", "Replicas", "Out of sync", "Bytes"]
BROKER_CELLS = [1, 14, 5, 0, 3, 2, 2, 2, 1, 6]


def words(headings: list[str], place: int) -> int:
    return max(map(len, headings[place].split()))


def test_with_room_headings_have_one_line_and_columns_two_blanks_between_them() -> None:
    fit = fit_of(BROKERS, BROKER_CELLS, 200)
    assert fit == Fit({place: max(len(BROKERS[place]), BROKER_CELLS[place]) for place in range(10)}, 2)


@pytest.mark.parametrize("width", range(75, 110))
def test_three_brokers_fit_a_terminal_of_80_with_every_word_whole(width: int) -> None:
    fit = fit_of(BROKERS, BROKER_CELLS, width)
    assert fit.width <= width
    assert all(fit.widths[place] >= max(BROKER_CELLS[place], words(BROKERS, place)) for place in fit.widths)
    assert set(range(10)) - set(fit.widths) <= {3}  # The racks, of which there are none.


def test_only_then_cells_are_folded_in_the_widest_column_first() -> None:
    fit = fit_of(["Workload", "Policy"], [8, 26], 30)
    assert fit == Fit({0: 8, 1: 21}, 1)


@pytest.mark.parametrize("width", [1, 10, 20])
def test_a_heading_s_word_is_whole_however_narrow_the_terminal_is(width: int) -> None:
    fit = fit_of(["Workload", "Out of sync"], [20, 20], width)
    assert fit.widths[0] >= 8
    assert fit.widths[1] >= 4


def test_a_table_without_rows_keeps_its_headings() -> None:
    assert fit_of(["Topic", "Lag"], [0, 0], 4) == Fit({0: 5, 1: 3}, 1)
