"""The numbers of Kafka's APIs, and for each of them the versions that can be encoded and decoded.

Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ApiKey(IntEnum):
    """The number that a request begins with."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


ROWS: Final[tuple[tuple[int, str, int, int, int | None], ...]] = (
    (0, "Produce", 0, 13, 9),
    (1, "Fetch", 0, 18, 12),
    (2, "ListOffsets", 0, 11, 6),
    (3, "Metadata", 0, 13, 9),
    (4, "LeaderAndIsr", 0, 7, 4),
    (5, "StopReplica", 0, 4, 2),
    (6, "UpdateMetadata", 0, 8, 6),
    (7, "ControlledShutdown", 0, 3, 3),
    (8, "OffsetCommit", 0, 10, 8),
    (9, "OffsetFetch", 0, 10, 6),
    (10, "FindCoordinator", 0, 6, 3),
    (11, "JoinGroup", 0, 9, 6),
    (12, "Heartbeat", 0, 4, 4),
    (13, "LeaveGroup", 0, 5, 4),
    (14, "SyncGroup", 0, 5, 4),
    (15, "DescribeGroups", 0, 6, 5),
    (16, "ListGroups", 0, 5, 3),
    (17, "SaslHandshake", 0, 1, None),
    (18, "ApiVersions", 0, 4, 3),
    (19, "CreateTopics", 0, 7, 5),
    (20, "DeleteTopics", 0, 6, 4),
    (21, "DeleteRecords", 0, 2, 2),
    (22, "InitProducerId", 0, 6, 2),
    (23, "OffsetForLeaderEpoch", 0, 4, 4),
    (24, "AddPartitionsToTxn", 0, 5, 3),
    (25, "AddOffsetsToTxn", 0, 4, 3),
    (26, "EndTxn", 0, 5, 3),
    (27, "WriteTxnMarkers", 0, 2, 1),
    (28, "TxnOffsetCommit", 0, 5, 3),
    (29, "DescribeAcls", 0, 3, 2),
    (30, "CreateAcls", 0, 3, 2),
    (31, "DeleteAcls", 0, 3, 2),
    (32, "DescribeConfigs", 0, 4, 4),
    (33, "AlterConfigs", 0, 2, 2),
    (34, "AlterReplicaLogDirs", 0, 2, 2),
    (35, "DescribeLogDirs", 0, 5, 2),
    (36, "SaslAuthenticate", 0, 2, 2),
    (37, "CreatePartitions", 0, 3, 2),
    (38, "CreateDelegationToken", 0, 3, 2),
    (39, "RenewDelegationToken", 0, 2, 2),
    (40, "ExpireDelegationToken", 0, 2, 2),
    (41, "DescribeDelegationToken", 0, 3, 2),
    (42, "DeleteGroups", 0, 2, 2),
    (43, "ElectLeaders", 0, 2, 2),
    (44, "IncrementalAlterConfigs", 0, 1, 1),
    (45, "AlterPartitionReassignments", 0, 1, 0),
    (46, "ListPartitionReassignments", 0, 0, 0),
    (47, "OffsetDelete", 0, 0, None),
    (48, "DescribeClientQuotas", 0, 1, 1),
    (49, "AlterClientQuotas", 0, 1, 1),
    (50, "DescribeUserScramCredentials", 0, 0, 0),
    (51, "AlterUserScramCredentials", 0, 0, 0),
    (52, "Vote", 0, 2, 0),
    (53, "BeginQuorumEpoch", 0, 1, 1),
    (54, "EndQuorumEpoch", 0, 1, 1),
    (55, "DescribeQuorum", 0, 2, 0),
    (56, "AlterPartition", 0, 3, 0),
    (57, "UpdateFeatures", 0, 2, 0),
    (58, "Envelope", 0, 0, 0),
    (59, "FetchSnapshot", 0, 1, 0),
    (60, "DescribeCluster", 0, 2, 0),
    (61, "DescribeProducers", 0, 0, 0),
    (62, "BrokerRegistration", 0, 4, 0),
    (63, "BrokerHeartbeat", 0, 2, 0),
    (64, "UnregisterBroker", 0, 0, 0),
    (65, "DescribeTransactions", 0, 0, 0),
    (66, "ListTransactions", 0, 2, 0),
    (67, "AllocateProducerIds", 0, 0, 0),
    (68, "ConsumerGroupHeartbeat", 0, 1, 0),
    (69, "ConsumerGroupDescribe", 0, 1, 0),
    (70, "ControllerRegistration", 0, 0, 0),
    (71, "GetTelemetrySubscriptions", 0, 0, 0),
    (72, "PushTelemetry", 0, 0, 0),
    (73, "AssignReplicasToDirs", 0, 0, 0),
    (74, "ListConfigResources", 0, 1, 0),
    (75, "DescribeTopicPartitions", 0, 0, 0),
    (76, "ShareGroupHeartbeat", 1, 1, 0),
    (77, "ShareGroupDescribe", 1, 1, 0),
    (78, "ShareFetch", 1, 2, 0),
    (79, "ShareAcknowledge", 1, 2, 0),
    (80, "AddRaftVoter", 0, 1, 0),
    (81, "RemoveRaftVoter", 0, 0, 0),
    (82, "UpdateRaftVoter", 0, 0, 0),
    (83, "InitializeShareGroupState", 0, 0, 0),
    (84, "ReadShareGroupState", 0, 0, 0),
    (85, "WriteShareGroupState", 0, 1, 0),
    (86, "DeleteShareGroupState", 0, 0, 0),
    (87, "ReadShareGroupStateSummary", 0, 1, 0),
    (88, "StreamsGroupHeartbeat", 0, 0, 0),
    (89, "StreamsGroupDescribe", 0, 0, 0),
    (90, "DescribeShareGroupOffsets", 0, 1, 0),
    (91, "AlterShareGroupOffsets", 0, 0, 0),
    (92, "DeleteShareGroupOffsets", 0, 0, 0),
)
"""API key, name, oldest version, newest version, first flexible version or None."""
