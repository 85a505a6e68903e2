"""How fast connections may come: of a broker, of a listener, of an address."""

from __future__ import annotations

import pytest

from kavka.security import connection_rates
from kavka.security.connection_rates import ConnectionRates


def test_a_listener_waits_while_connections_come_faster_than_the_broker_takes_them() -> None:
    rates = ConnectionRates(2, 1000)
    rates.limit = 10
    assert [rates.delay_ms("A", 0, is_protected=False) for _ in range(10)] == [0] * 10
    assert rates.delay_ms("B", 0, is_protected=False) == 100
    assert rates.delay_ms("B", 2500, is_protected=False) == 0


def test_the_wait_is_one_window_at_most() -> None:
    rates = ConnectionRates(2, 1000)
    rates.limits_of_listeners = {"A": 1}
    delays = [rates.delay_ms("A", 0, is_protected=False) for _ in range(5)]
    assert delays == [0, 1000, 1000, 1000, 1000]
    assert rates.delay_ms("B", 0, is_protected=False) == 0


def test_a_listener_that_brokers_have_for_themselves_does_not_wait_for_the_others() -> None:
    rates = ConnectionRates(2, 1000)
    rates.limit = 10
    for _ in range(30):
        rates.delay_ms("CLIENTS", 0, is_protected=False)
    assert rates.delay_ms("BROKERS", 0, is_protected=True) == 0


def test_a_connection_of_an_address_over_its_rate_counts_nowhere() -> None:
    rates = ConnectionRates(2, 1000)
    rates.limits_of_addresses = {"10.0.0.1": 1}
    rates.limit = 3

    def come(address: str) -> tuple[int, int]:
        waits = rates.delay_ms("A", 0, is_protected=False)
        return waits, rates.delay_of_address_ms("A", address, 0, is_protected=False)

    assert come("10.0.0.1") == (0, 0)
    assert [come("10.0.0.1") for _ in range(20)] == [(0, 1000)] * 20
    assert come("10.0.0.2") == (0, 0)
    assert come("10.0.0.2") == (0, 0)
    assert come("10.0.0.2")[0] > 0


def test_an_address_without_a_quota_of_its_own_has_the_default() -> None:
    rates = ConnectionRates(2, 1000)
    rates.limit_of_any_address = 1
    rates.limits_of_addresses = {"10.0.0.1": 5}
    assert [rates.delay_of_address_ms("A", "10.0.0.2", 0, is_protected=False) > 0 for _ in range(2)] == [False, True]
    assert [rates.delay_of_address_ms("A", "10.0.0.1", 0, is_protected=False) for _ in range(5)] == [0] * 5


def test_the_addresses_that_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rates, "MAX_ADDRESSES", 3)
    rates = ConnectionRates(2, 1000)
    rates.limit_of_any_address = 1
    for number in range(50):
        rates.delay_of_address_ms("A", f"10.0.0.{number}", 0, is_protected=False)
    assert len(rates._addresses) == 3
    monkeypatch.setattr(connection_rates, "MAX_ADDRESSES", 100)
    for number in range(98):
        rates.delay_of_address_ms("A", f"10.0.1.{number}", 0, is_protected=False)
    assert len(rates._addresses) == 91, "a tenth goes at once: to look at all of them for each new one would be dear"


def test_metrics_show_how_long_connections_were_delayed_on_average() -> None:
    rates = ConnectionRates(2, 1000)
    assert rates.delays(0, of_addresses=False) == rates.delays(0, of_addresses=True) == []
    rates.limit, rates.limits_of_addresses = 1, {"10.0.0.1": 1}
    delays = [rates.delay_ms("A", 0, is_protected=False) for _ in range(3)]
    assert delays == [0, 1000, 1000]
    of_address = [rates.delay_of_address_ms("A", "10.0.0.1", 0, is_protected=False) for _ in range(2)]
    assert of_address == [0, 1000]
    for of_addresses in (False, True):
        assert rates.delays(0, of_addresses=of_addresses) == [((("listener", "A"),), pytest.approx(1000))]
        assert rates.delays(90_000, of_addresses=of_addresses) == [((("listener", "A"),), 0.0)]


def test_metrics_show_the_rates_of_broker_listeners_and_bounded_addresses() -> None:
    rates = ConnectionRates(2, 1000)
    rates.limits_of_addresses = {"10.0.0.1": 5}
    for address in ("10.0.0.1", "10.0.0.2"):
        rates.delay_ms("A", 0, is_protected=False)
        rates.delay_of_address_ms("A", address, 0, is_protected=False)
    assert rates.measured(0) == [((), 2.0), ((("listener", "A"),), 2.0), ((("ip", "10.0.0.1"),), 1.0)]
