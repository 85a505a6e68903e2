"""Coordinators: group membership, committed offsets and transactions, each kept in a log and rebuilt from it.

Each room has a flow (it waits: futures, timers, the log) and a `decide` folder (pure: values and the time in, results
out). A new rule goes into `decide`; a new wait goes into the flow.

groups/        groups of both protocols, and their offsets
transactions/  transactional ids
share_state/   what share groups have done with their records
shared/        what both coordinators need: which partition keeps what, patterns over names
"""
