"""Replicas of partitions: which broker leads, which replicas are in sync, what is committed, and which requests wait
for it.

decide/               what is decided, without a clock, an event loop or a socket: `decide/__init__.py` is its map
replica_manager       the partitions that this broker hosts, and the requests that wait for them
follower_fetches      what replicas on other brokers fetch from partitions led here
read_failures         the answer of a fetch for a partition that could not be read
delayed_requests      what an acks=all append, a deletion and a consumer's fetch wait for, and their answers
purgatory             requests that wait until a partition has moved far enough, or until their time is up
isr_changes           carries the leaders' ISR proposals out, in batches
alter_partition_writer, zookeeper_isr_writer
                      the two ways to have an ISR stored: by the controller, or in ZooKeeper
fetcher               the flow that follows one leader broker
fetcher_manager       which fetcher follows which partition
traffic               counts of what was written and read, by topic
"""
