"""What the coordinators of groups and transactions are given by the broker.

Must not know the state of a group or of a transaction: that is in `kavka.coordinator`.

    coordinator_log.py    a coordinator's appends to its topic, and the reading of all that is committed in it
    committed_records.py  which records of the offsets log count when there are transactions in it
    streams_group_settings.py
                          the limits of a streams group (KIP-1071)
    group_census.py       which groups the cluster has, asked of every broker
    consumer_groups.py    the topics that consumer groups (KIP-848) know, and the limits of a group
"""
