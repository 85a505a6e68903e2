"""The table of rights names what Apache Kafka 4.3's own code asks: read from the bytecode of its handlers.

Which operations and types of resources each handler names, with the lambdas and methods that it calls. That the
questions are the right ones, in the right order, is compared with running brokers (`test_rights_as_kafka.py`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import pytest

from kavka.broker.api_rights import API_RIGHTS
from kavka.protocol.api import ApiKey
from kavka.security.resource_patterns import ResourceType
from tests.apache_kafka import PeerMissing, Release

pytestmark = pytest.mark.kafka

METHOD: Final = re.compile(r"^  \S.*?[ .](?P<name>[\w$]+)\(.*\)(?: throws .*)?;$")
LAMBDA: Final = re.compile(r"^(?:\$anonfun|lambda)\$(?P<of>[a-zA-Z0-9]+)\$\d+$")
NAMED: Final = re.compile(r"(?:AclOperation|ResourceType)\.(?P<word>[A-Z_]+):")
ON_CLUSTER: Final = "authorizeClusterOperation"
"""Of another class: it asks about the cluster."""
CALLED: Final = re.compile(r"Method (?P<name>[a-zA-Z0-9$]+):\(")

KAFKA_APIS: Final[Mapping[ApiKey, str]] = {
    ApiKey.OFFSET_COMMIT: "handleOffsetCommitRequest",
    ApiKey.LIST_OFFSETS: "handleListOffsetRequest",
    ApiKey.METADATA: "handleTopicMetadataRequest",
    ApiKey.OFFSET_FETCH: "handleOffsetFetchRequest",
    ApiKey.FIND_COORDINATOR: "handleFindCoordinatorRequest",
    ApiKey.DESCRIBE_GROUPS: "handleDescribeGroupsRequest",
    ApiKey.LIST_GROUPS: "handleListGroupsRequest",
    ApiKey.JOIN_GROUP: "handleJoinGroupRequest",
    ApiKey.SYNC_GROUP: "handleSyncGroupRequest",
    ApiKey.DELETE_GROUPS: "handleDeleteGroupsRequest",
    ApiKey.HEARTBEAT: "handleHeartbeatRequest",
    ApiKey.LEAVE_GROUP: "handleLeaveGroupRequest",
    ApiKey.DELETE_RECORDS: "handleDeleteRecordsRequest",
    ApiKey.END_TXN: "handleEndTxnRequest",
    ApiKey.WRITE_TXN_MARKERS: "handleWriteTxnMarkersRequest",
    ApiKey.ADD_PARTITIONS_TO_TXN: "handleAddPartitionsToTxnRequest",
    ApiKey.ADD_OFFSETS_TO_TXN: "handleAddOffsetsToTxnRequest",
    ApiKey.TXN_OFFSET_COMMIT: "handleTxnOffsetCommitRequest",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "handleOffsetForLeaderEpochRequest",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "handleAlterReplicaLogDirsRequest",
    ApiKey.DESCRIBE_LOG_DIRS: "handleDescribeLogDirsRequest",
    ApiKey.FETCH: "handleFetchRequest",
    ApiKey.INIT_PRODUCER_ID: "handleInitProducerIdRequest",
    ApiKey.PRODUCE: "handleProduceRequest",
    ApiKey.CREATE_DELEGATION_TOKEN: "handleCreateTokenRequest",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "handleDescribeTokensRequest",
    ApiKey.OFFSET_DELETE: "handleOffsetDeleteRequest",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "handleDescribeClientQuotasRequest",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "handleDescribeUserScramCredentialsRequest",
    ApiKey.DESCRIBE_PRODUCERS: "handleDescribeProducersRequest",
    ApiKey.DESCRIBE_TRANSACTIONS: "handleDescribeTransactionsRequest",
    ApiKey.LIST_TRANSACTIONS: "handleListTransactionsRequest",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "handleConsumerGroupHeartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "handleConsumerGroupDescribe",
    ApiKey.SHARE_GROUP_HEARTBEAT: "handleShareGroupHeartbeat",
    ApiKey.SHARE_GROUP_DESCRIBE: "handleShareGroupDescribe",
    ApiKey.SHARE_FETCH: "handleShareFetchRequest",
    ApiKey.SHARE_ACKNOWLEDGE: "handleShareAcknowledgeRequest",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "handleStreamsGroupHeartbeat",
    ApiKey.STREAMS_GROUP_DESCRIBE: "handleStreamsGroupDescribe",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "handleInitializeShareGroupStateRequest",
    ApiKey.READ_SHARE_GROUP_STATE: "handleReadShareGroupStateRequest",
    ApiKey.WRITE_SHARE_GROUP_STATE: "handleWriteShareGroupStateRequest",
    ApiKey.DELETE_SHARE_GROUP_STATE: "handleDeleteShareGroupStateRequest",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "handleReadShareGroupStateSummaryRequest",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "handleDescribeShareGroupOffsetsRequest",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "handleAlterShareGroupOffsetsRequest",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "handleDeleteShareGroupOffsetsRequest",
    ApiKey.LIST_CONFIG_RESOURCES: "handleListConfigResources",
}

CONTROLLER_APIS: Final[Mapping[ApiKey, str]] = {
    ApiKey.CREATE_TOPICS: "handleCreateTopics",
    ApiKey.DELETE_TOPICS: "handleDeleteTopics",
    ApiKey.CREATE_PARTITIONS: "handleCreatePartitions",
    ApiKey.ALTER_CONFIGS: "handleLegacyAlterConfigs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "handleIncrementalAlterConfigs",
    ApiKey.ELECT_LEADERS: "handleElectLeaders",
    ApiKey.ALTER_PARTITION: "handleAlterPartitionRequest",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "handleAlterPartitionReassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "handleListPartitionReassignments",
    ApiKey.ALTER_CLIENT_QUOTAS: "handleAlterClientQuotas",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "handleAlterUserScramCredentials",
    ApiKey.ALLOCATE_PRODUCER_IDS: "handleAllocateProducerIdsRequest",
    ApiKey.UPDATE_FEATURES: "handleUpdateFeatures",
}
SOURCES: Final[Mapping[str, Mapping[ApiKey, str]]] = {
    "kafka.server.KafkaApis": KAFKA_APIS,
    "kafka.server.ControllerApis": CONTROLLER_APIS,
    "kafka.server.AclApis": {
        ApiKey.DESCRIBE_ACLS: "handleDescribeAcls",
        ApiKey.CREATE_ACLS: "handleCreateAcls",
        ApiKey.DELETE_ACLS: "handleDeleteAcls",
    },
    "kafka.server.ConfigHelper": {ApiKey.DESCRIBE_CONFIGS: "handleDescribeConfigsRequest"},
    "kafka.server.AuthHelper": {ApiKey.DESCRIBE_CLUSTER: "computeDescribeClusterResponse"},
    "kafka.server.handlers.DescribeTopicPartitionsRequestHandler": {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: "handleDescribeTopicPartitionsRequest"
    },
}
OF_BROKERS_ONLY: Final = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}
"""Of ZooKeeper's controller, which 4.x does not have."""
ASKS_NOTHING: Final = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}

