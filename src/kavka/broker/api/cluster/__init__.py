"""The cluster as operators see it: what it serves, its brokers and disks, and where replicas lie.

api_versions               which APIs and versions, and which feature levels
describe_cluster, update_features
describe_log_dirs, alter_replica_log_dirs    the disks of this broker
elect_leaders, alter_partition_reassignments, list_partition_reassignments    who leads, who has replicas
get_telemetry_subscriptions, push_telemetry    clients' metrics (KIP-714)
client_identity            not an API: which client pushes
"""
