"""GSSAPI in a client's settings: whose tickets count, and what is refused. With a KDC: tests/conformance."""

from __future__ import annotations

import pickle

import pytest

from kavka.client.login import client_login
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.errors import ConfigError
from kavka.security.kerberos_login import KerberosLogin

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = "sasl.kerberos.keytab"
PRINCIPAL = "sasl.kerberos.principal"


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """What settings mean does not depend on whether the machine has Kerberos."""
    monkeypatch.setattr("kavka.security.kerberos_library.find_spec", lambda name: True)


def sasl_of(**own: str) -> SaslSettings:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **own}
    sasl = client_login(settings, read=lambda path: b"").sasl
    assert sasl is not None
    assert sasl.mechanism is SaslMechanism.GSSAPI
    return sasl


def tickets_of(**own: str) -> KerberosLogin:
    tickets = sasl_of(**own).tickets
    assert tickets is not None
    return tickets.login


@pytest.mark.parametrize(
    ("own", "login"),
    [
        ({}, KerberosLogin("kafka", None, None)),
        ({"sasl.mechanism": ""}, KerberosLogin("kafka", None, None)),
        ({"sasl.kerberos.service.name": "k"}, KerberosLogin("k", None, None)),
        ({KEYTAB: "/k", PRINCIPAL: "a@R"}, KerberosLogin("kafka", "a@R", "/k")),
        ({PRINCIPAL: "a@R"}, KerberosLogin("kafka", "a@R", None)),
        (
            {"sasl.kerberos.kinit.cmd": "/usr/bin/kinit", "sasl.kerberos.ticket.renew.jitter": "0.1"},
            KerberosLogin("kafka", None, None),
        ),
        (
            {"sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/k" principal="a@R" serviceName=k;'},
            KerberosLogin("k", "a@R", "/k"),
        ),
        (
            {
                "sasl.jaas.config": f'{MODULE} useTicketCache=true ticketCache="/c";',
                "sasl.kerberos.service.name": "kafka",
            },
            KerberosLogin("kafka", None, None, "/c"),
        ),
    ],
)
def test_tickets_are_named_as_java_and_librdkafka_do(own: dict[str, str], login: KerberosLogin) -> None:
    assert tickets_of(**own) == login


def test_a_login_goes_to_another_process() -> None:
    """To a task of Spark's: what it needs is there by the same names."""
    sasl = sasl_of(**{KEYTAB: "/k", PRINCIPAL: "a@R"})
    copied = pickle.loads(pickle.dumps(sasl))
    assert copied.username == "a@R"
    assert copied.tickets.login == KerberosLogin("kafka", "a@R", "/k")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"sasl.username": "a", "sasl.password": "secret"}, "sasl.username is set, which means nothing to GSSAPI"),
        ({KEYTAB: "/k"}, f"{KEYTAB} needs {PRINCIPAL}"),
        ({"sasl.kerberos.kinit.cmd": "pkinit -X card"}, "kavka runs no command"),
        ({"sasl.jaas.config": f"{MODULE} useTicketCache=true;"}, "sasl.kerberos.service.name is not set"),
        ({"sasl.jaas.config": f"{MODULE} useTicketCache=true serviceName=k;", KEYTAB: "/k"}, "both say whose tickets"),
        ({"sasl.jaas.config": f"{MODULE} useTicketCache=true serviceName=k renewTGT=true;"}, "renewTGT"),
        ({"sasl.jaas.config": 'PlainLoginModule required username="a" password="b";'}, "login module of PLAIN"),
    ],
)
def test_what_would_not_be_honoured_is_refused(own: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        sasl_of(**own)


def test_without_kerberos_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.security.kerberos_library.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"GSSAPI, .* needs the package gssapi: pip install '.*\[kerberos\]'"):
        sasl_of()


def test_a_login_without_tickets_is_none() -> None:
    with pytest.raises(ConfigError, match="whose tickets"):
        SaslSettings(mechanism=SaslMechanism.GSSAPI, username="alice")
