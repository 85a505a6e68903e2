"""Wiring only: makes the parts of a broker, joins them, starts and stops them.

No other room of the broker constructs these parts; only the hosts (runtime, simulator, testing) construct a broker.
This room must not decide anything about records, groups, topics or transactions.

    broker.py            Broker: its parts, and the order in which they start and stop
    transaction_room.py  the parts that a broker needs for transactions
"""
