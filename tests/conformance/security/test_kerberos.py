"""Listeners with GSSAPI and a real KDC: who gets in, as whom, and what a bad ticket, key or message leads to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.authentication.sasl_gate import RECORDED_AFTER_S
from kavka.errors import ConfigError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.kerberos_realm import HOST, KerberosRealm, missing
from tests.kit.sasl_script import LISTENER, Wire

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}: tools/setup_kerberos.sh installs it"),
]
SERVICE = f"kafka/{HOST}"
OWN = f"listener.name.{LISTENER.lower()}"
REFUSED = (
    "SASL_AUTHENTICATION_FAILED",
    "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI",
)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    with KerberosRealm(tmp_path_factory.mktemp("realm")) as running:
        running.add(SERVICE, f"http/{HOST}", "alice", "bob/admin")
        running.keytab(SERVICE)
        with running.around():
            yield running


def login_of(realm: KerberosRealm, principal: str = SERVICE, keytab: Path | None = None) -> str:
    path = keytab or realm.directory / f"{SERVICE.replace('/', '-')}.keytab"
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{path}" principal="{principal}@{realm.realm}";'
    )


def settings_of(realm: KerberosRealm, **own: str) -> dict[str, str]:
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        f"{OWN}.gssapi.sasl.jaas.config": login_of(realm),
        "connection.failed.authentication.delay.ms": "10",
        "kavka.authentication.free.failures": "0",
        **own,
    }


def on_kavka(path: Path, settings: dict[str, str], work: Callable[[int], Any]) -> tuple[Any, list[Any]]:
    """What `work` finds, and the why-records meanwhile."""

    async def scenario() -> Any:
        async with InProcessCluster(path / "kavka", count=1, settings=settings, more_listeners=[LISTENER]) as cluster:
            gates = cluster.broker(1).gates
            assert gates is not None
            recorded: list[Any] = []
            gates._ports.failures._record = recorded.append
            found = await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])
            assert cluster.broker(1) is not None
            await asyncio.sleep(2 * RECORDED_AFTER_S)  # The last failure is recorded after its answer.
            return found, recorded

    return asyncio.run(asyncio.wait_for(scenario(), 120))


def context_of(realm: KerberosRealm, who: str = "alice", service: str = SERVICE, life: str = "1h") -> Any:
    """The client's side of a context, by the library itself."""
    import gssapi

    tickets = realm.tickets(who, realm.keytab(who), life=life)
    credentials = gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{tickets}"})
    name = gssapi.Name(f"{service}@{realm.realm}", gssapi.NameType.kerberos_principal)
    flags = [gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity]
    return gssapi.SecurityContext(
        name=name, creds=credentials, usage="initiate", flags=flags, mech=gssapi.MechType.kerberos
    )


def greeted(port: int) -> Wire:
    wire = Wire(port)
    assert wire.handshake("GSSAPI") == ("NONE", ["GSSAPI"])
    return wire


def answered(wire: Wire, token: bytes) -> bytes:
    """The broker's token for the client's."""
    said = wire.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
    assert said != "closed"
    assert said.error_code == 0, said.error_message
    return bytes(said.auth_bytes)


def logged_in(wire: Wire, context: Any, choice: bytes = b"\1\0\0\0") -> Any:
    """What the broker says in the end."""
    context.step(answered(wire, context.step()))
    assert context.complete
    assert context.unwrap(answered(wire, b"")).message == b"\1\0\0\0"
    return wire.token(context.wrap(choice, False).message)


def attempt(port: int, context: Any, choice: bytes = b"\1\0\0\0") -> list[Any]:
    with greeted(port) as wire:
        return [logged_in(wire, context, choice), wire.is_served()]


def shown(port: int, token: bytes) -> Any:
    """What a client with this first token is told; then the connection is closed."""
    with greeted(port) as wire:
        said = wire.token(token)
        assert said == "closed" or wire.ended() == "closed"
        return said if said == "closed" else said[:2]


def reasons(recorded: list[Any]) -> list[str]:
    return [decision.evidence["reason"] for decision in recorded]


GOOD = [("NONE", "", False, 0), "served"]


@pytest.mark.parametrize("choice", [b"\1\0\0\0", b"\1\0\0\0alice", b"\1\0\0\0somebody@ELSE", b"\1\xff\xff\xff"])
@pytest.mark.setting("sasl.kerberos.service.name")
def test_who_has_a_ticket_gets_in(tmp_path: Path, realm: KerberosRealm, choice: bytes) -> None:
    context = context_of(realm)
    assert on_kavka(tmp_path, settings_of(realm), lambda port: attempt(port, context, choice)) == (GOOD, [])


