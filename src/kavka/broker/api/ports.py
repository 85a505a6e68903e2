"""What a broker must offer so that all APIs can be served: the ports of every room together.

Handlers see their own room's port. The dispatcher and the loader pass on whatever has all of them, and know no more of
the broker than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kavka.broker.api.cluster.ports import ClusterBroker
from kavka.broker.api.configs.ports import ConfigsBroker
from kavka.broker.api.control.ports import ControlBroker
from kavka.broker.api.groups.ports import GroupsBroker
from kavka.broker.api.records.ports import RecordsBroker
from kavka.broker.api.security.ports import SecurityBroker
from kavka.broker.api.share.ports import ShareBroker
from kavka.broker.api.streams.ports import StreamsBroker
from kavka.broker.api.topics.ports import TopicsBroker
from kavka.broker.api.transactions.ports import TransactionsBroker

if TYPE_CHECKING:
    from kavka.broker.late import Late
    from kavka.broker.quotas.client_quotas import ClientQuotas


class ApiBroker(
    RecordsBroker,
    GroupsBroker,
    ShareBroker,
    StreamsBroker,
    TransactionsBroker,
    TopicsBroker,
    ConfigsBroker,
    ClusterBroker,
    ControlBroker,
    SecurityBroker,
    Protocol,
):
    """A broker that can serve every API."""

    @property
    def quotas(self) -> Late[ClientQuotas]:
        """What bounds how much clients use up; made with the first quota that is set."""
