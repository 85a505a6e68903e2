"""The controller's work within one term: short flows that read ZooKeeper, ask `decide`, write, and order.

leaders                   writes who leads, by compare-and-set; all other flows change partition states through it
broker_changes            brokers come, go, bounce, refuse connections, or lose a log directory
alter_partition           leaders propose who is in sync: judged by `isr_proposals`, written here
notifications             znodes by which brokers report ISRs they wrote themselves, and failed log directories
controlled_shutdown       a broker that is about to stop hands over what it leads
elections                 an operator asks for an election
leader_rebalance          preferred replicas lead again where too many leaderships have gone elsewhere
reassignments             partitions move to other replicas
submitted_reassignments   what old tools write to /admin/reassign_partitions
topic_admin               clients create, grow and delete topics
topic_changes             topics and deletion marks that appear in ZooKeeper, whoever wrote them
topic_deletion            replicas are deleted on every broker, then the znodes
feature_updates           clients change feature levels
config_admin              configurations in ZooKeeper; every broker may run it, it needs no controller
"""