@pytest.mark.setting("sasl.kerberos.principal.to.local.rules")
def test_the_rules_name_the_user_and_where_none_fits_nobody_gets_in(tmp_path: Path, realm: KerberosRealm) -> None:
    """Only superuser BOB may describe: who somebody is shows in what he may do."""
    rules = "RULE:[2:$1@$0](bob@.*)s/@.*///U"
    own = {
        f"{OWN}.sasl.kerberos.principal.to.local.rules": rules,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:BOB;User:ANONYMOUS",
    }
    bob, alice = context_of(realm, "bob/admin"), context_of(realm)

    def work(port: int) -> Any:
        with greeted(port) as wire:
            assert logged_in(wire, bob)[0] == "NONE"
            acls = wire.ask(
                ApiKey.DESCRIBE_ACLS,
                3,
                DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
            )
        with greeted(port) as wire:
            return acls.error_code, logged_in(wire, alice)[:2]

    found, recorded = on_kavka(tmp_path, settings_of(realm, **own), work)
    assert found == (0, REFUSED)
    assert reasons(recorded) == ["no rule makes a name of the principal"]


def test_what_is_no_ticket_or_not_for_this_broker_is_refused(tmp_path: Path, realm: KerberosRealm) -> None:
    """One after the other, and then a good client gets in."""
    good, again = context_of(realm), context_of(realm)
    token = context_of(realm).step()
    other = context_of(realm, service=f"http/{HOST}").step()
    bad = [b"", b"\0", b"garbage" * 20, token[:100], token[:-1] + bytes((token[-1] ^ 1,)), b"\x60" * 400_000]

    def work(port: int) -> Any:
        told = [shown(port, each) for each in bad]
        told.append(shown(port, other))
        told.append(shown(port, b"x" * 1_000_000))
        with greeted(port) as wire:
            told.append(logged_in(wire, good, b"\4\0\0\0")[:2])
        return told, attempt(port, again)

    (told, last), recorded = on_kavka(tmp_path, settings_of(realm), work)
    assert told == [*[REFUSED] * 7, "closed", REFUSED]
    assert last == GOOD
    assert set(reasons(recorded)) == {
        "ticket that Kerberos does not accept",
        "ticket for another service, or for a key that is not in the keytab",
        "message too large",
        "protection asked for that is not offered",
    }


def test_a_ticket_that_is_shown_twice_ends_the_connection_without_an_answer(
    tmp_path: Path, realm: KerberosRealm
) -> None:
    """As Apache Kafka does: the client tries again with a new one."""
    token = context_of(realm).step()

    def work(port: int) -> Any:
        with greeted(port) as wire:
            assert answered(wire, token)
        return shown(port, token)

    found, recorded = on_kavka(tmp_path, settings_of(realm), work)
    assert (found, reasons(recorded)) == ("closed", ["ticket shown for the second time"])


def test_old_tickets_and_wrong_clocks_are_told_apart_from_forged_ones(tmp_path: Path) -> None:
    """Where clocks may differ by one second: what was made some seconds ago is late. Nobody guessed: nobody waits."""
    guessing = {"kavka.authentication.free.failures": "1"}
    with KerberosRealm(tmp_path / "realm", skew_s=1) as strict, strict.around():
        strict.add(SERVICE, "alice")
        strict.keytab(SERVICE)
        late, expired = context_of(strict).step(), context_of(strict, life="3s").step()
        time.sleep(6)  # The library reads the machine's clock.
        found, recorded = on_kavka(
            tmp_path, settings_of(strict, **guessing), lambda port: [shown(port, late), shown(port, expired)]
        )
    assert found == [REFUSED, REFUSED]
    assert reasons(recorded) == ["clocks differ by more than Kerberos allows", "expired ticket"]
    assert [decision.evidence["slowed_ms"] for decision in recorded] == [0, 0]


def test_a_key_that_changed_counts_when_it_is_in_the_keytab(tmp_path: Path) -> None:
    with KerberosRealm(tmp_path / "realm") as own, own.around():
        own.add(SERVICE, "alice")
        keytab = own.keytab(SERVICE)

        def work(port: int) -> Any:
            own.change_key(SERVICE)
            before = shown(port, context_of(own).step())
            own.keytab(SERVICE)
            after = attempt(port, context_of(own))
            keytab.unlink()
            return before, after, shown(port, context_of(own).step())

        found, recorded = on_kavka(tmp_path, settings_of(own), work)
    assert found == (REFUSED, GOOD, REFUSED)
    assert reasons(recorded) == [
        "ticket for another service, or for a key that is not in the keytab",
        "no keytab to check tickets with",
    ]


def test_a_ticket_of_another_realm_is_refused(tmp_path: Path, realm: KerberosRealm) -> None:
    with KerberosRealm(tmp_path / "other", "OTHER.TEST") as other, other.around():
        other.add(SERVICE, "alice")
        token = context_of(other).step()
    found, recorded = on_kavka(tmp_path, settings_of(realm), lambda port: shown(port, token))
    assert (found, len(recorded)) == (REFUSED, 1)


@pytest.mark.parametrize(
    ("principal", "keytab"), [(f"http/{HOST}", None), ("nobody", None), (SERVICE, Path("/nowhere/keytab"))]
)
def test_a_broker_without_its_key_does_not_start(
    tmp_path: Path, realm: KerberosRealm, principal: str, keytab: Path | None
) -> None:
    own = {f"{OWN}.gssapi.sasl.jaas.config": login_of(realm, principal, keytab)}
    with pytest.raises(ConfigError, match=f"has no usable key of {principal}@"):
        on_kavka(tmp_path, settings_of(realm, **own), lambda port: None)
