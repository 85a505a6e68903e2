"""The term of one controller: from the write that raises the controller epoch to the next one.

controller_term   the only way in which a controller writes: behind a check of its epoch, one event at a time
events            what the controller may have to do, and the queue in which it waits
fast_failover     the next controller does not wait for the session of a dead one
input_recorder    is shown what the controller decides from, so that it can be decided again elsewhere
"""
