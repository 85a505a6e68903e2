"""ApiVersions (key 18): which APIs and versions this broker serves.

Behaviour   The ranges are those of `broker.api_table`. Every advertised version is served, except Produce 0-2:
            librdkafka drops compression, or falls back to an old record format, unless Produce is offered from 0. A
            request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions
            alone (KIP-511).
            The APIs of the newer group protocol, and of share groups, are advertised while these are enabled. Those of
            clients' metrics are advertised while an exporter takes them or a subscription asks for some (Apache
            Kafka: while a plug-in takes them).
            Features are those of `broker.metadata.features`, with the levels in force. Clients before version 4 fail
            at a feature that begins at level 0 (KAFKA-17011), so the answer leaves such features out.
Versions    0; 1 throttle time; 2; 3 flexible, client software name and version (KIP-511), features (KIP-584); 4
            supported features that begin at level 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.broker.api_table import advertised_versions
from kavka.broker.metadata.features import SUPPORTED
from kavka.errors import ErrorCode
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request

FIRST_VERSION_WITH_LEVEL_0 = 4
_OF_CONSUMER_GROUPS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
_OF_STREAMS_GROUPS = (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE)
_OF_SHARE_GROUPS = (
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)
_OF_CLIENT_METRICS = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
LONGEST_SOFTWARE_NAME = 255
"""Of a software's name and version so much is kept with the connection: clients choose them before anybody knows
who they are, and ten thousand connections with the 32 KB that the wire allows would keep 650 MB."""
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: ClusterBroker, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.header.api_version >= 3:
        if not (
            _SOFTWARE_NAME.fullmatch(message.client_software_name)
            and _SOFTWARE_NAME.fullmatch(message.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.context.client_software_name = message.client_software_name[:LONGEST_SOFTWARE_NAME]
        request.context.client_software_version = message.client_software_version[:LONGEST_SOFTWARE_NAME]
    unserved = _unserved(broker)
    finalized = broker.features.finalized
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=_ranges(lambda key: key not in unserved),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
            if lowest > 0 or request.header.api_version >= FIRST_VERSION_WITH_LEVEL_0
        ],
        finalized_features_epoch=finalized.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.levels.items()
            if level > 0
        ],
        zk_migration_ready=False,
    )


def _unserved(broker: ClusterBroker) -> tuple[ApiKey, ...]:
    """The APIs that are not advertised now: a client uses an API that is."""
    unserved: tuple[ApiKey, ...] = ()
    if not broker.serves_consumer_groups():
        unserved += _OF_CONSUMER_GROUPS  # librdkafka would wait for ever.
    if not broker.serves_share_groups():
        unserved += _OF_SHARE_GROUPS
    if not broker.serves_streams_groups():
        unserved += _OF_STREAMS_GROUPS
    if not broker.telemetry().is_wanted:
        unserved += _OF_CLIENT_METRICS
    return unserved


def unsupported() -> ApiVersionsResponse:
    """The answer, in version 0, to a version that is not served: which ones are, and nothing of other APIs."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges(lambda key: key == ApiKey.API_VERSIONS)
    )


def _ranges(is_shown: Callable[[int], bool]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, lowest, highest in advertised_versions()
        if is_shown(key)
    ]
