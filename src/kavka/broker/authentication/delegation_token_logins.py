"""TokenLogins: logging in with a delegation token: its id is the name, its HMAC in base64 the password.

Decides which credential a token id is answered with, and keeps the MOST_KEPT that were asked for last.

    I1  a token id that there is not is answered as one that there is, takes the same time, and fails at the proof: salt
        and credential follow from the id and the brokers' secret alone, and are kept whether there is such a token or
        not
    I2  whether there is such a token, and whether it is still good, is asked at the end of an exchange, when it is
        known whose proof it was

Source: Kafka's ScramServerCallbackHandler, DelegationTokenCache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

from kavka.broker.authentication.delegation_token_store import TokenStore
from kavka.security.scram_credentials import ScramCredential, ScramMechanism
from kavka.security.scram_exchange import Found

MOST_KEPT: Final = 10_000
"""Credentials, of some 400 bytes. Who asks for more unknown ids than these makes logins take longer, and learns nothing
from it."""


class TokenLogins:
    """Of the tokens in `store`."""

    def __init__(self, store: TokenStore, *, wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._wall_ms = wall_ms
        self._kept: OrderedDict[tuple[ScramMechanism, str], ScramCredential] = OrderedDict()
        """The one that was asked for last at the end."""

    def __len__(self) -> int:
        """How many credentials are kept."""
        return len(self._kept)

    def salt(self, mechanism: ScramMechanism, token_id: str) -> bytes:
        return self._store.key.salt(mechanism, token_id)

    def labour(self, mechanism: ScramMechanism, token_id: str) -> Callable[[], ScramCredential] | None:
        if (mechanism, token_id) in self._kept:
            return None
        return partial(self._store.key.credential, mechanism, token_id)

    def find(self, mechanism: ScramMechanism, token_id: str, computed: ScramCredential | None) -> Found:
        credential = self._kept.get((mechanism, token_id)) or computed
        if credential is None:
            credential = self._store.key.credential(mechanism, token_id)
        self._kept[mechanism, token_id] = credential
        self._kept.move_to_end((mechanism, token_id))
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        token = self._store.find(token_id)
        if token is None or not token.can_log_in:
            return Found(credential, is_known=False)
        return Found(credential, owner=token.owner.name, rest_ms=partial(self._rest_ms, token_id))

    def _rest_ms(self, token_id: str) -> int:
        token = self._store.find(token_id)
        return -1 if token is None else token.rest_ms(self._wall_ms())
