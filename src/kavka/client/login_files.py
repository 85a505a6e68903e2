"""The files that let a client in: one login, as Java's clients, librdkafka's and Python's take it.

Decides the texts. Must not write them, nor know how the login came to be.

    java         PEM in place: the one file is all that Kafka's tools and clients need
    librdkafka   as kcat -F and confluent-kafka take it; it reads certificates from files, which are named
    env          variables for programs: `set -a; . alice.env`

I1  A password or key shows in no repr.

Source: Kafka's SslConfigs (KIP-651), SaslConfigs; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from kavka.security.secret import Secret

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who a client is, and whom it believes. Certificates are PEM texts.

    `mechanism` and `password` are None where `certificate` and `key` say who it is. `authorities` None: without TLS, or
    those that the machine trusts.
    """

    bootstrap: str
    user: str
    mechanism: str | None = None
    password: Secret | None = None
    has_tls: bool = True
    authorities: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def protocol(self) -> str:
        if self.mechanism is None:
            return "SSL" if self.has_tls else "PLAINTEXT"
        return "SASL_SSL" if self.has_tls else "SASL_PLAINTEXT"


def java(login: Credentials) -> str:
    """A file for Java's clients and Kafka's tools."""
    return "".join(f"{name}={_property(value)}\n" for name, value in java_settings(login).items())


def java_settings(login: Credentials) -> dict[str, str]:
    """Java's settings, by name; certificates in place."""
    settings = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol}
    if login.mechanism is not None and login.password is not None:
        settings["sasl.mechanism"] = login.mechanism
        settings["sasl.jaas.config"] = (
            f'{_MODULES[login.mechanism]} required username="{_quoted(login.user)}" '
            f'password="{_quoted(login.password.reveal())}";'
        )
    if login.authorities is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": login.authorities}
    if login.certificate is not None and login.key is not None:
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": login.certificate,
            "ssl.keystore.key": login.key,
        }
    return settings


def librdkafka(login: Credentials, *, authorities: str | None, identity: str | None) -> str:
    """A file for librdkafka's clients. `authorities` and `identity` are the paths of files with the certificates."""
    return "".join(f"{name}={value}\n" for name, value in librdkafka_settings(login, authorities, identity).items())


def librdkafka_settings(login: Credentials, authorities: str | None, identity: str | None) -> dict[str, str]:
    """librdkafka's settings, by name."""
    settings = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol}
    if login.mechanism is not None and login.password is not None:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password.reveal(),
        }
    if login.has_tls and authorities is not None:
        settings["ssl.ca.location"] = authorities
    if login.certificate is not None and identity is not None:
        settings |= {"ssl.certificate.location": identity, "ssl.key.location": identity}
    return settings


def env(login: Credentials, *, authorities: str | None, identity: str | None) -> str:
    """Variables for a shell, and for programs that read them."""
    settings = {"KAFKA_BOOTSTRAP_SERVERS": login.bootstrap, "KAFKA_SECURITY_PROTOCOL": login.protocol}
    if login.mechanism is not None and login.password is not None:
        settings |= {
            "KAFKA_SASL_MECHANISM": login.mechanism,
            "KAFKA_SASL_USERNAME": login.user,
            "KAFKA_SASL_PASSWORD": login.password.reveal(),
        }
    if login.has_tls and authorities is not None:
        settings["KAFKA_SSL_CAFILE"] = authorities
    if login.certificate is not None and identity is not None:
        settings |= {"KAFKA_SSL_CERTFILE": identity, "KAFKA_SSL_KEYFILE": identity}
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())


def _quoted(text: str) -> str:
    """As it stands between double quotes in a JAAS text."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _property(text: str) -> str:
    """As a value stands in a file of java.util.Properties."""
    made = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    made = "".join(one if " " <= one <= "~" else _escaped(one) for one in made)
    return f"\\{made}" if made.startswith(" ") else made


def _escaped(one: str) -> str:
    encoded = one.encode("utf-16-be")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))
