"""TokenLogins: logging in with a delegation token: its id is the name, its HMAC in base64 the password.

Decides which credential a token id is answered with. What was computed for a token is kept with it
(`delegation_token_store`).

    I1  a token id that there is not is answered as one that there is, and fails at the proof: salts follow from the id
        and the brokers' secret alone, whether there is such a token or not
    I2  whether a token is still good is asked at the end of an exchange, when it is known whose proof it was

Source: Kafka's ScramServerCallbackHandler, DelegationTokenCache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kavka.broker.authentication.delegation_token_store import TokenStore
from kavka.security.scram_credentials import ScramCredential, ScramMechanism
from kavka.security.scram_exchange import Found


class TokenLogins:
    """Of the tokens in `store`."""

    def __init__(self, store: TokenStore, *, wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._wall_ms = wall_ms

    def labour(self, mechanism: ScramMechanism, token_id: str) -> Callable[[], ScramCredential] | None:
        if not self._is_there(token_id) or self._store.credential(mechanism, token_id) is not None:
            return None
        return partial(self._store.key.credential, mechanism, token_id)

    def find(self, mechanism: ScramMechanism, token_id: str, computed: ScramCredential | None) -> Found:
        token = self._store.find(token_id)
        if token is None or not token.can_log_in:
            return Found(self._store.key.stand_in(mechanism, token_id), is_known=False)
        credential = self._store.credential(mechanism, token_id)
        if credential is None:
            credential = computed or self._store.key.credential(mechanism, token_id)
            self._store.remember(mechanism, token_id, credential)
        return Found(credential, owner=token.owner.name, rest_ms=partial(self._rest_ms, token_id))

    def _is_there(self, token_id: str) -> bool:
        token = self._store.find(token_id)
        return token is not None and token.can_log_in

    def _rest_ms(self, token_id: str) -> int:
        token = self._store.find(token_id)
        return -1 if token is None else token.rest_ms(self._wall_ms())
