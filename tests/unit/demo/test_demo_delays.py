"""The right answer of the demo's pipeline, and what its comparison must not let pass."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from demo.delays import HOUR_MS, Delay, delay_of_row, delays_of, difference
from demo.flights import Flight


def _flight(carrier: str, timestamp_ms: int, departure: str, arrival: str) -> Flight:
    fields = {"carrier": carrier, "dep_delay": departure, "arr_delay": arrival}
    return Flight(carrier.encode(), json.dumps(fields).encode(), [], timestamp_ms)


FLIGHTS = [
    _flight("UA", HOUR_MS + 5, "2", "11"),
    _flight("UA", HOUR_MS + 7, "-3", "NA"),
    _flight("UA", HOUR_MS, "NA", "NA"),
    _flight("B6", HOUR_MS, "NA", "NA"),
    _flight("UA", 2 * HOUR_MS, "1", "1"),
    _flight("??", HOUR_MS, "1", "1"),
]
AIRLINES = {"UA": "United", "B6": "JetBlue"}
EXPECTED = [
    Delay(HOUR_MS, "B6", "JetBlue", 1, 0, None, None, None),
    Delay(HOUR_MS, "UA", "United", 3, 2, -1, 2, 11),
    Delay(2 * HOUR_MS, "UA", "United", 1, 1, 1, 1, 1),
]


def test_delays_are_summed_per_carrier_and_hour_and_unknown_carriers_are_left_out() -> None:
    assert delays_of(FLIGHTS, AIRLINES) == EXPECTED


def test_a_row_is_the_same_out_of_parquet_and_out_of_json() -> None:
    common = {"carrier": "B6", "name": "JetBlue", "flights": 1, "departed": 0}
    of_parquet = {**common, "hour": datetime.fromtimestamp(3600, UTC), "departure_delay_minutes": None}
    of_json = {**common, "hour": "1970-01-01T01:00:00.000Z"}
    assert delay_of_row(of_parquet) == delay_of_row(of_json) == EXPECTED[0]


def test_a_missing_a_doubled_and_a_changed_row_are_seen() -> None:
    assert difference(EXPECTED[::-1], EXPECTED) == ""
    assert "1 are missing" in difference(EXPECTED[1:], EXPECTED)
    assert "1 are there again" in difference([*EXPECTED, EXPECTED[0]], EXPECTED)
    changed = [EXPECTED[0]._replace(flights=2), *EXPECTED[1:]]
    assert "1 are missing, 1 are others" in difference(changed, EXPECTED)
