"""Quotas of clients: whose limit holds for a client, and which limits may be set for whom.

Decides from values: users, client ids, and what is set for them. Must not know how limits are stored or measured.

A limit is set for a user, a client id, both, or an address; each may be the default of those without one of their own.
For one client the first of these that is set holds, of each kind of limit by itself:

    users/U/clients/C    users/U/clients/<default>    users/U
    users/<default>/clients/C    users/<default>/clients/<default>    users/<default>
    clients/C    clients/<default>

    I1  who shares a limit is decided by the rule that was found: all clients of a user share the user's, all users of a
        client id share the client id's; where the rule names both, or is a default, each has a share for itself
    I2  a client without an id has no part in rules of client ids
    I3  a negative limit of a client is none, as in Kafka, where the delay would be negative; 0 lets nothing pass
    I4  what is no number is no limit: it cannot be set, and where Kafka stored it, it holds nobody, as in Kafka
    I5  of a client id that is long no more is kept than tells it from all others: client ids are the clients' choice

Source: KIP-13, KIP-55, KIP-124, KIP-546, KIP-599, KIP-612; Kafka's ClientQuotaManager (DefaultQuotaCallback),
ZkAdminManager (describeClientQuotas, alterClientQuotas), DynamicConfig, QuotaConfigs.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kavka.errors import ErrorCode, RequestError
from kavka.security.principals import can_be_kept

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

_MAX_LONG: Final = 2**63 - 1
_MAX_INT: Final = 2**31 - 1
_EPSILON: Final = 1e-6
"""How far a whole number may be off."""


class Default(Enum):
    """Stands for all that have no limit of their own."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT
Name: TypeAlias = str | Default


class QuotaKind(Enum):
    """What clients are limited in. The value is the name that Kafka gives to the metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"

    @property
    def key(self) -> str:
        """The setting that holds the limit."""
        return _KEYS[self]


PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
SCRAM_KEYS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
"""Stand beside a user's limits, and are nothing that this room changes."""

_KEYS: Final = {
    QuotaKind.PRODUCE: PRODUCER_BYTE_RATE,
    QuotaKind.FETCH: CONSUMER_BYTE_RATE,
    QuotaKind.REQUEST: REQUEST_PERCENTAGE,
    QuotaKind.CONTROLLER_MUTATION: CONTROLLER_MUTATION_RATE,
}


class _Form(Enum):
    LONG = "LONG"
    INT = "INT"
    DOUBLE = "DOUBLE"


_CLIENT_FORMS: Final = {
    PRODUCER_BYTE_RATE: _Form.LONG,
    CONSUMER_BYTE_RATE: _Form.LONG,
    REQUEST_PERCENTAGE: _Form.DOUBLE,
    CONTROLLER_MUTATION_RATE: _Form.DOUBLE,
}
_IP_FORMS: Final = {CONNECTION_CREATION_RATE: _Form.INT}
CLIENT_KEYS: Final = frozenset(_CLIENT_FORMS)
IP_KEYS: Final = frozenset(_IP_FORMS)


