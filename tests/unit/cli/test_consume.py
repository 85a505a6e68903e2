"""Where `kavka consume` starts and ends."""

from __future__ import annotations

import pytest

from kavka.cli.consume import Where, parse_where
from kavka.cli.output import WRONG_USAGE, Failure
from kavka.cli.times import parse_time


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
