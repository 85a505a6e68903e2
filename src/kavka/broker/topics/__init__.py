"""Topics that brokers create without an administrator's request.

streams_topics.py  internal topics of Kafka Streams applications
auto_creation.py   a client's Metadata request names a topic that does not exist
topic_creation.py  by which broker a topic is created; how many partitions and replicas an internal one has
                   (of all others: `controller.decide.topic_plans`)
"""
