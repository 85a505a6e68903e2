"""What each family of clients takes to log in: its own names, and its own kinds of values.

Decides the names and values. Must not know how the login came to be.

    librdkafka    confluent-kafka, kcat, ...: certificates in files
    java          a file's properties, or a Map: certificates in place
    kafka-python  keyword arguments: certificates in files
    aiokafka      keyword arguments: an ssl.SSLContext
    kafkajs       the argument of `new Kafka(...)`, fit for JSON: certificates as texts
    franz-go      the options of kgo by their names, fit for JSON: certificates as texts

Source: the clients' own documentation; tests/conformance/security/test_secured_clients.py logs in with each.
"""

from __future__ import annotations

import ssl
from typing import Any, Final, NamedTuple

from kavka.client.login_files import Credentials, java_settings, librdkafka_settings


class LoginFiles(NamedTuple):
    """Where the certificates are. `identity` has the user's key and certificate; None without one."""

    authorities: str
    identity: str | None


def settings_for(client: str, login: Credentials, files: LoginFiles) -> dict[str, Any]:
    """Raises ValueError for a client that is not one of CLIENTS."""
    if client not in _MADE:
        raise ValueError(f"there are no settings for {client!r}: there are {', '.join(_MADE)}")
    return _MADE[client](login, files)


def _librdkafka(login: Credentials, files: LoginFiles) -> dict[str, Any]:
    return dict(librdkafka_settings(login, files.authorities, files.identity))


def _java(login: Credentials, _files: LoginFiles) -> dict[str, Any]:
    return dict(java_settings(login))


def _kafka_python(login: Credentials, files: LoginFiles) -> dict[str, Any]:
    own = {} if files.identity is None else {"ssl_certfile": files.identity, "ssl_keyfile": files.identity}
    return {**_python(login), "ssl_cafile": files.authorities, **own}


def _aiokafka(login: Credentials, files: LoginFiles) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=files.authorities)
    if files.identity is not None:
        context.load_cert_chain(files.identity)
    return {**_python(login), "ssl_context": context}


def _python(login: Credentials) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if login.mechanism is not None and login.password is not None:
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password.reveal(),
        }
    return settings


def _kafkajs(login: Credentials, _files: LoginFiles) -> dict[str, Any]:
    own = {} if login.key is None else {"key": login.key, "cert": login.certificate}
    settings: dict[str, Any] = {"brokers": login.bootstrap.split(","), "ssl": {"ca": [login.authorities], **own}}
    if login.mechanism is not None and login.password is not None:
        settings["sasl"] = {
            "mechanism": login.mechanism.lower(),
            "username": login.user,
            "password": login.password.reveal(),
        }
    return settings


def _franz_go(login: Credentials, _files: LoginFiles) -> dict[str, Any]:
    own = {} if login.key is None else {"Certificate": login.certificate, "Key": login.key}
    settings: dict[str, Any] = {
        "SeedBrokers": login.bootstrap.split(","),
        "DialTLSConfig": {"RootCAs": login.authorities, **own},
    }
    if login.mechanism is not None and login.password is not None:
        settings["SASL"] = {"Mechanism": login.mechanism, "User": login.user, "Pass": login.password.reveal()}
    return settings


_MADE: Final = {
    "librdkafka": _librdkafka,
    "java": _java,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "kafkajs": _kafkajs,
    "franz-go": _franz_go,
}
CLIENTS: Final = tuple(_MADE)
