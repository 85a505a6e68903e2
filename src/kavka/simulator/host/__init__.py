"""What a simulated cluster runs on: virtual time, links, disks, ZooKeeper servers, and a trace of what happens.

scheduler  an event loop for each node, all driven by one seeded order of steps
network    links with delay, loss, cuts; the Network port of each node, and who listens
disk       files whose unsynced bytes and names a power cut takes away; the FileSystem port of each node
zookeeper  the embedded server's tree, database and sessions behind simulated links
broker     the production broker on a node's loop
accepting  who waits to be accepted, for the production acceptor
tls        certificates that are values, shown before the first frame
wire       requests and answers, decoded for those who watch
trace      what happened, one event a line
"""
