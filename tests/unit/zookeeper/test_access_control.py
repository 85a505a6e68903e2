"""Whom a list of a znode may name, and whom its entries fit. Beside ZooKeeper: tests/conformance/zookeeper."""

from __future__ import annotations

import pytest

from kavka.zookeeper.decide.access_control import Identity, is_permitted, resolve_acl
from kavka.zookeeper.port import Acl, InvalidAcl, Permission


class Session:
    """Who has proved to be somebody."""

    def __init__(self, *identities: tuple[str, str]) -> None:
        self.identities = tuple(Identity(*each) for each in identities)


@pytest.mark.parametrize("identity", [("digest", "u:hash"), ("digest", ":hash"), ("digest", "u:h:"), ("ip", "1.2.3.4")])
def test_what_a_list_may_name(identity: tuple[str, str]) -> None:
    acl = (Acl(Permission.ALL, *identity),)
    assert resolve_acl(Session(), acl, "/n") == acl


@pytest.mark.parametrize(
    ("scheme", "identity"),
    [
        ("digest", "u"),
        ("digest", "u:"),
        ("digest", "u:h:x"),
        ("ip", "host"),
        ("ip", "1.2.3"),
        ("ip", "300.1.1.1"),
        ("ip", "1.2.3.4/33"),
        ("ip", "1.2.3.4/x"),
        ("ip", "1.2.3.4/255.0.0.0"),
        ("sasl", "a@b@c"),
        ("super", "x"),
        ("world", "someone"),
    ],
)
def test_what_nobody_can_prove_to_be_is_refused(scheme: str, identity: str) -> None:
    """Stored, it would be an entry that fits nobody, and a node that perhaps nobody can change."""
    with pytest.raises(InvalidAcl):
        resolve_acl(Session(), (Acl(Permission.ALL, scheme, identity),), "/n")


@pytest.mark.parametrize(
    ("network", "fits"),
    [
        ("10.0.0.0/8", True),
        ("10.1.2.3", True),
        ("10.1.2.03/+31", True),
        ("10.1.2.4/31", False),
        ("0.0.0.0/0", True),
        ("::/0", False),
        ("nonsense", False),
    ],
)
def test_an_address_fits_the_network_that_an_entry_names(network: str, fits: bool) -> None:
    acl = (Acl(Permission.READ, "ip", network),)
    assert is_permitted(Session(("ip", "10.1.2.3")), acl, Permission.READ) is fits
