"""What brokers are ordered to do, and how that reaches them.

orders             what was decided and written, as values
control_requests   who is sent which LeaderAndIsr, UpdateMetadata and StopReplica, in which order
channels           one queue per broker; a request is sent again until it is answered
delivery           how many requests are still waiting for an answer
"""
