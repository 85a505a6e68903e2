"""Limits on what a broker sends and takes.

replication_throttles.py  the replication quota (KIP-73): both sides of it, and where its limits and lists come from
client_quotas.py          what clients use up of their quotas, and how long they wait; made with the first quota
quota_store.py            quotas of clients in ZooKeeper
"""
