"""WriteTxnMarkers (key 27): a transaction's coordinator ends it in partitions that this broker leads.

Behaviour   Each marker is a control batch in its partition; the answer waits until it is committed. The log refuses a
            marker of an older coordinator (TRANSACTION_COORDINATOR_FENCED) and one of an older producer epoch
            (INVALID_PRODUCER_EPOCH). An administrator aborts a hanging transaction with this request too
            (`kavka transactions abort`).
Versions    1 flexible; 2 the transaction version (KIP-1228).
Not supported  Version 0 (KIP-896).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.transactions.markers import Marker
from kavka.model import TopicPartition
from kavka.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kavka.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: TransactionsBroker, request: Request, message: WriteTxnMarkersRequest
) -> Awaitable[WriteTxnMarkersResponse]:
    return _write(broker, message)


async def _write(broker: TransactionsBroker, message: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    markers = [
        Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
            [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes],
        )
        for marker in message.markers
    ]
    answers = await asyncio.gather(*(broker.marker_log.write(marker) for marker in markers))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=errors[TopicPartition(topic.name, index)]
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker, errors in zip(message.markers, answers, strict=True)
        ]
    )
