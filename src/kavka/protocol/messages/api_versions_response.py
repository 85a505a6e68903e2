"""ApiVersionsResponse: response, API key 18, versions 0-4, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersion(Struct):
    api_key: int = int16("0+", default=0)
    min_version: int = int16("0+", default=0)
    max_version: int = int16("0+", default=0)


class SupportedFeatureKey(Struct):
    name: str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


class FinalizedFeatureKey(Struct):
    name: str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


class ApiVersionsResponse(Message, kind="response", versions="0-4", flexible="3+", api_key=18):
    error_code: int = int16("0+", default=0)
    api_keys: list[ApiVersion] = array(ApiVersion, "0+", default_factory=list)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, default_factory=list, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, default_factory=list, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, default=False, ignorable=True)
