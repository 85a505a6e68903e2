"""What each setting is for, in a sentence or two of our own; loaded only when DescribeConfigs or a person asks.

Must not know types, defaults and ranges: they are in the tables. A text names the unit if the setting's name does not.
I1. Every row of every table has a text, and every text has a row (tests/unit/config/test_documentation.py).
"""

from __future__ import annotations

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.effect import Effect, Standing, standing
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import Settings
from kavka.config.topic import TopicSettings

_UNITS = (
    (".bytes.per.second", "bytes per second"),
    (".ms", "milliseconds"),
    (".millis", "milliseconds"),
    (".seconds", "seconds"),
    (".secs", "seconds"),
    (".minutes", "minutes"),
    (".hours", "hours"),
    (".bytes", "bytes"),
    ("buffer.size", "bytes"),
    (".percentage", "percent"),
    (".ratio", "share from 0 to 1"),
    (".throttled.rate", "bytes per second"),
)


def documentation(name: str, table: type[Settings]) -> str:
    """What `name` of `table` is for; "" if the table has no such row."""
    return _TEXTS[table].get(name, "") if table in _TEXTS else ""


def in_force(name: str, table: type[Settings]) -> str:
    """How the effect of `name` of `table` differs here from Kafka's; "" if it does not."""
    effect, why = standing(name, table)
    return f"{_SAID[effect]}{why}" if why and effect in _SAID else ""


def effect_said(text: str) -> tuple[str, Standing | None]:
    """What a broker says of a setting, apart from the effect that it says it has here (`in_force`); None: it says none,
    as Apache Kafka never does."""
    for effect, phrase in _SAID.items():
        meaning, found, why = text.partition(phrase)
        if found and (not meaning or meaning.endswith(" ")):
            return meaning.strip(), Standing(effect, why.strip())
    return text.strip(), None


_SAID = {
    Effect.NONE: "No effect here: ",
    Effect.REFUSED: "Not supported: ",
    Effect.AT_START: "In force at start only: ",
}


def unit(name: str) -> str:
    """The unit of a numeric setting; "" if it counts things or is not a number."""
    if name.endswith(("max.bytes.per.second", "io.max.bytes.per.second")):
        return "bytes per second"
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "")


