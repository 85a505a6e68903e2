"""Coordinators: groups, offsets, transactions and states of share groups, each kept in a log and rebuilt from it.

Each room has a flow (it waits: futures, timers, the log) and a `decide` folder (pure: values and the time in, results
out). A new rule goes into `decide`; a new wait goes into the flow.

groups/        groups of every kind, and their offsets
transactions/  transactional ids
share_state/   what share groups have done with their records
shared/        what all of them need: which partition keeps what, patterns over names
"""
