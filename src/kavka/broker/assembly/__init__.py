"""Wiring only: makes the parts of a broker, joins them, starts and stops them.

No other room of the broker constructs these parts; only the hosts (runtime, simulator, testing) start a broker. This
room must not decide anything about records, groups, topics or transactions.

    start.py             start_broker: the steps of a start, and what is undone where one fails
    parts.py every part is made here, from the parts that it needs
    broker.py            Broker: a broker that has started, as handlers and hosts see it
    ports.py             what a host gives a broker
    ends.py              in which order parts end, at a stop and at an abort
    tasks.py             what runs beside requests; a task that fails halts the broker
    relay.py             joins a part that reports something with those that must hear of it
    local_requests.py    requests that the broker sends to itself
    authorizers.py       the authorizer that the settings name, on brokers with one
    authentication.py    SASL: of clients that come in, and of this broker where it logs in
    delegation_tokens.py
                         delegation tokens, on brokers that have them
    kerberos_acceptors.py  GSSAPI: the keytabs of listeners, and the thread that checks tickets
    own_oauthbearer_token.py
                         OAUTHBEARER: the token that this broker logs in with on the others
    own_kerberos_tickets.py
                         GSSAPI: how this broker logs in on the others, and who it is to them
    oauthbearer_verifiers.py
                         OAUTHBEARER: whose tokens listeners believe, verified beside the loop
    following.py         fetchers, made when the first partition is to be followed
    group_coordinator.py the coordinator of groups; made late
    group_parts.py       parts beside the coordinator of groups
    share_parts.py       the parts of share groups; late_share.py: made with the first use
    late_parts.py        groups, transactions, quotas, moves of logs, and smaller ones: made late
    security_parts.py    the authorizer, SASL and delegation tokens, on brokers with any of them
    transaction_coordinator.py
                         the parts that a broker needs for transactions; made late
"""