_BROKER = {
    # This broker, its listeners and its rack.
    "advertised.listeners": "The addresses that the broker gives to clients and other brokers, where they differ from "
    "listeners: behind a proxy, in a container, with several networks.",
    "broker.id": "The number of this broker in its cluster. -1 asks for one to be generated.",
    "broker.id.generation.enable": "Whether a broker with broker.id=-1 gets a number from the cluster.",
    "broker.rack": "The failure domain of this broker. Replicas of a partition are spread over racks.",
    "control.plane.listener.name": "The listener that only the controller uses to command this broker.",
    "early.start.listeners": "Listeners that may start before the authorizer is ready.",
    "inter.broker.listener.name": "The listener over which brokers talk to each other; without it, the one named "
    "after security.inter.broker.protocol.",
    "inter.broker.protocol.version": "The release whose protocol brokers speak among themselves; kept back during a "
    "rolling upgrade.",
    "listener.security.protocol.map": "Which security protocol each listener name stands for, as NAME:PROTOCOL,...",
    "listeners": "Where connections are accepted, as NAME://host:port,... An empty host means all interfaces, port 0 "
    "any free port.",
    "node.id": "Another name for broker.id.",
    "reserved.broker.max.id": "The highest number that may be given by hand; generated ones are above it.",
    "security.inter.broker.protocol": "The security protocol between brokers where inter.broker.listener.name is not "
    "set.",
    # ZooKeeper.
    "zookeeper.clientCnxnSocket": "The Java class of ZooKeeper's client socket: ClientCnxnSocketNetty with TLS. kavka "
    "checks that it does not contradict zookeeper.ssl.client.enable, and uses its own connections.",
    "zookeeper.connect": "The ZooKeeper servers as host:port,host:port/path. Without it this broker keeps its "
    "metadata in a ZooKeeper of its own.",
    "zookeeper.connection.timeout.ms": "How long the first connection to ZooKeeper may take; the session's timeout "
    "where it is not set.",
    "zookeeper.max.in.flight.requests": "How many requests may wait for ZooKeeper's answer at once; 1,000 where it is "
    "not written down.",
    "zookeeper.metadata.migration.enable": "Whether the cluster's metadata may be moved to KRaft.",
    "zookeeper.metadata.migration.min.batch.size": "Records in one step of a migration to KRaft.",
    "zookeeper.session.timeout.ms": "How long ZooKeeper keeps a silent broker's session; after that the broker counts "
    "as dead.",
    "zookeeper.set.acl": "Whether znodes are created with access control lists: their creator may do everything, "
    "others read what is not secret. The broker must tell ZooKeeper who it is.",
    "zookeeper.ssl.cipher.suites": "The cipher suites offered to ZooKeeper over TLS.",
    "zookeeper.ssl.client.enable": "Whether connections to ZooKeeper use TLS.",
    "zookeeper.ssl.crl.enable": "Whether revocation lists are consulted for ZooKeeper's certificate.",
    "zookeeper.ssl.enabled.protocols": "The TLS versions offered to ZooKeeper.",
    "zookeeper.ssl.endpoint.identification.algorithm": "How ZooKeeper's host name is checked against its certificate; "
    "empty for not at all.",
    "zookeeper.ssl.keystore.location": "The file with this broker's certificate and key for ZooKeeper.",
    "zookeeper.ssl.keystore.password": "The password of the key store for ZooKeeper.",
    "zookeeper.ssl.keystore.type": "The format of the key store for ZooKeeper.",
    "zookeeper.ssl.ocsp.enable": "Whether ZooKeeper's certificate is checked by OCSP.",
    "zookeeper.ssl.protocol": "The TLS version to negotiate with ZooKeeper.",
    "zookeeper.ssl.truststore.location": "The file with the certificates that ZooKeeper is trusted by.",
    "zookeeper.ssl.truststore.password": "The password of the trust store for ZooKeeper.",
    "zookeeper.ssl.truststore.type": "The format of the trust store for ZooKeeper.",
    # Sockets, threads and queues.
    "background.threads": "Threads for deletions, checkpoints and other work that nobody waits for.",
    "connection.failed.authentication.delay.ms": "How long a connection that failed to authenticate is kept before it "
    "is closed, which slows down guessing.",
    "connections.max.idle.ms": "After how long without a request a connection is closed; never where it is negative.",
    "connections.max.reauth.ms": "The longest time between two authentications of a SASL connection; 0 for no bound.",
    "delete.records.purgatory.purge.interval.requests": "Completed DeleteRecords after which their list is swept.",
    "errors.deadletterqueue.auto.create.topics.enable": "Whether brokers create a dead-letter topic that is missing, "
    "with the defaults of partitions and replicas.",
    "errors.deadletterqueue.topic.name.prefix": "How names of dead-letter topics must begin; empty: any name will do.",
    "fetch.max.bytes": "The most that one fetch answer may hold.",
    "fetch.purgatory.purge.interval.requests": "Completed fetches after which the list of waiting ones is swept.",
    "max.connection.creation.rate": "New connections per second that are accepted; more wait.",
    "max.connections": "Connections that the broker holds at once.",
    "max.connections.per.ip": "Connections that one address may hold at once.",
    "max.connections.per.ip.overrides": "Other bounds for single addresses or host names, as host:number,...",
    "max.incremental.fetch.session.cache.slots": "Fetch sessions that are kept; a client without one names all its "
    "partitions in every fetch.",
    "max.request.partition.size.limit": "The most partitions that one DescribeTopicPartitions answer holds.",
    "num.io.threads": "Threads that handle requests.",
    "num.network.threads": "Threads per listener that read requests off sockets and write answers.",
    "num.recovery.threads.per.data.dir": "Threads per log directory that load and check logs at the start, and flush "
    "them at the end.",
    "producer.purgatory.purge.interval.requests": "Completed produce requests after which the list of waiting ones is "
    "swept.",
    "queued.max.request.bytes": "Memory for requests that wait to be handled; sockets are not read above it. -1 for "
    "no bound.",
    "queued.max.requests": "Requests that may wait for the handler before sockets are left unread.",
    "request.timeout.ms": "How long this broker waits for another broker's answer.",
    "server.max.startup.time.ms": "How long the start of the broker may take.",
    "share.fetch.purgatory.purge.interval.requests": "Completed share fetches after which the list of waiting ones is "
    "swept.",
    "socket.connection.setup.timeout.max.ms": "The longest that setting up a connection to a broker may take after "
    "several failures.",
    "socket.connection.setup.timeout.ms": "How long the first try to connect to a broker may take; it doubles with "
    "each failure.",
    "socket.listen.backlog.size": "Connections that the operating system holds until they are accepted.",
    "socket.receive.buffer.bytes": "SO_RCVBUF of clients' sockets; -1 leaves it to the operating system.",
    "socket.request.max.bytes": "The longest request that is read; a longer one closes its connection.",
    "socket.send.buffer.bytes": "SO_SNDBUF of clients' sockets; -1 leaves it to the operating system.",
    # Topics.
    "alter.config.policy.class.name": "The Java class that may refuse changed configurations.",
    "alter.config.policy.kraft.compatibility.enable": "Whether that class is asked as KRaft asks it.",
    "auto.create.topics.enable": "Whether a topic is created when a client asks for one that does not exist.",
    "compression.gzip.level": "The effort of gzip from 1 to 9, -1 for the codec's default.",
    "compression.lz4.level": "The effort of lz4.",
    "compression.type": "The codec of all batches in the logs, or producer to keep what each producer chose.",
    "compression.zstd.level": "The effort of zstd.",
    "create.topic.policy.class.name": "The Java class that may refuse new topics.",
    "default.replication.factor": "Replicas of each partition of a topic that is created without saying how many.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "message.max.bytes": "The largest batch of records, as compressed, that a topic accepts.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted. With a "
    "replication factor of 3, a value of 2 survives the loss of any broker without losing or refusing writes. A topic "
    "with fewer replicas needs only as many as it has in sync.",
    "num.partitions": "Partitions of a topic that is created without saying how many.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may lead when no other is left. It keeps "
    "the partition available and loses records.",
    "unclean.leader.election.interval.ms": "How often partitions without a leader are checked for an unclean election.",
    # Log directories, segments and retention.
    "cordoned.log.dirs": "Log directories that get no new partitions, and no moved ones; * for all. A broker whose "
    "directories are all cordoned still gets partitions: the controller does not know it.",
    "log.cleanup.policy": "What happens to old segments: delete drops them, compact keeps the newest record of each "
    "key; both may be given.",
    "log.dir": "The directory of the logs where log.dirs is not set.",
    "log.dir.failure.timeout.ms": "How long a broker goes on if it cannot report a failed log directory to the "
    "controller.",
    "log.dirs": "The directories of the logs, separated by commas; new partitions are spread over them.",
    "log.flush.interval.messages": "Records in a log after which it is flushed to the disk.",
    "log.flush.interval.ms": "Age of unflushed records at which a log is flushed to the disk; "
    "log.flush.scheduler.interval.ms where it is not set.",
    "log.flush.offset.checkpoint.interval.ms": "How often the offsets up to which logs are flushed are written down; "
    "recovery starts there.",
    "log.flush.scheduler.interval.ms": "How often logs are checked for records to flush.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the logs' first offsets are written down.",
    "log.index.interval.bytes": "Bytes of records between two entries of a segment's index.",
    "log.index.size.max.bytes": "The bound on an index file; a segment with a full one is closed.",
    "log.initial.task.delay.ms": "How long after the start the first retention run begins; not set, after "
    "log.retention.check.interval.ms, and in Apache Kafka after 30000. Flushes and checkpoints, which it delays there "
    "too, first come after their own intervals.",
    "log.local.retention.bytes": "What of a log stays on local disks once it is in remote storage; -2 for "
    "log.retention.bytes.",
    "log.local.retention.ms": "How long segments stay on local disks once they are in remote storage; -2 for "
    "log.retention.ms.",
    "log.message.downconversion.enable": "Whether old clients get records converted to the format they know. kavka "
    "never converts.",
    "log.message.format.version": "The release whose record format is stored. Since 3.0 no broker uses it.",
    "log.message.timestamp.after.max.ms": "How far in the future a record's timestamp may be.",
    "log.message.timestamp.before.max.ms": "How far in the past a record's timestamp may be.",
    "log.message.timestamp.difference.max.ms": "How far a record's timestamp may differ from the broker's clock in "
    "either direction, where the two newer settings are not set.",
    "log.message.timestamp.type": "Whether records keep the producer's timestamp (CreateTime) or get the broker's "
    "(LogAppendTime).",
    "log.preallocate": "Whether a new segment's file gets its full size at once.",
    "log.retention.bytes": "The size of a partition's log above which its oldest segments are deleted; -1 for no "
    "bound.",
    "log.retention.check.interval.ms": "How often logs are checked for segments to delete.",
    "log.retention.hours": "The age at which segments are deleted, where neither log.retention.ms nor .minutes is set.",
    "log.retention.minutes": "The age at which segments are deleted, where log.retention.ms is not set.",
    "log.retention.ms": "The age at which segments are deleted; -1 for never. Without it, log.retention.minutes "
    "counts, then .hours.",
    "log.roll.hours": "The age at which a segment is closed and a new one begun, where log.roll.ms is not set.",
    "log.roll.jitter.hours": "The most that is taken off the age at random, where log.roll.jitter.ms is not set.",
    "log.roll.jitter.ms": "The most that is taken off the age at which segments close, at random, so that not all "
    "close at once.",
    "log.roll.ms": "The age at which a segment is closed and a new one begun; log.roll.hours where it is not set.",
    "log.segment.bytes": "The size at which a segment is closed and a new one begun.",
    "log.segment.delete.delay.ms": "How long a deleted segment's files stay on the disk for readers that still use "
    "them.",
    # Log cleaner.
    "log.cleaner.backoff.ms": "How long the cleaner sleeps when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory of all cleaner threads for the map from keys to their newest offsets.",
    "log.cleaner.delete.retention.ms": "How long a compacted topic keeps records without a value (tombstones), so that "
    "slow readers see the deletion.",
    "log.cleaner.enable": "Whether compacted topics are compacted at all.",
    "log.cleaner.io.buffer.load.factor": "How full the map of keys may become, from 0 to 1: fuller compacts more in "
    "one run, with more collisions.",
    "log.cleaner.io.buffer.size": "Memory of all cleaner threads for reading and writing.",
    "log.cleaner.io.max.bytes.per.second": "The most that all cleaner threads together read and write.",
    "log.cleaner.max.compaction.lag.ms": "The longest that a record may stay uncompacted.",
    "log.cleaner.min.cleanable.ratio": "The uncompacted share of a log from which on it is compacted.",
    "log.cleaner.min.compaction.lag.ms": "The shortest time that a record stays uncompacted.",
    "log.cleaner.threads": "Threads that compact logs.",
    # Replication.
    "auto.leader.rebalance.enable": "Whether leadership goes back to the preferred replicas by itself.",
    "controlled.shutdown.enable": "Whether a broker that stops hands its leaderships over first.",
    "controlled.shutdown.max.retries": "How often a stopping broker tries to hand over.",
    "controlled.shutdown.retry.backoff.ms": "How long it waits between two tries.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker's answer.",
    "follower.fetch.last.tiered.offset.enable": "Whether an empty follower starts at the end of what is in remote "
    "storage instead of copying all.",
    "leader.imbalance.check.interval.seconds": "How often the balance of leaderships is checked.",
    "leader.imbalance.per.broker.percentage": "The share of a broker's preferred partitions that others may lead "
    "before leaderships move back.",
    "num.replica.alter.log.dirs.threads": "Threads that move replicas between this broker's log directories; one for "
    "each directory where it is not set.",
    "num.replica.fetchers": "Fetchers for each broker that this one follows.",
    "replica.fetch.backoff.ms": "How long a follower waits after a fetch that failed.",
    "replica.fetch.max.bytes": "What a follower asks for per partition and fetch; a larger first batch comes whole.",
    "replica.fetch.min.bytes": "What a follower waits for before a fetch is answered.",
    "replica.fetch.response.max.bytes": "What a follower asks for per fetch of all partitions.",
    "replica.fetch.wait.max.ms": "How long a leader may hold a follower's fetch for more records.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written down.",
    "replica.lag.time.max.ms": "After how long without having caught up a follower leaves the in-sync set.",
    "replica.selector.class": "The Java class that picks a replica for a consumer; kavka knows "
    "org.apache.kafka.common.replica.RackAwareReplicaSelector.",
    "replica.socket.receive.buffer.bytes": "SO_RCVBUF of a follower's connection to its leader.",
    "replica.socket.timeout.ms": "How long a follower waits for a leader's answer.",
    # Groups and their offsets.
    "group.coordinator.append.linger.ms": "How long the group coordinator gathers records before it writes them; -1 "
    "adapts to the load.",
    "group.coordinator.background.threads": "Threads for the coordinator's long work, such as matching regular "
    "expressions.",
    "group.coordinator.cached.buffer.max.bytes": "The largest write buffer that the coordinator keeps for its next "
    "write.",
    "group.coordinator.new.enable": "Whether Kafka's rewritten coordinator is used.",
    "group.coordinator.rebalance.protocols": "The group protocols that are served, while the feature levels "
    "group.version and streams.version are 1. classic must be among them. share is allowed; share groups follow "
    "share.version alone.",
    "group.coordinator.threads": "Threads of the group coordinator.",
    "group.initial.rebalance.delay.ms": "How long the first rebalance of an empty group waits for more members.",
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for.",
    "group.max.size": "The most members of a group.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for.",
    "offset.metadata.max.bytes": "The longest text that may be committed with an offset.",
    "offsets.commit.required.acks": "What a commit waits for; -1, all in-sync replicas, is the only sensible value.",
    "offsets.commit.timeout.ms": "How long a commit waits for the replicas of the offsets topic.",
    "offsets.load.buffer.size": "How much of the offsets topic is read at once when a coordinator takes over.",
    "offsets.retention.check.interval.ms": "How often the broker looks for expired offsets.",
    "offsets.retention.minutes": "How long the offsets of an empty group are kept.",
    "offsets.topic.compression.codec": "The codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "Partitions of the offsets topic; not to be changed once it exists.",
    "offsets.topic.replication.factor": "Replicas of the offsets topic; it is created once that many brokers are "
    "there.",
    "offsets.topic.segment.bytes": "The size of the offsets topic's segments; small ones compact and load faster.",
    # Groups of the newer protocols.
    "group.consumer.assignment.interval.ms": "The shortest time between two assignments of a consumer group.",
    "group.consumer.assignors": "The assignors that a consumer group may use; the first is the default.",
    "group.consumer.heartbeat.interval.ms": "How often the members of a consumer group send a heartbeat.",
    "group.consumer.max.assignment.interval.ms": "The largest value that a group may set for its assignment interval.",
    "group.consumer.max.heartbeat.interval.ms": "The largest value that a consumer group may set for its heartbeat "
    "interval.",
    "group.consumer.max.session.timeout.ms": "The largest value that a consumer group may set for its session timeout.",
    "group.consumer.max.size": "The most members of a consumer group.",
    "group.consumer.migration.policy": "Which way groups may move between the classic and the consumer protocol: "
    "disabled, upgrade, downgrade, bidirectional.",
    "group.consumer.min.assignment.interval.ms": "The smallest value that a group may set for its assignment interval.",
    "group.consumer.min.heartbeat.interval.ms": "The smallest value that a consumer group may set for its heartbeat "
    "interval.",
    "group.consumer.min.session.timeout.ms": "The smallest value that a consumer group may set for its session "
    "timeout.",
    "group.consumer.regex.refresh.interval.ms": "How often a subscription by regular expression is matched against "
    "the topics again.",
    "group.consumer.session.timeout.ms": "After how long without a heartbeat a member of a consumer group is removed.",
    "group.share.assignment.interval.ms": "The shortest time between two assignments of a share group.",
    "group.share.assignors": "The assignor of share groups.",
    "group.share.delivery.count.limit": "How often a record is delivered to a share group before it counts as failed.",
    "group.share.enable": "Whether share groups are served.",
    "group.share.heartbeat.interval.ms": "How often the members of a share group send a heartbeat.",
    "group.share.initialize.retry.interval.ms": "How long to wait before a share group's state is initialised again.",
    "group.share.max.assignment.interval.ms": "The largest value that a share group may set for its assignment "
    "interval.",
    "group.share.max.delivery.count.limit": "The largest value that a share group may set for its delivery count "
    "limit.",
    "group.share.max.groups": "The most share groups.",
    "group.share.max.heartbeat.interval.ms": "The largest value that a share group may set for its heartbeat interval.",
    "group.share.max.partition.max.record.locks": "The largest value that a share group may set for its record locks "
    "per partition.",
    "group.share.max.record.lock.duration.ms": "The largest value that a share group may set for the duration of a "
    "record's lock.",
    "group.share.max.session.timeout.ms": "The largest value that a share group may set for its session timeout.",
    "group.share.max.share.sessions": "The most share sessions of a broker.",
    "group.share.max.size": "The most members of a share group.",
    "group.share.min.assignment.interval.ms": "The smallest value that a share group may set for its assignment "
    "interval.",
    "group.share.min.delivery.count.limit": "The smallest value that a share group may set for its delivery count "
    "limit.",
    "group.share.min.heartbeat.interval.ms": "The smallest value that a share group may set for its heartbeat "
    "interval.",
    "group.share.min.partition.max.record.locks": "The smallest value that a share group may set for its record locks "
    "per partition.",
    "group.share.min.record.lock.duration.ms": "The smallest value that a share group may set for the duration of a "
    "record's lock.",
    "group.share.min.session.timeout.ms": "The smallest value that a share group may set for its session timeout.",
    "group.share.partition.max.record.locks": "Records of a partition that the members of a share group may hold at "
    "once.",
    "group.share.persister.class.name": "The Java class that keeps share groups' state.",
    "group.share.record.lock.duration.ms": "How long a member of a share group holds a record before others get it.",
    "group.share.session.timeout.ms": "After how long without a heartbeat a member of a share group is removed.",
    "group.streams.assignment.interval.ms": "The shortest time between two assignments of a streams group.",
    "group.streams.heartbeat.interval.ms": "How often the members of a streams group send a heartbeat.",
    "group.streams.initial.rebalance.delay.ms": "How long the first assignment of an empty streams group waits for "
    "more members.",
    "group.streams.max.assignment.interval.ms": "The largest value that a streams group may set for its assignment "
    "interval.",
    "group.streams.max.heartbeat.interval.ms": "The largest value that a streams group may set for its heartbeat "
    "interval.",
    "group.streams.max.session.timeout.ms": "The largest value that a streams group may set for its session timeout.",
    "group.streams.max.size": "The most members of a streams group.",
    "group.streams.max.standby.replicas": "The most standby replicas that a streams group may ask for.",
    "group.streams.min.assignment.interval.ms": "The smallest value that a streams group may set for its assignment "
    "interval.",
    "group.streams.min.heartbeat.interval.ms": "The smallest value that a streams group may set for its heartbeat "
    "interval.",
    "group.streams.min.session.timeout.ms": "The smallest value that a streams group may set for its session timeout.",
    "group.streams.num.standby.replicas": "Standby replicas of each task of a streams group.",
    "group.streams.session.timeout.ms": "After how long without a heartbeat a member of a streams group is removed.",
    "share.coordinator.append.linger.ms": "How long the share coordinator gathers records before it writes them; -1 "
    "adapts to the load.",
    "share.coordinator.cached.buffer.max.bytes": "The largest write buffer that the share coordinator keeps for its "
    "next write.",
    "share.coordinator.cold.partition.snapshot.interval.ms": "How often idle partitions of the share state are "
    "written whole.",
    "share.coordinator.load.buffer.size": "How much of the share state is read at once when a coordinator takes over.",
    "share.coordinator.snapshot.update.records.per.snapshot": "Changes of a share partition's state between two whole "
    "ones.",
    "share.coordinator.state.topic.compression.codec": "The codec of the share state: 0 none, 1 gzip, 2 snappy, 3 "
    "lz4, 4 zstd.",
    "share.coordinator.state.topic.min.isr": "min.insync.replicas of the share state topic.",
    "share.coordinator.state.topic.num.partitions": "Partitions of the share state topic; not to be changed once it "
    "exists.",
    "share.coordinator.state.topic.prune.interval.ms": "How often state that nobody needs is deleted.",
    "share.coordinator.state.topic.replication.factor": "Replicas of the share state topic.",
    "share.coordinator.state.topic.segment.bytes": "The size of the share state topic's segments.",
    "share.coordinator.threads": "Threads of the share coordinator.",
    "share.coordinator.write.timeout.ms": "How long a write of share state waits for its replicas.",
    # Producers and transactions.
    "add.partitions.to.txn.retry.backoff.max.ms": "How long at most a broker tries by itself to add a partition to a "
    "transaction that is still ending.",
    "add.partitions.to.txn.retry.backoff.ms": "How long it waits between two such tries.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for idle producers.",
    "producer.id.expiration.ms": "How long a partition remembers an idle producer's sequence numbers.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often the broker looks for transactions "
    "past their timeout.",
    "transaction.max.timeout.ms": "The longest timeout that a transactional producer may ask for.",
    "transaction.partition.verification.enable": "Whether a partition asks the coordinator if a transaction is open "
    "before it takes its first records.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often the broker looks for unused "
    "transactional ids.",
    "transaction.state.log.load.buffer.size": "How much of the transaction state is read at once when a coordinator "
    "takes over.",
    "transaction.state.log.min.isr": "min.insync.replicas of the transaction state topic.",
    "transaction.state.log.num.partitions": "Partitions of the transaction state topic; not to be changed once it "
    "exists.",
    "transaction.state.log.replication.factor": "Replicas of the transaction state topic.",
    "transaction.state.log.segment.bytes": "The size of the transaction state topic's segments.",
    "transaction.two.phase.commit.enable": "Whether transactions may stay open without a timeout for an outer "
    "two-phase commit.",
    "transactional.id.expiration.ms": "How long an unused transactional id is remembered.",
    # Quotas.
    "alter.log.dirs.replication.quota.window.num": "Windows over which moves between log directories are measured.",
    "alter.log.dirs.replication.quota.window.size.seconds": "The length of such a window.",
    "client.quota.callback.class": "The Java class that decides clients' quotas.",
    "controller.quota.window.num": "Windows over which changes of topics and partitions are measured.",
    "controller.quota.window.size.seconds": "The length of such a window.",
    "quota.window.num": "Windows over which clients' produce, fetch and request rates are measured.",
    "quota.window.size.seconds": "The length of such a window.",
    "replication.quota.window.num": "Windows over which throttled replication is measured.",
    "replication.quota.window.size.seconds": "The length of such a window.",
    # Metrics and telemetry.
    "auto.include.jmx.reporter": "Whether Java's JMX reporter runs besides metric.reporters.",
    "kafka.metrics.polling.interval.secs": "How often the Java classes of kafka.metrics.reporters are asked.",
    "kafka.metrics.reporters": "Java classes that report the older kind of metrics.",
    "metric.reporters": "Java classes that report metrics.",
    "metrics.num.samples": "Samples that a rate or an average is made of.",
    "metrics.recording.level": "How detailed the metrics are: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "The length of one sample.",
    "telemetry.max.bytes": "The largest push of metrics that a client may send.",
    # Security: principals, tokens, passwords.
    "allow.everyone.if.no.acl.found": "Whether everybody may do everything to a resource that no ACL is about.",
    "authorizer.class.name": "The authoriser that decides who may do what: Kafka's AclAuthorizer, or "
    "entrypoint:NAME for one of your own; empty allows everybody everything.",
    "config.providers": "Names of sources for values written as ${name:path:key}.",
    "delegation.token.expiry.check.interval.ms": "How often the broker looks for expired delegation tokens.",
    "delegation.token.expiry.time.ms": "How long a delegation token is good without being renewed.",
    "delegation.token.master.key": "The older name of delegation.token.secret.key.",
    "delegation.token.max.lifetime.ms": "How long a delegation token can be renewed at all.",
    "delegation.token.secret.key": "The secret that delegation tokens are made and checked with; the same on all "
    "brokers.",
    "super.users": "Principals that may do everything, as User:name;User:other.",
    "password.encoder.cipher.algorithm": "The cipher for passwords that are kept in ZooKeeper.",
    "password.encoder.iterations": "Rounds that derive the key for those passwords.",
    "password.encoder.key.length": "The length of that key in bits.",
    "password.encoder.keyfactory.algorithm": "How that key is derived from the secret.",
    "password.encoder.old.secret": "The secret that passwords in ZooKeeper were encrypted with before it changed.",
    "password.encoder.secret": "The secret that passwords in ZooKeeper are encrypted with.",
    "principal.builder.class": "The Java class that makes a principal of an authenticated connection.",
    "security.providers": "Java classes that add security algorithms.",
    # Security: SASL.
    "sasl.client.callback.handler.class": "The Java class that answers the questions of a SASL client.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that clients may use.",
    "sasl.jaas.config": "The login of a listener's mechanism, in JAAS form.",
    "sasl.kerberos.kinit.cmd": "The path of kinit.",
    "sasl.kerberos.min.time.before.relogin": "The shortest time between two refreshes of a Kerberos ticket, in "
    "milliseconds.",
    "sasl.kerberos.principal.to.local.rules": "Rules that map Kerberos principals to short names; the first that fits "
    "counts.",
    "sasl.kerberos.service.name": "The Kerberos principal that brokers run as.",
    "sasl.kerberos.ticket.renew.jitter": "The share of the renewal time that is added at random.",
    "sasl.kerberos.ticket.renew.window.factor": "The share of a ticket's life after which it is renewed.",
    "sasl.login.callback.handler.class": "The Java class that answers the questions of a SASL login.",
    "sasl.login.class": "The Java class of the SASL login.",
    "sasl.login.connect.timeout.ms": "How long a connection to the identity provider may take.",
    "sasl.login.read.timeout.ms": "How long the identity provider may take to answer.",
    "sasl.login.refresh.buffer.seconds": "How long before its end a credential is refreshed at the latest.",
    "sasl.login.refresh.min.period.seconds": "The shortest time before a credential is refreshed.",
    "sasl.login.refresh.window.factor": "The share of a credential's life after which it is refreshed.",
    "sasl.login.refresh.window.jitter": "The share of a credential's life by which the refresh is moved at random.",
    "sasl.login.retry.backoff.max.ms": "The longest wait between two tries to log in.",
    "sasl.login.retry.backoff.ms": "The first wait between two tries to log in; it doubles.",
    "sasl.mechanism.controller.protocol": "The SASL mechanism towards KRaft controllers.",
    "sasl.mechanism.inter.broker.protocol": "The SASL mechanism between brokers.",
    "sasl.oauthbearer.assertion.algorithm": "The algorithm that signs the assertion a token is asked for with.",
    "sasl.oauthbearer.assertion.claim.aud": "The audience claim of that assertion.",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "How long that assertion is good.",
    "sasl.oauthbearer.assertion.claim.iss": "The issuer claim of that assertion.",
    "sasl.oauthbearer.assertion.claim.jti.include": "Whether that assertion carries an identifier of its own.",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "How far before now that assertion is good.",
    "sasl.oauthbearer.assertion.claim.sub": "The subject claim of that assertion.",
    "sasl.oauthbearer.assertion.file": "A file with a ready-made assertion.",
    "sasl.oauthbearer.assertion.private.key.file": "The file with the key that signs the assertion.",
    "sasl.oauthbearer.assertion.private.key.passphrase": "The passphrase of that key.",
    "sasl.oauthbearer.assertion.template.file": "A file with claims that the assertion starts from.",
    "sasl.oauthbearer.client.credentials.client.id": "The client id for the client-credentials grant.",
    "sasl.oauthbearer.client.credentials.client.secret": "The client secret for the client-credentials grant.",
    "sasl.oauthbearer.clock.skew.seconds": "How far the clocks of broker and identity provider may differ.",
    "sasl.oauthbearer.expected.audience": "Audiences of which a token must have one.",
    "sasl.oauthbearer.expected.issuer": "The issuer that a token must have.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the identity provider's keys are fetched anew.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "The longest wait between two tries to fetch them.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "The first wait between two tries to fetch them; it doubles.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the identity provider's keys are.",
    "sasl.oauthbearer.jwt.retriever.class": "The Java class that gets tokens.",
    "sasl.oauthbearer.jwt.validator.class": "What checks tokens: Kafka's own validator, by the name of its class.",
    "sasl.oauthbearer.scope": "The scope that a token is asked for.",
    "sasl.oauthbearer.scope.claim.name": "The name of the claim that holds a token's scope.",
    "sasl.oauthbearer.sub.claim.name": "The name of the claim that holds a token's subject.",
    "sasl.oauthbearer.token.endpoint.url": "Where the identity provider issues tokens.",
    "sasl.server.callback.handler.class": "The Java class that answers the questions of a SASL server.",
    "sasl.server.max.receive.size": "The longest message, in bytes, before a connection has authenticated.",
    # Security: TLS.
    "ssl.allow.dn.changes": "Whether a new certificate may have another distinguished name.",
    "ssl.allow.san.changes": "Whether a new certificate may lack alternative names that the old one had.",
    "ssl.cipher.suites": "The cipher suites that may be used; empty for those of the TLS library.",
    "ssl.client.auth": "Whether clients must, may or need not show a certificate.",
    "ssl.enabled.protocols": "The TLS versions that may be used.",
    "ssl.endpoint.identification.algorithm": "How a server's host name is checked against its certificate; empty for "
    "not at all.",
    "ssl.engine.factory.class": "The Java class that makes TLS engines.",
    "ssl.key.password": "The password of the private key.",
    "ssl.keymanager.algorithm": "Java's algorithm for picking a key.",
    "ssl.keystore.certificate.chain": "The broker's certificate chain, as PEM text.",
    "ssl.keystore.key": "The broker's private key, as PEM text.",
    "ssl.keystore.location": "The file with the broker's certificate and key.",
    "ssl.keystore.password": "The password of that file.",
    "ssl.keystore.type": "The format of that file: JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules": "Rules that map a certificate's distinguished name to a short name; the first that "
    "fits counts.",
    "ssl.protocol": "TLS, TLSv1.2 or TLSv1.3; which versions are spoken is said by ssl.enabled.protocols.",
    "ssl.provider": "Java's provider of TLS.",
    "ssl.secure.random.implementation": "Java's random source for TLS.",
    "ssl.trustmanager.algorithm": "Java's algorithm for checking certificates.",
    "ssl.truststore.certificates": "The certificates that clients are trusted by, as PEM text.",
    "ssl.truststore.location": "The file with the certificates that clients are trusted by.",
    "ssl.truststore.password": "The password of that file.",
    "ssl.truststore.type": "The format of that file: JKS, PKCS12 or PEM.",
    # Remote log storage.
    "remote.fetch.max.wait.ms": "How long a fetch waits for remote storage.",
    "remote.list.offsets.request.timeout.ms": "How long a look-up of an offset waits for remote storage.",
    "remote.log.index.file.cache.total.size.bytes": "Room on the local disk for indexes of remote segments.",
    "remote.log.index.file.cache.ttl.ms": "How long an unused index of a remote segment is kept; -1 for no bound.",
    "remote.log.manager.copier.thread.pool.size": "Threads that copy segments to remote storage; -1 for "
    "remote.log.manager.thread.pool.size.",
    "remote.log.manager.copy.max.bytes.per.second": "The most that is copied to remote storage.",
    "remote.log.manager.copy.quota.window.num": "Windows over which copying is measured.",
    "remote.log.manager.copy.quota.window.size.seconds": "The length of such a window.",
    "remote.log.manager.expiration.thread.pool.size": "Threads that delete remote segments; -1 for "
    "remote.log.manager.thread.pool.size.",
    "remote.log.manager.fetch.max.bytes.per.second": "The most that is read from remote storage.",
    "remote.log.manager.fetch.quota.window.num": "Windows over which reading is measured.",
    "remote.log.manager.fetch.quota.window.size.seconds": "The length of such a window.",
    "remote.log.manager.follower.thread.pool.size": "Threads that follow what leaders put into remote storage.",
    "remote.log.manager.task.interval.ms": "How often partitions are checked for segments to copy or delete.",
    "remote.log.manager.task.retry.backoff.max.ms": "The longest wait between two tries of a failed task.",
    "remote.log.manager.task.retry.backoff.ms": "The first wait between two tries of a failed task; it doubles.",
    "remote.log.manager.task.retry.jitter": "The share of that wait that is added or taken off at random.",
    "remote.log.manager.thread.pool.size": "Threads for remote storage.",
    "remote.log.metadata.custom.metadata.max.bytes": "The most that a storage plug-in may keep about a segment.",
    "remote.log.metadata.manager.class.name": "The Java class that keeps the list of remote segments.",
    "remote.log.metadata.manager.class.path": "Where that class is found.",
    "remote.log.metadata.manager.impl.prefix": "The prefix of settings that are handed to that class.",
    "remote.log.metadata.manager.listener.name": "The listener over which that class talks to the brokers.",
    "remote.log.reader.max.pending.tasks": "Reads that may wait for remote storage.",
    "remote.log.reader.threads": "Threads that read from remote storage.",
    "remote.log.storage.manager.class.name": "The Java class that stores remote segments.",
    "remote.log.storage.manager.class.path": "Where that class is found.",
    "remote.log.storage.manager.impl.prefix": "The prefix of settings that are handed to that class.",
    "remote.log.storage.system.enable": "Whether topics may keep old segments in remote storage. kavka has none yet.",
    # KRaft.
    "broker.heartbeat.interval.ms": "How often a broker reports to its KRaft controller.",
    "broker.session.timeout.ms": "After how long without a report a KRaft controller fences a broker.",
    "controller.listener.names": "The listeners of KRaft controllers.",
    "controller.performance.always.log.threshold.ms": "A controller event that takes longer is always logged.",
    "controller.performance.sample.period.ms": "How often the slowest controller events are logged.",
    "controller.quorum.append.linger.ms": "How long a KRaft leader gathers records before it writes them.",
    "controller.quorum.auto.join.enable": "Whether a KRaft controller joins the voters by itself.",
    "controller.quorum.bootstrap.servers": "Where a broker looks for the KRaft quorum.",
    "controller.quorum.election.backoff.max.ms": "The longest wait between two KRaft elections.",
    "controller.quorum.election.timeout.ms": "How long a KRaft candidate waits for votes.",
    "controller.quorum.fetch.max.bytes": "The most that one fetch of KRaft's log returns.",
    "controller.quorum.fetch.snapshot.max.bytes": "The most that one fetch of a KRaft snapshot returns.",
    "controller.quorum.fetch.timeout.ms": "How long a KRaft voter may go without a fetch from its leader.",
    "controller.quorum.request.timeout.ms": "How long a request within the KRaft quorum may take.",
    "controller.quorum.retry.backoff.ms": "How long to wait before such a request is sent again.",
    "controller.quorum.voters": "The voters of the KRaft quorum, as id@host:port,...",
    "eligible.leader.replicas.enable": "Whether KRaft keeps the list of eligible leaders of KIP-966.",
    "initial.broker.registration.timeout.ms": "How long a broker's first registration with KRaft may take.",
    "internal.metadata.delete.delay.millis": "How long deleted files of KRaft's log stay on the disk.",
    "internal.metadata.log.segment.bytes": "The size of KRaft's segments, below the usual bound.",
    "internal.metadata.max.batch.size.in.bytes": "The largest batch in KRaft's log.",
    "metadata.log.dir": "The directory of KRaft's log.",
    "metadata.log.max.record.bytes.between.snapshots": "New records after which KRaft writes a snapshot.",
    "metadata.log.max.snapshot.interval.ms": "The longest time between two KRaft snapshots.",
    "metadata.log.segment.bytes": "The size of KRaft's segments.",
    "metadata.log.segment.min.bytes": "The least that metadata.log.segment.bytes may be.",
    "metadata.log.segment.ms": "The age at which a segment of KRaft's log is closed.",
    "metadata.max.idle.interval.ms": "How often an idle KRaft leader writes an empty record; 0 for never.",
    "metadata.max.retention.bytes": "The size of KRaft's log and snapshots above which the oldest go.",
    "metadata.max.retention.ms": "The age at which KRaft's log and snapshots go.",
    "process.roles": "The KRaft roles of a process. kavka keeps its metadata in ZooKeeper's form and refuses any.",
    "unstable.api.versions.enable": "Whether request versions that are not final are served.",
    "unstable.feature.versions.enable": "Whether feature versions that are not final are allowed.",
    # kavka's own.
    "kavka.max.in.flight.requests.per.connection": "How many unanswered requests one connection may have. At this "
    "limit, the broker stops reading from its socket.",
    "kavka.max.output.bytes.per.connection": "How many bytes of answers one client may leave unread. Above this "
    "limit, the broker stops reading from its socket.",
    "kavka.max.receiving.bytes": "Memory for requests that have arrived in part, over all connections, if "
    "queued.max.request.bytes is -1.",
    "kavka.zookeeper.data.dir": "Where the embedded ZooKeeper keeps its tree. If it is empty, beside the first log "
    "directory.",
    "kavka.controller.fast.failover": "Whether a broker whose connection to the controller is lost and refused becomes "
    "the controller at once. Otherwise the brokers wait for the end of the dead controller's ZooKeeper session.",
    "kavka.decisions.topic.enable": "Whether decisions are written to __kavka_decisions: true, false, or auto. With "
    "auto they are, once the cluster has several brokers. The ring in the first log directory is always written.",
    "kavka.decisions.ring.bytes": "The size of the ring of decisions in the first log directory. kavka why reads it "
    "when no broker answers.",
    "kavka.decisions.retention.ms": "The retention.ms that __kavka_decisions gets when it is created.",
    "kavka.decisions.retention.bytes": "The retention.bytes that __kavka_decisions gets when it is created, or later "
    "if nothing bounds its size; its segments are an eighth of that. -1: no bound.",
    "kavka.slow.request.ms": "A request that takes longer than this keeps its stages for kavka trace and leaves a "
    "why-record (kavka why slow). Waiting by design does not count: a fetch for data, a member for others. -1 turns it "
    "off.",
    "kavka.request.trace.sample": "One request in so many keeps its stages for kavka trace, slow or not. 0 turns the "
    "sample off.",
    "kavka.request.traces.ring.bytes": "The size of the ring of request traces in the first log directory.",
    "kavka.otlp.traces.endpoint": "Where the stages of slow and sampled requests are sent as OpenTelemetry traces: the "
    "address of an OTLP/HTTP collector, such as http://collector:4318/v1/traces. Needs the extra otel. Empty: nowhere.",
    "kavka.authentication.free.failures": "How many logins a minute may fail at an address before its clients "
    "wait; 0: they never do.",
    "kavka.authentication.max.delay.ms": "How long the clients of an address that fails to log in wait at most.",
    "kavka.ssl.crl.location": "A PEM file with lists of revoked certificates, one of each authority that signs "
    "certificates of clients or brokers. Whose certificate is on its authority's list, or whose authority has none "
    "there, does not get in.",
    "kavka.strict.key.permissions": "Whether a key store that everybody on the machine may read is refused; else the "
    "broker warns of it.",
    "kavka.tls.max.handshakes": "How many TLS handshakes a network thread has under way; further clients wait.",
    "kavka.tls.handshake.timeout.ms": "How long a client may take until its TLS handshake begins, and "
    "again until it is over.",
    "kavka.ssl.reload.interval.ms": "How often the broker looks whether the files of its certificates have changed; 0 "
    "for never.",
    "kavka.oauthbearer.allowed.urls": "The only addresses that keys of OAUTHBEARER may come from; empty: any that the "
    "broker's file names.",
    "kavka.oauthbearer.unsecured": "Whether listeners on the loopback with OAUTHBEARER believe tokens that nobody has "
    "signed. Anybody can make one: for tests only.",
    "kavka.flight.recorder.enable": "Whether this broker records its inputs, so that kavka replay can make its "
    "decisions again (see flight-recorder.md).",
    "kavka.flight.recorder.bytes": "The size of the flight recording, a ring in the first log directory.",
    "kavka.replica.lag.policy": "When a follower leaves the in-sync set. time: if it was not caught up for "
    "replica.lag.time.max.ms. messages, as before Kafka 0.9: also if it is kavka.replica.lag.max.messages behind.",
    "kavka.replica.lag.max.messages": "How many records a follower may be behind under the lag policy messages.",
    "kavka.eligible.leader.replicas.enable": "Whether replicas that leave the in-sync set while it is smaller than "
    "min.insync.replicas stay eligible as leaders. A replica whose broker did not stop cleanly then does not lead "
    "while another is in sync or eligible (KIP-966, see operations.md). While the in-sync set is smaller, nothing is "
    "committed, not even what a new leader already had, and consumers wait. Use the same value on all brokers.",
    "kavka.abandoned.log.dirs": "Former log directories of this broker that are lost or given up. A broker refuses to "
    "start on new directories while its logs are in others, unless those are named here (see operations.md).",
    "kavka.refuse.insecure.listeners": "Whether a broker refuses to start with a listener without TLS (PLAINTEXT, "
    "SASL_PLAINTEXT) on an address, or an advertised one, that is not of the loopback.",
    "kavka.metrics.port": "The port on which this broker shows its metrics to Prometheus, under Kafka's names (see "
    "metrics.md). 0 turns it off.",
    "kavka.metrics.host": "The address of the metrics port. If it is empty, the address of the first listener.",
    "kavka.zookeeper.sasl.jaas.config": "How the broker logs in on ZooKeeper, with DIGEST-MD5 or Kerberos: what stands "
    "in the section Client of Kafka's JAAS file, with DigestLoginModule or Krb5LoginModule.",
    "kavka.zookeeper.sync": "When a change of metadata is durable. always: it is synced to the disk before it counts. "
    "never: the operating system decides, and a power cut may lose the last changes.",
}

