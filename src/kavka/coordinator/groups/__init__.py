"""Groups and committed offsets, as `__consumer_offsets` has them.

coordinator   the flow: futures, timers, the log
active_shard  one partition of the log that is loaded here; shard: its groups and offsets, decided
records       the log's records of classic groups and offsets, in Kafka's formats
offsets       what groups committed, and what waits for the end of a transaction
rebalance     why a group stopped and went on
classic/      the JoinGroup and SyncGroup protocol
consumer/     the newer protocol (KIP-848)
"""
