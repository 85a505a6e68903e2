"""What runs until it is stopped: brokers, a ZooKeeper server, the console, a schema registry.

    up               `kavka up`, `kavka server`: options and help; start: from options to a running broker;
                     start_cluster: several; start_secure: with TLS, passwords and access control
    container        the settings come from a container's environment
    host             a broker for each core
    zookeeper        a ZooKeeper server; zookeeper_wait: until one answers
    console          the console; console_users, console_audit, console_rights: `kavka console user`, `audit`, `rights`
    schema_registry  a schema registry
    process_beside   what `up` starts beside its brokers: console_beside, registry_beside
    stdin_end        a run that ends with its standard input

`kavka up` has to start fast: up, start, start_cluster, start_secure, stdin_end and the three *_beside import neither
typer nor rich.
"""
