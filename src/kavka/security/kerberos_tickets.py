"""Tickets: how a client, or a broker that calls another one, logs in with Kerberos.

Joins one login's tickets (`kerberos_library`), the messages (`gssapi`) and what is said where it fails
(`kerberos_refusals`). Must not know connections. Each call may wait as long as the KDC does: make it beside the loop.

    I1  what may succeed later is ConnectionFailed; what needs somebody to do something is RequestError
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.security import kerberos_refusals
from kavka.security.gssapi import MECHANISM, KerberosFailed, client_exchange
from kavka.security.kerberos_library import Initiator
from kavka.security.kerberos_login import KerberosLogin


class Tickets:
    """Those of one login. Safe to use from several threads; a pickle has the login only."""

    def __init__(self, login: KerberosLogin) -> None:
        self.login = login
        self._initiator = Initiator(login)

    def prepare(self) -> None:
        """Sees to it that there is a ticket. Raises ConnectionFailed, RequestError."""
        with _told(lambda failed: kerberos_refusals.no_ticket(failed, self.login)):
            self._initiator.prepare()

    def exchange(self, host: str) -> Generator[bytes, bytes, None]:
        """The client's side of one exchange with the broker at a host. Raises ConnectionFailed, RequestError."""
        with _told(lambda failed: kerberos_refusals.no_proof(failed, self.login, host)):
            yield from client_exchange(self._initiator.context(host))


@contextmanager
def _told(sentence: Callable[[KerberosFailed], str]) -> Generator[None, None, None]:
    try:
        yield
    except KerberosFailed as failed:
        why = f"{MECHANISM}: {sentence(failed)}"
        if kerberos_refusals.is_passing(failed):
            raise ConnectionFailed(why) from failed
        raise RequestError(ErrorCode.SASL_AUTHENTICATION_FAILED, why) from failed
    except ValueError as why:
        raise RequestError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{MECHANISM}: {why}") from why
