"""Where the records of this broker's decisions go.

Must not know what was decided or why: the form of a record is in `kavka.decisions`.

    decision_log.py    a line in the broker's log, a ring on its disk, a record in the cluster
    decision_topic.py  the way into the topic `__kavka_decisions`, wherever its leader is
"""
