"""The bugs of access that are put back: of access control lists, logins and sessions, tokens, quotas, certificates."""

from __future__ import annotations

from tests.simulation.mutation import Change, Mutant

ACCEPTOR = "kavka.broker.acceptor"
QUOTA = "kavka.security.connection_quota:ConnectionQuota"
ACL_STORE = "kavka.broker.authorization.acl_store:AclStore"
CHANGE_FOLLOWER = "kavka.zookeeper.change_nodes:ChangeFollower"
AUTHORIZATION = "kavka.broker.authorization.authorization"
FETCH = "kavka.broker.api.records.fetch"
GATE = "kavka.broker.authentication.sasl_gate:SaslGate"
SASL_SERVER = "kavka.security.sasl_server:SaslServer"
TOKEN_STORE = "kavka.broker.authentication.delegation_token_store:TokenStore"

ACCESS_MUTANTS = [
    # Access control lists.
    Mutant(
        "a remembered right outlives its list",
        "a cache that is not cleared when the generation rises",
        (Change(f"{AUTHORIZATION}:Authorization.is_allowed", "session.generation != generation", "False"),),
        ("S52",),
    ),
    Mutant(
        "a right that was there when the fetch came is enough",
        "Apache Kafka: a fetch that waits is answered with records after its right was removed",
        (Change(f"{FETCH}:_await_outcomes", "generation != authorization.authorizer.generation", "False"),),
        ("S52",),
    ),
    Mutant(
        "change nodes alone are read after a lost session",
        "Apache Kafka: what was purged meanwhile is never heard of",
        (
            Change(f"{CHANGE_FOLLOWER}._on_event", "self._must_read_all = True", "pass"),
            Change(f"{CHANGE_FOLLOWER}._misses_some", "return any(", "return False and any("),
        ),
        ("S53",),
    ),
    Mutant(
        "lists are written over each other",
        "a write that does not look at the version",
        (Change(f"{ACL_STORE}._change", "_encode(wanted), before.version", "_encode(wanted), -1"),),
        ("S54",),
    ),
    Mutant(
        "a change is in force on the broker that wrote it only",
        "the change node is forgotten",
        (Change(f"{ACL_STORE}._change", "multi([write, _change_node(pattern)])", "multi([write])"),),
        ("S52", "S54"),
    ),
    Mutant(
        "a denial counts only where nothing allows",
        "deny after allow",
        (
            Change(
                "kavka.security.authorizer:_decide_among",
                "if permission is Permission.DENY:",
                "if permission is Permission.DENY and allowed is None:",
            ),
        ),
        ("S55",),
    ),
    Mutant(
        "whoever fetches as a replica gets records",
        "replica fetches are not asked for ClusterAction",
        (Change(f"{FETCH}:_ask", "None if caller.may_on_cluster(Operation.CLUSTER_ACTION) else set[str]()", "None"),),
        ("S55",),
    ),
    Mutant(
        "prefixes match at the end of a name",
        "a prefix that is not one",
        (Change("kavka.security.resource_patterns:applying", "name[:length]", "name[-length:]"),),
        ("S55",),
    ),
    # Sessions.
    Mutant(
        "a session outlives its token",
        "the token's end is looked at when its holder logs in, and never again",
        (
            Change(
                "kavka.broker.authentication.delegation_token_logins:TokenLogins.find",
                ", rest_ms=partial(self._rest_ms, token_id)",
                "",
            ),
        ),
        ("S56", "S57"),
    ),
    Mutant(
        "sessions end by a clock that can be set",
        "a clock that is set back prolongs every session, and one that is set ahead ends all at once",
        (Change(f"{GATE}._now_ms", "int(self._ports.loop.time() * 1000)", "self._ports.failures._wall_ms()"),),
        ("S57",),
    ),
    Mutant(
        "nobody has to log in again",
        "KAFKA-9241: a session's end is told, and not kept to",
        (Change(f"{SASL_SERVER}.is_expired", "now_ms > self._expires_ms", "False"),),
        ("S58",),
    ),
    Mutant(
        "a deleted user can still log in",
        "a credential that is gone from ZooKeeper stays with the brokers",
        (
            Change(
                "kavka.broker.authentication.credential_store:CredentialStore._apply",
                "self._users.pop(user, None)",
                "pass",
            ),
        ),
        ("S58",),
    ),
    Mutant(
        "a wait is told, and not kept to",
        "KIP-219: a client that has used up its quota is heard all the same",
        (
            Change(
                "kavka.broker.dispatcher:_charged",
                "encode_chunks(answer, version), delay_ms",
                "encode_chunks(answer, version)",
            ),
        ),
        ("S59",),
    ),
    Mutant(
        "with a quota of nothing one waits for ever",
        "the time until a rate is down to 0",
        (
            Change(
                "kavka.broker.quotas.client_quotas:delay_ms",
                "min(rate.samples * rate.window_ms, MAX_DELAY_MS)",
                "MAX_DELAY_MS",
            ),
        ),
        ("S59",),
    ),
    Mutant(
        "a token is known to the broker that made it",
        "its change node is forgotten",
        (Change(f"{TOKEN_STORE}._change", "multi([write, _change_node(token_id)])", "multi([write])"),),
        ("S60",),
    ),
    Mutant(
        "who becomes the controller removes no tokens",
        "only who is the controller when its broker starts looks after them",
        (
            Change(
                "kavka.broker.authentication.delegation_token_expiry:TokenExpiry.run",
                "while True:",
                "while self._is_controller():",
            ),
        ),
        ("S60",),
    ),
    Mutant(
        "a renewal is known to the broker that made it",
        "only tokens that are new or gone are taken in from change nodes",
        (
            Change(
                f"{TOKEN_STORE}._take_in",
                "self._put(token_id, token)",
                "token_id in self._known and token is not None or self._put(token_id, token)",
            ),
        ),
        ("S68",),
    ),
    Mutant(
        "an end that comes nearer is not taken in",
        "the later end of a token counts: who was to be out at once stays for as long as was meant first",
        (
            Change(
                f"{TOKEN_STORE}._put",
                "known = self._known[token_id] = _Known(token,",
                "token = token if former is None else max(token, former.token, key=lambda each: each.expires_ms)\n"
                "    known = self._known[token_id] = _Known(token,",
            ),
        ),
        ("S68",),
    ),
    Mutant(
        "a token ends when it was first to end",
        "the end is kept with the credential that its first login had computed",
        (
            Change(
                "kavka.broker.authentication.delegation_token_logins:TokenLogins._rest_ms",
                "token = self._store.find(token_id)",
                "first = self.__dict__.setdefault('_first', {})\n"
                "    token = first.setdefault(token_id, self._store.find(token_id))",
            ),
        ),
        ("S68",),
    ),
    # Floods of connections.
    Mutant(
        "brokers have no way in of their own",
        "KIP-402: clients that take all places stop replication",
        (Change(f"{QUOTA}.is_protected", "return listener in self._of_brokers", "return False and listener"),),
        ("S63", "S65"),
    ),
    Mutant(
        "nobody gives way to brokers",
        "there are more connections than may be",
        (Change(f"{ACCEPTOR}:Acceptor._admit", "if self._quota.surplus:", "if False:"),),
        ("S65",),
    ),
    Mutant(
        "who does not log in keeps its place",
        "Apache Kafka: half-open connections keep everybody else out until they are idle for ten minutes",
        (Change(f"{ACCEPTOR}:Admission.close_unknown", "for processor in self._processors:", "for processor in ():"),),
        ("S63",),
    ),
    Mutant(
        "who is in gives way as who is not",
        "the one that was idle for longest goes first, whether it has logged in or not",
        (Change("kavka.security.giving_way:Idlest.among", "if place.is_unknown:", "if False:"),),
        ("S63",),
    ),
    Mutant(
        "who is in gives way to brokers in a flood that is young",
        "a machine that does not log in, and comes again as soon as it is out, takes the places of those who are in",
        (Change("kavka.security.giving_way:Idlest.among", "now if is_flood else", ""),),
        ("S63",),
    ),
    Mutant(
        "a lower bound closes nobody",
        "what was taken over counts for new connections only",
        (Change(f"{QUOTA}.surplus", "min(max(self.count - most, 0), self._unprotected())", "0"),),
        ("S65",),
    ),
    Mutant(
        "a guess costs nothing",
        "wrong passwords are answered as fast as they come",
        (Change("kavka.security.failed_login_delay:Guessing.on_failure", "0 if over <= 0 else min", "0 and min"),),
        ("S64",),
    ),
    Mutant(
        "all wait for who guesses",
        "failures are counted for a listener, whoever fails",
        (
            Change("kavka.security.failed_login_delay:Guessing.on_failure", "group_of(host)", '""'),
            Change("kavka.security.failed_login_delay:Guessing.wait_ms", "group_of(host)", '""'),
        ),
        ("S64",),
    ),
    # Certificates and listeners.
    Mutant(
        "a handshake that fails ends a fetcher",
        "a follower tries again only where nobody listens",
        (
            Change(
                "kavka.replication.fetcher:ReplicaFetcher._run",
                "await self._on_lost(failure)",
                "await self._on_lost(failure)\n            if not isinstance(failure, ConnectionRefused): return",
            ),
        ),
        ("S61",),
    ),
    Mutant(
        "brokers are reached at the first of their listeners",
        "followers take no notice of the listener that is for brokers",
        (
            Change(
                "kavka.broker.metadata.state_changes:StateChanges._endpoints",
                "broker.endpoints.get(self._inter_broker_listener)",
                "next(iter(broker.endpoints.values()), None)",
            ),
        ),
        ("S62",),
    ),
]
