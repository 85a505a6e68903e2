"""Where Kafka's znodes stand: every path, and names as parts of a path. The only place where a path is spelled.

What stands in a znode is `znodes`' matter.

Source: the tree of a running Apache Kafka 3.9.2 in ZooKeeper mode.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from kavka.model import TopicPartition

CLUSTER_ID_PATH: Final = "/cluster/id"
BROKER_IDS_PATH: Final = "/brokers/ids"
BROKER_SEQUENCE_PATH: Final = "/brokers/seqid"
TOPICS_PATH: Final = "/brokers/topics"
CONTROLLER_PATH: Final = "/controller"
CONTROLLER_EPOCH_PATH: Final = "/controller_epoch"
ISR_CHANGES_PATH: Final = "/isr_change_notification"
LOG_DIR_EVENTS_PATH: Final = "/log_dir_event_notification"
REASSIGN_PARTITIONS_PATH: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION_PATH: Final = "/admin/preferred_replica_election"
DELETE_TOPICS_PATH: Final = "/admin/delete_topics"
CONFIG_PATH: Final = "/config"
CONFIG_CHANGES_PATH: Final = "/config/changes"
PRODUCER_ID_BLOCK_PATH: Final = "/latest_producer_id_block"
FEATURE_PATH: Final = "/feature"
UNCLEAN_SHUTDOWNS_PATH: Final = "/kavka_unclean_shutdowns"
LOG_DIRECTORIES_PATH: Final = "/kavka_log_directories"
UNKNOWN_USERS_PATH: Final = "/kavka_unknown_users"
CONSUMERS_PATH: Final = "/consumers"

ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES_PATH}/isr_change_"
"""To be created persistent-sequential, as the next two."""
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS_PATH}/log_dir_event_"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES_PATH}/config_change_"

LITERAL_ACLS_PATH: Final = "/kafka-acl"
EXTENDED_ACLS_PATH: Final = "/kafka-acl-extended"
LITERAL_ACL_CHANGES_PATH: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES_PATH: Final = "/kafka-acl-extended-changes"
LITERAL_ACL_CHANGE_PREFIX: Final = f"{LITERAL_ACL_CHANGES_PATH}/acl_changes_"
EXTENDED_ACL_CHANGE_PREFIX: Final = f"{EXTENDED_ACL_CHANGES_PATH}/acl_changes_"

TOKENS_PATH: Final = "/delegation_token/tokens"
TOKEN_CHANGES_PATH: Final = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX: Final = f"{TOKEN_CHANGES_PATH}/token_change_"
TOKEN_PERSISTENT_PATHS: Final = ("/delegation_token", TOKEN_CHANGES_PATH, TOKENS_PATH)
"""What a broker with delegation tokens adds to `PERSISTENT_PATHS`."""

TOPICS_ENTITY: Final = "topics"
BROKERS_ENTITY: Final = "brokers"
USERS_ENTITY: Final = "users"
CLIENTS_ENTITY: Final = "clients"
IPS_ENTITY: Final = "ips"
GROUPS_ENTITY: Final = "groups"
"""Settings of consumer groups. Of this and the next one Kafka has no znodes: they came after ZooKeeper. Its brokers log
an error for a notification of either, and go on."""
CLIENT_METRICS_ENTITY: Final = "client-metrics"
"""Subscriptions to clients' metrics (KIP-714)."""
ENTITY_TYPES: Final = (TOPICS_ENTITY, CLIENTS_ENTITY, USERS_ENTITY, BROKERS_ENTITY, IPS_ENTITY)
DEFAULT_ENTITY: Final = "<default>"
"""The name that stands for all brokers, users, clients or addresses without a configuration of their own."""
_NOT_IN_NAMES: Final = re.compile("[\x00-\x1f%/\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Beside "/" and "%", which has a meaning in `escape`, what ZooKeeper refuses (its PathUtils)."""

PERSISTENT_PATHS: Final = (
    "/admin",
    DELETE_TOPICS_PATH,
    "/brokers",
    BROKER_IDS_PATH,
    BROKER_SEQUENCE_PATH,
    TOPICS_PATH,
    "/cluster",
    CONFIG_PATH,
    CONFIG_CHANGES_PATH,
    *(f"{CONFIG_PATH}/{entity}" for entity in ENTITY_TYPES),
    CONSUMERS_PATH,
    ISR_CHANGES_PATH,
    PRODUCER_ID_BLOCK_PATH,
    LOG_DIR_EVENTS_PATH,
)
"""What a broker makes at its start where it is missing, without data; a parent stands before its children."""

ACL_RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
ACL_PERSISTENT_PATHS: Final = (
    LITERAL_ACLS_PATH,
    *(f"{LITERAL_ACLS_PATH}/{kind}" for kind in ACL_RESOURCE_TYPES),
    LITERAL_ACL_CHANGES_PATH,
    EXTENDED_ACLS_PATH,
    f"{EXTENDED_ACLS_PATH}/prefixed",
    *(f"{EXTENDED_ACLS_PATH}/prefixed/{kind}" for kind in ACL_RESOURCE_TYPES),
    EXTENDED_ACL_CHANGES_PATH,
)
"""What an authorizer adds to `PERSISTENT_PATHS`."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS_PATH}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS_PATH}/{topic}"


def topic_partitions_path(topic: str) -> str:
    return f"{TOPICS_PATH}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    return f"{TOPICS_PATH}/{partition.topic}/partitions/{partition.partition}"


def partition_state_path(partition: TopicPartition) -> str:
    return f"{TOPICS_PATH}/{partition.topic}/partitions/{partition.partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS_PATH}/{topic}"


def topic_config_path(topic: str) -> str:
    return entity_config_path(f"{TOPICS_ENTITY}/{topic}")


def broker_config_path(broker_id: int | None) -> str:
    """None: the default of all brokers."""
    return entity_config_path(f"{BROKERS_ENTITY}/{DEFAULT_ENTITY if broker_id is None else broker_id}")


def entity_config_path(entity_path: str) -> str:
    """`entity_path` as in `ConfigChange`: "topics/T", "users/U/clients/C", ..."""
    return f"{CONFIG_PATH}/{entity_path}"


def sanitize(name: str) -> str:
    """A user or client id as one path component: percent-encoded, "*" too. A user may be called as the default is.

    >>> sanitize("al ice/1*"), sanitize("<default>")
    ('al%20ice%2F1%2A', '%3Cdefault%3E')
    """
    return quote(name, safe="-_.").replace("~", "%7E")


def desanitize(component: str) -> str:
    return unquote(component)


def escape(name: str) -> str:
    """Any name but the empty one as one path component: what ZooKeeper takes in no name, "/" and "%" percent-encoded.

    >>> escape("orders/ü 1"), escape("..")
    ('orders%2Fü 1', '%2E%2E')
    """
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return _NOT_IN_NAMES.sub(lambda found: quote(found[0], safe=""), name)


def unescape(component: str) -> str:
    return unquote(component)


def token_path(token_id: str) -> str:
    return f"{TOKENS_PATH}/{token_id}"


def acl_path(resource_type: str, name: str, *, prefixed: bool) -> str:
    """Access control entries of one resource: `resource_type` is one of ACL_RESOURCE_TYPES."""
    return f"{f'{EXTENDED_ACLS_PATH}/prefixed' if prefixed else LITERAL_ACLS_PATH}/{resource_type}/{name}"
