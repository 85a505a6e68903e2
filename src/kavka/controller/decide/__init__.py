"""The controller's decisions: values in, values out. Nothing here reads a clock, waits, or does I/O.

context               what the controller knows of the cluster; everything else here is decided from it
state_machines        the states of partitions and replicas, and which moves between them are legal
election              who leads a partition: its first leader, and four kinds of elections
eligible_leaders      who may lead although it left the ISR, and who may not although it is in it (KIP-966)
reassignment          what a partition's assignment becomes, and which step is next on the way there
isr_proposals         whether the ISR that a leader proposes is accepted
controlled_shutdown   what becomes of a partition when a broker that has a replica of it is about to stop
requested_election    an election that an operator asks for: is it needed, and how does it come out
leader_balance        which partitions are given back to the replica that should lead them
dropped_replicas      which brokers are ordered again to delete a replica that a reassignment dropped
assignment            which brokers get the replicas of new partitions
topic_plans           which topics may be created, grown or deleted, and which znodes that takes
feature_levels        which level of each feature is in force, and which change is allowed
questions             what a partition's next state is decided from, as JSON and back
reasons               why-records of what was decided
"""
