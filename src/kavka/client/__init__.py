"""A client of Kafka's protocol, on asyncio and the Network port.

connection   one connection to one broker: versions, requests in flight
cluster      brokers, topics, leaders, coordinators; retries
producer     records in, batches out, deliveries
transactions a transactional producer's talk with its coordinator
consumer     partitions or a group in, records out
group        one member of a consumer group
admin        topics, configurations, records, log directories
group_admin  groups of both protocols: lists, members, offsets, deletions
transaction_admin  transactions, producers, hanging ones
offsets      offsets by time
partitioner  keys to partitions, as Kafka's Java client does it
assignor     partitions to the members of a group
settings     what can be set

It speaks to kavka and to Apache Kafka from 2.1 on. The caller injects the network:

    async with Cluster(SocketNetwork(), parse_bootstrap("localhost:9092")) as cluster:
        async with Producer(cluster) as producer:
            await producer.send("orders", b"value", key=b"key")
"""
