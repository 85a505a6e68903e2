"""The controller: which broker leads which partition, which topics there are, and the flows that write it down.

decides        assignment, election, topics, state_machines, reassignment, and the pure halves of alter_partition
               (`judge`), controlled_shutdown (`leave`) and preferred; they read `context`; feature_levels
writes         reign: every write behind a check of the controller epoch; leaders: compare-and-set of states
tells          orders (values), requests (who is told what), channels (how it gets there), delivery
goes on        controller: the seat; events: one queue; office: one reign's work; succession: a dead controller
in an office   broker_changes, topic_changes, topic_admin, topic_deletion, isr_notifications, alter_partition,
               controlled_shutdown, reassignments, preferred, rebalance, feature_updates
says why       reasons
"""
