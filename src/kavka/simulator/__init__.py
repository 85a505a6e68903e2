"""The simulator: the very code of brokers, controller, ZooKeeper and clients in one process, with virtual time.

scheduler   an event loop for each node, all driven by one seeded order of steps
network     links with delay, loss, cuts; the Network port of each node, and who listens
disk        files whose unsynced bytes a power cut takes away; the FileSystem port of each node
"""
