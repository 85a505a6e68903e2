"""How many connections there may be, of whom, and who makes room."""

from __future__ import annotations

import pytest

from kavka.security.connection_quota import ConnectionBounds, ConnectionQuota


def quota_of(limits: ConnectionBounds, *listeners: str, of_brokers: tuple[str, ...] = ()) -> ConnectionQuota:
    quota = ConnectionQuota(limits, of_brokers)
    for listener in listeners:
        quota.add_listener(listener)
    return quota


def test_a_changed_limit_counts_for_the_next_connection() -> None:
    quota = quota_of(ConnectionBounds(max_connections=1), "PLAINTEXT")
    woken: list[bool] = []
    quota.add("PLAINTEXT", "a")
    assert not quota.has_room("PLAINTEXT")
    quota.when_room(lambda: woken.append(quota.has_room("PLAINTEXT")))
    quota.change_limits(ConnectionBounds(max_connections=2, max_connections_per_ip_overrides={"a": 1}))
    assert woken == [True]
    assert not quota.admits("a")
    assert quota.admits("b")


def test_brokers_that_have_a_listener_for_themselves_get_in_beyond_the_limit() -> None:
    quota = quota_of(ConnectionBounds(max_connections=3), "CLIENTS", "BROKERS", of_brokers=("BROKERS",))
    for _ in range(3):
        quota.add("CLIENTS", "a")
    assert (quota.has_room("CLIENTS"), quota.has_room("BROKERS"), quota.surplus) == (False, True, 0)
    quota.add("BROKERS", "b")
    assert quota.surplus == 1
    quota.remove("CLIENTS", "a")
    assert (quota.has_room("CLIENTS"), quota.surplus) == (False, 0)
    for _ in range(2):
        quota.add("BROKERS", "b")
    # max.connections is the bound of each listener as well.
    assert (quota.has_room("BROKERS"), quota.surplus) == (False, 2)


def test_a_lower_limit_leaves_a_surplus_of_clients_and_not_of_brokers() -> None:
    quota = quota_of(ConnectionBounds(), "CLIENTS", "BROKERS", of_brokers=("BROKERS",))
    for listener in ("CLIENTS", "CLIENTS", "BROKERS", "BROKERS"):
        quota.add(listener, "a")
    quota.change_limits(ConnectionBounds(max_connections=3))
    assert quota.surplus == 1
    quota.change_limits(ConnectionBounds(max_connections=1))
    assert quota.surplus == 2


@pytest.mark.parametrize(
    ("listeners", "protected"),
    [
        (("BROKERS",), ()),
        (("BROKERS", "CONTROL"), ()),
        (("BROKERS", "CONTROL", "CLIENTS"), ("BROKERS", "CONTROL")),
        (("CLIENTS", "OTHERS"), ()),
    ],
)
def test_a_listener_is_a_way_in_only_where_clients_have_another(
    listeners: tuple[str, ...], protected: tuple[str, ...]
) -> None:
    quota = quota_of(ConnectionBounds(max_connections=1), *listeners, of_brokers=("BROKERS", "CONTROL"))
    assert tuple(filter(quota.is_protected, listeners)) == protected


def test_a_listener_may_have_a_bound_of_its_own() -> None:
    limits = ConnectionBounds(max_connections=5, max_connections_of_listeners={"CLIENTS": 1})
    quota = quota_of(limits, "CLIENTS", "OTHERS")
    quota.add("CLIENTS", "a")
    assert (quota.has_room("CLIENTS"), quota.has_room("OTHERS")) == (False, True)


def test_the_way_in_ends_where_descriptors_do_and_no_client_is_left_to_make_room() -> None:
    limits = ConnectionBounds(descriptors=2)
    quota = quota_of(limits, "CLIENTS", "BROKERS", of_brokers=("BROKERS",))
    quota.add("CLIENTS", "a")
    quota.add("BROKERS", "b")
    assert (quota.has_room("CLIENTS"), quota.has_room("BROKERS")) == (False, True)
    quota.add("BROKERS", "b")
    assert quota.surplus == 1
    quota.remove("CLIENTS", "a")
    assert (quota.has_room("BROKERS"), quota.surplus) == (False, 0)
