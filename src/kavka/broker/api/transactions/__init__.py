"""Transactions and the producers that run them.

init_producer_id       a producer id, and an epoch that fences former producers of the same transactional id
add_partitions_to_txn, add_offsets_to_txn, end_txn    a transaction, step by step, at its coordinator
txn_offset_commit      a group's offsets as part of a transaction, at the group's coordinator
write_txn_markers      the end of a transaction in its partitions, from coordinator to leaders
list_transactions, describe_transactions, describe_producers    what administrators ask
known_errors           not an API: errors that older versions do not know
"""
