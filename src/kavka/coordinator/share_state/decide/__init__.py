"""Decides for the share-partitions of one partition of `__share_group_state`. Pure: no log, no futures, no clock.

batches.py  states of offsets, combined
pruning.py  which prefix of the log nobody needs
records.py  the records, in Kafka's formats
shard.py    Initialize, Read, Write, Delete and Summary
"""
