"""Security: who a client is and what it may do, as pure decisions.

Decides from values: a principal, a host, an operation, a resource and the access control lists. Must not know
connections, requests or ZooKeeper; the broker asks (`broker.authorization`) and keeps the lists.

    principals  "User:alice", super users, and the texts of hosts
    acls        access control lists: entries, patterns of resources, filters
    authorizer  may a principal do this? The decision, its reason, and the rule that would change it
"""
