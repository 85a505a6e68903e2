"""Why something happened, and what would happen.

why              why-records; story: the sentences; decision_source: where they are read from
trace            one record's way; record_way: what is known of it
replay           what brokers recorded, decided again
simulate         a cluster in virtual time; explore: a fault at every step
lag_policy       rules for when a follower leaves the ISR
quorum_vs_isr    in-sync replicas beside a majority quorum
"""
