"""Topics: which topics exist, who leads their partitions; create, delete and enlarge them.

Decides which topics an answer names and how it refuses the others. Must not know where replicas are placed or how a
topic is written: that is `kavka.controller`.

    metadata                   topics, their partitions and the brokers, for every client
    describe_topic_partitions  the same topics page by page
    create_topics, delete_topics, create_partitions    carried out by the controller only
    mutations                  no API: whether a client's quota allows a change
    ports                      what these need of the broker
"""
