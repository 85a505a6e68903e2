"""Decides for all groups of one partition of `__consumer_offsets`. Pure: no log, no futures, no clock.

shard      the groups and offsets of the partition, and which offsets have expired; committed state changes in
           `replay` alone
records    the log's records of classic groups and offsets, in Kafka's formats
rebalance  why a group stopped and went on, as a why-record
"""
