"""Requests that are refused as a whole: the answer, in each API's form, to a caller without the right on the cluster.

The code stands where Kafka puts it: above all, and for each item where the answer has no place above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.errors import ErrorCode
from kavka.protocol.api import ApiKey, api
from kavka.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from kavka.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kavka.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kavka.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kavka.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kavka.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kavka.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from kavka.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from kavka.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kavka.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kavka.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kavka.security.acls import Operation

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
WHY = "Cluster authorization failed."


_SHARE_STATES = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)


def refusal(key: ApiKey, message: Any) -> Any:
    """The answer to a request of this API that is refused as a whole."""
    match key:
        case ApiKey.CREATE_ACLS:
            results = [AclCreationResult(error_code=CODE, error_message=WHY) for _ in message.creations]
            return CreateAclsResponse(results=results)
        case ApiKey.DELETE_ACLS:
            filters = [DeleteAclsFilterResult(error_code=CODE, error_message=WHY) for _ in message.filters]
            return DeleteAclsResponse(filter_results=filters)
        case ApiKey.WRITE_TXN_MARKERS:
            return _markers(message)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            return _log_dirs(message)
        case ApiKey.ELECT_LEADERS:
            return _elections(message)
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return _reassignments(message)
        case ApiKey.ALTER_CLIENT_QUOTAS:
            return _quotas(message)
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            users = [
                DescribeUserScramCredentialsResult(error_code=CODE, error_message=WHY) for _ in message.users or ()
            ]
            return DescribeUserScramCredentialsResponse(error_code=CODE, error_message=WHY, results=users)
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return DescribeClientQuotasResponse(error_code=CODE, error_message=WHY, entries=None)
    if key in _SHARE_STATES:
        return _share_states(key, message)
    answer = api(key).response_type(error_code=CODE)
    if hasattr(answer, "error_message"):
        answer.error_message = WHY
    return answer


def alter_user_scram_credentials(
    broker: ApiBroker, caller: Caller, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | None:
    """A K. Only the controller asks for it, others send the client there. They answer themselves: a handler that is let
    go on unasked might find itself on the controller a moment later."""
    if not broker.controller.is_active:
        return _no_credentials(message, ErrorCode.NOT_CONTROLLER, None)
    return None if caller.may_on_cluster(Operation.ALTER) else _no_credentials(message, CODE, WHY)


def _no_credentials(message: Any, code: ErrorCode, why: str | None) -> AlterUserScramCredentialsResponse:
    """The same code for every user that the request names."""
    users = dict.fromkeys(each.name for each in (*message.deletions, *message.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=code, error_message=why) for user in users]
    )


def _markers(message: Any) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=CODE)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in message.markers
        ]
    )


def _log_dirs(message: Any) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[]))
            result.partitions += [
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=CODE) for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _elections(message: Any) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=CODE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=CODE, error_message=None)
                    for index in topic.partitions
                ],
            )
            for topic in message.topic_partitions or ()
        ],
    )


def _reassignments(message: Any) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=CODE,
        error_message=WHY,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=CODE, error_message=WHY
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


def _quotas(message: Any) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=CODE,
                error_message=WHY,
                entity=[
                    EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
                ],
            )
            for entry in message.entries
        ]
    )


def _share_states(key: ApiKey, message: Any) -> Any:
    """The same code for every partition: these answers have none for the whole."""
    # Late: it brings the coordinator of states with it.
    from kavka.broker.share.state_requests import refused

    return refused(key, message, CODE, WHY)
