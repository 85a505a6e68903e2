"""A cluster as an outsider sees it: read through the client alone, again and again.

For the command line and the console; needs no extra.

snapshot           values: a cluster as it was last seen, each part with the time of its reading
readings           what is asked of brokers; group_readings, transaction_readings, zookeeper_readings, broker_metrics
snapshot_assembly  readings put together into snapshots; group_assembly for groups
watcher            one cluster: when each part is read, and what is published
controllers        who the controller is, and how often that changed
decision_tail      why-records, read as they are written
given_up           what share groups gave up in the last hour, out of why-records
changes            wakes, once, whoever waits for news
cluster_settings   how a cluster is reached
exposure/          what a cluster shows to whoever calls, and what of it is a finding
health/            checks, findings, the score
"""
