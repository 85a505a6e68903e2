"""What pages read besides a cluster's snapshot.

Each module bounds what it reads and how long that takes. None knows a page.

churn        the windows that the isr-churn pipeline counted
znodes       ZooKeeper's tree, read and never written
clients      who reads and who writes partitions
connections  whose connections are, where brokers tell them
rest_service a service beside the cluster that answers JSON, asked within bounds
connectors   Kafka Connect's connectors and tasks
subjects     a schema registry's subjects, versions and levels
simulations  runs of the simulator, each in a process of its own
"""
