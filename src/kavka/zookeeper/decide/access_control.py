"""Access control: who a session has proved to be, and what a node's list lets it do.

Source: Apache ZooKeeper's documentation on access control (its schemes and permissions), and PrepRequestProcessor.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple, Protocol

from kavka.zookeeper.port import OPEN_ACL, Acl, AclList, InvalidAcl, NoAuth, Permission

_V4_PART = re.compile(r"\+?[0-9]{1,9}")
_KERBEROS_NAME = re.compile(r"[^/@]*(/[^/@]*)?@[^/@]*")


class Identity(NamedTuple):
    """Who a session has proved to be, under one scheme."""

    scheme: str
    id: str


class Proven(Protocol):
    """Whoever has proved to be somebody: a session."""

    identities: tuple[Identity, ...]


def require_permission(who: Proven | None, acl: AclList, permissions: int, path: str) -> None:
    """Raises NoAuth unless `acl` gives one of `permissions`. The server itself (`who` is None) may do all."""
    if who is not None and not is_permitted(who, acl, permissions):
        raise NoAuth(path)


def is_permitted(who: Proven, acl: AclList, permissions: int) -> bool:
    """Whether `acl` gives one of `permissions`."""
    if acl is OPEN_ACL:
        return True
    return any(entry.permissions & permissions and _matches(entry, who.identities) for entry in acl)


def resolve_acl(who: Proven | None, acl: AclList, path: str) -> AclList:
    """The list as it is stored: the scheme "auth" stands for all that the session has proved to be."""
    resolved: list[Acl] = []
    for entry in acl:
        if not 0 <= entry.permissions <= Permission.ALL:
            raise InvalidAcl(path, f"permissions {entry.permissions}")
        if entry.scheme == "auth":
            identities = who.identities if who is not None else ()
            resolved.extend(Acl(entry.permissions, i.scheme, i.id) for i in identities if i.scheme != "ip")
        elif not _can_be_named(entry.scheme, entry.id):
            raise InvalidAcl(path, f"{entry.scheme}:{entry.id}")
        else:
            resolved.append(entry)
    if not resolved:
        raise InvalidAcl(path, "empty")
    return intern_acl(tuple(dict.fromkeys(resolved)))


def _can_be_named(scheme: str, identity: str) -> bool:
    """Whether a list may name it, as ZooKeeper's providers of authentication say. Of IP addresses ZooKeeper takes those
    of version 4 alone. The names of certificates are not looked at."""
    match scheme:
        case "world":
            return identity == "anyone"
        case "digest":
            return len(identity.rstrip(":").split(":")) == 2  # Java's split leaves out what is empty at the end.
        case "ip":
            return _network(identity) is not None
        case "sasl":
            return "@" not in identity or _KERBEROS_NAME.fullmatch(identity) is not None
        case "x509":
            return True
        case _:
            return False


def intern_acl(acl: AclList) -> AclList:
    """The open list is one object, so that the common case is one comparison of identity."""
    return OPEN_ACL if acl == OPEN_ACL else acl


def _matches(acl: Acl, identities: tuple[Identity, ...]) -> bool:
    if acl.scheme == "world":
        return True
    for identity in identities:
        if identity.scheme == "super":
            return True
        if identity.scheme != acl.scheme:
            continue
        if identity.id == acl.id or (acl.scheme == "ip" and _in_network(identity.id, acl.id)):
            return True
    return False


def _in_network(address: str, network: str) -> bool:
    found = _network(network)
    try:
        return found is not None and ipaddress.ip_address(address) in found
    except ValueError:
        return False


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The addresses that an entry names: one, or with `/` and a number of bits all that begin like it."""
    address, slash, bits = text.partition("/")
    if slash and not _V4_PART.fullmatch(bits):
        return None
    parts = address.split(".")
    if len(parts) == 4 and all(map(_V4_PART.fullmatch, parts)):
        address = ".".join(str(int(part)) for part in parts)  # As Java reads it: 127.0.0.01 is 127.0.0.1.
    try:
        return ipaddress.ip_network(f"{address}/{int(bits)}" if slash else address, strict=False)
    except ValueError:
        return None
