"""`kavka top` in a narrow terminal: whole columns are left out, and no number is cut."""

from __future__ import annotations

from kavka.cli.cluster.top import columns_that_fit
from kavka.cli.output import Table


def brokers() -> Table:
    table = Table(["broker", "address", "state", "leads", "replicas", "out of sync", "bytes", "in/s"], [])
    table.add(1, "broker-1.example.com:9092", "controller", 1_000, 3_000, 12, "1.0 GiB", "3.2 MiB")
    return table


def shown(width: int) -> list[str]:
    return [brokers().headings[place] for place in columns_that_fit(brokers(), width)]


def test_a_wide_terminal_shows_all() -> None:
    assert shown(120) == list(brokers().headings)


def test_a_narrow_one_leaves_out_what_matters_least() -> None:
    assert shown(80) == ["broker", "state", "leads", "replicas", "out of sync", "bytes", "in/s"]
    assert shown(60) == ["broker", "state", "leads", "replicas", "out of sync", "in/s"]
    assert shown(50) == ["broker", "state", "leads", "out of sync", "in/s"]


def test_however_narrow_who_is_well_is_shown() -> None:
    assert shown(10) == ["broker", "state", "out of sync"]
