"""The broker's delegation tokens. Nothing of them is imported on brokers without delegation.token.secret.key."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.authentication.delegation_token_expiry import TokenExpiry
from kavka.broker.authentication.delegation_token_logins import TokenLogins
from kavka.broker.authentication.delegation_token_records import TokenRecords
from kavka.broker.authentication.delegation_token_store import TokenStore
from kavka.broker.authentication.delegation_tokens import Tokens
from kavka.model import BrokerId
from kavka.security.delegation_tokens import Lifetimes, TokenKey
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig
    from kavka.decisions import RecordDecision
    from kavka.zookeeper.port import ZooKeeper


class TokenPorts(NamedTuple):
    """What the broker gives its tokens. `now_ms` never goes back; `secret_bytes` draws unpredictable bytes."""

    zookeeper: ZooKeeper
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    spawn: Callable[[Coroutine[None, None, None]], None]
    record: RecordDecision
    secret_bytes: Callable[[int], bytes]
    is_controller: Callable[[], bool]


def new_tokens(config: BrokerConfig, secret: str, ports: TokenPorts) -> Tokens:
    """The tokens of a broker that has this secret."""
    store = TokenStore(
        ports.zookeeper,
        TokenKey(Secret(secret)),
        Lifetimes(config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms),
        wall_ms=ports.wall_ms,
        spawn=ports.spawn,
        randbytes=ports.secret_bytes,
    )
    records = TokenRecords(BrokerId(config.broker_id), ports.record, now_ms=ports.now_ms, wall_ms=ports.wall_ms)
    expiry = TokenExpiry(
        store,
        records,
        is_controller=ports.is_controller,
        interval_ms=config.delegation_token_expiry_check_interval_ms,
    )
    return Tokens(store, TokenLogins(store, wall_ms=ports.wall_ms), records, expiry)
