"""UpdateFeaturesRequest: request, API key 57, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    feature: str = string("0+", default="")
    max_version_level: int = int16("0+", default=0)
    allow_downgrade: bool = boolean("0", default=False)
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Message, kind="request", versions="0-2", flexible="0+", api_key=57):
    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey, "0+", default_factory=list)
    validate_only: bool = boolean("1+", default=False)
