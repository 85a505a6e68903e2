"""What goes wrong in a simulated cluster, and who does it.

mix                which faults, when, for how long: drawn by lot, or given
fault_group        what the groups of kinds share
broker_faults      process, machine, clock, session of one broker
disk_faults        slow, failing, full and replaced disks of one broker
network_faults     between nodes, and of ZooKeeper
place_faults       what a leaving, a crash and a pause are, for the next four
member_faults      members of a consumer group
share_faults       members of a share group
streams_faults     members of a streams group, and its settings
transactor_faults  transactional producers
operations         what administrators do
access_faults      changes of who may do what, in secured clusters
liveness           the last phase: faults end, and the cluster must come together
"""
