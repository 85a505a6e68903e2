"""Groups of consumers: their members, their assignments, and the offsets that they commit.

Decides only how requests become questions to the coordinator, and its answers become responses. Must not know how a
group rebalances or how offsets are stored: that is `kavka.coordinator`.

    find_coordinator          which broker coordinates a group, or a transactional id
    join_group, sync_group, heartbeat, leave_group    a member of a classic group
    consumer_group_heartbeat  a member of a group of the newer protocol (KIP-848), which needs no other request
    offset_commit, offset_fetch, offset_delete    committed offsets
    describe_groups, consumer_group_describe, list_groups, delete_groups    for administrators
    partition_answers         no API: an answer for each partition, for requests about committed offsets
    ports                     what these need of the broker
"""
