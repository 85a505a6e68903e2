"""Where DescribeTopicPartitions goes on: whether a cursor is at a place that an answer to this request can name.

Source: Kafka's DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest


def is_astray(message: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is at a negative partition, or at a topic that is not among those named."""
    cursor = message.cursor
    if cursor is None:
        return False
    named = {topic.name for topic in message.topics}
    return cursor.partition_index < 0 or bool(named and cursor.topic_name not in named)
