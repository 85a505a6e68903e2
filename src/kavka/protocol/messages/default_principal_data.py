"""DefaultPrincipalData: stored value, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, boolean, string


class DefaultPrincipalData(Message, kind="data", versions="0", flexible="0+"):
    type: str = string("0+", default="")
    name: str = string("0+", default="")
    token_authenticated: bool = boolean("0+", default=False)
