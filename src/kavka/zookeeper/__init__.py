"""ZooKeeper: the port that the broker speaks to, the znode tree behind the embedded server, and Kafka's znodes.

`port` is what flows depend on. `tree` decides, `database` makes it durable, `local` serves the port inside this
process; `znodes` is the only place where a path or a znode's form is spelled.
"""
