"""UpdateMetadataResponse: response, API key 6, versions 0-8, flexible from 6.

Apache Kafka 3.9.2: 0-8.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16


class UpdateMetadataResponse(Message, kind="response", versions="0-8", flexible="6+", api_key=6):
    error_code: int = int16("0+", default=0)
