"""The exchange of SASL messages, on the client's side: which one a login has, and what its failure is called.

The messages themselves, and what is checked of the broker's, are `kavka.security.plain`, `scram_exchange`,
`oauthbearer` and `gssapi`. The connection carries them (SaslHandshake 1 and SaslAuthenticate).
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Generator
from typing import TypeAlias

from kavka.client.security import SaslMechanism, SaslSettings
from kavka.errors import ErrorCode, RequestError
from kavka.security.oauthbearer import client_exchange as token_exchange
from kavka.security.plain import client_token
from kavka.security.scram_credentials import MECHANISMS
from kavka.security.scram_exchange import client_exchange

NONCE_BYTES = 24

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields each message to send, receives each answer, and ends when the broker is verified. Raises `RequestError`."""


def exchange(settings: SaslSettings, nonce: str, token: str = "", host: str = "") -> Exchange:
    """The messages of one authentication. `nonce`: a fresh `new_nonce`. `token`: with OAUTHBEARER, one that is good.
    `host`: where the broker is, with GSSAPI, whose steps may wait for the KDC and raise ConnectionFailed, too."""
    if settings.tickets is not None:
        yield from settings.tickets.exchange(host)
        return
    if settings.tokens is not None:
        try:
            yield from token_exchange(token, settings.tokens.extensions)
        except ValueError as why:
            raise RequestError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(why)) from why
        return
    if settings.mechanism is SaslMechanism.PLAIN:
        yield client_token(settings.username, settings.password)
        return
    mechanism = MECHANISMS[settings.mechanism.value]
    try:
        yield from client_exchange(
            mechanism, settings.username, settings.password, nonce, is_by_token=settings.is_by_token
        )
    except ValueError as why:
        raise RequestError(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"{settings.mechanism.value} as {settings.username!r}: {why}"
        ) from why


def new_nonce() -> str:
    """Random, printable, and without a comma."""
    return b64encode(os.urandom(NONCE_BYTES)).decode()
