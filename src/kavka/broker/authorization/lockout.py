"""Lockout: brokers that would refuse each other's requests, or every client's, do not start.

Brokers talk to each other as clients of a listener, and need ClusterAction there. On listeners that authenticate nobody
they are User:ANONYMOUS, on those with SASL who they log in as, on those with TLS what their certificate says. Kafka
finds out when replication stops; a broker here says so at its start.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.errors import ConfigError
from kavka.security.acls import Operation
from kavka.security.authorizer import AclIndex, Question, Rules, decide
from kavka.security.principals import ANONYMOUS, ANY_HOST, Principal
from kavka.security.resource_patterns import CLUSTER_NAME, ResourceType


def require_way_in(
    index: AclIndex,
    rules: Rules,
    *,
    is_alone: bool,
    brokers: Principal | None = ANONYMOUS,
    clients_are_named: bool = False,
) -> None:
    """Raises ConfigError if the other brokers, which are `brokers` to each other, are refused wherever they call
    from, or, for a broker that has no others, where every client is refused everything. `brokers` None: not known."""
    if is_alone:
        if index.lists or rules.allow_everyone:
            return
        if clients_are_named and not rules.super_users:
            raise ConfigError(
                "authorizer.class.name: there are no ACLs and no super users: every request would be refused. Name "
                "somebody who can prove who he is in super.users, or set allow.everyone.if.no.acl.found=true."
            )
        if not clients_are_named and ANONYMOUS not in rules.super_users:
            raise ConfigError(
                "authorizer.class.name: there are no ACLs, and User:ANONYMOUS, who every client is on a listener that "
                "authenticates nobody, is no super user: every request would be refused. Set "
                "super.users=User:ANONYMOUS, or allow.everyone.if.no.acl.found=true."
            )
        return
    if brokers is not None and not may_from_some_host(brokers, Operation.CLUSTER_ACTION, index, rules):
        raise ConfigError(
            f"authorizer.class.name: the brokers, which are {brokers} to each other, have no right to "
            f"ClusterAction on Cluster:{CLUSTER_NAME}: no follower could fetch and no controller could command. Set "
            f"super.users={brokers}, or, with a tool that reaches ZooKeeper, first add an ACL for each broker's "
            f"address: kafka-acls --add --allow-principal {brokers} --allow-host ADDRESS --operation ClusterAction "
            "--cluster."
        )


def may_from_some_host(principal: Principal, operation: Operation, index: AclIndex, rules: Rules) -> bool:
    """Whether the operation on the cluster is allowed from at least one host, as far as the lists name hosts."""
    return any(
        decide(Question(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME), index, rules).allowed
        for host in (ANY_HOST, *_named_hosts(index))
    )


def _named_hosts(index: AclIndex) -> Iterable[str]:
    found = {
        entry.host for _pattern, entries in index.matching(ResourceType.CLUSTER, CLUSTER_NAME) for entry in entries
    }
    return sorted(found - {ANY_HOST})
