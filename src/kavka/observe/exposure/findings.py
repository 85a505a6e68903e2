"""Judgement: which sightings are findings, why each matters, and what mends it.

Pure. A finding needs something that was seen: what was not seen is no finding, and no all-clear either.

    I1  each finding has a name that stays the same, for continuous integration to tell findings apart
    I2  each says what was seen, why that matters, and one setting or command that mends it
    I3  a listener that lets nobody in without proof, over TLS, with access control lists, gives none

Source: Kafka's documentation on security; RFC 9325 (TLS), RFC 8996 (versions that are over).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.observe.exposure.sightings import (
    Authorizer,
    BrokerSighting,
    Door,
    Sightings,
    TlsSighting,
    ZooKeeperSighting,
)
from kavka.observe.exposure.tls_suites import is_broken, keeps_no_secret
from kavka.security.acls import Binding, Operation, Permission
from kavka.security.resource_patterns import ResourceType

WARN_DAYS: Final = 30
LEAST_RSA_BITS: Final = 2048
DAY_MS: Final = 86_400_000
_EVERYBODY: Final = ("User:*", "*")
_OLD: Final = ("TLSv1", "TLSv1.1")
_IN_CLEAR: Final = ("PLAINTEXT", "SASL_PLAINTEXT")
_ADMINISTRATION: Final = (Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CREATE)
_COMMANDING: Final = frozenset({Operation.ALL, Operation.CLUSTER_ACTION, *_ADMINISTRATION})
_SHOWN: Final = 5


class Finding(NamedTuple):
    """Something that should not be so."""

    name: str
    what: str
    why: str
    mend: str


def judge(seen: Sightings) -> tuple[Finding, ...]:
    """All findings, by subject."""
    return tuple(finding for each in _SUBJECTS for finding in each(seen))


def _listener(seen: Sightings) -> Iterator[Finding]:
    if not seen.is_tls and (seen.mechanisms is not None or seen.anonymous is not None):
        yield Finding(
            "no-encryption",
            f"{seen.address} speaks Kafka's protocol without TLS",
            "who can read the network reads every record, and can change it or take a connection over",
            "listeners=SASL_SSL://HOST:PORT, with ssl.keystore.location, in place of this listener",
        )
    in_clear = [each for each in seen.mechanisms or () if each in ("PLAIN", "OAUTHBEARER")]
    if in_clear and not seen.is_tls:
        yield Finding(
            "secrets-in-clear",
            f"{' and '.join(in_clear)} without TLS",
            "who can read the network reads the passwords or tokens themselves",
            "sasl.enabled.mechanisms=SCRAM-SHA-512, or TLS under it",
        )
    if seen.passwords:
        yield Finding(
            "well-known-passwords",
            f"a password from Kafka's documentation lets in {', '.join(seen.passwords)}",
            "it is the first that anybody tries",
            "give these users other passwords: kavka users add NAME, or user_NAME in PLAIN's sasl.jaas.config",
        )
    if seen.answers_before_login:
        yield Finding(
            "answers-before-login",
            "the listener has SASL, and tells metadata to a client that has not logged in",
            "whatever stands before the broker lets requests past authentication",
            "let clients reach the broker's own listener only",
        )


def _anonymous(seen: Sightings) -> Iterator[Finding]:
    found = seen.anonymous
    if found is None:
        return
    yield Finding(
        "no-authentication",
        "clients need no name: whoever connects is User:ANONYMOUS",
        "rights, quotas and records of who did what cannot tell one client from another",
        "ssl.client.auth=required"
        if seen.is_tls
        else "sasl.enabled.mechanisms=SCRAM-SHA-512 on a SASL_SSL listener, in place of this one",
    )
    yield Finding(
        "metadata-for-anybody",
        f"an anonymous client is told {_counted(len(found.brokers), 'broker')} and {_counted(found.topics, 'topic')}",
        "addresses and names are where an attack begins",
        "authenticate clients (no-authentication), and give Describe to those who need it: kavka acls add",
    )
    if found.settings is not None:
        yield Finding(
            "settings-for-anybody",
            f"an anonymous client reads {len(found.settings):,} settings of a broker",
            "they name ZooKeeper, directories, listeners and which protections are off",
            f"{_authorizer(seen)}: then it needs DescribeConfigs on the cluster",
        )
    if found.users is not None:
        yield Finding(
            "users-for-anybody",
            f"an anonymous client may list users with passwords ({found.users:,} now)",
            "names of users are half of what guessing needs",
            f"{_authorizer(seen)}: then it needs Describe on the cluster",
        )
    may = found.may or frozenset()
    if Operation.CLUSTER_ACTION in may:
        yield Finding(
            "broker-requests-for-anybody",
            "an anonymous client has ClusterAction: it may send what only brokers send",
            "such a client can stop replicas, shrink in-sync sets and pass for a follower that reads everything",
            _take("ClusterAction", seen),
        )
    if ours := [each.word for each in _ADMINISTRATION if each in may]:
        yield Finding(
            "administration-for-anybody",
            f"an anonymous client has {', '.join(ours)} on the cluster",
            "it can change settings, users, quotas and access control lists, or fill disks",
            _take("Alter, AlterConfigs and Create", seen),
        )
    creates = Operation.CREATE in may or found.authorizer is Authorizer.OFF
    if creates and (found.settings or {}).get("auto.create.topics.enable") == "true":
        yield Finding(
            "topics-made-by-asking",
            "a topic is made when anybody asks for one that is missing",
            "misspelt names become topics, and a loop of names fills ZooKeeper, memory and disks",
            "auto.create.topics.enable=false",
        )


def _rights(seen: Sightings) -> Iterator[Finding]:
    told = [each for each in (seen.anonymous, seen.known) if each is not None]
    if any(each.authorizer is Authorizer.OFF for each in told):
        yield Finding(
            "no-authorizer",
            "there is no authorizer",
            "every client that gets in may read, write and delete everything",
            f"{_authorizer(seen)}, with super.users",
        )
    if _setting(told, "allow.everyone.if.no.acl.found") == "true":
        yield Finding(
            "everyone-where-no-acl-is",
            "allow.everyone.if.no.acl.found=true",
            "a topic that nobody wrote a list for is open to every client",
            "allow.everyone.if.no.acl.found=false",
        )
    wide = [acl for each in told for acl in each.acls or () if _is_wide(acl)]
    if wide:
        more = f" and {len(wide) - _SHOWN:,} more" if len(wide) > _SHOWN else ""
        yield Finding(
            "acl-for-everybody",
            f"{'; '.join(dict.fromkeys(map(str, wide[:_SHOWN])))}{more}",
            "User:* is every client, those without a name too: such a list protects nothing",
            _removal(wide[0]),
        )
    between = _inter_broker(told)
    if between in _IN_CLEAR:
        yield Finding(
            "brokers-in-clear",
            f"brokers talk to each other over {between}",
            "all records pass there again, and who reaches that listener can pass for a broker",
            "security.inter.broker.protocol=SSL, or SASL_SSL",
        )


def _beside(seen: Sightings) -> Iterator[Finding]:
    told = [each for each in (seen.anonymous, seen.known) if each is not None]
    listeners = [*_listeners(told), *(each for zookeeper in seen.zookeeper for each in zookeeper.listeners)]
    open_ones = list(dict.fromkeys(each for each in listeners if each.partition("://")[0] in _IN_CLEAR))
    if seen.is_tls and open_ones:
        yield Finding(
            "plaintext-beside-tls",
            f"beside TLS brokers listen on {', '.join(open_ones[:_SHOWN])}",
            "TLS protects only those who choose it: the other door leads to the same records",
            "take these listeners out of `listeners` and advertised.listeners once no client uses them",
        )
    for zookeeper in seen.zookeeper:
        yield from _zookeeper(zookeeper)
    for metrics in seen.metrics:
        if not metrics.is_local:
            yield Finding(
                "metrics-for-anybody",
                f"{metrics.address} shows metrics to whoever asks",
                "they name topics, groups, clients and how much flows",
                "kavka.metrics.host=127.0.0.1, or a firewall before the exporter's port",
            )


def _zookeeper(seen: ZooKeeperSighting) -> Iterator[Finding]:
    if seen.door is Door.CLOSED:
        return
    yield Finding(
        "zookeeper-open",
        f"ZooKeeper at {seen.address} answers a client that says nothing of who it is",
        "brokers, topics, lists and users are kept there: who gets in is past every protection of the brokers",
        "a firewall that lets brokers in only; in ZooKeeper secureClientPort with client certificates, no clientPort",
    )
    if seen.writable:
        yield Finding(
            "zookeeper-writable",
            f"everybody may write {_some(seen.writable)} in ZooKeeper",
            "writing there makes users, takes access control lists away, and deletes topics",
            "zookeeper.set.acl=true on every broker, then zookeeper-security-migration.sh --zookeeper.acl=secure",
        )
    if seen.readable:
        yield Finding(
            "zookeeper-secrets-readable",
            f"everybody may read {_some(seen.readable)} in ZooKeeper",
            "passwords of SCRAM users can be guessed from what is there, as fast as the thief's machines are",
            "zookeeper.set.acl=true on every broker, then zookeeper-security-migration.sh --zookeeper.acl=secure",
        )


def _tls(seen: Sightings) -> Iterator[Finding]:
    tls = seen.tls
    if tls is None:
        return
    if old := [version for version in _OLD if version in tls.suites]:
        yield Finding(
            "old-tls",
            f"{' and '.join(old)} {'is' if len(old) == 1 else 'are'} offered",
            "these versions are broken and withdrawn (RFC 8996)",
            "ssl.enabled.protocols=TLSv1.2,TLSv1.3",
        )
    suites = list(dict.fromkeys(name for names in tls.suites.values() for name in names))
    if weak := [name for name in suites if is_broken(name)]:
        yield Finding(
            "weak-suites",
            f"suites that can be broken are offered: {_some(weak)}",
            "a client that takes one has no secret and no proof of whom it talks to",
            "ssl.cipher.suites=TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,"
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        )
    if kept := [name for name in suites if keeps_no_secret(name) and not is_broken(name)]:
        yield Finding(
            "no-forward-secrecy",
            f"suites without forward secrecy are offered: {_some(kept)}",
            "who records the traffic today can read it on the day when he gets the broker's key",
            "ssl.cipher.suites with the suites whose names begin with TLS_ECDHE_ and those of TLS 1.3 only",
        )
    if tls.distrust:
        yield Finding(
            "certificate-not-believed",
            f"the certificate is not believed: {tls.distrust}",
            "a client that accepts it accepts anybody's, and one that checks does not get in",
            "name the cluster's authority with --ca FILE; if that is it: a certificate of that authority, with the "
            "host's name in it, at ssl.keystore.location",
        )
    yield from _certificates(tls, seen.at_ms)


def _certificates(tls: TlsSighting, now_ms: int) -> Iterator[Finding]:
    ends = [each for each in tls.chain if each.not_after_ms and each.not_after_ms - now_ms < WARN_DAYS * DAY_MS]
    if ends:
        first = min(ends, key=lambda each: each.not_after_ms)
        days = (first.not_after_ms - now_ms) // DAY_MS
        yield Finding(
            "certificate-ends",
            f"the certificate of {first.subject or 'no name'} has expired"
            if days < 0
            else f"the certificate of {first.subject or 'no name'} ends in {_counted(days, 'day')}",
            "from then on no client that checks gets in, and brokers lose each other",
            "a new file at ssl.keystore.location; kavka finds it by itself, Apache Kafka when the setting is set again",
        )
    if weak := [each for each in tls.chain if each.key == "RSA" and 0 < each.key_bits < LEAST_RSA_BITS]:
        yield Finding(
            "short-key",
            f"the key of {weak[0].subject} has {weak[0].key_bits:,} bits",
            "such keys can be computed by who has the means",
            f"a certificate with an RSA key of {LEAST_RSA_BITS:,} bits or more, or an elliptic one",
        )
    if weak := [each for each in tls.chain if each.hash_name and each.subject != each.issuer]:
        yield Finding(
            "weak-signature",
            f"the certificate of {weak[0].subject} is signed with {weak[0].hash_name}",
            "a certificate with another name and the same signature can be made",
            "a certificate that is signed with SHA-256",
        )


_SUBJECTS: Final[tuple[Callable[[Sightings], Iterator[Finding]], ...]] = (
    _listener,
    _tls,
    _anonymous,
    _rights,
    _beside,
)


def _authorizer(seen: Sightings) -> str:
    if seen.is_kraft:
        return "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


def _take(words: str, seen: Sightings) -> str:
    if seen.anonymous is not None and seen.anonymous.authorizer is Authorizer.OFF:
        return f"{_authorizer(seen)}, with super.users"
    return f"take {words} from User:ANONYMOUS and User:*: kavka acls remove --cluster"


def _is_wide(acl: Binding) -> bool:
    pattern, entry = acl
    if entry.permission is not Permission.ALLOW or entry.principal not in _EVERYBODY or entry.host != "*":
        return False
    if pattern.resource_type is ResourceType.CLUSTER:
        return entry.operation in _COMMANDING
    return pattern.name in ("*", "")


def _removal(acl: Binding) -> str:
    pattern, entry = acl
    option = {
        ResourceType.TOPIC: f"--topic '{pattern.name}'",
        ResourceType.GROUP: f"--group '{pattern.name}'",
        ResourceType.TRANSACTIONAL_ID: f"--transactional-id '{pattern.name}'",
        ResourceType.DELEGATION_TOKEN: f"--delegation-token '{pattern.name}'",
        ResourceType.USER: f"--user-principal '{pattern.name}'",
    }.get(pattern.resource_type, "--cluster")
    return f"kavka acls remove --allow-principal '{entry.principal}' --operation {entry.operation.word} {option}"


def _setting(told: Sequence[BrokerSighting], name: str) -> str:
    return next((each.settings[name] for each in told if each.settings and name in each.settings), "")


def _protocols(told: Sequence[BrokerSighting]) -> Mapping[str, str]:
    pairs = (pair.partition(":") for pair in _setting(told, "listener.security.protocol.map").split(","))
    return {name.strip(): protocol.strip() for name, _, protocol in pairs}


def _inter_broker(told: Sequence[BrokerSighting]) -> str:
    if name := _setting(told, "inter.broker.listener.name"):
        return _protocols(told).get(name, name)
    return _setting(told, "security.inter.broker.protocol")


def _listeners(told: Sequence[BrokerSighting]) -> list[str]:
    """The listeners of settings, with the protocol of each in place of its name."""
    text = _setting(told, "advertised.listeners") or _setting(told, "listeners")
    protocols = _protocols(told)
    parts = (each.strip().partition("://") for each in text.split(",") if each.strip())
    return [f"{protocols.get(name, name)}://{rest}" for name, _, rest in parts]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"