_DYNAMIC_ONLY = {
    "leader.replication.throttled.rate": "The most that this broker sends for throttled replicas that it leads.",
    "follower.replication.throttled.rate": "The most that this broker fetches for throttled replicas that it follows.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "The most that moves of replicas between log directories may "
    "read and write.",
}

_TOPIC = {
    "cleanup.policy": _BROKER["log.cleanup.policy"],
    "compression.gzip.level": _BROKER["compression.gzip.level"],
    "compression.lz4.level": _BROKER["compression.lz4.level"],
    "compression.type": _BROKER["compression.type"],
    "compression.zstd.level": _BROKER["compression.zstd.level"],
    "delete.retention.ms": _BROKER["log.cleaner.delete.retention.ms"],
    "file.delete.delay.ms": _BROKER["log.segment.delete.delay.ms"],
    "flush.messages": "Records after which the log is flushed to the disk. Replication is the better protection.",
    "flush.ms": "Age of unflushed records at which the log is flushed to the disk. Replication is the better "
    "protection.",
    "follower.replication.throttled.replicas": "Followers whose fetches are throttled, as partition:broker,... or *.",
    "index.interval.bytes": _BROKER["log.index.interval.bytes"],
    "leader.replication.throttled.replicas": "Leaders whose answers to followers are throttled, as "
    "partition:broker,... or *.",
    "local.retention.bytes": "What of the log stays on local disks once it is in remote storage; -2 for "
    "retention.bytes.",
    "local.retention.ms": "How long segments stay on local disks once they are in remote storage; -2 for retention.ms.",
    "max.compaction.lag.ms": _BROKER["log.cleaner.max.compaction.lag.ms"],
    "max.message.bytes": "The largest batch of records, as compressed, that the topic accepts.",
    "message.downconversion.enable": _BROKER["log.message.downconversion.enable"],
    "message.format.version": _BROKER["log.message.format.version"],
    "message.timestamp.after.max.ms": _BROKER["log.message.timestamp.after.max.ms"],
    "message.timestamp.before.max.ms": _BROKER["log.message.timestamp.before.max.ms"],
    "message.timestamp.difference.max.ms": _BROKER["log.message.timestamp.difference.max.ms"],
    "message.timestamp.type": _BROKER["log.message.timestamp.type"],
    "min.cleanable.dirty.ratio": _BROKER["log.cleaner.min.cleanable.ratio"],
    "min.compaction.lag.ms": _BROKER["log.cleaner.min.compaction.lag.ms"],
    "min.insync.replicas": _BROKER["min.insync.replicas"],
    "preallocate": _BROKER["log.preallocate"],
    "remote.log.copy.disable": "Whether copying of the topic to remote storage is stopped.",
    "remote.log.delete.on.disable": "Whether the topic's remote segments are deleted when remote storage is switched "
    "off.",
    "remote.storage.enable": "Whether old segments of the topic go to remote storage.",
    "retention.bytes": _BROKER["log.retention.bytes"],
    "retention.ms": "The age at which segments are deleted; -1 for never.",
    "segment.bytes": _BROKER["log.segment.bytes"],
    "segment.index.bytes": _BROKER["log.index.size.max.bytes"],
    "segment.jitter.ms": _BROKER["log.roll.jitter.ms"],
    "segment.ms": "The age at which a segment is closed and a new one begun.",
    "unclean.leader.election.enable": _BROKER["unclean.leader.election.enable"],
    "errors.deadletterqueue.group.enable": "Whether share groups may write dead letters to this topic.",
}

_GROUP = {name: _BROKER[f"group.{name}"] for name in GroupSettings.rows if f"group.{name}" in _BROKER} | {
    "errors.deadletterqueue.copy.record.enable": "Whether a dead letter has the record's key and value.",
    "errors.deadletterqueue.topic.name": "The topic to which a share group's dead letters go; empty for none.",
    "share.auto.offset.reset": "Where a share group without a position starts: earliest, latest, or a duration back.",
    "share.isolation.level": "Whether a share group sees records of open and aborted transactions.",
    "share.renew.acknowledge.enable": "Whether members of a share group may renew the lock of a record they hold.",
}

_CLIENT_METRICS = {
    "interval.ms": "How often clients push the metrics of this subscription.",
    "match": "Which clients the subscription is for, as attribute=pattern. All patterns must match.",
    "metrics": "Prefixes of the names of the metrics that clients push; empty for none.",
}

_TEXTS: dict[type[Settings], dict[str, str]] = {
    BrokerSettings: _BROKER,
    DynamicOnlySettings: _DYNAMIC_ONLY,
    TopicSettings: _TOPIC,
    GroupSettings: _GROUP,
    ClientMetricsSettings: _CLIENT_METRICS,
}
