"""One module for each page, or for a few that belong together; the application finds them by their `routes`.

wall          all clusters; the overview of one
brokers       all brokers, and one
topics        all topics, and one
settings      all settings of a topic or a broker, compared with another's or a file's
messages      a topic's records: search, one record, live tail
exports       what a search of messages finds, as a file
saved_searches searches of messages that have a name
groups        all groups, and one
decisions     why-records, and one with what led to it
requests      requests by API, where their time goes, slow and throttled ones
durability    what is lost if a broker dies now
churn         how often brokers leave and join ISRs
clients       who reads and who writes a topic, a partition, what a broker leads
access_lists  access control lists, users, quotas
connect       Kafka Connect: all connectors, and one
schemas       a schema registry: all subjects, and one with its versions
zookeeper     ZooKeeper's servers and its tree
simulator     runs of the simulator
playground    the files of the cluster in a page
actions       form, preview and outcome of every action
replay        copying of chosen records
alerts        what fires, the rules, silences
jobs          a cluster's jobs
jobs_actions  a job: form, plan, progress
move_replicas which replicas move: chosen on a broker, or typed for each partition of a topic
audit         the audit log
login         login and logout
sso           logins by a provider: there, and back
preferences   language and theme
"""
