"""What the controller says: about this broker's replicas, and about the cluster.

Decides which of the controller's messages still count, and what this broker does about them. Must not know the
controller's reasons.

    state_changes.py        carries out LeaderAndIsr, UpdateMetadata and StopReplica
    controller_messages.py  what those messages say, whichever version they come in
    published_metadata.py   what clients are shown of partitions that have a replica here
    metadata_cache.py       the cluster as clients are shown it: brokers, topics, leaders
    first_metadata.py       how long a broker that has just started lets clients wait
    controller_link.py      this broker's requests to whichever broker is the controller
    features.py             the feature levels that are in force
"""