class Entity(NamedTuple):
    """For whom a limit is set: a user, a client id, both, or an address. None: the entity does not name it."""

    user: Name | None = None
    client_id: Name | None = None
    ip: Name | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The limits that it may have."""
        return CLIENT_KEYS if self.ip is None else IP_KEYS

    def parts(self) -> list[tuple[str, Name]]:
        """Its types and names, as requests list them."""
        named = ((USER, self.user), (CLIENT_ID, self.client_id), (IP, self.ip))
        return [(kind, name) for kind, name in named if name is not None]

    def __str__(self) -> str:
        return ", ".join(
            f"default {kind}" if name is DEFAULT else f"{kind} {name}" for kind, name in self.parts()
        )  # fmt: skip


# -- whose limit holds


class Share(NamedTuple):
    """Who shares a limit: the tags that Kafka's metrics have. Empty: the name plays no part. The client id is short
    (`short_client_id`)."""

    user: str
    client_id: str

    def __str__(self) -> str:
        return str(Entity(self.user or None, self.client_id or None)) or "clients without an id"


LONGEST_CLIENT_ID: Final = 255
"""Characters up to which a client id stands for itself."""
_BEGINNING: Final = 64


def short_client_id(client_id: str) -> str:
    """The client id that limits and shares have: a long one's beginning, with a digest of all of it (I5)."""
    if len(client_id) <= LONGEST_CLIENT_ID:
        return client_id
    digest = hashlib.blake2b(client_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{client_id[:_BEGINNING]}...{digest}"


class Limits:
    """The limits of one kind, of users and client ids."""

    __slots__ = ("_limits",)

    def __init__(self) -> None:
        self._limits: dict[Entity, float] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def set(self, entity: Entity, limit: float | None) -> bool:
        """Sets what holds for an entity, None for nothing; whether that is a change."""
        if limit is None:
            return self._limits.pop(entity, None) is not None
        changed = self._limits.get(entity) != limit
        self._limits[entity] = limit
        return changed

    def share(self, user: str, client_id: str) -> Share:
        """Who this client shares its limit with."""
        limits = self._limits
        if Entity(user, client_id) in limits or Entity(user, DEFAULT) in limits:
            return Share(user, client_id)
        if Entity(user) in limits:
            return Share(user, "")
        if Entity(DEFAULT, client_id) in limits or Entity(DEFAULT, DEFAULT) in limits:
            return Share(user, client_id)
        if Entity(DEFAULT) in limits:
            return Share(user, "")
        return Share("", client_id)

    def rule(self, share: Share) -> Entity | None:
        """The entity whose limit holds for those who share one; None: there is no limit."""
        user, client_id = share
        rules: Sequence[Entity] = ()
        if user and client_id:
            rules = (
                Entity(user, client_id),
                Entity(user, DEFAULT),
                Entity(DEFAULT, client_id),
                Entity(DEFAULT, DEFAULT),
            )
        elif user:
            rules = (Entity(user), Entity(DEFAULT))
        elif client_id:
            rules = (Entity(None, client_id), Entity(None, DEFAULT))
        return next((rule for rule in rules if rule in self._limits), None)

    def limit(self, share: Share) -> float | None:
        """What holds for those who share a limit; None: nothing."""
        rule = self.rule(share)
        limit = None if rule is None else self._limits[rule]
        return None if limit is None or limit < 0 else limit


def limit_of(kind: QuotaKind, config: Mapping[str, str]) -> float | None:
    """The limit of this kind that is set. Raises ValueError where it is no number."""
    return _number(config, kind.key, _CLIENT_FORMS[kind.key])


def connection_rate_of(config: Mapping[str, str]) -> int | None:
    """The connections a second that an address may make. Raises ValueError."""
    rate = _number(config, CONNECTION_CREATION_RATE, _Form.INT)
    return None if rate is None else int(rate)


def _number(config: Mapping[str, str], key: str, form: _Form) -> float | None:
    text = config.get(key)
    if text is None:
        return None
    if form is _Form.DOUBLE:
        number = java_number(text)
        return None if math.isnan(number) else number
    most = _MAX_LONG if form is _Form.LONG else _MAX_INT
    if not _JAVA_WHOLE.fullmatch(text):
        raise ValueError(f"{key} is no whole number: {text[:40]!r}")
    whole = int(text)
    if not -most - 1 <= whole <= most:
        raise ValueError(f"{key} is beyond a {form.value}: {text[:40]!r}")
    return whole


# -- changes


class Change(NamedTuple):
    """A limit that is to be set, or removed (None)."""

    key: str
    value: float | None


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity that a request names by types and names, None for a default. Raises RequestError."""
    named = dict(parts)
    if not named:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in named.items():
        if kind not in ENTITY_TYPES:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        if name is not None and kind != IP and not can_be_kept(name):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unsupported {kind} {name!r}: ZooKeeper has no such nodes")
    if IP in named and len(named) > 1:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
        )
    names = {kind: DEFAULT if name is None else name for kind, name in named.items()}
    return Entity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


def altered(entity: Entity, config: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """What stands for an entity after changes; keys that are no limits stay. Raises RequestError."""
    wanted = dict(config)
    forms = _CLIENT_FORMS if entity.ip is None else _IP_FORMS
    for key, value in changes:
        if value is None:
            wanted.pop(key, None)
            continue
        form = forms.get(key)
        if form is None:
            if key in SCRAM_KEYS and entity.user is not None:
                raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka runs into an IllegalStateException here.
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
        if math.isnan(value):  # Kafka stores 0 where whole numbers belong, which holds everybody here (I3), else "NaN".
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {form.value} value")
        wanted[key] = java_double(value) if form is _Form.DOUBLE else str(_whole(key, value, form))
    return wanted


def _whole(key: str, value: float, form: _Form) -> int:
    most = _MAX_LONG if form is _Form.LONG else _MAX_INT
    # As a cast in Java: towards zero, within the type's bounds.
    near = value + _EPSILON
    whole = most if near >= most else max(math.trunc(max(near, -most - 1)), -most - 1)
    if abs(float(whole) - value) > _EPSILON:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {form.value} value")
    return whole


_JAVA_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,400}")
_JAVA_NUMBER: Final = re.compile(
    r"[\0-\x20]*(?P<number>[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?=[fFdD\0-\x20]|\Z)))"
    r"[fFdD]?[\0-\x20]*"
)


def java_number(text: str) -> float:
    """The number that Kafka reads in a text: what Java's Double.parseDouble takes, but for hexadecimal ones. Python's
    own takes more, `1_000` and `nan` among it. Raises ValueError.

    >>> java_number("1.0E7"), java_number(" .5d "), java_number("-Infinity")
    (10000000.0, 0.5, -inf)
    """
    found = _JAVA_NUMBER.fullmatch(text[:400])
    if found is None or len(text) > 400:
        raise ValueError(f"no number: {text[:40]!r}")
    return float(found["number"])


def java_double(value: float) -> str:
    """A number as Java's Double.toString writes it, which is what Kafka stores.

    >>> java_double(50.0), java_double(0.001), java_double(1e7), java_double(1.5e-5)
    ('50.0', '0.001', '1.0E7', '1.5E-5')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = (str(digit) for digit in digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{int(exponent) + len(rest)}"


# -- which entities are asked for


class Match(NamedTuple):
    """Which names of a type are asked for: one (`name`), the default (DEFAULT), or all (None)."""

    kind: str
    name: Name | None


class Filter(NamedTuple):
    """Which entities are asked for. `strict`: those that name nothing else than the filter."""

    matches: tuple[Match, ...]
    strict: bool

    def check(self) -> None:
        """Raises RequestError where no entity could be meant."""
        seen: set[str] = set()
        for match in self.matches:
            kind = match.kind
            if kind in seen:
                called = "client" if kind == CLIENT_ID else kind
                raise RequestError(ErrorCode.INVALID_REQUEST, f"Duplicate {called} filter component entity type")
            if not kind:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
            if kind not in ENTITY_TYPES:
                raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
            seen.add(kind)
        if IP in seen and len(seen) > 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "Invalid entity filter component combination, IP filter component should not be used with user or "
                "clientId filter component.",
            )

    def takes(self, entity: Entity) -> bool:
        """Whether the entity is asked for."""
        wanted = {match.kind: match.name for match in self.matches}
        named = dict(entity.parts())
        if self.strict and named.keys() != wanted.keys():
            return False
        if entity.ip is not None and not (IP in wanted or not wanted):
            return False
        return all(kind in named and (name is None or named[kind] == name) for kind, name in wanted.items())


def shown(entity: Entity, config: Mapping[str, str]) -> dict[str, float]:
    """The limits of an entity as numbers, as they are shown. What is no number is left out."""
    limits = {}
    for key in sorted(entity.keys & config.keys()):
        try:
            limits[key] = java_number(config[key])
        except ValueError:
            continue
    return limits
