"""A cluster as a whole: its health, its brokers, where its replicas are, and its settings.

health durability top   what is wrong, what a broker's death would cost, what happens now
brokers                 each broker, with what it leads and stores; answering_brokers: those that can be asked
features configs        feature levels; settings of topics, brokers and groups
reassign                replicas to other brokers; move_status: how far they are; replication_throttle: how fast
elect                   leaders, the preferred ones or any
log_dirs                replicas to other directories; local_log_directories: directories of this machine
"""
