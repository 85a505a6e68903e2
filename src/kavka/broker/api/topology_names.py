"""The names of topics in an application's topology: which they are, and whether topics can have them.

Source: Kafka's KafkaApis.handleStreamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kavka.broker.api.streams.ports import StreamsBroker
    from kavka.protocol.messages.streams_group_describe_response import Subtopology as DescribedSubtopology
    from kavka.protocol.messages.streams_group_heartbeat_request import Subtopology


def topic_names(parts: Iterable[Subtopology | DescribedSubtopology]) -> list[str]:
    """Every topic that the parts of a topology read or write to, once."""
    return list(
        dict.fromkeys(
            name
            for part in parts
            for name in (
                *part.source_topics,
                *part.repartition_sink_topics,
                *(topic.name for topic in part.repartition_source_topics),
                *(topic.name for topic in part.state_changelog_topics),
            )
        )
    )


def flaw(broker: StreamsBroker, names: Iterable[str]) -> str | None:
    """Why an application cannot have these topics; None if it can."""
    listed = list(names)
    prohibited = [name for name in listed if name in INTERNAL_TOPICS]
    if prohibited:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in listed if broker.invalid_topic_name(name) is not None]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None
