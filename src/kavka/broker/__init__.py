"""The broker: joins replication, coordinators and controller, and answers Kafka's protocol.

authorization/ who may do what, on brokers with an authorizer; `api_rights.py` lists what each API asks for
authentication/ who a client is, on listeners with SASL
api/           one handler for each API key; `api_table.py` lists them, `dispatcher.py` calls them
assembly/      makes the parts below, joins them into one broker, starts and stops it
membership/    how a broker comes into its cluster, and what it finds in its log directories before it does
metadata/      what the controller says: about this broker's replicas, and about the cluster
topics/        topics that brokers create without an administrator's request
settings/      settings that change while the broker runs
coordinators/  what the coordinators of groups and transactions are given by the broker
transactions/  verification of transactional writes, markers, producer ids
reads/         fetch sessions, and the search for records by timestamp
upkeep/        compaction, retention, flushes, moves between log directories
share/         share groups: partitions that are led for them, sessions, the way to their states
quotas/        limits on replication traffic, and on what clients use up
decisions/     where the records of this broker's decisions go
telemetry/     the broker's metrics, and the metrics that clients push
acceptor.py    takes connections of one listener: who is served, who waits, who gives way
late.py        parts that are made, and imported, with their first use
"""
