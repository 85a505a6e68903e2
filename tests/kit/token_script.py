"""Delegation tokens, right and wrong, on raw sockets: what a broker with an authorizer answers. Runs against kavka and
Apache Kafka alike.

Who asks logs in with PLAIN as one of `USERS`; on the PLAINTEXT listener it is nobody. Ids and HMACs are told by their
lengths, times by their distance from a token's birth or, in seconds, from now.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kavka.errors import ErrorCode
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kavka.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kavka.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kavka.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kavka.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kavka.security.acls import Operation, Permission
from kavka.security.plain import client_token
from kavka.security.resource_patterns import PatternType, ResourceType
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.scram_exchange import client_exchange
from tests.kit import sasl_script
from tests.kit.sasl_script import LISTENER, Wire

USERS = ("admin", "alice", "bob", "carol", "dave", "erin")
SECRET = "token-secret-1"
MAX_MS, RENEWAL_MS = 7_200_000, 3_600_000
LONG = 2**63 - 1
VERSIONS = (1, 2, 3)


def settings(port: int, plaintext_port: int) -> dict[str, str]:
    """Of a broker that has tokens and an authorizer. Nobody but the administrator and nobody may do anything."""
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="y" {users};'
    own = f"listener.name.{LISTENER.lower()}"
    return {
        **{
            name: text
            for name, text in sasl_script.settings(port, plaintext_port).items()
            if "connections.max.reauth.ms" not in name
        },
        f"{own}.plain.sasl.jaas.config": login,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "offsets.topic.replication.factor": "1",
        "delegation.token.secret.key": SECRET,
        "delegation.token.max.lifetime.ms": str(MAX_MS),
        "delegation.token.expiry.time.ms": str(RENEWAL_MS),
    }


_ends_ms: dict[bytes, int] = {}
"""When the life of each token ends that was created here, by its HMAC."""


class Made(NamedTuple):
    """A token, as its maker was told."""

    token_id: str
    hmac: bytes

    @property
    def password(self) -> str:
        return b64encode(self.hmac).decode()


def logged_in(port: int, user: str) -> Wire:
    wire = Wire(port)
    wire.handshake("PLAIN")
    assert wire.token(client_token(user, f"{user}-secret"))[0] == "NONE"
    return wire


def by_token(port: int, made: Made, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> tuple[Wire, Any]:
    """A connection that logs in with a token, and what was said last."""
    wire = Wire(port)
    wire.handshake(mechanism.value)
    return wire, log_in(wire, made, mechanism)


def log_in(wire: Wire, made: Made, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> Any:
    """The exchange after the handshake: (error, how many tens of seconds the session lasts)."""
    exchange = client_exchange(mechanism, made.token_id, made.password, "fyko+d2lbbFgONRv9qkxdawL", is_by_token=True)
    token = next(exchange)
    while True:
        said = wire.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
        if not isinstance(said, SaslAuthenticateResponse):
            return said
        try:
            assert not said.error_code
            token = exchange.send(bytes(said.auth_bytes))
        except (StopIteration, AssertionError):
            return ErrorCode(said.error_code).name, round(said.session_lifetime_ms / 10_000)


def creation(
    *, owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = -1
) -> CreateDelegationTokenRequest:
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in renewers)
        ],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, _, request.owner_principal_name = owner.partition(":")
    return request


def create(wire: Wire, version: int = 3, **asked: Any) -> tuple[Made, Any]:
    """A token, and what was said."""
    said = wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, version, creation(**asked))
    told: dict[str, Any] = {
        "error": ErrorCode(said.error_code).name,
        "owner": f"{said.principal_type}:{said.principal_name}",
        "requester": f"{said.token_requester_principal_type}:{said.token_requester_principal_name}",
        "id": len(said.token_id),
        "hmac": len(said.hmac),
        "expires": said.expiry_timestamp_ms - said.issue_timestamp_ms,
        "max": said.max_timestamp_ms - said.issue_timestamp_ms,
    }
    _ends_ms[bytes(said.hmac)] = said.max_timestamp_ms
    return Made(said.token_id, bytes(said.hmac)), told


def _until(token_hmac: bytes, expiry_ms: int) -> Any:
    """In how many tens of seconds from now; -1 stays. The token's own end counts from its creation, long ago on a busy
    machine: it is named."""
    if expiry_ms == _ends_ms.get(token_hmac):
        return "with its life"
    return expiry_ms if expiry_ms == -1 else round((expiry_ms / 1000 - time.time()) / 10)


def renew(wire: Wire, token_hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:
    request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=period_ms)
    said = wire.ask(ApiKey.RENEW_DELEGATION_TOKEN, version, request)
    return ErrorCode(said.error_code).name, _until(token_hmac, said.expiry_timestamp_ms)


def expire(wire: Wire, token_hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:
    request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
    said = wire.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, version, request)
    return ErrorCode(said.error_code).name, _until(token_hmac, said.expiry_timestamp_ms)


def describe(wire: Wire, owners: Sequence[str] | None = None, version: int = 3) -> Any:
    request = DescribeDelegationTokenRequest(
        owners=None
        if owners is None
        else [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, _, name in (owner.partition(":") for owner in owners)
        ]
    )
    said = wire.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, request)
    return ErrorCode(said.error_code).name, sorted(
        (
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers],
            token.max_timestamp - token.issue_timestamp,
            len(token.hmac),
            len(token.token_id),
        )
        for token in said.tokens
    )


def allow(plaintext_port: int, user: str, operation: Operation, kind: ResourceType, name: str) -> None:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=Permission.ALLOW,
            )
        ]
    )
    with Wire(plaintext_port) as wire:
        (result,) = wire.ask(ApiKey.CREATE_ACLS, 3, request).results
        assert result.error_code == 0, result


def eventually(work: Callable[[], Any], expected: Any) -> Any:
    """What `work` gives when it is as expected, or after a while."""
    deadline = time.monotonic() + 60
    while (found := work()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def run(port: int, plaintext_port: int) -> dict[str, Any]:
    """What is answered, by the name of the case."""
    found: dict[str, Any] = {}
    with (
        Wire(plaintext_port) as nobody,
        logged_in(port, "admin") as admin,
        logged_in(port, "alice") as alice,
        logged_in(port, "bob") as bob,
        logged_in(port, "carol") as carol,
        logged_in(port, "dave") as dave,
        logged_in(port, "erin") as erin,
    ):
        for version in VERSIONS:
            found[f"create on PLAINTEXT {version}"] = create(nobody, version)[1]
            found[f"describe on PLAINTEXT {version}"] = describe(nobody, version=version)
            made, found[f"create {version}"] = create(alice, version)
            found[f"expire at once {version}"] = expire(alice, made.hmac, version=min(version, 2))
        found["renew on PLAINTEXT"] = renew(nobody, b"x")
        found["expire on PLAINTEXT"] = expire(nobody, b"x")
        found["create on PLAINTEXT for another"] = create(nobody, owner="User:carol")[1]
        found |= _lifetimes(alice)
        found |= _rights_to_create(plaintext_port, alice, bob, admin)
        found |= _renewals(alice, bob, carol, admin)
        found |= _logins(port, alice, bob)
        found |= _listings(plaintext_port, alice, bob, dave, erin, admin)
    return found


def _lifetimes(alice: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for lifetime_ms in (-1, 0, -7, 1000, RENEWAL_MS + 1, LONG):
        made, found[f"create for {lifetime_ms} ms"] = create(alice, lifetime_ms=lifetime_ms)
        expire(alice, made.hmac)
    for renewers in (["User:bob", "User:bob", "User:CN=al ice,O=ü*"], ["Group:bob"], ["User:"], [":bob"]):
        made, found[f"create with renewers {renewers}"] = create(alice, renewers=renewers)
        found[f"describe with renewers {renewers}"] = describe(alice)
        if made.hmac:
            expire(alice, made.hmac)
    return found


def _rights_to_create(plaintext_port: int, alice: Wire, bob: Wire, admin: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["for another without the right"] = create(bob, owner="User:carol")[1]
    found["for another without the right, with a wrong renewer"] = create(
        bob, owner="User:carol", renewers=["Group:x"]
    )[1]
    found["for oneself by name"] = create(bob, owner="User:bob")[1]
    allow(plaintext_port, "bob", Operation.CREATE_TOKENS, ResourceType.USER, "User:carol")
    wanted = {**found["for another without the right"], "error": "NONE"}
    found["for another with the right"] = eventually(
        lambda: create(bob, owner="User:carol")[1]["error"], wanted["error"]
    )
    made, found["for another, told"] = create(bob, owner="User:carol")
    found["for another, with a wrong renewer"] = create(bob, owner="User:carol", renewers=["Group:x"])[1]
    found["for a third without the right"] = create(bob, owner="User:dave")[1]
    found["by a super user"] = create(admin, owner="User:dave")[1]
    found["for another type"] = create(admin, owner="Group:dave")[1]
    found["for a lower version, which names no owner"] = create(bob, 2)[1]
    # Who asked for it sees it, and may not renew it.
    found["requester renews"] = renew(bob, made.hmac)
    found["requester ends"] = expire(bob, made.hmac)
    found["requester sees"] = describe(bob, ["User:carol"])
    return found


def _renewals(alice: Wire, bob: Wire, carol: Wire, admin: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {}
    made, _ = create(alice, renewers=["User:bob"])
    for version in (1, 2):
        found[f"renew by default {version}"] = renew(alice, made.hmac, version=version)
    for period_ms in (0, 1_800_000, -1, -9, MAX_MS * 2):
        found[f"renew for {period_ms}"] = renew(bob, made.hmac, period_ms)
        if period_ms == 0:
            time.sleep(0.05)
            found["renew what is over"] = renew(bob, made.hmac, 1000)
            found["renew what is over, by another"] = renew(carol, made.hmac, 1000)
            found["end later what is over"] = expire(bob, made.hmac, 1000)
            found["end at once what is over"] = expire(bob, made.hmac, -1)
            found["renew what is gone"] = renew(bob, made.hmac, 1000)
            made, _ = create(alice, renewers=["User:bob"])
    found["renew by another"] = renew(carol, made.hmac)
    found["renew by a super user"] = renew(admin, made.hmac)
    found["end by another"] = expire(carol, made.hmac)
    found["end by a super user"] = expire(admin, made.hmac)
    for token_hmac in (b"", b"1234", made.hmac[:-1], made.hmac + b"x"):
        found[f"renew {len(token_hmac)} bytes"] = renew(alice, token_hmac)
        found[f"end {len(token_hmac)} bytes"] = expire(alice, token_hmac)
    for period_ms in (600_000, MAX_MS * 2):
        found[f"end in {period_ms}"] = expire(bob, made.hmac, period_ms)
    found["end at once"] = expire(bob, made.hmac)
    found["end again"] = expire(bob, made.hmac)
    return found


def _logins(port: int, alice: Wire, bob: Wire) -> dict[str, Any]:
    """Who logs in with a token, what it may do then, and for how long."""
    found: dict[str, Any] = {}
    made, _ = create(alice, renewers=["User:bob"])
    for mechanism in ScramMechanism:
        with (login := by_token(port, made, mechanism))[0] as wire:
            found[f"log in, {mechanism.value}"] = login[1], wire.is_served()
            for version in VERSIONS:
                found[f"create by token {version}"] = create(wire, version)[1]
                found[f"describe by token {version}"] = describe(wire, version=version)
            found["renew by token"] = renew(wire, made.hmac)
            found["end by token"] = expire(wire, made.hmac)
            # A renewal prolongs no session; the next authentication does.
            found["renewed meanwhile"] = renew(bob, made.hmac, 5_000_000)
            found["again, with the same token"] = wire.handshake(mechanism.value), log_in(wire, made, mechanism)
    other, _ = create(alice)
    foreign, _ = create(bob)
    with (login := by_token(port, made))[0] as wire:
        again = wire.handshake("SCRAM-SHA-256")
        found["again, with another token of the owner"] = again, log_in(wire, other), wire.is_served()
    with (login := by_token(port, made))[0] as wire:
        again = wire.handshake("SCRAM-SHA-256")
        found["again, with another owner's token"] = again, log_in(wire, foreign)
    for name, wrong in (
        ("another token's password", Made(made.token_id, other.hmac)),
        ("a cut password", Made(made.token_id, made.hmac[:-1])),
        ("the owner's name", Made("alice", made.hmac)),
    ):
        with (login := by_token(port, wrong))[0] as wire:
            found[f"log in with {name}"] = login[1][0]
    expire(alice, other.hmac)
    expire(bob, foreign.hmac)
    with (login := by_token(port, other))[0] as wire:
        found["log in with a token that is gone"] = login[1][0]
    # The session ends with the token.
    found["shortened"] = expire(alice, made.hmac, 4000)
    with (login := by_token(port, made))[0] as wire:
        found["log in for a moment"] = login[1][0], wire.is_served()
        time.sleep(4.5)
        found["after its end"] = wire.is_served()
    expire(alice, made.hmac)
    return found


def _listings(plaintext_port: int, alice: Wire, bob: Wire, dave: Wire, erin: Wire, admin: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {}
    made, _ = create(alice, renewers=["User:bob"], lifetime_ms=5_000_000)
    create(alice, lifetime_ms=6_000_000)
    for version in VERSIONS:
        found[f"all of alice {version}"] = describe(alice, version=version)
    for name, wire in (("alice", alice), ("bob", bob), ("dave", dave), ("erin", erin), ("admin", admin)):
        found[f"{name} sees all"] = describe(wire)
        found[f"{name} sees of none"] = describe(wire, [])
        found[f"{name} sees of alice"] = describe(wire, ["User:alice"])
        found[f"{name} sees of bob"] = describe(wire, ["User:bob"])
        found[f"{name} sees of alice and bob"] = describe(wire, ["User:alice", "User:bob", "User:alice"])
        found[f"{name} sees of an unknown one"] = describe(wire, ["User:nobody", "Group:alice"])
    allow(plaintext_port, "dave", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")
    allow(plaintext_port, "erin", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, made.token_id)
    of_alice = describe(admin, ["User:alice"])
    found["with DescribeTokens on the owner"] = eventually(lambda: describe(dave, ["User:alice"]), of_alice)
    one = [token for token in of_alice[1] if token[3] == 5_000_000]
    found["with Describe on the token"] = eventually(lambda: describe(erin)[1], one)
    found["as a renewer of the same tokens"] = describe(bob, ["User:alice"])
    return found
