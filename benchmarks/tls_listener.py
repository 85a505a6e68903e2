"""TlsListener: a listener with TLS beside a candidate's plain one, with a certificate that both brands take.

Decides which settings a broker and a client need for it. It must not know what is measured.
"""

from __future__ import annotations

from pathlib import Path

from tests.kit.certificates import Authority
from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port


class TlsListener:
    """A certificate with a P-256 key; clients show none, as where they log in or are not asked."""

    def __init__(self, directory: Path) -> None:
        """`directory` gets the files."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        authority = Authority()
        self.authority = directory / "authority.pem"
        self.authority.write_text(authority.certificate)
        self._identity = authority.sign("broker").write(directory / "broker.pem")

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def of_broker(self, plain_port: int, *, controller_port: int | None = None) -> dict[str, str]:
        """A broker's settings. `controller_port`: that of a controller in the same process, which has its listener."""
        clients = f"PLAINTEXT://{HOST}:{plain_port},SSL://{self.address}"
        controller = "" if controller_port is None else f",CONTROLLER://{HOST}:{controller_port}"
        protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL"
        return {
            "listeners": clients + controller,
            "advertised.listeners": clients,
            "listener.security.protocol.map": protocols + (",CONTROLLER:PLAINTEXT" if controller else ""),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._identity),
        }

    def of_client(self) -> dict[str, str]:
        """librdkafka's settings, in place of the plain address."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority),
        }
