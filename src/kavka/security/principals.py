"""Principals: who asks. A principal is a type and a name, "User:alice"; a host is an address as Java prints it.

Decides how both are read and compared. Must not know how a client proves who it is.

    I1  principals compare exactly, type included; only "User:*" in an access control list means everybody
    I2  two texts of one address are one host: an access control list is compared with the address, not with its text

Source: Kafka's KafkaPrincipal, SecurityUtils.parseKafkaPrincipal; Java's InetAddress.getHostAddress.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """Who asks. The text, "User:alice", is what Kafka stores and shows."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @staticmethod
    def parse(text: str) -> Principal:
        """The principal of "Type:name"; the name may contain colons. Raises ValueError."""
        kind, separator, name = text.partition(":")
        if not separator:
            raise ValueError(f"expected a principal in the form Type:name, but got {text!r}")
        return Principal(kind, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Every client of a listener that authenticates nobody."""
EVERYBODY: Final = Principal(USER, "*")
"""In an access control list: every principal, of whatever type."""
ANY_HOST: Final = "*"


def can_be_kept(name: str) -> bool:
    """Whether something can be kept for a user or client id of this name: ZooKeeper has no nodes "." and ".."."""
    return name not in (".", "..")


def super_users(text: str) -> frozenset[Principal]:
    """The principals of the setting super.users: separated by ";", for names may have commas. Raises ValueError."""
    return frozenset(Principal.parse(part.strip()) for part in text.split(";") if part.strip())


@lru_cache(maxsize=4096)
def host_text(host: str) -> str:
    """The address as Java prints it: IPv6 in full without leading zeros, IPv4 in IPv6 as IPv4. Other texts stay."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    text = ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))
    return text if address.scope_id is None else f"{text}%{address.scope_id}"
