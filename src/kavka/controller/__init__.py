"""The controller: the broker that decides for the cluster which broker leads which partition and which topics exist.

Each row may use the rows below it, never those above.

    controller          this broker as a candidate: it becomes the controller, and stops being it
    active_controller   one term's work: which event is handled by whom, and what clients and brokers may ask for
    work/               the flows: read ZooKeeper, ask `decide`, write, order
    term/               the term of one controller: fenced writes, events, the failover to the next controller
    orders/             what brokers are ordered to do, and how that reaches them
    decide/             all decisions, pure: no clock, no task, no socket
"""
