"""What each setting does in kavka: it is in force, in force at start only, without effect, or not supported.

Types, ranges and modes are in the tables; the values of one broker are in `broker.py` and `topic.py`, which call this
module. Must not know documentation, requests or command lines.

    in force               read by the code, and a change at run time takes effect where the table allows one
    in force at start      read once; a change at run time is refused, as by Kafka or for the reason given here
    no effect, harmless    Kafka has it, and kavka does not need it. A file or a topic may contain it. A broker refuses
                           to change it at run time, because whoever changes it expects an effect
    not supported          ignoring it would cost safety, data, or something that the operator relies on. Only the
                           harmless value is accepted, in a file, on a command line and at run time

I1. A row of a table without an entry here is in force: it is read by the code (tests/unit/config/test_effect.py).
I2. No setting has two entries, and no entry is without a row.
I3. The harmless value of a setting that is not supported is its default.

When you implement such a setting, remove its entry here. Nothing else refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import AnySetting, InvalidValue, Mode, Settings, Value


class Effect(Enum):
    """The four things that a setting can be."""

    IN_FORCE = "in force"
    AT_START = "in force at start only"
    NONE = "no effect here, harmless"
    REFUSED = "not supported: refused"


class Standing(NamedTuple):
    """What a setting does here. `why` says why it has no effect, cannot change, or what would happen otherwise."""

    effect: Effect
    why: str = ""


class Refusal(NamedTuple):
    """Why other values than the default are refused: what would happen otherwise, and what to do instead."""

    otherwise: str
    instead: str

    def __str__(self) -> str:
        return f"{self.otherwise} {self.instead}"


_KRAFT: Final = "It governs a KRaft quorum, and this cluster's metadata is in ZooKeeper's form."
_JAVA_LOGINS: Final = "It names a Java class. Where a listener authenticates by SASL it is refused."
_TICKETS: Final = (
    "It governs how Java renews Kerberos tickets. Kerberos' library asks for one with the keytab when it needs one."
)
_TOKEN_LOGIN: Final = (
    "It governs tokens that are asked for with a signed assertion. Brokers ask for theirs with an id and a secret."
)
_TIERED: Final = "It governs remote log storage. That is refused, see remote.log.storage.system.enable."
_SHARE: Final = "Share groups are served, all of them, while the feature share.version is 1 or 2."
_SHARE_CLASSES: Final = "Share groups have the simple assignor, and their states are in __share_group_state."
_PASSWORDS: Final = "It encrypts passwords that are set at run time. Such changes are refused."
_JAVA_METRICS: Final = "It governs Java's metrics. Use kavka.metrics.port for kavka's metrics."
_THREADS: Final = (
    "One thread makes all decisions in a broker, and a few workers wait for the disk. More threads would not help."
)
_GROUP_APPENDS: Final = "A coordinator appends each of its records at once, without batching."
_PURGATORY: Final = "A request that need not wait any more leaves the list at once."
_FOR_ONE_LISTENER: Final = "This setting applies to all listeners together, not to a single one."
OF_OAUTHBEARER: Final = (
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
)
"""Which tokens a listener believes."""
OF_TOKEN_LOGIN: Final = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
)
"""Where brokers' own tokens come from."""
_OF_LISTENERS: Final = (
    ".max.connections",
    ".max.connection.creation.rate",
    ".connections.max.reauth.ms",
    ".sasl.enabled.mechanisms",
    ".sasl.jaas.config",
    ".sasl.kerberos.principal.to.local.rules",
    ".sasl.kerberos.service.name",
    ".sasl.mechanism.inter.broker.protocol",
    ".sasl.server.callback.handler.class",
    *(f".{name}" for name in (*OF_OAUTHBEARER, *OF_TOKEN_LOGIN)),
)
"""What may be set for one listener."""
_JAAS: Final = "sasl.jaas.config"
_FOR_ONE_MECHANISM: Final = (
    "A login is that of one mechanism on one listener: set listener.name.L.MECHANISM.sasl.jaas.config, with both names "
    "in small letters."
)
KERBEROS: Final = ("sasl.kerberos.principal.to.local.rules", "sasl.kerberos.service.name")
_OF_EACH_MECHANISM: Final = (
    _JAAS,
    "connections.max.reauth.ms",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
_OF_MECHANISMS: Final[Mapping[str, tuple[str, ...]]] = {
    "plain": (),
    "scram-sha-256": (),
    "scram-sha-512": (),
    "oauthbearer": (*OF_OAUTHBEARER, *OF_TOKEN_LOGIN),
    "gssapi": KERBEROS,
}
"""What may be set for one mechanism of one listener, beside what all have."""
_JAVA_POLICY: Final = "Write the rule into the program that creates or changes topics, and leave the setting out."

_WITHOUT_EFFECT: Final[tuple[tuple[str, str], ...]] = (
    (
        _KRAFT,
        "broker.heartbeat.interval.ms broker.session.timeout.ms controller.listener.names "
        "controller.performance.always.log.threshold.ms controller.performance.sample.period.ms "
        "controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers "
        "controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms "
        "controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes "
        "controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms "
        "controller.quorum.voters initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis "
        "internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes log.dir.failure.timeout.ms "
        "metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms "
        "metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms "
        "metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms "
        "sasl.mechanism.controller.protocol server.max.startup.time.ms unclean.leader.election.interval.ms",
    ),
    (
        "There are no unstable versions that it could enable.",
        "unstable.api.versions.enable unstable.feature.versions.enable",
    ),
    ("It governs a migration to KRaft, which is refused.", "zookeeper.metadata.migration.min.batch.size"),
    (
        _JAVA_LOGINS,
        "sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class",
    ),
    (
        _TICKETS,
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin "
        "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor",
    ),
    (
        _TOKEN_LOGIN,
        "sasl.oauthbearer.assertion.algorithm "
        "sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds "
        "sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include "
        "sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub "
        "sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file "
        "sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file "
        "sasl.oauthbearer.jwt.retriever.class",
    ),
    (
        _PASSWORDS,
        "password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length "
        "password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret",
    ),
    (
        _TIERED,
        "follower.fetch.last.tiered.offset.enable remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms "
        "remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms "
        "remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second "
        "remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds "
        "remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second "
        "remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds "
        "remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms "
        "remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms "
        "remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size "
        "remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name "
        "remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix "
        "remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads "
        "remote.log.storage.manager.class.name remote.log.storage.manager.class.path "
        "remote.log.storage.manager.impl.prefix",
    ),
    (_SHARE, "group.share.enable group.share.max.groups"),
    (_SHARE_CLASSES, "group.share.assignors group.share.persister.class.name"),
    (
        _JAVA_METRICS,
        "auto.include.jmx.reporter kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters "
        "metrics.num.samples metrics.recording.level metrics.sample.window.ms",
    ),
    (
        "A move between log directories is paced as it goes, without windows.",
        "alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds",
    ),
    (
        _THREADS,
        "background.threads group.coordinator.background.threads group.coordinator.threads num.io.threads "
        "num.replica.alter.log.dirs.threads share.coordinator.threads",
    ),
    (
        _GROUP_APPENDS,
        "group.coordinator.append.linger.ms group.coordinator.cached.buffer.max.bytes "
        "share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes",
    ),
    ("One coordinator serves both protocols.", "group.coordinator.new.enable"),
    ("Offsets are always committed by all replicas in sync, as with -1.", "offsets.commit.required.acks"),
    (
        _PURGATORY,
        "delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests "
        "producer.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests",
    ),
    (
        "The time to connect to another broker is limited by the timeout of the request that needs the connection.",
        "socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms",
    ),
    (
        "The operating system sizes the buffers of connections to other brokers, which works better than a fixed size.",
        "replica.socket.receive.buffer.bytes",
    ),
    ("The cleaner reads and writes in slices of 64 KiB, one at a time.", "log.cleaner.io.buffer.size"),
    ("Records are never converted to older formats.", "log.message.downconversion.enable"),
    ("Records are always stored in the format of Kafka 0.11 and newer.", "log.message.format.version"),
    (
        "It names the listeners that need not wait for the authorizer. Here, as with Apache Kafka's AclAuthorizer, the "
        "authorizer is ready before any listener opens.",
        "early.start.listeners",
    ),
    (
        "No policy is asked; alter.config.policy.class.name is refused.",
        "alter.config.policy.kraft.compatibility.enable",
    ),
)
"""Why, and the broker's settings for which it is so."""

_TOPIC_WITHOUT_EFFECT: Final[tuple[tuple[str, str], ...]] = (
    ("Records are never converted to older formats.", "message.downconversion.enable"),
    ("Records are always stored in the format of Kafka 0.11 and newer.", "message.format.version"),
    (
        "It governs remote log storage, which is refused; true is refused as well.",
        "remote.log.copy.disable remote.log.delete.on.disable",
    ),
)

_REVOCATION: Final = Refusal(
    "ZooKeeper's certificate would not be looked up in any list: a revoked one would be believed.",
    "Leave the setting out, and take the authority of such a certificate out of zookeeper.ssl.truststore.location.",
)
_JAVA_TLS: Final = Refusal(
    "It chooses among Java's implementations of TLS, and kavka uses OpenSSL.", "Leave the setting out."
)

_REFUSED: Final[Mapping[str, Refusal]] = {
    "alter.config.policy.class.name": Refusal(
        "Policies are Java classes, and kavka would not call this one: it would accept every change of settings.",
        _JAVA_POLICY,
    ),
    "client.quota.callback.class": Refusal(
        "Kavka cannot run this Java class, so that clients would have other quotas than it decides.",
        "Leave the setting out, and set quotas of users, client ids and addresses with `kavka quotas`.",
    ),
    "config.providers": Refusal(
        "Values written as ${provider:path:key} would be used literally, not looked up.",
        "Leave the setting out, and write the values themselves into the file.",
    ),
    "create.topic.policy.class.name": Refusal(
        "Policies are Java classes, and kavka would not call this one: it would accept every new topic.", _JAVA_POLICY
    ),
    "eligible.leader.replicas.enable": Refusal(
        "KRaft's list of eligible leaders would not be kept.",
        "Set kavka.eligible.leader.replicas.enable instead, which does the same with ZooKeeper.",
    ),
    "log.local.retention.bytes": Refusal(
        "There is no remote log storage. Only log.retention.bytes removes segments, so they would stay longer than "
        "this.",
        "Leave the setting out, and lower log.retention.bytes where the disks are too small.",
    ),
    "log.local.retention.ms": Refusal(
        "There is no remote log storage. Only log.retention.ms removes segments, so they would stay longer than this.",
        "Leave the setting out, and lower log.retention.ms where the disks are too small.",
    ),
    "principal.builder.class": Refusal(
        "This class would not be called, and every client would be User:ANONYMOUS.",
        "Leave the setting out.",
    ),
    "process.roles": Refusal(
        "There are no KRaft roles: kavka keeps a cluster's metadata in ZooKeeper's form.", "Leave the setting out."
    ),
    "remote.log.storage.system.enable": Refusal(
        "There is no remote log storage: nothing would be copied, and existing remote segments could not be read.",
        "Leave the setting out, and size the disks for the whole retention.",
    ),
    "security.providers": Refusal(
        "It names Java's providers of cryptography, and OpenSSL's would be used instead.",
        "Leave the setting out, and choose a provider in OpenSSL's own configuration.",
    ),
    "ssl.engine.factory.class": Refusal(
        "It names a Java class, which would not be called.", "Leave the setting out: TLS is OpenSSL's."
    ),
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.provider": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "transaction.two.phase.commit.enable": Refusal(
        "Two-phase commit is not supported: a prepared transaction would be aborted after its timeout.",
        "Leave the setting out.",
    ),
    "zookeeper.metadata.migration.enable": Refusal(
        "The metadata would not be migrated: kavka has no KRaft.",
        "Leave the setting out, and migrate with Apache Kafka's brokers.",
    ),
    "zookeeper.ssl.crl.enable": _REVOCATION,
    "zookeeper.ssl.ocsp.enable": _REVOCATION,
}

