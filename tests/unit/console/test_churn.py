"""Windows of the isr-churn pipeline: which records are some, and what they add up to."""

from __future__ import annotations

import json

import pytest

from kavka.console.sources.churn import ChurnWindow, Sum, lines, parse, sums

MINUTE_MS = 60_000
NOON_MS = 1_795_262_400_000
ROW = {
    "window_start": "2026-11-21T12:00:00.000Z",
    "window_end": "2026-11-21T12:01:00.000Z",
    "broker": 2,
    "topic": "orders",
    "cause": "broker not alive",
    "shrinks": 3,
    "expansions": 0,
    "elections": 1,
    "last_why": "replicas [2] are not alive",
}


def window(from_ms: int = NOON_MS, *, broker: int = 2, topic: str = "orders", shrinks: int = 3) -> ChurnWindow:
    return ChurnWindow(
        from_ms,
        from_ms + MINUTE_MS,
        broker,
        topic,
        "broker not alive",
        shrinks,
        0,
        1,
        "replicas [2] are not alive",
    )


def test_a_row_of_the_pipeline_is_a_window() -> None:
    assert parse(json.dumps(ROW).encode()) == window()
    counts_left_out = {name: value for name, value in ROW.items() if name not in ("expansions", "last_why")}
    found = parse(json.dumps(counts_left_out).encode())
    assert found is not None
    assert (found.expansions, found.last_why) == (0, "")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 100_000,
        json.dumps({**ROW, "window_start": "yesterday"}).encode(),
        json.dumps({**ROW, "window_start": None}).encode(),
        json.dumps({**ROW, "window_end": ROW["window_start"]}).encode(),
        json.dumps({**ROW, "shrinks": -1}).encode(),
        json.dumps({**ROW, "shrinks": {}}).encode(),
        json.dumps({**ROW, "broker": "two"}).encode(),
        json.dumps({name: value for name, value in ROW.items() if name != "cause"}).encode(),
        json.dumps({**ROW, "broker": 0}).replace('"broker": 0', '"broker": 1e999').encode(),
    ],
)
def test_what_is_no_window_is_none(value: bytes) -> None:
    assert parse(value) is None


def test_lines_fall_to_nothing_between_windows_that_are_apart() -> None:
    found = lines(
        [window(), window(broker=3, shrinks=2), window(NOON_MS + 10 * MINUTE_MS)],
        {"shrinks": "left", "expansions": "joined", "elections": "elected"},
    )
    assert [series.name for series in found] == ["left", "joined", "elected"]
    assert [((at - NOON_MS) // MINUTE_MS, value) for at, value in found[0].points] == [
        (-1, 0),
        (0, 5),
        (1, 0),
        (9, 0),
        (10, 3),
        (11, 0),
    ]


def test_sums_are_per_broker_and_cause_the_most_changes_first() -> None:
    windows = [window(shrinks=1), window(broker=3), window(NOON_MS + MINUTE_MS, broker=3, topic="bills")]
    assert sums(windows) == [Sum(3, "broker not alive", 6, 0, 2, 2), Sum(2, "broker not alive", 1, 0, 1, 1)]
