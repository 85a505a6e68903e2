"""Rules of access control break where they must: R23 to R26; brokers without an authorizer are not looked at. Secured
clusters keep all rules while rights, passwords, quotas, tokens and certificates change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kavka.errors import ConnectionFailed
from kavka.security.acls import Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, ResourceType
from kavka.security.scram_credentials import ScramMechanism
from kavka.simulator.clients.logins import SECURED
from kavka.simulator.faults import access_faults
from kavka.simulator.faults.fault_group import Argument
from kavka.simulator.faults.mix import Strike
from kavka.simulator.host.tls import Certificate, TlsIdentity, TlsNetwork
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.runs.swarm import Plan, run_plan, run_seed
from kavka.simulator.scenarios.access import SETTINGS
from kavka.simulator.scenarios.play import A, Play
from kavka.simulator.world import World
from tests.simulation.access_mutants import ACCESS_MUTANTS
from tests.simulation.mutation import Mutant, put_back

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOPIC = Pattern(ResourceType.TOPIC, "orders")
READ_ONLY = Entry("User:ANONYMOUS", "*", Operation.READ, Permission.ALLOW)


def test_a_broker_that_keeps_other_lists_than_zookeeper_breaks_r24() -> None:
    play = Play(settings=SETTINGS)
    broker = play.world.brokers[A]
    play.world.observer.access.require_same_lists(broker)
    assert broker.broker is not None
    assert broker.broker.authorization is not None
    acls = broker.broker.authorization.acls
    assert acls is not None
    acls.index = acls.index.with_lists({TOPIC: {READ_ONLY}})
    with pytest.raises(Violation, match="R24"):
        play.world.observer.access.require_same_lists(broker)


def test_a_write_without_a_right_breaks_r23(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(settings=SETTINGS)
    broker = play.world.brokers[A].broker
    assert broker is not None
    authorization = broker.authorization
    assert authorization is not None
    assert authorization.acls is not None
    authorization.acls.index = authorization.acls.index.with_lists({TOPIC: {READ_ONLY}})
    monkeypatch.setattr(authorization, "is_allowed", lambda *_: True)
    with pytest.raises(Violation, match="R23"):
        play.write_ok()


def test_what_is_refused_though_it_was_allowed_breaks_r23(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(settings=SETTINGS)
    broker = play.world.brokers[A].broker
    assert broker is not None
    monkeypatch.setattr(broker.authorization, "is_allowed", lambda *_: False)
    with pytest.raises(Violation, match="R23"):
        play.fetch(0)


def test_brokers_without_an_authorizer_are_not_looked_at() -> None:
    play = Play()
    play.write_ok()
    play.world.observer.access.require_same_lists(play.world.brokers[A])


def test_a_request_in_another_name_than_that_of_the_login_breaks_r25() -> None:
    play = Play(settings=SETTINGS)
    play.world.observer.access.principal_of = lambda host, listener: "User:somebody"
    with pytest.raises(Violation, match="R25"):
        play.write_ok()


def test_a_fetch_that_is_refused_and_moves_its_replica_breaks_r26(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(settings=SETTINGS)
    play.write_ok()
    broker = play.world.brokers[A].broker
    assert broker is not None
    partition = broker.replicas.partition("orders", 0)
    assert partition is not None
    replica = partition.remote_replica(3)
    assert replica is not None
    monkeypatch.setattr("kavka.simulator.rules.access_rules._may_replicate", lambda *_: False)
    moved = iter(range(100, 200))

    def refuse(*_: object) -> bool:
        replica.log_end_offset = next(moved)
        return False

    monkeypatch.setattr(broker.authorization, "is_allowed", refuse)
    with pytest.raises(Violation, match="R26"):
        play.run_for(5.0)


def test_a_broker_with_another_password_than_zookeeper_breaks_r24() -> None:
    world = World(1, secured=True, partitions=1)
    world.start()
    world.run_for(20.0)
    assert world.stored_access.looks > 0
    broker = world.brokers[A]
    world.stored_access.require_same(broker)
    assert broker.broker is not None
    assert broker.broker.authentication is not None
    store = broker.broker.authentication.store
    assert store is not None
    found = store.find(ScramMechanism.SHA_256, "producer")
    store.find = lambda mechanism, user: found  # type: ignore[method-assign]
    with pytest.raises(Violation, match="R24"):
        world.stored_access.require_same(broker)


STRIKES: Mapping[str, Mapping[str, Argument]] = {
    "change rights": {
        "user": "producer",
        "revoke": False,
        "pattern": "or",
        "prefix": True,
        "operation": "Write",
        "ms": 2_000,
    },
    "lose password": {"user": "consumer", "other": True, "ms": 2_000},
    "limit": {"user": "producer", "quota": "producer_byte_rate", "rate": 100, "ms": 2_000},
    "token": {"lifetime_ms": 3_000},
    "keep token": {"period_ms": 4_000, "times": 2, "how": "ended"},
    "rotate authority": {"ms": 1_000},
    "bad certificate": {"broker": 2, "how": "issuer", "ms": 2_000},
}


def test_every_change_of_access_strikes_and_all_comes_together_afterwards() -> None:
    assert sorted(STRIKES) == sorted(access_faults.KINDS)
    schedule = [Strike((number + 1) * 4_000, kind, STRIKES[kind]) for number, kind in enumerate(STRIKES)]
    result = run_plan(Plan(4, secured=True), hours=32 / 3_600, schedule=schedule)
    assert result.violation == ""
    assert result.faults == dict.fromkeys(STRIKES, 1)
    assert result.acknowledged > 0


KEEPS: Mapping[str, Argument] = {"period_ms": 8_000, "times": 4, "how": "shortened"}
SETTLED_MS = 18_000
"""From then on a rule knows what brokers must know."""


@pytest.mark.parametrize(
    "mutant", [each for each in ACCESS_MUTANTS if each.killers == ("S68",)], ids=lambda it: it.name
)
def test_a_run_with_a_token_that_is_renewed_finds_what_goes_wrong_with_it(mutant: Mutant) -> None:
    schedule = [Strike(SETTLED_MS, "keep token", KEEPS)]
    with put_back(mutant):
        assert run_plan(Plan(1, secured=True), hours=60 / 3_600, schedule=schedule).violation != ""


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["lapses", "ended", "shortened"])
def test_a_token_that_is_renewed_and_an_authority_that_goes_lock_nobody_out(how: str) -> None:
    schedule = [
        Strike(SETTLED_MS, "keep token", {**KEEPS, "how": how}),
        Strike(SETTLED_MS + 2_000, "rotate authority", {"ms": 3_000}),
        Strike(SETTLED_MS + 4_000, "bad certificate", {"broker": 2, "how": "expired", "ms": 4_000}),
        Strike(SETTLED_MS + 22_000, "rotate authority", {"ms": 1_000}),
    ]
    result = run_plan(Plan(2, secured=True), hours=60 / 3_600, schedule=schedule)
    assert result.violation == ""
    assert result.faults == {"keep token": 1, "rotate authority": 2, "bad certificate": 1}


def test_a_secured_seed_breaks_no_rule() -> None:
    result = run_seed(1, hours=0.005, secured=True)
    assert not result.violation, f"{result.violation}\n{result.detail}"
    assert result.acknowledged > 0


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (Certificate("CN=broker-1", ("broker-1",), "somebody"), "issuer somebody is not trusted"),
        (Certificate("CN=broker-1", ("broker-1",), expires_ms=WALL_CLOCK_START_MS), "expired"),
        (Certificate("CN=broker-1", ("broker-2",)), "not for broker-1"),
        (None, "closed"),
    ],
)
def test_a_certificate_that_is_not_believed_ends_the_connection(shown: Certificate | None, why: str) -> None:
    world = World(1, secured=True, brokers=1, partitions=1)
    world.start()
    world.brokers[A].tls.certificate = shown
    loop = world.clients.node("admin")
    network = TlsNetwork(
        world.network.port_of(loop.name, loop), TlsIdentity(), lambda: WALL_CLOCK_START_MS + world.scheduler.now_ms
    )
    task = loop.create_task(network.connect("broker-1", 9092))
    world.run_until(task.done, within_s=20)
    with pytest.raises(ConnectionFailed, match=why):
        task.result()


def test_where_clients_must_show_certificates_they_are_who_those_say() -> None:
    settings = {
        **SECURED,
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SSL",
        "ssl.client.auth": "required",
        "super.users": f"{SECURED['super.users']};{';'.join(f'User:CN=broker-{each}' for each in (1, 2, 3))}",
    }
    world = World(1, secured=True, settings=settings, partitions=1)
    logins = world.logins
    assert logins is not None
    usual = logins.principal_of
    world.observer.access.principal_of = lambda node, listener: (
        f"User:CN={node}" if node.startswith("broker-") else usual(node, listener)
    )
    world.start()
    world.brokers[2].tls.certificate = Certificate("CN=broker-2", ("broker-2",), "somebody")
    world.brokers[2].kill()
    world.brokers[2].start()
    world.run_for(20.0)
    assert all(2 not in stored.state.isr for stored in world.observer.stored.values())
