"""Handlers of streams groups (KIP-1071).

streams_group_heartbeat   a member of a Kafka Streams application; has its internal topics created
streams_group_describe    for administrators: topology, members, tasks
ports                     what the broker must offer
"""
