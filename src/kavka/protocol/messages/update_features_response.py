"""UpdateFeaturesResponse: response, API key 57, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class UpdatableFeatureResult(Struct):
    feature: str = string("0+", default="")
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")


class UpdateFeaturesResponse(Message, kind="response", versions="0-2", flexible="0+", api_key=57):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", default_factory=list, ignorable=True)
