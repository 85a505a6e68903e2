"""What an operator may change on a cluster: shown first, then confirmed, then done once, and written down.

Decides what each action asks for, shows and sends. Must not know HTML.

action   the way of every action: form, preview, run
topics   create, settings, more partitions, delete, delete records; brokers' settings
one_setting  one setting, in a form made for its type
groups   set committed offsets, delete groups
acls     add and remove access control lists
users    set and remove passwords for SCRAM
quotas   limits of users, client ids and addresses
connectors  restart, pause, resume and stop Kafka Connect's connectors
into_topic   what writing into a topic has in common: produce and replay
produce  one record
replay       copies chosen records into a topic
typed_time  the instant that a typed time means
"""
