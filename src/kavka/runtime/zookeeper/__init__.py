"""ZooKeeper beside a broker, and its connections.

zookeeper_host         an embedded ZooKeeper
zookeeper_server       its port, or a process of its own; zookeeper_secure_port: its port with TLS
zookeeper_tls          certificates of ZooKeeper's connections, both sides
zookeeper_tickets      a broker's login there with Kerberos
"""
