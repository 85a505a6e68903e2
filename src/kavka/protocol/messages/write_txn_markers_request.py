"""WriteTxnMarkersRequest: request, API key 27, versions 0-2, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: str = string("0+", default="")
    partition_indexes: list[int] = array("int32", "0+", default_factory=list)


class WritableTxnMarker(Struct):
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int16("0+", default=0)
    transaction_result: bool = boolean("0+", default=False)
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+", default_factory=list)
    coordinator_epoch: int = int32("0+", default=0)
    transaction_version: int = int8("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, kind="request", versions="0-2", flexible="1+", api_key=27):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+", default_factory=list)
