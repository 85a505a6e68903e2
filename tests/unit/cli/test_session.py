"""Bootstrap addresses as people write them."""

from __future__ import annotations

import pytest

from kavka.cli.output import WRONG_USAGE, Failure
from kavka.cli.session import with_cluster


@pytest.mark.parametrize(
    ("addresses", "problem", "step"),
    [
        ("http://host:9092", "an address is HOST:PORT, without http://", "write -b host:9092"),
        (
            "SSL://a:9092,SSL://b:9092",
            "an address is HOST:PORT, without SSL://",
            "write -b a:9092,b:9092",
        ),
        ("http://host:9092/path", "an address is HOST:PORT, without http://", "write -b host:9092"),
        ("host:port", "'host:port' is not host:port", "host:port,host:port"),
        ("host:99999", "'host:99999' is not host:port, because a port is from 1 to 65535", "host:port,host:port"),
    ],
)
def test_addresses_that_are_none_are_refused_with_what_to_write(addresses: str, problem: str, step: str) -> None:
    with pytest.raises(Failure, match=problem) as refused:
        with_cluster(addresses, lambda cluster: cluster.refresh([]))
    assert step in refused.value.next_step
    assert refused.value.status == WRONG_USAGE
