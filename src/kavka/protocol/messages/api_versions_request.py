"""ApiVersionsRequest: request, API key 18, versions 0-4, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ApiVersionsRequest(Message, kind="request", versions="0-4", flexible="3+", api_key=18):
    client_software_name: str = string("3+", default="", ignorable=True)
    client_software_version: str = string("3+", default="", ignorable=True)
