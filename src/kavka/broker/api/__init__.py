"""What this broker answers: a module per API key, in rooms. Each opens with what the API does here, its versions, and
what is not supported and why. Which versions are served stands in `broker/api_table.py`.

    records       write, read, find and delete records
    groups        groups of consumers and their committed offsets
    transactions  transactions and their producers
    topics        which topics there are; create, delete and enlarge them
    configs       settings, levels of loggers, quotas
    cluster       versions, brokers, disks, elections, reassignments, clients' metrics
    control       between the controller and the brokers
    security      who a client is, and what it may do

A module has `handle(broker, request, message)`: `message` is the decoded request, and what it returns (or what the
awaitable that it returns gives) is the response message of the same API, None for no answer at all.
"""
