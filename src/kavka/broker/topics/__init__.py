"""Topics that brokers create without an administrator's request.

auto_creation.py   a client's Metadata request names a topic that does not exist
topic_creation.py  with how many partitions and replicas, and by which broker a topic is created
"""
