"""The broker's authorizer, as authorizer.class.name names it: made here, and joined with what it needs.

Nothing of it is imported on brokers without one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.authorization.acl_store import AclStore
from kavka.broker.authorization.authorization import Authorization, AuthorizationPorts, Authorizer
from kavka.broker.authorization.denials import Denials
from kavka.broker.authorization.lockout import require_way_in
from kavka.config.effect import ACL_AUTHORIZERS, OWN_AUTHORIZER
from kavka.config.listeners import SASL_PROTOCOLS
from kavka.errors import ConfigError
from kavka.model import BrokerId
from kavka.security.authorizer import Rules
from kavka.security.principals import ANONYMOUS, USER, Principal, super_users

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig
    from kavka.decisions import RecordDecision
    from kavka.zookeeper.port import ZooKeeper


class AuthorizerPorts(NamedTuple):
    """What the broker gives its authorizer. `is_alone`: there are no other brokers that it could lock out.

    `own_principal` is who this broker is to others, `clients_have_names` whether clients may prove who they are.
    """

    zookeeper: ZooKeeper
    wall_ms: Callable[[], int]
    now_ms: Callable[[], int]
    spawn: Callable[[Coroutine[None, None, None]], None]
    record: RecordDecision
    is_alone: bool
    own_principal: Principal = ANONYMOUS
    clients_have_names: bool = False


def new_authorization(config: BrokerConfig, ports: AuthorizerPorts) -> Authorization:
    """The authorizer that the settings name. Raises ConfigError."""
    name = config.authorizer_class_name
    acls: AclStore | None = None
    authorizer: Authorizer
    if name in ACL_AUTHORIZERS:
        acls = AclStore(
            ports.zookeeper,
            _rules(config),
            wall_ms=ports.wall_ms,
            spawn=ports.spawn,
            check=lambda index, rules: require_way_in(
                index,
                rules,
                is_alone=ports.is_alone,
                brokers=_brokers(config, ports.own_principal),
                clients_are_named=ports.clients_have_names
                or any(each.security_protocol in SASL_PROTOCOLS for each in config.listener_endpoints),
            ),
        )
        authorizer = acls
    elif name.startswith(OWN_AUTHORIZER):
        from kavka.broker.authorization.plugins import load

        authorizer = load(name.removeprefix(OWN_AUTHORIZER), config.static)
    else:
        raise ConfigError(f"authorizer.class.name: {name!r} is no authorizer that this broker has")
    broker_id = BrokerId(config.broker_id)
    own = (config.inter_broker_listener, config.control_plane_listener)
    return Authorization(
        authorizer,
        AuthorizationPorts(
            ports.now_ms,
            Denials(broker_id, ports.record, wall_ms=ports.wall_ms),
            frozenset(listener for listener in own if listener is not None),
        ),
        acls,
    )


def _brokers(config: BrokerConfig, own_principal: Principal) -> Principal | None:
    """Who the brokers are to each other: who they log in as, else what their certificate says. None: their tokens say
    that, of which there is none yet. Raises ConfigError."""
    if config.security_protocols.get(config.inter_broker_listener) not in SASL_PROTOCOLS:
        return own_principal
    from kavka.config.sasl import own_login

    login = own_login(config, config.inter_broker_listener)
    if login.kerberos is not None:
        from kavka.broker.assembly.own_kerberos_tickets import own_name  # late: few brokers have tickets

        return own_name(login.kerberos)
    return None if login.username is None else Principal(USER, login.username)


def _rules(config: BrokerConfig) -> Rules:
    try:
        return Rules(super_users(config.super_users), config.allow_everyone_if_no_acl_found)
    except ValueError as malformed:
        raise ConfigError(f"super.users: {malformed}") from malformed
