"""Transactional ids, as `__transaction_state` has them.

coordinator  the flow: the log, markers, time
shard        the ids of one partition, decided; state: one id, and how it may change
records      the log's records, in Kafka's formats
"""
