"""Where the records of this broker's decisions go, and the stages of its slow and sampled requests.

Must not know what was decided or why: the form of a record is in `kavka.decisions`, that of a request's in
`kavka.traces`.

    decision_log.py    a line in the broker's log, a ring on its disk, a record in the cluster
    carried_over.py    what earlier lives of this broker left in its ring for the topic
    decision_topic.py  the way into the topic `__kavka_decisions`, wherever its leader is
    request_traces.py  which requests are kept in a ring of their own, and which of them become why-records
    trace_context.py   the trace context in records' headers
    restarts.py        why a host started this broker's process again
    produce_waits.py   what an acks=all request waited for, as its leader saw it
"""
