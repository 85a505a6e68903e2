"""What this broker answers: one module per API, in rooms by subject.

Each module opens with what the API does here (Behaviour), which versions it has, and what is not supported and why.

    records       write, read, find and delete records
    groups        groups of consumers and their committed offsets
    share         share groups: members, records under locks, states of partitions
    streams       streams groups: members, topologies, tasks
    transactions  transactions and their producers
    topics        which topics exist; create, delete and enlarge them
    configs       settings, levels of loggers, quotas
    cluster       versions, brokers, disks, elections, reassignments, clients' metrics
    control       between the controller and the brokers
    security      who a client is, and what it may do
    guards        what each API asks an authorizer, before its handler

    loader        finds the handler of an API, the only module that imports handlers; versions: `broker/api_table.py`
    ports         what a broker must have so that all of this can be served; each room has a `ports` of its own
    endpoints     where clients reach the live brokers
    by_topic      partitions gathered by topic, as answers list them
    zookeeper_patience
                  how long a request waits for ZooKeeper
    found_group   the group that a describe is about, of any of the newer protocols
    topic_cursor  where DescribeTopicPartitions goes on
    topology_names  the topics that an application of Kafka Streams names
    acknowledgements  what both requests of share groups say of records

A handler is `handle(broker, request, message)`. `broker` is known by the Protocol in the room's `ports`; `message` is
the decoded request. It returns the response message, an awaitable of it, or None for no answer at all.
"""
