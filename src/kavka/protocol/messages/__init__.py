"""All messages by name; a message's module is imported when it is first asked for: start-up stays fast.

    from kavka.protocol.messages import ProduceRequest
    from kavka.protocol.messages.produce_request import PartitionProduceData

No import names most of these modules: `protocol.api` looks up the two messages of an API by name, with the first
request of it. All of Kafka's messages are here, so that every client and every broker can be understood.

Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kavka.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest as AddOffsetsToTxnRequest
    from kavka.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse as AddOffsetsToTxnResponse
    from kavka.protocol.messages.add_partitions_to_txn_request import (
        AddPartitionsToTxnRequest as AddPartitionsToTxnRequest,
    )
    from kavka.protocol.messages.add_partitions_to_txn_response import (
        AddPartitionsToTxnResponse as AddPartitionsToTxnResponse,
    )
    from kavka.protocol.messages.add_raft_voter_request import AddRaftVoterRequest as AddRaftVoterRequest
    from kavka.protocol.messages.add_raft_voter_response import AddRaftVoterResponse as AddRaftVoterResponse
    from kavka.protocol.messages.allocate_producer_ids_request import (
        AllocateProducerIdsRequest as AllocateProducerIdsRequest,
    )
    from kavka.protocol.messages.allocate_producer_ids_response import (
        AllocateProducerIdsResponse as AllocateProducerIdsResponse,
    )
    from kavka.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest as AlterClientQuotasRequest
    from kavka.protocol.messages.alter_client_quotas_response import (
        AlterClientQuotasResponse as AlterClientQuotasResponse,
    )
    from kavka.protocol.messages.alter_configs_request import AlterConfigsRequest as AlterConfigsRequest
    from kavka.protocol.messages.alter_configs_response import AlterConfigsResponse as AlterConfigsResponse
    from kavka.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest,
    )
    from kavka.protocol.messages.alter_partition_reassignments_response import (
        AlterPartitionReassignmentsResponse as AlterPartitionReassignmentsResponse,
    )
    from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest as AlterPartitionRequest
    from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse as AlterPartitionResponse
    from kavka.protocol.messages.alter_replica_log_dirs_request import (
        AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest,
    )
    from kavka.protocol.messages.alter_replica_log_dirs_response import (
        AlterReplicaLogDirsResponse as AlterReplicaLogDirsResponse,
    )
    from kavka.protocol.messages.alter_share_group_offsets_request import (
        AlterShareGroupOffsetsRequest as AlterShareGroupOffsetsRequest,
    )
    from kavka.protocol.messages.alter_share_group_offsets_response import (
        AlterShareGroupOffsetsResponse as AlterShareGroupOffsetsResponse,
    )
    from kavka.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest,
    )
    from kavka.protocol.messages.alter_user_scram_credentials_response import (
        AlterUserScramCredentialsResponse as AlterUserScramCredentialsResponse,
    )
    from kavka.protocol.messages.api_versions_request import ApiVersionsRequest as ApiVersionsRequest
    from kavka.protocol.messages.api_versions_response import ApiVersionsResponse as ApiVersionsResponse
    from kavka.protocol.messages.assign_replicas_to_dirs_request import (
        AssignReplicasToDirsRequest as AssignReplicasToDirsRequest,
    )
    from kavka.protocol.messages.assign_replicas_to_dirs_response import (
        AssignReplicasToDirsResponse as AssignReplicasToDirsResponse,
    )
    from kavka.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest as BeginQuorumEpochRequest
    from kavka.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse as BeginQuorumEpochResponse
    from kavka.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest as BrokerHeartbeatRequest
    from kavka.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse as BrokerHeartbeatResponse
    from kavka.protocol.messages.broker_registration_request import (
        BrokerRegistrationRequest as BrokerRegistrationRequest,
    )
    from kavka.protocol.messages.broker_registration_response import (
        BrokerRegistrationResponse as BrokerRegistrationResponse,
    )
    from kavka.protocol.messages.consumer_group_current_member_assignment_key import (
        ConsumerGroupCurrentMemberAssignmentKey as ConsumerGroupCurrentMemberAssignmentKey,
    )
    from kavka.protocol.messages.consumer_group_current_member_assignment_value import (
        ConsumerGroupCurrentMemberAssignmentValue as ConsumerGroupCurrentMemberAssignmentValue,
    )
    from kavka.protocol.messages.consumer_group_describe_request import (
        ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest,
    )
    from kavka.protocol.messages.consumer_group_describe_response import (
        ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse,
    )
    from kavka.protocol.messages.consumer_group_heartbeat_request import (
        ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
    )
    from kavka.protocol.messages.consumer_group_heartbeat_response import (
        ConsumerGroupHeartbeatResponse as ConsumerGroupHeartbeatResponse,
    )
    from kavka.protocol.messages.consumer_group_member_metadata_key import (
        ConsumerGroupMemberMetadataKey as ConsumerGroupMemberMetadataKey,
    )
    from kavka.protocol.messages.consumer_group_member_metadata_value import (
        ConsumerGroupMemberMetadataValue as ConsumerGroupMemberMetadataValue,
    )
    from kavka.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey as ConsumerGroupMetadataKey
    from kavka.protocol.messages.consumer_group_metadata_value import (
        ConsumerGroupMetadataValue as ConsumerGroupMetadataValue,
    )
    from kavka.protocol.messages.consumer_group_partition_metadata_key import (
        ConsumerGroupPartitionMetadataKey as ConsumerGroupPartitionMetadataKey,
    )
    from kavka.protocol.messages.consumer_group_partition_metadata_value import (
        ConsumerGroupPartitionMetadataValue as ConsumerGroupPartitionMetadataValue,
    )
    from kavka.protocol.messages.consumer_group_regular_expression_key import (
        ConsumerGroupRegularExpressionKey as ConsumerGroupRegularExpressionKey,
    )
    from kavka.protocol.messages.consumer_group_regular_expression_value import (
        ConsumerGroupRegularExpressionValue as ConsumerGroupRegularExpressionValue,
    )
    from kavka.protocol.messages.consumer_group_target_assignment_member_key import (
        ConsumerGroupTargetAssignmentMemberKey as ConsumerGroupTargetAssignmentMemberKey,
    )
    from kavka.protocol.messages.consumer_group_target_assignment_member_value import (
        ConsumerGroupTargetAssignmentMemberValue as ConsumerGroupTargetAssignmentMemberValue,
    )
    from kavka.protocol.messages.consumer_group_target_assignment_metadata_key import (
        ConsumerGroupTargetAssignmentMetadataKey as ConsumerGroupTargetAssignmentMetadataKey,
    )
    from kavka.protocol.messages.consumer_group_target_assignment_metadata_value import (
        ConsumerGroupTargetAssignmentMetadataValue as ConsumerGroupTargetAssignmentMetadataValue,
    )
    from kavka.protocol.messages.consumer_protocol_assignment import (
        ConsumerProtocolAssignment as ConsumerProtocolAssignment,
    )
    from kavka.protocol.messages.consumer_protocol_subscription import (
        ConsumerProtocolSubscription as ConsumerProtocolSubscription,
    )
    from kavka.protocol.messages.control_record_type_schema import ControlRecordTypeSchema as ControlRecordTypeSchema
    from kavka.protocol.messages.controlled_shutdown_request import (
        ControlledShutdownRequest as ControlledShutdownRequest,
    )
    from kavka.protocol.messages.controlled_shutdown_response import (
        ControlledShutdownResponse as ControlledShutdownResponse,
    )
    from kavka.protocol.messages.controller_registration_request import (
        ControllerRegistrationRequest as ControllerRegistrationRequest,
    )
    from kavka.protocol.messages.controller_registration_response import (
        ControllerRegistrationResponse as ControllerRegistrationResponse,
    )
    from kavka.protocol.messages.create_acls_request import CreateAclsRequest as CreateAclsRequest
    from kavka.protocol.messages.create_acls_response import CreateAclsResponse as CreateAclsResponse
    from kavka.protocol.messages.create_delegation_token_request import (
        CreateDelegationTokenRequest as CreateDelegationTokenRequest,
    )
    from kavka.protocol.messages.create_delegation_token_response import (
        CreateDelegationTokenResponse as CreateDelegationTokenResponse,
    )
    from kavka.protocol.messages.create_partitions_request import CreatePartitionsRequest as CreatePartitionsRequest
    from kavka.protocol.messages.create_partitions_response import CreatePartitionsResponse as CreatePartitionsResponse
    from kavka.protocol.messages.create_topics_request import CreateTopicsRequest as CreateTopicsRequest
    from kavka.protocol.messages.create_topics_response import CreateTopicsResponse as CreateTopicsResponse
    from kavka.protocol.messages.default_principal_data import DefaultPrincipalData as DefaultPrincipalData
    from kavka.protocol.messages.delete_acls_request import DeleteAclsRequest as DeleteAclsRequest
    from kavka.protocol.messages.delete_acls_response import DeleteAclsResponse as DeleteAclsResponse
    from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest as DeleteGroupsRequest
    from kavka.protocol.messages.delete_groups_response import DeleteGroupsResponse as DeleteGroupsResponse
    from kavka.protocol.messages.delete_records_request import DeleteRecordsRequest as DeleteRecordsRequest
    from kavka.protocol.messages.delete_records_response import DeleteRecordsResponse as DeleteRecordsResponse
    from kavka.protocol.messages.delete_share_group_offsets_request import (
        DeleteShareGroupOffsetsRequest as DeleteShareGroupOffsetsRequest,
    )
    from kavka.protocol.messages.delete_share_group_offsets_response import (
        DeleteShareGroupOffsetsResponse as DeleteShareGroupOffsetsResponse,
    )
    from kavka.protocol.messages.delete_share_group_state_request import (
        DeleteShareGroupStateRequest as DeleteShareGroupStateRequest,
    )
    from kavka.protocol.messages.delete_share_group_state_response import (
        DeleteShareGroupStateResponse as DeleteShareGroupStateResponse,
    )
    from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest as DeleteTopicsRequest
    from kavka.protocol.messages.delete_topics_response import DeleteTopicsResponse as DeleteTopicsResponse
    from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest as DescribeAclsRequest
    from kavka.protocol.messages.describe_acls_response import DescribeAclsResponse as DescribeAclsResponse
    from kavka.protocol.messages.describe_client_quotas_request import (
        DescribeClientQuotasRequest as DescribeClientQuotasRequest,
    )
    from kavka.protocol.messages.describe_client_quotas_response import (
        DescribeClientQuotasResponse as DescribeClientQuotasResponse,
    )
    from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest as DescribeClusterRequest
    from kavka.protocol.messages.describe_cluster_response import DescribeClusterResponse as DescribeClusterResponse
    from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest as DescribeConfigsRequest
    from kavka.protocol.messages.describe_configs_response import DescribeConfigsResponse as DescribeConfigsResponse
    from kavka.protocol.messages.describe_delegation_token_request import (
        DescribeDelegationTokenRequest as DescribeDelegationTokenRequest,
    )
    from kavka.protocol.messages.describe_delegation_token_response import (
        DescribeDelegationTokenResponse as DescribeDelegationTokenResponse,
    )
    from kavka.protocol.messages.describe_groups_request import DescribeGroupsRequest as DescribeGroupsRequest
    from kavka.protocol.messages.describe_groups_response import DescribeGroupsResponse as DescribeGroupsResponse
    from kavka.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest as DescribeLogDirsRequest
    from kavka.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse as DescribeLogDirsResponse
    from kavka.protocol.messages.describe_producers_request import DescribeProducersRequest as DescribeProducersRequest
    from kavka.protocol.messages.describe_producers_response import (
        DescribeProducersResponse as DescribeProducersResponse,
    )
    from kavka.protocol.messages.describe_quorum_request import DescribeQuorumRequest as DescribeQuorumRequest
    from kavka.protocol.messages.describe_quorum_response import DescribeQuorumResponse as DescribeQuorumResponse
    from kavka.protocol.messages.describe_share_group_offsets_request import (
        DescribeShareGroupOffsetsRequest as DescribeShareGroupOffsetsRequest,
    )
    from kavka.protocol.messages.describe_share_group_offsets_response import (
        DescribeShareGroupOffsetsResponse as DescribeShareGroupOffsetsResponse,
    )
    from kavka.protocol.messages.describe_topic_partitions_request import (
        DescribeTopicPartitionsRequest as DescribeTopicPartitionsRequest,
    )
    from kavka.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponse as DescribeTopicPartitionsResponse,
    )
    from kavka.protocol.messages.describe_transactions_request import (
        DescribeTransactionsRequest as DescribeTransactionsRequest,
    )
    from kavka.protocol.messages.describe_transactions_response import (
        DescribeTransactionsResponse as DescribeTransactionsResponse,
    )
    from kavka.protocol.messages.describe_user_scram_credentials_request import (
        DescribeUserScramCredentialsRequest as DescribeUserScramCredentialsRequest,
    )
    from kavka.protocol.messages.describe_user_scram_credentials_response import (
        DescribeUserScramCredentialsResponse as DescribeUserScramCredentialsResponse,
    )
    from kavka.protocol.messages.elect_leaders_request import ElectLeadersRequest as ElectLeadersRequest
    from kavka.protocol.messages.elect_leaders_response import ElectLeadersResponse as ElectLeadersResponse
    from kavka.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest as EndQuorumEpochRequest
    from kavka.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse as EndQuorumEpochResponse
    from kavka.protocol.messages.end_txn_marker import EndTxnMarker as EndTxnMarker
    from kavka.protocol.messages.end_txn_request import EndTxnRequest as EndTxnRequest
    from kavka.protocol.messages.end_txn_response import EndTxnResponse as EndTxnResponse
    from kavka.protocol.messages.envelope_request import EnvelopeRequest as EnvelopeRequest
    from kavka.protocol.messages.envelope_response import EnvelopeResponse as EnvelopeResponse
    from kavka.protocol.messages.expire_delegation_token_request import (
        ExpireDelegationTokenRequest as ExpireDelegationTokenRequest,
    )
    from kavka.protocol.messages.expire_delegation_token_response import (
        ExpireDelegationTokenResponse as ExpireDelegationTokenResponse,
    )
    from kavka.protocol.messages.fetch_request import FetchRequest as FetchRequest
    from kavka.protocol.messages.fetch_response import FetchResponse as FetchResponse
    from kavka.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest as FetchSnapshotRequest
    from kavka.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse as FetchSnapshotResponse
    from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest as FindCoordinatorRequest
    from kavka.protocol.messages.find_coordinator_response import FindCoordinatorResponse as FindCoordinatorResponse
    from kavka.protocol.messages.get_telemetry_subscriptions_request import (
        GetTelemetrySubscriptionsRequest as GetTelemetrySubscriptionsRequest,
    )
    from kavka.protocol.messages.get_telemetry_subscriptions_response import (
        GetTelemetrySubscriptionsResponse as GetTelemetrySubscriptionsResponse,
    )
    from kavka.protocol.messages.group_metadata_key import GroupMetadataKey as GroupMetadataKey
    from kavka.protocol.messages.group_metadata_value import GroupMetadataValue as GroupMetadataValue
    from kavka.protocol.messages.heartbeat_request import HeartbeatRequest as HeartbeatRequest
    from kavka.protocol.messages.heartbeat_response import HeartbeatResponse as HeartbeatResponse
    from kavka.protocol.messages.incremental_alter_configs_request import (
        IncrementalAlterConfigsRequest as IncrementalAlterConfigsRequest,
    )
    from kavka.protocol.messages.incremental_alter_configs_response import (
        IncrementalAlterConfigsResponse as IncrementalAlterConfigsResponse,
    )
    from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest as InitProducerIdRequest
    from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse as InitProducerIdResponse
    from kavka.protocol.messages.initialize_share_group_state_request import (
        InitializeShareGroupStateRequest as InitializeShareGroupStateRequest,
    )
    from kavka.protocol.messages.initialize_share_group_state_response import (
        InitializeShareGroupStateResponse as InitializeShareGroupStateResponse,
    )
    from kavka.protocol.messages.join_group_request import JoinGroupRequest as JoinGroupRequest
    from kavka.protocol.messages.join_group_response import JoinGroupResponse as JoinGroupResponse
    from kavka.protocol.messages.k_raft_version_record import KRaftVersionRecord as KRaftVersionRecord
    from kavka.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest as LeaderAndIsrRequest
    from kavka.protocol.messages.leader_and_isr_response import LeaderAndIsrResponse as LeaderAndIsrResponse
    from kavka.protocol.messages.leader_change_message import LeaderChangeMessage as LeaderChangeMessage
    from kavka.protocol.messages.leave_group_request import LeaveGroupRequest as LeaveGroupRequest
    from kavka.protocol.messages.leave_group_response import LeaveGroupResponse as LeaveGroupResponse
    from kavka.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey as LegacyOffsetCommitKey
    from kavka.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue as LegacyOffsetCommitValue
    from kavka.protocol.messages.list_config_resources_request import (
        ListConfigResourcesRequest as ListConfigResourcesRequest,
    )
    from kavka.protocol.messages.list_config_resources_response import (
        ListConfigResourcesResponse as ListConfigResourcesResponse,
    )
    from kavka.protocol.messages.list_groups_request import ListGroupsRequest as ListGroupsRequest
    from kavka.protocol.messages.list_groups_response import ListGroupsResponse as ListGroupsResponse
    from kavka.protocol.messages.list_offsets_request import ListOffsetsRequest as ListOffsetsRequest
    from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse as ListOffsetsResponse
    from kavka.protocol.messages.list_partition_reassignments_request import (
        ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest,
    )
    from kavka.protocol.messages.list_partition_reassignments_response import (
        ListPartitionReassignmentsResponse as ListPartitionReassignmentsResponse,
    )
    from kavka.protocol.messages.list_transactions_request import ListTransactionsRequest as ListTransactionsRequest
    from kavka.protocol.messages.list_transactions_response import ListTransactionsResponse as ListTransactionsResponse
    from kavka.protocol.messages.metadata_request import MetadataRequest as MetadataRequest
    from kavka.protocol.messages.metadata_response import MetadataResponse as MetadataResponse
    from kavka.protocol.messages.offset_commit_key import OffsetCommitKey as OffsetCommitKey
    from kavka.protocol.messages.offset_commit_request import OffsetCommitRequest as OffsetCommitRequest
    from kavka.protocol.messages.offset_commit_response import OffsetCommitResponse as OffsetCommitResponse
    from kavka.protocol.messages.offset_commit_value import OffsetCommitValue as OffsetCommitValue
    from kavka.protocol.messages.offset_delete_request import OffsetDeleteRequest as OffsetDeleteRequest
    from kavka.protocol.messages.offset_delete_response import OffsetDeleteResponse as OffsetDeleteResponse
    from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequest as OffsetFetchRequest
    from kavka.protocol.messages.offset_fetch_response import OffsetFetchResponse as OffsetFetchResponse
    from kavka.protocol.messages.offset_for_leader_epoch_request import (
        OffsetForLeaderEpochRequest as OffsetForLeaderEpochRequest,
    )
    from kavka.protocol.messages.offset_for_leader_epoch_response import (
        OffsetForLeaderEpochResponse as OffsetForLeaderEpochResponse,
    )
    from kavka.protocol.messages.produce_request import ProduceRequest as ProduceRequest
    from kavka.protocol.messages.produce_response import ProduceResponse as ProduceResponse
    from kavka.protocol.messages.producer_snapshot import ProducerSnapshot as ProducerSnapshot
    from kavka.protocol.messages.push_telemetry_request import PushTelemetryRequest as PushTelemetryRequest
    from kavka.protocol.messages.push_telemetry_response import PushTelemetryResponse as PushTelemetryResponse
    from kavka.protocol.messages.read_share_group_state_request import (
        ReadShareGroupStateRequest as ReadShareGroupStateRequest,
    )
    from kavka.protocol.messages.read_share_group_state_response import (
        ReadShareGroupStateResponse as ReadShareGroupStateResponse,
    )
    from kavka.protocol.messages.read_share_group_state_summary_request import (
        ReadShareGroupStateSummaryRequest as ReadShareGroupStateSummaryRequest,
    )
    from kavka.protocol.messages.read_share_group_state_summary_response import (
        ReadShareGroupStateSummaryResponse as ReadShareGroupStateSummaryResponse,
    )
    from kavka.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest as RemoveRaftVoterRequest
    from kavka.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse as RemoveRaftVoterResponse
    from kavka.protocol.messages.renew_delegation_token_request import (
        RenewDelegationTokenRequest as RenewDelegationTokenRequest,
    )
    from kavka.protocol.messages.renew_delegation_token_response import (
        RenewDelegationTokenResponse as RenewDelegationTokenResponse,
    )
    from kavka.protocol.messages.request_header import RequestHeader as RequestHeader
    from kavka.protocol.messages.response_header import ResponseHeader as ResponseHeader
    from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest as SaslAuthenticateRequest
    from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse as SaslAuthenticateResponse
    from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest as SaslHandshakeRequest
    from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse as SaslHandshakeResponse
    from kavka.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest as ShareAcknowledgeRequest
    from kavka.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse as ShareAcknowledgeResponse
    from kavka.protocol.messages.share_fetch_request import ShareFetchRequest as ShareFetchRequest
    from kavka.protocol.messages.share_fetch_response import ShareFetchResponse as ShareFetchResponse
    from kavka.protocol.messages.share_group_current_member_assignment_key import (
        ShareGroupCurrentMemberAssignmentKey as ShareGroupCurrentMemberAssignmentKey,
    )
    from kavka.protocol.messages.share_group_current_member_assignment_value import (
        ShareGroupCurrentMemberAssignmentValue as ShareGroupCurrentMemberAssignmentValue,
    )
    from kavka.protocol.messages.share_group_describe_request import (
        ShareGroupDescribeRequest as ShareGroupDescribeRequest,
    )
    from kavka.protocol.messages.share_group_describe_response import (
        ShareGroupDescribeResponse as ShareGroupDescribeResponse,
    )
    from kavka.protocol.messages.share_group_heartbeat_request import (
        ShareGroupHeartbeatRequest as ShareGroupHeartbeatRequest,
    )
    from kavka.protocol.messages.share_group_heartbeat_response import (
        ShareGroupHeartbeatResponse as ShareGroupHeartbeatResponse,
    )
    from kavka.protocol.messages.share_group_member_metadata_key import (
        ShareGroupMemberMetadataKey as ShareGroupMemberMetadataKey,
    )
    from kavka.protocol.messages.share_group_member_metadata_value import (
        ShareGroupMemberMetadataValue as ShareGroupMemberMetadataValue,
    )
    from kavka.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey as ShareGroupMetadataKey
    from kavka.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue as ShareGroupMetadataValue
    from kavka.protocol.messages.share_group_state_partition_metadata_key import (
        ShareGroupStatePartitionMetadataKey as ShareGroupStatePartitionMetadataKey,
    )
    from kavka.protocol.messages.share_group_state_partition_metadata_value import (
        ShareGroupStatePartitionMetadataValue as ShareGroupStatePartitionMetadataValue,
    )
    from kavka.protocol.messages.share_group_target_assignment_member_key import (
        ShareGroupTargetAssignmentMemberKey as ShareGroupTargetAssignmentMemberKey,
    )
    from kavka.protocol.messages.share_group_target_assignment_member_value import (
        ShareGroupTargetAssignmentMemberValue as ShareGroupTargetAssignmentMemberValue,
    )
    from kavka.protocol.messages.share_group_target_assignment_metadata_key import (
        ShareGroupTargetAssignmentMetadataKey as ShareGroupTargetAssignmentMetadataKey,
    )
    from kavka.protocol.messages.share_group_target_assignment_metadata_value import (
        ShareGroupTargetAssignmentMetadataValue as ShareGroupTargetAssignmentMetadataValue,
    )
    from kavka.protocol.messages.share_snapshot_key import ShareSnapshotKey as ShareSnapshotKey
    from kavka.protocol.messages.share_snapshot_value import ShareSnapshotValue as ShareSnapshotValue
    from kavka.protocol.messages.share_update_key import ShareUpdateKey as ShareUpdateKey
    from kavka.protocol.messages.share_update_value import ShareUpdateValue as ShareUpdateValue
    from kavka.protocol.messages.snapshot_footer_record import SnapshotFooterRecord as SnapshotFooterRecord
    from kavka.protocol.messages.snapshot_header_record import SnapshotHeaderRecord as SnapshotHeaderRecord
    from kavka.protocol.messages.stop_replica_request import StopReplicaRequest as StopReplicaRequest
    from kavka.protocol.messages.stop_replica_response import StopReplicaResponse as StopReplicaResponse
    from kavka.protocol.messages.streams_group_current_member_assignment_key import (
        StreamsGroupCurrentMemberAssignmentKey as StreamsGroupCurrentMemberAssignmentKey,
    )
    from kavka.protocol.messages.streams_group_current_member_assignment_value import (
        StreamsGroupCurrentMemberAssignmentValue as StreamsGroupCurrentMemberAssignmentValue,
    )
    from kavka.protocol.messages.streams_group_describe_request import (
        StreamsGroupDescribeRequest as StreamsGroupDescribeRequest,
    )
    from kavka.protocol.messages.streams_group_describe_response import (
        StreamsGroupDescribeResponse as StreamsGroupDescribeResponse,
    )
    from kavka.protocol.messages.streams_group_heartbeat_request import (
        StreamsGroupHeartbeatRequest as StreamsGroupHeartbeatRequest,
    )
    from kavka.protocol.messages.streams_group_heartbeat_response import (
        StreamsGroupHeartbeatResponse as StreamsGroupHeartbeatResponse,
    )
    from kavka.protocol.messages.streams_group_member_metadata_key import (
        StreamsGroupMemberMetadataKey as StreamsGroupMemberMetadataKey,
    )
    from kavka.protocol.messages.streams_group_member_metadata_value import (
        StreamsGroupMemberMetadataValue as StreamsGroupMemberMetadataValue,
    )
    from kavka.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey as StreamsGroupMetadataKey
    from kavka.protocol.messages.streams_group_metadata_value import (
        StreamsGroupMetadataValue as StreamsGroupMetadataValue,
    )
    from kavka.protocol.messages.streams_group_target_assignment_member_key import (
        StreamsGroupTargetAssignmentMemberKey as StreamsGroupTargetAssignmentMemberKey,
    )
    from kavka.protocol.messages.streams_group_target_assignment_member_value import (
        StreamsGroupTargetAssignmentMemberValue as StreamsGroupTargetAssignmentMemberValue,
    )
    from kavka.protocol.messages.streams_group_target_assignment_metadata_key import (
        StreamsGroupTargetAssignmentMetadataKey as StreamsGroupTargetAssignmentMetadataKey,
    )
    from kavka.protocol.messages.streams_group_target_assignment_metadata_value import (
        StreamsGroupTargetAssignmentMetadataValue as StreamsGroupTargetAssignmentMetadataValue,
    )
    from kavka.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey as StreamsGroupTopologyKey
    from kavka.protocol.messages.streams_group_topology_value import (
        StreamsGroupTopologyValue as StreamsGroupTopologyValue,
    )
    from kavka.protocol.messages.sync_group_request import SyncGroupRequest as SyncGroupRequest
    from kavka.protocol.messages.sync_group_response import SyncGroupResponse as SyncGroupResponse
    from kavka.protocol.messages.transaction_log_key import TransactionLogKey as TransactionLogKey
    from kavka.protocol.messages.transaction_log_value import TransactionLogValue as TransactionLogValue
    from kavka.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest as TxnOffsetCommitRequest
    from kavka.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse as TxnOffsetCommitResponse
    from kavka.protocol.messages.unregister_broker_request import UnregisterBrokerRequest as UnregisterBrokerRequest
    from kavka.protocol.messages.unregister_broker_response import UnregisterBrokerResponse as UnregisterBrokerResponse
    from kavka.protocol.messages.update_features_request import UpdateFeaturesRequest as UpdateFeaturesRequest
    from kavka.protocol.messages.update_features_response import UpdateFeaturesResponse as UpdateFeaturesResponse
    from kavka.protocol.messages.update_metadata_request import UpdateMetadataRequest as UpdateMetadataRequest
    from kavka.protocol.messages.update_metadata_response import UpdateMetadataResponse as UpdateMetadataResponse
    from kavka.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest as UpdateRaftVoterRequest
    from kavka.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse as UpdateRaftVoterResponse
    from kavka.protocol.messages.vote_request import VoteRequest as VoteRequest
    from kavka.protocol.messages.vote_response import VoteResponse as VoteResponse
    from kavka.protocol.messages.voters_record import VotersRecord as VotersRecord
    from kavka.protocol.messages.write_share_group_state_request import (
        WriteShareGroupStateRequest as WriteShareGroupStateRequest,
    )
    from kavka.protocol.messages.write_share_group_state_response import (
        WriteShareGroupStateResponse as WriteShareGroupStateResponse,
    )
    from kavka.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest as WriteTxnMarkersRequest
    from kavka.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse as WriteTxnMarkersResponse

MODULES: Final[dict[str, str]] = {
    "AddOffsetsToTxnRequest": "add_offsets_to_txn_request",
    "AddOffsetsToTxnResponse": "add_offsets_to_txn_response",
    "AddPartitionsToTxnRequest": "add_partitions_to_txn_request",
    "AddPartitionsToTxnResponse": "add_partitions_to_txn_response",
    "AddRaftVoterRequest": "add_raft_voter_request",
    "AddRaftVoterResponse": "add_raft_voter_response",
    "AllocateProducerIdsRequest": "allocate_producer_ids_request",
    "AllocateProducerIdsResponse": "allocate_producer_ids_response",
    "AlterClientQuotasRequest": "alter_client_quotas_request",
    "AlterClientQuotasResponse": "alter_client_quotas_response",
    "AlterConfigsRequest": "alter_configs_request",
    "AlterConfigsResponse": "alter_configs_response",
    "AlterPartitionReassignmentsRequest": "alter_partition_reassignments_request",
    "AlterPartitionReassignmentsResponse": "alter_partition_reassignments_response",
    "AlterPartitionRequest": "alter_partition_request",
    "AlterPartitionResponse": "alter_partition_response",
    "AlterReplicaLogDirsRequest": "alter_replica_log_dirs_request",
    "AlterReplicaLogDirsResponse": "alter_replica_log_dirs_response",
    "AlterShareGroupOffsetsRequest": "alter_share_group_offsets_request",
    "AlterShareGroupOffsetsResponse": "alter_share_group_offsets_response",
    "AlterUserScramCredentialsRequest": "alter_user_scram_credentials_request",
    "AlterUserScramCredentialsResponse": "alter_user_scram_credentials_response",
    "ApiVersionsRequest": "api_versions_request",
    "ApiVersionsResponse": "api_versions_response",
    "AssignReplicasToDirsRequest": "assign_replicas_to_dirs_request",
    "AssignReplicasToDirsResponse": "assign_replicas_to_dirs_response",
    "BeginQuorumEpochRequest": "begin_quorum_epoch_request",
    "BeginQuorumEpochResponse": "begin_quorum_epoch_response",
    "BrokerHeartbeatRequest": "broker_heartbeat_request",
    "BrokerHeartbeatResponse": "broker_heartbeat_response",
    "BrokerRegistrationRequest": "broker_registration_request",
    "BrokerRegistrationResponse": "broker_registration_response",
    "ConsumerGroupCurrentMemberAssignmentKey": "consumer_group_current_member_assignment_key",
    "ConsumerGroupCurrentMemberAssignmentValue": "consumer_group_current_member_assignment_value",
    "ConsumerGroupDescribeRequest": "consumer_group_describe_request",
    "ConsumerGroupDescribeResponse": "consumer_group_describe_response",
    "ConsumerGroupHeartbeatRequest": "consumer_group_heartbeat_request",
    "ConsumerGroupHeartbeatResponse": "consumer_group_heartbeat_response",
    "ConsumerGroupMemberMetadataKey": "consumer_group_member_metadata_key",
    "ConsumerGroupMemberMetadataValue": "consumer_group_member_metadata_value",
    "ConsumerGroupMetadataKey": "consumer_group_metadata_key",
    "ConsumerGroupMetadataValue": "consumer_group_metadata_value",
    "ConsumerGroupPartitionMetadataKey": "consumer_group_partition_metadata_key",
    "ConsumerGroupPartitionMetadataValue": "consumer_group_partition_metadata_value",
    "ConsumerGroupRegularExpressionKey": "consumer_group_regular_expression_key",
    "ConsumerGroupRegularExpressionValue": "consumer_group_regular_expression_value",
    "ConsumerGroupTargetAssignmentMemberKey": "consumer_group_target_assignment_member_key",
    "ConsumerGroupTargetAssignmentMemberValue": "consumer_group_target_assignment_member_value",
    "ConsumerGroupTargetAssignmentMetadataKey": "consumer_group_target_assignment_metadata_key",
    "ConsumerGroupTargetAssignmentMetadataValue": "consumer_group_target_assignment_metadata_value",
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
    "ControlRecordTypeSchema": "control_record_type_schema",
    "ControlledShutdownRequest": "controlled_shutdown_request",
    "ControlledShutdownResponse": "controlled_shutdown_response",
    "ControllerRegistrationRequest": "controller_registration_request",
    "ControllerRegistrationResponse": "controller_registration_response",
    "CreateAclsRequest": "create_acls_request",
    "CreateAclsResponse": "create_acls_response",
    "CreateDelegationTokenRequest": "create_delegation_token_request",
    "CreateDelegationTokenResponse": "create_delegation_token_response",
    "CreatePartitionsRequest": "create_partitions_request",
    "CreatePartitionsResponse": "create_partitions_response",
    "CreateTopicsRequest": "create_topics_request",
    "CreateTopicsResponse": "create_topics_response",
    "DefaultPrincipalData": "default_principal_data",
    "DeleteAclsRequest": "delete_acls_request",
    "DeleteAclsResponse": "delete_acls_response",
    "DeleteGroupsRequest": "delete_groups_request",
    "DeleteGroupsResponse": "delete_groups_response",
    "DeleteRecordsRequest": "delete_records_request",
    "DeleteRecordsResponse": "delete_records_response",
    "DeleteShareGroupOffsetsRequest": "delete_share_group_offsets_request",
    "DeleteShareGroupOffsetsResponse": "delete_share_group_offsets_response",
    "DeleteShareGroupStateRequest": "delete_share_group_state_request",
    "DeleteShareGroupStateResponse": "delete_share_group_state_response",
    "DeleteTopicsRequest": "delete_topics_request",
    "DeleteTopicsResponse": "delete_topics_response",
    "DescribeAclsRequest": "describe_acls_request",
    "DescribeAclsResponse": "describe_acls_response",
    "DescribeClientQuotasRequest": "describe_client_quotas_request",
    "DescribeClientQuotasResponse": "describe_client_quotas_response",
    "DescribeClusterRequest": "describe_cluster_request",
    "DescribeClusterResponse": "describe_cluster_response",
    "DescribeConfigsRequest": "describe_configs_request",
    "DescribeConfigsResponse": "describe_configs_response",
    "DescribeDelegationTokenRequest": "describe_delegation_token_request",
    "DescribeDelegationTokenResponse": "describe_delegation_token_response",
    "DescribeGroupsRequest": "describe_groups_request",
    "DescribeGroupsResponse": "describe_groups_response",
    "DescribeLogDirsRequest": "describe_log_dirs_request",
    "DescribeLogDirsResponse": "describe_log_dirs_response",
    "DescribeProducersRequest": "describe_producers_request",
    "DescribeProducersResponse": "describe_producers_response",
    "DescribeQuorumRequest": "describe_quorum_request",
    "DescribeQuorumResponse": "describe_quorum_response",
    "DescribeShareGroupOffsetsRequest": "describe_share_group_offsets_request",
    "DescribeShareGroupOffsetsResponse": "describe_share_group_offsets_response",
    "DescribeTopicPartitionsRequest": "describe_topic_partitions_request",
    "DescribeTopicPartitionsResponse": "describe_topic_partitions_response",
    "DescribeTransactionsRequest": "describe_transactions_request",
    "DescribeTransactionsResponse": "describe_transactions_response",
    "DescribeUserScramCredentialsRequest": "describe_user_scram_credentials_request",
    "DescribeUserScramCredentialsResponse": "describe_user_scram_credentials_response",
    "ElectLeadersRequest": "elect_leaders_request",
    "ElectLeadersResponse": "elect_leaders_response",
    "EndQuorumEpochRequest": "end_quorum_epoch_request",
    "EndQuorumEpochResponse": "end_quorum_epoch_response",
    "EndTxnMarker": "end_txn_marker",
    "EndTxnRequest": "end_txn_request",
    "EndTxnResponse": "end_txn_response",
    "EnvelopeRequest": "envelope_request",
    "EnvelopeResponse": "envelope_response",
    "ExpireDelegationTokenRequest": "expire_delegation_token_request",
    "ExpireDelegationTokenResponse": "expire_delegation_token_response",
    "FetchRequest": "fetch_request",
    "FetchResponse": "fetch_response",
    "FetchSnapshotRequest": "fetch_snapshot_request",
    "FetchSnapshotResponse": "fetch_snapshot_response",
    "FindCoordinatorRequest": "find_coordinator_request",
    "FindCoordinatorResponse": "find_coordinator_response",
    "GetTelemetrySubscriptionsRequest": "get_telemetry_subscriptions_request",
    "GetTelemetrySubscriptionsResponse": "get_telemetry_subscriptions_response",
    "GroupMetadataKey": "group_metadata_key",
    "GroupMetadataValue": "group_metadata_value",
    "HeartbeatRequest": "heartbeat_request",
    "HeartbeatResponse": "heartbeat_response",
    "IncrementalAlterConfigsRequest": "incremental_alter_configs_request",
    "IncrementalAlterConfigsResponse": "incremental_alter_configs_response",
    "InitProducerIdRequest": "init_producer_id_request",
    "InitProducerIdResponse": "init_producer_id_response",
    "InitializeShareGroupStateRequest": "initialize_share_group_state_request",
    "InitializeShareGroupStateResponse": "initialize_share_group_state_response",
    "JoinGroupRequest": "join_group_request",
    "JoinGroupResponse": "join_group_response",
    "KRaftVersionRecord": "k_raft_version_record",
    "LeaderAndIsrRequest": "leader_and_isr_request",
    "LeaderAndIsrResponse": "leader_and_isr_response",
    "LeaderChangeMessage": "leader_change_message",
    "LeaveGroupRequest": "leave_group_request",
    "LeaveGroupResponse": "leave_group_response",
    "LegacyOffsetCommitKey": "legacy_offset_commit_key",
    "LegacyOffsetCommitValue": "legacy_offset_commit_value",
    "ListConfigResourcesRequest": "list_config_resources_request",
    "ListConfigResourcesResponse": "list_config_resources_response",
    "ListGroupsRequest": "list_groups_request",
    "ListGroupsResponse": "list_groups_response",
    "ListOffsetsRequest": "list_offsets_request",
    "ListOffsetsResponse": "list_offsets_response",
    "ListPartitionReassignmentsRequest": "list_partition_reassignments_request",
    "ListPartitionReassignmentsResponse": "list_partition_reassignments_response",
    "ListTransactionsRequest": "list_transactions_request",
    "ListTransactionsResponse": "list_transactions_response",
    "MetadataRequest": "metadata_request",
    "MetadataResponse": "metadata_response",
    "OffsetCommitKey": "offset_commit_key",
    "OffsetCommitRequest": "offset_commit_request",
    "OffsetCommitResponse": "offset_commit_response",
    "OffsetCommitValue": "offset_commit_value",
    "OffsetDeleteRequest": "offset_delete_request",
    "OffsetDeleteResponse": "offset_delete_response",
    "OffsetFetchRequest": "offset_fetch_request",
    "OffsetFetchResponse": "offset_fetch_response",
    "OffsetForLeaderEpochRequest": "offset_for_leader_epoch_request",
    "OffsetForLeaderEpochResponse": "offset_for_leader_epoch_response",
    "ProduceRequest": "produce_request",
    "ProduceResponse": "produce_response",
    "ProducerSnapshot": "producer_snapshot",
    "PushTelemetryRequest": "push_telemetry_request",
    "PushTelemetryResponse": "push_telemetry_response",
    "ReadShareGroupStateRequest": "read_share_group_state_request",
    "ReadShareGroupStateResponse": "read_share_group_state_response",
    "ReadShareGroupStateSummaryRequest": "read_share_group_state_summary_request",
    "ReadShareGroupStateSummaryResponse": "read_share_group_state_summary_response",
    "RemoveRaftVoterRequest": "remove_raft_voter_request",
    "RemoveRaftVoterResponse": "remove_raft_voter_response",
    "RenewDelegationTokenRequest": "renew_delegation_token_request",
    "RenewDelegationTokenResponse": "renew_delegation_token_response",
    "RequestHeader": "request_header",
    "ResponseHeader": "response_header",
    "SaslAuthenticateRequest": "sasl_authenticate_request",
    "SaslAuthenticateResponse": "sasl_authenticate_response",
    "SaslHandshakeRequest": "sasl_handshake_request",
    "SaslHandshakeResponse": "sasl_handshake_response",
    "ShareAcknowledgeRequest": "share_acknowledge_request",
    "ShareAcknowledgeResponse": "share_acknowledge_response",
    "ShareFetchRequest": "share_fetch_request",
    "ShareFetchResponse": "share_fetch_response",
    "ShareGroupCurrentMemberAssignmentKey": "share_group_current_member_assignment_key",
    "ShareGroupCurrentMemberAssignmentValue": "share_group_current_member_assignment_value",
    "ShareGroupDescribeRequest": "share_group_describe_request",
    "ShareGroupDescribeResponse": "share_group_describe_response",
    "ShareGroupHeartbeatRequest": "share_group_heartbeat_request",
    "ShareGroupHeartbeatResponse": "share_group_heartbeat_response",
    "ShareGroupMemberMetadataKey": "share_group_member_metadata_key",
    "ShareGroupMemberMetadataValue": "share_group_member_metadata_value",
    "ShareGroupMetadataKey": "share_group_metadata_key",
    "ShareGroupMetadataValue": "share_group_metadata_value",
    "ShareGroupStatePartitionMetadataKey": "share_group_state_partition_metadata_key",
    "ShareGroupStatePartitionMetadataValue": "share_group_state_partition_metadata_value",
    "ShareGroupTargetAssignmentMemberKey": "share_group_target_assignment_member_key",
    "ShareGroupTargetAssignmentMemberValue": "share_group_target_assignment_member_value",
    "ShareGroupTargetAssignmentMetadataKey": "share_group_target_assignment_metadata_key",
    "ShareGroupTargetAssignmentMetadataValue": "share_group_target_assignment_metadata_value",
    "ShareSnapshotKey": "share_snapshot_key",
    "ShareSnapshotValue": "share_snapshot_value",
    "ShareUpdateKey": "share_update_key",
    "ShareUpdateValue": "share_update_value",
    "SnapshotFooterRecord": "snapshot_footer_record",
    "SnapshotHeaderRecord": "snapshot_header_record",
    "StopReplicaRequest": "stop_replica_request",
    "StopReplicaResponse": "stop_replica_response",
    "StreamsGroupCurrentMemberAssignmentKey": "streams_group_current_member_assignment_key",
    "StreamsGroupCurrentMemberAssignmentValue": "streams_group_current_member_assignment_value",
    "StreamsGroupDescribeRequest": "streams_group_describe_request",
    "StreamsGroupDescribeResponse": "streams_group_describe_response",
    "StreamsGroupHeartbeatRequest": "streams_group_heartbeat_request",
    "StreamsGroupHeartbeatResponse": "streams_group_heartbeat_response",
    "StreamsGroupMemberMetadataKey": "streams_group_member_metadata_key",
    "StreamsGroupMemberMetadataValue": "streams_group_member_metadata_value",
    "StreamsGroupMetadataKey": "streams_group_metadata_key",
    "StreamsGroupMetadataValue": "streams_group_metadata_value",
    "StreamsGroupTargetAssignmentMemberKey": "streams_group_target_assignment_member_key",
    "StreamsGroupTargetAssignmentMemberValue": "streams_group_target_assignment_member_value",
    "StreamsGroupTargetAssignmentMetadataKey": "streams_group_target_assignment_metadata_key",
    "StreamsGroupTargetAssignmentMetadataValue": "streams_group_target_assignment_metadata_value",
    "StreamsGroupTopologyKey": "streams_group_topology_key",
    "StreamsGroupTopologyValue": "streams_group_topology_value",
    "SyncGroupRequest": "sync_group_request",
    "SyncGroupResponse": "sync_group_response",
    "TransactionLogKey": "transaction_log_key",
    "TransactionLogValue": "transaction_log_value",
    "TxnOffsetCommitRequest": "txn_offset_commit_request",
    "TxnOffsetCommitResponse": "txn_offset_commit_response",
    "UnregisterBrokerRequest": "unregister_broker_request",
    "UnregisterBrokerResponse": "unregister_broker_response",
    "UpdateFeaturesRequest": "update_features_request",
    "UpdateFeaturesResponse": "update_features_response",
    "UpdateMetadataRequest": "update_metadata_request",
    "UpdateMetadataResponse": "update_metadata_response",
    "UpdateRaftVoterRequest": "update_raft_voter_request",
    "UpdateRaftVoterResponse": "update_raft_voter_response",
    "VoteRequest": "vote_request",
    "VoteResponse": "vote_response",
    "VotersRecord": "voters_record",
    "WriteShareGroupStateRequest": "write_share_group_state_request",
    "WriteShareGroupStateResponse": "write_share_group_state_response",
    "WriteTxnMarkersRequest": "write_txn_markers_request",
    "WriteTxnMarkersResponse": "write_txn_markers_response",
}
"""The module of each message."""


def __getattr__(name: str) -> Any:
    module = MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message_type = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = message_type
    return message_type
