"""may_follow: whether who asks as a follower may.

A follower is exempt from quotas, its fetch session is kept before those of consumers, and what it waits for is answered
when it asks for it. In Kafka whoever says so is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.security.acls import Operation

if TYPE_CHECKING:
    from kavka.broker.api.records.ports import RecordsBroker
    from kavka.protocol.connection import Request


def may_follow(broker: RecordsBroker, request: Request) -> bool:
    authorization = broker.authorization
    return authorization is None or authorization.caller(request).may_on_cluster(Operation.CLUSTER_ACTION, quietly=True)
