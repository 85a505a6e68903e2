"""Transactions, and the producers that run them.

Decides only how requests become questions to the coordinators and to the log. Must not know the states of a
transaction: that is `kavka.coordinator`.

    init_producer_id       a producer id, and an epoch that fences former producers of the same transactional id
    add_partitions_to_txn, add_offsets_to_txn, end_txn    a transaction, step by step, at its coordinator
    txn_offset_commit      a group's offsets as part of a transaction, at the group's coordinator
    write_txn_markers      the end of a transaction in its partitions, from its coordinator to their leaders
    list_transactions, describe_transactions, describe_producers    for administrators
    known_errors           no API: what older versions get instead of an error that they do not know
    ports                  what these need of the broker
"""
