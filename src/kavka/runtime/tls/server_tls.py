"""ServerTls: the certificate of a web server of ours, taken from files, and taken anew when they change.

Decides when files have changed and whether what they hold may take the old one's place. Must not know HTTP.

I1  A handshake sees one certificate with its key, the old one or the new one: a new context takes the old one's place
    when it is complete.
I2  Files that cannot be used change nothing; the log says why, and they are tried again when they change once more.
I3  TLS 1.2 is the least that is spoken.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from typing import Any, Final

from kavka.errors import ConfigError
from kavka.logger import Logger

LOOK_S: Final = 5.0
"""How often it is looked whether the files have changed."""
logger = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTlsSettings:
    """Files in PEM. `certificate` holds the chain; without `key` the private key, too."""

    certificate: str
    key: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        return (self.certificate, self.key) if self.key else (self.certificate,)


class ServerTls:
    """`context` for the port. Raises ConfigError where the files cannot be used at the start."""

    def __init__(self, settings: ServerTlsSettings) -> None:
        self._settings = settings
        self._seen = self._state()
        self._current = self._load()
        self.context = self._load()
        # Called for each handshake, also where the client names no server.
        self.context.sni_callback = self._choose

    def reload_if_changed(self) -> bool:
        """Whether handshakes have another certificate from now on."""
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state
        try:
            self._current = self._load()
        except ConfigError as problem:
            logger.error(
                "certificate not taken", why=str(problem), next="the old one serves on: mend the files and save them"
            )
            return False
        logger.info("certificate taken", file=self._settings.certificate)
        return True

    async def watch(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.reload_if_changed()

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _state(self) -> tuple[Any, ...]:
        found: list[tuple[int | None, ...]] = []
        for path in self._settings.files:
            try:
                stat = os.stat(path)
            except OSError as problem:
                found.append((problem.errno,))
            else:
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return tuple(found)

    def _load(self) -> ssl.SSLContext:
        certificate, key = self._settings.certificate, self._settings.key or None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # An empty password: an encrypted key must not make OpenSSL ask the terminal.
            context.load_cert_chain(certificate, key, "")
        except (OSError, ValueError) as problem:
            files = " and ".join(self._settings.files)
            if isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError):
                raise ConfigError(f"cannot read the certificate {files}: {problem.strerror}") from problem
            raise ConfigError(
                f"the certificate {files} cannot be used: expected a chain and its key as PEM, the key without a "
                f"passphrase ({problem})"
            ) from problem
        return context
