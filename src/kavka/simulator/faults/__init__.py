"""What goes wrong in a simulated cluster, and who does it.

mix             which faults, when, for how long: drawn by lot, or given
fault_group     what the groups of kinds share
broker_faults   process, machine, disks, clock, session of one broker
network_faults  between nodes, and of ZooKeeper
operations      what administrators do

What befalls members of groups and transactional producers stands with them, in clients/.
"""
