"""Which addresses the hosts of max.connections.per.ip.overrides stand for."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kavka.logger import sink
from kavka.runtime.network.connection_limits_by_host import by_address, has_names

KNOWN = {"web": ["10.0.0.1", "10.0.0.2", "fe80::1%eth0"], "db": ["10.0.0.3"]}


def look_up(host: str, _port: None) -> list[Any]:
    if host not in KNOWN:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [(None, None, None, "", (address, 0)) for address in KNOWN[host]]


def test_addresses_are_written_as_connections_have_them_and_nobody_is_asked() -> None:
    given = {"127.0.0.1": 1, "0:0:0:0:0:0:0:1": 2, "::ffff:10.0.0.9": 3, "FE80::A": 4}
    assert not has_names(given)
    assert by_address(given, lookup=None) == {"127.0.0.1": 1, "::1": 2, "10.0.0.9": 3, "fe80::a": 4}  # type: ignore[arg-type]  # not called


def test_a_name_stands_for_all_its_addresses_but_for_those_that_are_given_themselves() -> None:
    given = {"10.0.0.2": 7, "web": 5, "db": 0}
    assert has_names(given)
    assert by_address(given, look_up) == {"10.0.0.1": 5, "10.0.0.2": 7, "fe80::1%eth0": 5, "10.0.0.3": 0}


@pytest.mark.parametrize("name", ["nobody", "x" * 300, "a..b"])
def test_a_name_that_nobody_knows_bounds_nothing_and_is_told(name: str) -> None:
    told: list[Any] = []
    token = sink.set(lambda _level, _event, keys: told.append(keys["host"]))
    try:
        assert by_address({name: 5}, look_up if name == "nobody" else socket.getaddrinfo) == {}
    finally:
        sink.reset(token)
    assert told == [name]
