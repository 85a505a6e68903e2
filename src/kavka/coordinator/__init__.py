"""Coordinators: group membership, committed offsets and transactions, each kept in a log and rebuilt from it.

groups/        groups of both protocols, and their offsets
transactions/  transactional ids
partitions     which partition of a coordinator's topic keeps what, and who serves it
"""
