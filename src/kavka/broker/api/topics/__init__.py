"""Topics: which there are, who leads them, how they come and go.

metadata                   topics, their partitions and the brokers, for every client
describe_topic_partitions  the same topics page by page
create_topics, delete_topics, create_partitions    what only the controller carries out
"""
