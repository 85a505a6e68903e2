"""IntoTopic: what all actions share that write records into a topic.

Decides how many partitions the topic has, where its partitions end afterwards, and which page shows what was written.
Must not know what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kavka.client.offsets import latest_offsets
from kavka.console.actions.action import Action, ActionRefused, Values, topic_of
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

DELIVERY_TIMEOUT_MS: Final = 30_000


class IntoTopic(Action):
    """`topic` of its values is the topic that is written to."""

    role, section = "operator", "topics"

    def topics(self, values: Values) -> Sequence[str]:
        return topic_of(values)

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        count = await partition_count(watch, values["topic"])
        ends = await latest_offsets(watch.cluster, [TopicPartition(values["topic"], each) for each in range(count)])
        return "\n".join(f"{place} ends at {offset}" for place, offset in ends.items())

    def link(self, base: str, values: Values) -> str:
        return f"{base}/topics/{quote(values.get('topic', ''), safe='')}/messages"


async def partition_count(watch: ClusterWatch, topic: str) -> int:
    """Raises ActionRefused where there is no such topic."""
    try:
        return len((await watch.cluster.topic(topic)).partitions)
    except RequestError as refused:
        if refused.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise ActionRefused(f"there is no topic {topic[:250]}") from refused
        raise
