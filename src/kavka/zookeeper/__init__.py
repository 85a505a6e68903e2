"""ZooKeeper: the port that the broker speaks to, a client of an ensemble, an embedded server, and Kafka's znodes.

port             what flows depend on: ZooKeeper's operations, and what it means when they fail
znode_paths      where Kafka's znodes stand: every path
znodes           what stands in them: the form of each; pure
znode_acls       who may read and write them, where zookeeper.set.acl is on; pure
access_list_znodes, delegation_token_znode
                 the forms of what only some brokers read; pure
persistent_paths the nodes that every cluster has, made where they are missing
change_nodes     what brokers tell each other by sequential nodes, followed without a gap
old_changes      those nodes deleted when they are old, beside what else a broker does
decide/          the tree and the wire protocol, without a clock or a socket: `decide/__init__.py` is its map

client           the port over ZooKeeper's wire protocol
client_session   one session, kept over as many connections as it takes

embedded         the embedded server, and the port served by it in this process
database         the tree made durable: a transaction log and snapshots
request_handler  the requests of one session of the wire protocol, carried out on the embedded server
"""