BEYOND: Final[Mapping[ApiKey, frozenset[str]]] = {
    # The topic of why-records is the brokers' own; so is the one that a broker has made.
    ApiKey.PRODUCE: frozenset({"CLUSTER_ACTION", "CLUSTER"}),
    ApiKey.CREATE_TOPICS: frozenset({"CLUSTER_ACTION"}),
}
"""What kavka asks, and Kafka does not."""
ELSEWHERE: Final[Mapping[ApiKey, frozenset[str]]] = {
    # For InitProducerId 6 (KIP-939), which is not served.
    ApiKey.INIT_PRODUCER_ID: frozenset({"TWO_PHASE_COMMIT"}),
    # On 4.x, Delete on the cluster does instead of Delete on each topic; on 3.9 and here it does not.
    ApiKey.DELETE_TOPICS: frozenset({"CLUSTER"}),
    # For loggers of a controller; a broker's take AlterConfigs.
    ApiKey.INCREMENTAL_ALTER_CONFIGS: frozenset({"CLUSTER_ACTION"}),
}
"""What Kafka 4.3 names, and kavka does not ask."""


class Code:
    """The methods of a class, as javap prints them: what each names, and which others of the class it calls. Lambdas
    count as calls of the method that they are written in."""

    def __init__(self, text: str) -> None:
        self.named: dict[str, set[str]] = defaultdict(set)
        self.calls: dict[str, set[str]] = defaultdict(set)
        method = ""
        for line in text.splitlines():
            if (header := METHOD.match(line)) is not None:
                method = header["name"]
                if (written := LAMBDA.match(method)) is not None:
                    self.calls[written["of"]].add(method)
                continue
            self.named[method].update(found["word"] for found in NAMED.finditer(line))
            self.calls[method].update(found["name"] for found in CALLED.finditer(line))
            if ON_CLUSTER in line:
                self.named[method].add(ResourceType.CLUSTER.name)

    def words(self, handler: str) -> frozenset[str]:
        """All that a handler names, and whatever it calls."""
        seen, wanted = set[str](), [handler]
        while wanted:
            method = wanted.pop()
            if method not in seen:
                seen.add(method)
                wanted += self.calls[method]
        return frozenset(word for method in seen for word in self.named[method])


@pytest.fixture(scope="module")
def code() -> Mapping[str, Code]:
    if shutil.which("javap") is None:
        pytest.skip("no javap: it comes with a JDK")
    release = Release.named("kraft")
    try:
        release.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    found = {}
    for name in SOURCES:
        command = ["javap", "-c", "-p", "-cp", release.class_path, name]
        found[name] = Code(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    return found


@pytest.mark.parametrize(
    ("source", "key", "handler"),
    [(source, key, handler) for source, handlers in SOURCES.items() for key, handler in handlers.items()],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_a_row_names_what_kafka_4_asks(code: Mapping[str, Code], source: str, key: ApiKey, handler: str) -> None:
    row = API_RIGHTS[key]
    ours = {word for operation, kind in row.items for word in (operation.name, kind.name)}
    ours |= {operation.name for operation in row.whole} | ({ResourceType.CLUSTER.name} if row.whole else set())
    theirs = code[source].words(handler)
    assert theirs, "nothing was read"
    assert ours - BEYOND.get(key, frozenset()) == theirs - ELSEWHERE.get(key, frozenset())


def test_every_handler_of_a_broker_that_asks_is_compared(code: Mapping[str, Code]) -> None:
    read = code["kafka.server.KafkaApis"]
    asking = {name for name in read.named if re.fullmatch(r"handle\w+", name) and read.words(name)}
    parts = {
        *("handleFindCoordinatorRequestV4AndAbove", "handleFindCoordinatorRequestLessThanV4"),
        # Asks the rest in ConfigAdminManager, and as ControllerApis.
        "handleIncrementalAlterConfigsRequest",
    }
    assert asking - parts == set(KAFKA_APIS.values())


def test_every_row_is_compared_with_a_handler_or_says_why_not() -> None:
    compared = {key for handlers in SOURCES.values() for key in handlers}
    assert set(API_RIGHTS) - compared == OF_BROKERS_ONLY | ASKS_NOTHING
    assert all(API_RIGHTS[key].items == frozenset() and not API_RIGHTS[key].whole for key in ASKS_NOTHING)