_TOPIC_REFUSED: Final[Mapping[str, Refusal]] = {
    "local.retention.bytes": Refusal(
        "There is no remote log storage. Only retention.bytes removes segments, so they would stay longer than this.",
        "Leave the setting out, and lower retention.bytes where the disks are too small.",
    ),
    "local.retention.ms": Refusal(
        "There is no remote log storage. Only retention.ms removes segments, so they would stay longer than this.",
        "Leave the setting out, and lower retention.ms where the disks are too small.",
    ),
    # Apache Kafka refuses this one too, where remote.log.storage.system.enable is false, in words of its own.
    "remote.storage.enable": Refusal(
        "There is no remote log storage: no segment would be copied, and the topic would keep all its data locally.",
        "Leave the setting out.",
    ),
}

ACL_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""The values of authorizer.class.name for access control lists in ZooKeeper; the second is the older name."""
OWN_AUTHORIZER: Final = "entrypoint:"
"""What authorizer.class.name begins with where it names an entry point of the group kavka.authorizers."""
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of replica.selector.class with which consumers read from replicas in their own rack."""

_CLASSES: Final[Mapping[str, tuple[tuple[str, ...], Refusal]]] = {
    "authorizer.class.name": (
        ("", *ACL_AUTHORIZERS),
        Refusal(
            "Authorizers are Java classes, and kavka would not call this one: its rules would not hold.",
            f"Name {ACL_AUTHORIZERS[0]}, or {OWN_AUTHORIZER}NAME for an authorizer of your own in Python.",
        ),
    ),
    "group.consumer.assignors": (
        (
            "uniform",
            "range",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ),
        Refusal(
            "Assignors are Java classes, and kavka would not call this one: groups would get another assignment.",
            "Name only uniform and range. With the classic protocol, a client can use its own assignor.",
        ),
    ),
    "replica.selector.class": (
        (RACK_AWARE,),
        Refusal(
            "Selectors are Java classes, and kavka would not call this one: consumers would read from leaders only.",
            f"Leave the setting out, or name {RACK_AWARE}.",
        ),
    ),
}
"""Settings that name Java classes: the names that kavka has built in, and why others are refused."""

