"""What a simulated cluster must keep, after every step (docs/design/rules.md).

invariants    the observer, which sees everything and reports which rule was broken
replica_view, log_mirror    what it looks at: replicas, logs (and the host's wire: requests and answers)
log_rules, join_rules, fencing_rules, group_rules, transaction_rules, access_rules, session_rules  a family each
connection_rules  who gets in, and how many, however many come
idle_rules    what fetches leave out is as its follower was told
share_rules, share_log, share_readable, share_deletions  share groups: what members are given and may be, what is stored
streams_rules  streams groups: who has which task, in which epoch
stored_access what brokers know of users, quotas and tokens, beside what ZooKeeper has
rare_states   states that a campaign must have been in
convergence   what is missing for a cluster that was left alone to have come together
"""
