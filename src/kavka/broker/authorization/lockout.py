"""Lockout: brokers that would refuse each other's requests, or every client's, do not start.

Brokers talk to each other as clients of a listener, and need ClusterAction there. On listeners that authenticate nobody
they are User:ANONYMOUS. Kafka finds out when replication stops; a broker here says so at its start.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.errors import ConfigError
from kavka.security.acls import CLUSTER_NAME, Operation, ResourceType
from kavka.security.authorizer import AclIndex, Question, Rules, decide
from kavka.security.principals import ANONYMOUS, ANY_HOST, Principal


def require_way_in(index: AclIndex, rules: Rules, *, is_alone: bool) -> None:
    """Raises ConfigError where the other brokers are refused wherever they call from, or, for a broker that has no
    others, where every client is refused everything."""
    if is_alone:
        if not index.lists and not rules.allow_everyone and ANONYMOUS not in rules.super_users:
            raise ConfigError(
                "authorizer.class.name: there are no ACLs, and User:ANONYMOUS, who every client is on a listener that "
                "authenticates nobody, is no super user: every request would be refused. Set "
                "super.users=User:ANONYMOUS, or allow.everyone.if.no.acl.found=true."
            )
        return
    if not may_from_some_host(ANONYMOUS, Operation.CLUSTER_ACTION, index, rules):
        raise ConfigError(
            "authorizer.class.name: the brokers, which are User:ANONYMOUS to each other, have no right to "
            f"ClusterAction on Cluster:{CLUSTER_NAME}: no follower could fetch and no controller could command. Set "
            "super.users=User:ANONYMOUS, or, with a tool that reaches ZooKeeper, first add an ACL for each broker's "
            "address: kafka-acls --add --allow-principal User:ANONYMOUS --allow-host ADDRESS --operation ClusterAction "
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
