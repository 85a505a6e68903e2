"""What a simulated cluster must keep, after every step (docs/design/rules.md).

invariants    the observer, which sees all and says which rule was broken
replica_view, log_mirror, wire    what it looks at: replicas, logs, requests and answers
log_rules, join_rules, fencing_rules, group_rules, transaction_rules    a family of rules each
convergence   what is missing for a cluster that was left alone to have come together
"""
