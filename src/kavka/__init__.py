"""kavka: Kafka's classic core as a Python package.

Each folder is a room, and its `__init__.py` is the room's map. ARCHITECTURE.md shows which room imports which.

    cli           the command line
    console       the operators' console: web pages about any cluster
    testing       clusters inside tests, with faults on demand
    studies       "what if": lag policies, in-sync replicas beside majorities
    observe       a cluster as an outsider sees it: readings, health, changes
    replay        a flight recording decided again
    schema_registry  a schema registry with Confluent's interface, beside any Kafka
    runtime       the real host: sockets, disks, processes
    simulator     the other host: whole clusters in virtual time, from one seed
    broker        one broker: its APIs, and the parts that it is put together from
    client        a client of Kafka's protocol
    flight        what a broker records of its inputs
    controller    which broker leads what; topics, assignments, elections
    share         what a share group has done with the records of one partition
    coordinator   groups, their offsets, transactions, states of share groups
    replication   leaders, followers, in-sync replicas, the high watermark
    log           a partition's records on disk
    zookeeper     ZooKeeper: a client, a server, Kafka's znodes
    protocol      Kafka's messages as bytes and as values
    records       record batches: checks, codecs, builders
    config        every setting of Kafka's, and what it does here
    security      who may do what: principals, access control lists, the decision

`__main__` runs the command line for `python -m kavka`.

The ground floor is single modules that every room may use:

    model         nouns that all rooms share: partitions, offsets, brokers, slices of files
    errors        the protocol's error codes, failures of the world, our own bugs
    decisions     a why-record as a value
    traces        where the time of one request went, as a value
    network       the Network port
    filesystem    the FileSystem port
    metrics       counters, gauges and histograms under Kafka's names
    logger        log lines with keys
    installation  the command that installs one of kavka's extras
"""

__version__ = "0.2.0"
