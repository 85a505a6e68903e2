"""The cluster as operators see it: what it serves, its brokers and disks, and where replicas lie.

Decides only what the answers show. Must not know how a leader is elected or a replica moved: that is
`kavka.controller` and `kavka.log`.

    api_versions               which APIs, versions and feature levels
    describe_cluster           the cluster's id, controller and brokers
    update_features            changes feature levels
    describe_log_dirs, alter_replica_log_dirs    the disks of this broker
    elect_leaders, alter_partition_reassignments, list_partition_reassignments    who leads, who has replicas
    get_telemetry_subscriptions, push_telemetry    clients' metrics (KIP-714)
    client_identity            no API: which client pushes metrics
    ports                      what these need of the broker
"""
