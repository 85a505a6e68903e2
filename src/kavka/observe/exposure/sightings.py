"""Sightings: what was seen of a cluster's doors, as values.

Decides nothing. None stands for what was not seen, which is not the same as what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kavka.security.acls import Binding, Operation


class ClientAuth(Enum):
    """Whether a listener asks clients for a certificate. NOT_REQUIRED: none or requested; it cannot be told which."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"
    NOT_REQUIRED = "not required"


class Authorizer(Enum):
    """Whether access control lists are kept. UNKNOWN: the client may not ask."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SeenCertificate:
    """One certificate of a chain, the listener's own first. `key_bits` and `hash_name` are 0 and "" where unknown."""

    subject: str
    issuer: str
    not_before_ms: int
    not_after_ms: int
    names: tuple[str, ...]
    key: str = ""
    key_bits: int = 0
    hash_name: str = ""


@dataclass(frozen=True, slots=True)
class TlsSighting:
    """What a listener's TLS offers. `distrust` says why the chain is not believed; empty where it is."""

    suites: Mapping[str, tuple[str, ...]]
    """By version, in the order in which the listener chose. TLS 1.3's suites are seen as well."""
    chain: tuple[SeenCertificate, ...]
    distrust: str | None
    client_auth: ClientAuth | None


@dataclass(frozen=True, slots=True)
class BrokerSighting:
    """What one client learned from the listener by asking, and what it may do."""

    brokers: tuple[str, ...] = ()
    topics: int = 0
    may: frozenset[Operation] | None = None
    """Operations on the cluster itself; None where the broker does not tell."""
    authorizer: Authorizer = Authorizer.UNKNOWN
    acls: tuple[Binding, ...] | None = None
    settings: Mapping[str, str] | None = None
    """Of one broker; values that are sensitive are left out. None where the client may not read them."""
    users: int | None = None
    """How many users with SCRAM passwords it can list; None where it may not."""


class Door(Enum):
    """How ZooKeeper treats a client that says nothing of who it is."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ZooKeeperSighting:
    """ZooKeeper as a client without identity sees it. Paths are those that were looked at and are there."""

    address: str
    door: Door
    readable: tuple[str, ...] = ()
    """Of the paths with secrets, those whose list lets everybody read."""
    writable: tuple[str, ...] = ()
    """Paths whose list lets everybody write or create below."""
    listeners: tuple[str, ...] = ()
    """The listeners that brokers registered, as PROTOCOL://host:port."""


@dataclass(frozen=True, slots=True)
class MetricsSighting:
    """An address of metrics that answered. `is_local`: only this machine reaches it."""

    address: str
    is_local: bool


@dataclass(frozen=True, slots=True)
class Unseen:
    """A question without an answer. `is_failure`: it should have had one, so nobody can say that all is well."""

    question: str
    why: str
    is_failure: bool


@dataclass(frozen=True, slots=True)
class Sightings:
    """Everything that was seen of one listener and of what is around it."""

    address: str
    at_ms: int
    is_tls: bool = False
    tls: TlsSighting | None = None
    mechanisms: tuple[str, ...] | None = None
    """Of SASL. Empty: the listener has no SASL; None: it could not be told."""
    answers_before_login: bool = False
    """Whether a listener with SASL answered a question of a client that had not logged in."""
    anonymous: BrokerSighting | None = None
    """What a client without identity saw; None where it was let see nothing."""
    known: BrokerSighting | None = None
    """What the client that the caller named saw."""
    passwords: tuple[str, ...] = ()
    """Users that logged in with a well-known password."""
    zookeeper: tuple[ZooKeeperSighting, ...] = ()
    metrics: tuple[MetricsSighting, ...] = ()
    is_kraft: bool | None = None
    unseen: tuple[Unseen, ...] = field(default=())
