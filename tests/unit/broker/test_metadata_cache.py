"""What a broker knows of the cluster: names and ids of topics."""

from __future__ import annotations

import uuid

from kavka.broker.metadata.metadata_cache import MetadataCache, TopicMetadata
from kavka.model import NO_TOPIC_ID

ID = uuid.UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)


def test_a_topic_is_found_by_its_id_until_it_is_gone() -> None:
    metadata = MetadataCache("c")
    metadata.set_topic(TopicMetadata("orders", ID, ()))
    assert metadata.topic_name(ID) == "orders"
    metadata.remove_topic("orders")
    assert metadata.topic_name(ID) is None


def test_no_topic_is_found_by_the_zero_id_that_old_controllers_send() -> None:
    metadata = MetadataCache("c")
    metadata.set_topic(TopicMetadata("orders", NO_TOPIC_ID, ()))
    metadata.set_topic(TopicMetadata("payments", NO_TOPIC_ID, ()))
    assert metadata.topic_name(NO_TOPIC_ID) is None
    metadata.remove_topic("payments")
    assert metadata.topic_name(NO_TOPIC_ID) is None
    assert metadata.topic("orders") is not None
