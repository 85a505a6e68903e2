"""Groups and committed offsets, as `__consumer_offsets` has them.

coordinator         the flow: who is asked for what, members of classic groups, timers
shard_writer        records on their way into the log, and applied once they are committed
carrier             what the coordinator does for the flows of the newer groups
active_group_shard  one partition of the log that is loaded here; turns: who may change a group now
decide/             one partition's groups and offsets: what each request is answered with, and which records it writes
classic/            the JoinGroup and SyncGroup protocol
consumer/           the newer protocol (KIP-848)
share/              share groups (KIP-932)
streams/            streams groups (KIP-1071)
offsets/            what groups committed, and what waits for the end of a transaction
"""