IDLE_IN_KAFKA_TOO: Final = frozenset(
    {
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
    }
)
"""Settings without effect here that a running broker of Apache Kafka takes, and does not read again either: its logins
keep what they began with (SaslChannelBuilder.reconfigure hands on TLS alone). Refusing them would fail programs, such
as librdkafka's own tests, for a difference that nobody can see."""
_SASL_AT_START: Final = "A running broker keeps the mechanisms and logins that it began with."
_LISTENER_TLS: Final = "A running broker keeps how its listeners speak TLS; it replaces their certificates alone."
_SECRET_IN_FILE: Final = "Passwords and keys are read from the broker's file, when it starts."

_START_ONLY: Final[Mapping[str, str]] = {
    "ssl.cipher.suites": _LISTENER_TLS,
    "ssl.client.auth": _LISTENER_TLS,
    "ssl.enabled.protocols": _LISTENER_TLS,
    "ssl.endpoint.identification.algorithm": _LISTENER_TLS,
    "ssl.protocol": _LISTENER_TLS,
    "ssl.key.password": _SECRET_IN_FILE,
    "ssl.keystore.certificate.chain": _SECRET_IN_FILE,
    "ssl.keystore.key": _SECRET_IN_FILE,
    "ssl.keystore.password": _SECRET_IN_FILE,
    "ssl.truststore.certificates": _SECRET_IN_FILE,
    "ssl.truststore.password": _SECRET_IN_FILE,
    "advertised.listeners": "A broker registers its advertised addresses once, when it starts.",
    "listener.security.protocol.map": "A running broker keeps the listeners that it began with.",
    "listeners": "A running broker keeps the listeners that it began with.",
    "num.network.threads": "A running broker keeps the threads that it began with.",
    "connections.max.reauth.ms": _SASL_AT_START,
    "sasl.enabled.mechanisms": _SASL_AT_START,
    "sasl.jaas.config": _SASL_AT_START,
    "sasl.kerberos.principal.to.local.rules": _SASL_AT_START,
    "sasl.kerberos.service.name": _SASL_AT_START,
    "sasl.mechanism.inter.broker.protocol": _SASL_AT_START,
    **{name: _SASL_AT_START for name in OF_TOKEN_LOGIN if name.startswith("sasl.login.refresh.")},
}
"""Settings that Kafka changes at run time and kavka does not, with the reason."""


