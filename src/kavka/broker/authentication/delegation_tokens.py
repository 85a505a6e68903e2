"""Tokens: what a broker with delegation tokens has: the tokens, what their changes leave behind, and their expiry."""

from __future__ import annotations

from typing import NamedTuple

from kavka.broker.authentication.delegation_token_expiry import TokenExpiry
from kavka.broker.authentication.delegation_token_logins import TokenLogins
from kavka.broker.authentication.delegation_token_records import TokenRecords
from kavka.broker.authentication.delegation_token_store import TokenStore


class Tokens(NamedTuple):
    """The parts of one broker, which has delegation.token.secret.key."""

    store: TokenStore
    logins: TokenLogins
    records: TokenRecords
    expiry: TokenExpiry
