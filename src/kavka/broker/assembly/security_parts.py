"""Who asks, and what they may do: the authorizer, SASL and delegation tokens, on brokers whose settings ask for them.

Decides nothing. The module is imported, and each part made, only where the settings say so; a broker without any of
the three (`parts.Security`) pays for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.assembly.ends import Stage
from kavka.broker.assembly.parts import Base, Control, Security

if TYPE_CHECKING:
    from kavka.broker.assembly.authentication import Authentication
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.broker.authorization.authorization import Authorization
    from kavka.replication.replica_manager import ReplicaManager


def new_security(base: Base, control: Control, replicas: ReplicaManager, *, asks_by_sasl: bool) -> Security:
    config = base.config
    secret = config.delegation_token_secret
    tokens = _new_tokens(base, control, replicas, secret) if secret else None
    return Security(
        _new_authorization(base, replicas) if config.authorizer_class_name else None,
        _new_authentication(base, tokens) if asks_by_sasl else None,
        tokens,
    )


def _new_authorization(base: Base, replicas: ReplicaManager) -> Authorization:
    from kavka.broker.assembly.authorizers import AuthorizerPorts, new_authorization
    from kavka.security.principals import Principal

    authorization = new_authorization(
        base.config,
        AuthorizerPorts(
            base.ports.zookeeper,
            base.ports.wall_ms,
            replicas.now_ms,
            base.tasks.spawn,
            base.record,
            is_alone=base.ports.is_alone,
            own_principal=Principal.parse(base.ports.own_principal),
            clients_have_names=base.ports.clients_have_names,
        ),
    )
    base.ends.add_instant(Stage.INPUTS, stop=authorization.stop)
    return authorization


def _new_authentication(base: Base, tokens: Tokens | None) -> Authentication:
    from kavka.broker.assembly.authentication import AuthenticationPorts, new_authentication

    ports = base.ports
    authentication = new_authentication(
        base.config,
        AuthenticationPorts(
            ports.zookeeper,
            ports.wall_ms,
            base.tasks.spawn,
            base.record,
            ports.secret_bytes,
            ports.fetch,
            ports.run_blocking,
        ),
        None if tokens is None else tokens.logins,
    )
    base.ends.add_instant(Stage.CONNECTIONS, stop=authentication.close)
    if authentication.store is not None:
        base.ends.add(Stage.CONNECTIONS, stop=authentication.store.stop, abort=authentication.store.abort)
    return authentication


def _new_tokens(base: Base, control: Control, replicas: ReplicaManager, secret: str) -> Tokens:
    from kavka.broker.assembly.delegation_tokens import TokenPorts, new_tokens

    ports, controller = base.ports, control.controller
    tokens = new_tokens(
        base.config,
        secret,
        TokenPorts(
            ports.zookeeper,
            replicas.now_ms,
            ports.wall_ms,
            base.tasks.spawn,
            base.record,
            ports.secret_bytes,
            is_controller=lambda: controller.controller_id == base.broker_id,
        ),
    )
    control.controller_changes.add(lambda _controller_id: tokens.expiry.on_controller_changed())
    base.ends.add_instant(Stage.INPUTS, stop=tokens.store.stop)
    return tokens
