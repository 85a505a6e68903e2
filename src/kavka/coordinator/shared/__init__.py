"""What the coordinators of groups, of transactions and of share groups' states all need.

active_shards  the partitions that this broker leads: loaded, found by key, unloaded
standstill     what arrived while this process stood still is read before what is due is done
uncommitted    nobody is told of a state that may still be undone
decide/        which partition keeps a key, whether an order still counts, bytes of records, errors of the log
"""
