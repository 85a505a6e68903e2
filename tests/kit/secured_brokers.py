"""SecuredBrokers: TLS, logins and an authorizer for a ProcessCluster of one brand or of both, in Kafka's settings.

Decides what its brokers' listeners and its clients have: SASL_SSL with SCRAM-SHA-512, sessions that end every
SESSION_MS, and access control under which only brokers and the client may do anything. Must not know processes.

A listener with PLAINTEXT stays beside it, on which the kit asks whether a broker serves; there nobody may do more.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kavka.security.scram_credentials import ScramMechanism, credential_of, salted
from tests.kit.certificates import Authority

LISTENER: Final = "SASL_SSL"
MECHANISM: Final = ScramMechanism.SHA_512
ITERATIONS: Final = 4096
SESSION_MS: Final = 20_000
BROKER, CLIENT = "broker", "client"


class SecuredBrokers:
    """Certificates of an authority of its own, in `directory`, and passwords that nobody knows beforehand."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = Authority()
        self._ca = directory / "authority.pem"
        self._ca.write_text(self._authority.certificate)
        self._passwords = {user: secrets.token_hex(16) for user in (BROKER, CLIENT)}

    def settings(self, broker_id: int, host: str, plain_port: int, port: int) -> dict[str, str]:
        """Of a broker's file, beyond those that all brokers have."""
        signed = self._authority.sign(f"broker-{broker_id}", names=(host, "localhost"))
        listeners = f"PLAINTEXT://{host}:{plain_port},{LISTENER}://{host}:{port}"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "security.inter.broker.protocol": LISTENER,
            "sasl.enabled.mechanisms": MECHANISM.value,
            "sasl.mechanism.inter.broker.protocol": MECHANISM.value,
            f"listener.name.{LISTENER.lower()}.{MECHANISM.value.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required "
                f'username="{BROKER}" password="{self._passwords[BROKER]}";'
            ),
            "connections.max.reauth.ms": str(SESSION_MS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(signed.write(self._directory / f"broker-{broker_id}.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:{CLIENT}",
        }

    @property
    def client(self) -> dict[str, str]:
        """What a client of librdkafka's sets."""
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": MECHANISM.value,
            "sasl.username": CLIENT,
            "sasl.password": self._passwords[CLIENT],
            "ssl.ca.location": str(self._ca),
        }

    def znodes(self) -> Mapping[str, bytes]:
        """What must stand in ZooKeeper before the brokers start: the users, by path."""
        return {f"/config/users/{user}": _user(password) for user, password in self._passwords.items()}


def _user(password: str) -> bytes:
    salt = os.urandom(16)
    credential = credential_of(MECHANISM, salt, salted(MECHANISM, password, salt, ITERATIONS), ITERATIONS)
    return json.dumps({"version": 1, "config": {MECHANISM.value: credential.encode()}}).encode()
