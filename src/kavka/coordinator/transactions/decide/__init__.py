"""Decides for the transactional ids of one partition of `__transaction_state`. Pure: no log, no futures, no clock.

shard    the ids of the partition: who may do what, and what is answered
state    one transactional id, and how it may change
records  the log's records, in Kafka's formats
"""
