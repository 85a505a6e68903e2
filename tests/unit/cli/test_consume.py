"""Where `kavka consume` starts and ends."""

from __future__ import annotations

import pytest

from kavka.cli.output import WRONG_USAGE, Failure
from kavka.cli.times import parse_time
from kavka.cli.topics.consume import Where, parse_where, start_of


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        ([], Where()),
        (["end"], Where("end")),
        (["5"], Where(offset=5)),
        (["-5"], Where(offset=-5)),
        (["s@1000", "e@2000"], Where(start_ms=1000, end_ms=2000)),
        (["end", "e@1970-01-01T00:00:02"], Where("end", end_ms=2000)),
    ],
)
def test_places(texts: list[str], where: Where) -> None:
    assert parse_where(texts) == where


def test_times() -> None:
    assert parse_time("1970-01-01T01:00:01+01:00") == 1000
    assert parse_time("1970-01-02") == 86_400_000


@pytest.mark.parametrize("text", ["begin", "--5", "s@", "s@noon", "e@-1", "1.5", ""])
def test_places_that_are_none(text: str) -> None:
    with pytest.raises(Failure) as refused:
        parse_where([text])
    assert refused.value.status == WRONG_USAGE
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("offset", "start", "remark"),
    [
        (0, 5, "offset 0 is gone: the log begins at 5."),
        (5, 5, ""),
        (42, 42, ""),
        (43, 42, "offset 43 is beyond the end of the log, 42. Only new records are read."),
        (-10, 32, ""),
        (-100, 5, ""),
    ],
)
def test_an_offset_that_the_log_does_not_have_becomes_its_nearer_end_and_is_said(
    offset: int, start: int, remark: str
) -> None:
    assert start_of(offset, 5, 42) == (start, remark)
