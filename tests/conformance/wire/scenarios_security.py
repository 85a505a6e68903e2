"""Scenarios of security and quotas, asked of a broker that has none: a PLAINTEXT listener, no authorizer, no quotas."""

from __future__ import annotations

from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    alter_client_quotas_request,
    alter_user_scram_credentials_request,
    create_delegation_token_request,
    describe_client_quotas_request,
    describe_delegation_token_request,
    describe_user_scram_credentials_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession

EXACT, DEFAULT, ANY = 0, 1, 2
SHA_256, SHA_512 = 1, 2


@scenario(ApiKey.SASL_HANDSHAKE)
def sasl_handshake(session: WireSession, version: int) -> None:
    session.record("PLAIN", m.SaslHandshakeRequest(mechanism="PLAIN"), version)
    session.record("unknown mechanism", m.SaslHandshakeRequest(mechanism="none"), version)
    session.record("the connection goes on", m.SaslHandshakeRequest(mechanism="PLAIN"), version)


@scenario(ApiKey.SASL_AUTHENTICATE)
def sasl_authenticate(session: WireSession, version: int) -> None:
    session.record("a user and a password", m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), version)
    session.record("the connection goes on", m.SaslAuthenticateRequest(auth_bytes=b""), version)


@scenario(ApiKey.CREATE_DELEGATION_TOKEN, min_version=1)
def create_delegation_token(session: WireSession, version: int) -> None:
    session.record("plain", m.CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    renewer = create_delegation_token_request.CreatableRenewers(principal_type="User", principal_name="bob")
    session.record("with a renewer", m.CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=1), version)
    if version >= 3:
        owned = m.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="carol")
        session.record("for somebody else", owned, version)


@scenario(ApiKey.RENEW_DELEGATION_TOKEN, min_version=1)
def renew_delegation_token(session: WireSession, version: int) -> None:
    session.record("unknown", m.RenewDelegationTokenRequest(hmac=b"1234", renew_period_ms=1000), version)


@scenario(ApiKey.EXPIRE_DELEGATION_TOKEN, min_version=1)
def expire_delegation_token(session: WireSession, version: int) -> None:
    session.record("unknown", m.ExpireDelegationTokenRequest(hmac=b"1234", expiry_time_period_ms=-1), version)


@scenario(ApiKey.DESCRIBE_DELEGATION_TOKEN, min_version=1)
def describe_delegation_token(session: WireSession, version: int) -> None:
    session.record("all", m.DescribeDelegationTokenRequest(owners=None), version)
    owner = describe_delegation_token_request.DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")
    session.record("of one", m.DescribeDelegationTokenRequest(owners=[owner]), version)


@scenario(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(session: WireSession, version: int) -> None:
    def ask(step: str, *wanted: tuple[str, int, str | None], strict: bool = False) -> None:
        components = [
            describe_client_quotas_request.ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in wanted
        ]
        session.record(step, m.DescribeClientQuotasRequest(components=components, strict=strict), version)

    name = session.name("nobody")
    ask("all")
    ask("a user", ("user", EXACT, name))
    ask("a user and a client id", ("user", EXACT, name), ("client-id", EXACT, name), strict=True)
    ask("any address", ("ip", ANY, None))
    ask("default user", ("user", DEFAULT, None))
    ask("a user twice", ("user", EXACT, name), ("user", ANY, None))
    ask("a client id twice", ("client-id", EXACT, name), ("client-id", ANY, None))
    ask("an address twice", ("ip", ANY, None), ("ip", EXACT, "127.0.0.1"))
    ask("a user and an address", ("user", EXACT, name), ("ip", ANY, None))
    ask("an entity without a name", ("", ANY, None))
    ask("an entity that nobody knows", ("planet", ANY, None))
    ask("a match that there is not", ("user", 3, None))
    ask("a match that there is not, of an entity that nobody knows", ("planet", 3, None))
    ask("exactly nobody", ("user", EXACT, None))
    ask("exactly nobody, of an entity that nobody knows", ("planet", EXACT, None))


@scenario(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(session: WireSession, version: int) -> None:
    acq = alter_client_quotas_request

    def ask(step: str, entity: dict[str, str | None], key: str, value: float, *, remove: bool = False) -> None:
        parts = [acq.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        entry = acq.EntryData(entity=parts, ops=[acq.OpData(key=key, value=value, remove=remove)])
        session.record(step, m.AlterClientQuotasRequest(entries=[entry]), version)

    name = session.name("nobody")
    session.record("nothing", m.AlterClientQuotasRequest(entries=[]), version)
    ask("what is not set is removed", {"user": name}, "producer_byte_rate", 0.0, remove=True)
    ask("unknown quota", {"user": name}, "no_such_rate", 1.0)
    ask("unknown entity", {"planet": name}, "producer_byte_rate", 1.0)
    ask("an address and a user", {"ip": "127.0.0.1", "user": name}, "connection_creation_rate", 1.0)
    ask("no entity", {}, "producer_byte_rate", 1.0)


@scenario(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(session: WireSession, version: int) -> None:
    def ask(step: str, *users: str) -> None:
        named = [describe_user_scram_credentials_request.UserName(name=user) for user in users]
        session.record(step, m.DescribeUserScramCredentialsRequest(users=named), version, keep=no_others)

    def no_others(result: Any) -> bool:
        """Without names, users that other scenarios made are told of as well."""
        return not result.user or result.user.endswith(session.name(""))

    session.record("all", m.DescribeUserScramCredentialsRequest(users=None), version, keep=no_others)
    ask("no names")
    ask("unknown", session.name("alice"))
    ask("unknown ones", session.name("alice"), session.name("bob"))
    ask("twice", session.name("alice"), session.name("alice"))
    ask("empty name", "")


@scenario(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(session: WireSession, version: int) -> None:
    sc = alter_user_scram_credentials_request

    def delete(step: str, *wanted: tuple[str, int]) -> None:
        deletions = [sc.ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in wanted]
        session.record(step, m.AlterUserScramCredentialsRequest(deletions=deletions), version)

    def upsert(step: str, name: str, mechanism: int, iterations: int, password: bytes = b"password") -> None:
        wanted = sc.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=password
        )
        session.record(step, m.AlterUserScramCredentialsRequest(upsertions=[wanted]), version)

    name = session.name("alice")
    session.record("nothing", m.AlterUserScramCredentialsRequest(), version)
    delete("unknown user", (name, SHA_256))
    delete("unknown mechanism", (name, 9))
    delete("empty name", ("", SHA_256))
    delete("twice", (name, SHA_256), (name, SHA_256))
    delete("two users", (name, SHA_256), (session.name("bob"), SHA_512))
    upsert("upsert with an unknown mechanism", name, 9, 4096)
    upsert("upsert of an empty name", "", SHA_256, 4096)
    upsert("upsert of an empty password", name, SHA_256, 4096, b"")
    upsert("upsert of an empty password, with too few iterations", name, SHA_256, 1, b"")
