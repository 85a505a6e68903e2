"""Numbers and times as the console shows them."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")

from starlette.requests import Request

from kavka.console.look.format import (
    age,
    clock,
    duration,
    path_part,
    safe,
    short,
    size,
    time_element,
    visible,
    zone_of,
)
from kavka.console.look.i18n import translator
from kavka.decisions import YEAR_9000_MS

NOON = 1_767_265_200_000
"""2026-01-01 11:00 UTC, noon in Berlin."""
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (0.42, "0.42 ms"),
        (31_200, "31.2 s"),
        (59_999, "60.0 s"),
        (250_000, "4 min 10 s"),
        (3_600_000, "1 h"),
        (11_100_000, "3 h 5 min"),
        (187_200_000, "2 d 4 h"),
    ],
)
def test_a_duration_has_one_unit_or_two(ms: float, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3, "3"), (0.5, "0.5"), (999, "999"), (9_999, "9,999"), (18_402, "18.4 k"), (2_500_000, "2.5 M")],
)
def test_a_large_number_is_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1_023, "1,023 B"), (1_536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (None, "")]
)
def test_bytes(value: float | None, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("passed_ms", "text"),
    [(0, "just now"), (1_000, "1 s ago"), (119_000, "119 s ago"), (120_000, "2 min ago"), (-60_000, "in 1 min")],
)
def test_an_age_is_said_as_people_say_it(passed_ms: int, text: str) -> None:
    assert age(NOON - passed_ms, NOON, translator("en")) == text


def test_an_age_in_chinese() -> None:
    assert age(NOON - 31_000, NOON, translator("zh")) == "31 秒前"


def test_a_time_has_its_zone_and_the_date_of_another_day() -> None:
    assert clock(NOON, BERLIN, NOON) == "12:00:00 CET"
    assert clock(NOON, BERLIN, NOON + 86_400_000) == "2026-01-01 12:00:00 CET"
    assert clock(NOON, ZoneInfo("Asia/Kolkata"), NOON) == "16:30:00 IST"
    assert clock(NOON, UTC, NOON, millis=True) == "11:00:00.000 UTC"


def test_a_time_element_can_be_read_by_machines_and_counted_on() -> None:
    element = time_element(NOON, NOON + 5_000, BERLIN, translator("en"))
    assert 'datetime="2026-01-01T12:00:00.000+01:00"' in element
    assert f'data-at="{NOON}"' in element
    assert "5 s ago" in element


@pytest.mark.parametrize("at_ms", [YEAR_9000_MS, 253_402_300_800_000, 2**63 - 1, 10**400])
def test_a_time_that_no_calendar_has_is_told_as_a_number(at_ms: int) -> None:
    assert f"1970-01-01 UTC + {at_ms:,} ms" in time_element(at_ms, NOON, BERLIN, translator("en"))
    assert clock(at_ms, BERLIN, NOON, millis=True) == f"1970-01-01 UTC + {at_ms:,} ms"
    assert time_element(YEAR_9000_MS - 1, NOON, ZoneInfo("Pacific/Kiritimati"), translator("en"))


@pytest.mark.parametrize("cookie", ["Europe%2FBerlin", "..%2F..%2Fetc%2Fpasswd", "%00", "x" * 4000, ""])
def test_a_zone_of_a_cookie_is_a_zone_or_the_consoles_own(cookie: str) -> None:
    request = Request({"type": "http", "headers": [(b"cookie", f"kavka_zone={cookie}".encode())]})
    zone = zone_of(request)
    assert (zone == BERLIN) == (cookie == "Europe%2FBerlin")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x00b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("a\x7f\x9bb", "a\\x7f\\x9bb"),
        ("\u202eevil", "\\u202eevil"),
        ("broken \udcff", "broken \\udcff"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
    visible(text).encode()  # it can be sent


def test_markup_from_a_cluster_is_text() -> None:
    assert safe("<script>alert(1)</script>") == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_half_a_pair_of_utf_16_is_a_part_of_an_address_too() -> None:
    """JSON of a service may name a connector so: the list of all of them was an error."""
    assert path_part("a\ud800/b") == "a%3F%2Fb"