def _by_name(reasons: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {name: why for why, names in reasons for name in names.split()}


_NO_EFFECT: Final = _by_name(_WITHOUT_EFFECT)
_TOPIC_NO_EFFECT: Final = _by_name(_TOPIC_WITHOUT_EFFECT)


def standing(name: str, table: type[Settings]) -> Standing:
    """What `name` of `table` does in kavka."""
    if issubclass(table, BrokerSettings):
        if (refusal := _REFUSED.get(name)) is not None:
            return Standing(Effect.REFUSED, str(refusal))
        if (why := _NO_EFFECT.get(name)) is not None:
            return Standing(Effect.NONE, why)
        if (why := _START_ONLY.get(name)) is not None:
            return Standing(Effect.AT_START, why)
        if name in _CLASSES:
            return Standing(Effect.AT_START, f"Other classes are refused: {_CLASSES[name][1]}")
        row = table.rows.get(name)
        return Standing(Effect.AT_START if row is not None and row.mode is Mode.READ_ONLY else Effect.IN_FORCE)
    if table in (GroupSettings, ClientMetricsSettings, DynamicOnlySettings):
        return Standing(Effect.IN_FORCE)
    if (refusal := _TOPIC_REFUSED.get(name)) is not None:
        return Standing(Effect.REFUSED, str(refusal))
    if (why := _TOPIC_NO_EFFECT.get(name)) is not None:
        return Standing(Effect.NONE, why)
    return Standing(Effect.IN_FORCE)


def without_effect(name: str) -> str | None:
    """Why the broker's setting `name` has no effect; None if it has one, and for an unknown name."""
    if name.startswith("listener.name."):
        base = _base(name)
        if base.startswith("ssl."):
            return _NO_EFFECT.get(base)
        mechanism, _, setting = base.partition(".")
        if mechanism in _OF_MECHANISMS:
            is_read = setting in _OF_EACH_MECHANISM or setting in _OF_MECHANISMS[mechanism]
            return None if is_read else f"It is nothing that can be set for {mechanism.upper()} alone."
        if base == _JAAS:
            return _FOR_ONE_MECHANISM
        return None if f".{base}" in _OF_LISTENERS else _FOR_ONE_LISTENER
    return _FOR_ONE_MECHANISM if name == _JAAS else _NO_EFFECT.get(name)


def _base(name: str) -> str:
    """The setting that listener.name.L.SETTING sets for one listener; other names stay."""
    return name.split(".", 3)[-1] if name.startswith("listener.name.") else name


def start_only(name: str) -> str | None:
    """Why a setting that Kafka can change at run time cannot change here; None if it can."""
    if name.startswith("listener.name."):
        return next((why for setting, why in _START_ONLY.items() if name.endswith(f".{setting}")), None)
    return _START_ONLY.get(name)


def refuse_unsupported(row: AnySetting, value: Value) -> None:
    """Raises InvalidValue if the broker's setting is not supported and `value` is not its harmless default."""
    refusal = _REFUSED.get(row.name)
    if refusal is not None and value != row.default:
        raise InvalidValue(row.name, row.format(value), str(refusal))
    if row.name in _CLASSES and value is not None:
        built, refusal = _CLASSES[row.name]
        others = [str(name) for name in (value if isinstance(value, tuple) else (value,)) if name not in built]
        if row.name == "authorizer.class.name":
            others = [name for name in others if not name.startswith(OWN_AUTHORIZER)]
        if others:
            raise InvalidValue(row.name, ",".join(others), str(refusal))


def refuse_unsupported_in_topic(row: AnySetting, value: Value) -> None:
    """Raises InvalidValue if the topic's setting is not supported and `value` is not its harmless default."""
    refusal = _TOPIC_REFUSED.get(row.name)
    if refusal is not None and value != row.default:
        raise InvalidValue(row.name, row.format(value), str(refusal))
