"""Scenarios of rollouts (S61, S62): certificates and listeners change broker by broker while the cluster serves.

Certificates are values (`host.tls`); brokers are stopped in order and started with other settings, as operators do.

Source: docs/design/known-bugs.md.
"""

from __future__ import annotations

from dataclasses import replace

from kavka.model import BrokerId
from kavka.security.principals import ANONYMOUS
from kavka.simulator.clients.logins import SECURED, Logins, broker_certificate
from kavka.simulator.host.tls import AUTHORITY
from kavka.simulator.scenarios.play import A, B, C, D, Play
from kavka.simulator.scenarios.registry import scenario

NEXT_AUTHORITY = "next-ca"
PLAINTEXT = "PLAINTEXT"
_EVERYWHERE = {name: text for name, text in SECURED.items() if name.startswith(("listener.name.brokers.", "sasl."))}
BESIDE = {
    **_EVERYWHERE,
    "listeners": "PLAINTEXT://{node}:9092,BROKERS://{node}:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL,CLIENTS:SASL_SSL",
    "inter.broker.listener.name": PLAINTEXT,
}
"""First each broker has another listener, which nobody uses."""
SWITCHED = {"inter.broker.listener.name": "BROKERS"}
"""Then brokers use it among themselves."""
CLOSED = SECURED
"""In the end clients must log in as well, and rights count."""


def _renew(play: Play, broker_id: BrokerId) -> None:
    """Its files are replaced, and it takes them: from now on it shows a certificate of the next authority."""
    broker = play.world.brokers[broker_id]
    broker.tls.certificate = replace(broker_certificate(broker.node), issuer=NEXT_AUTHORITY)


def _trust(play: Play, broker_id: BrokerId, *authorities: str) -> None:
    play.world.brokers[broker_id].tls.trusted = frozenset(authorities)


@scenario("S61: certificates are replaced, and one broker is late")
def _(seed: int) -> None:
    play = Play(seed, secured=True)
    logins = play.world.logins
    assert logins is not None
    play.write_ok()
    late = B
    in_time = (A, C, D)
    logins.identity.trusted = frozenset((AUTHORITY, NEXT_AUTHORITY))
    for broker_id in in_time:
        _trust(play, broker_id, AUTHORITY, NEXT_AUTHORITY)
    for broker_id in in_time:
        _renew(play, broker_id)
        play.run_for(0.5)
    # Open connections stay, and who is late notices nothing until it needs another one.
    play.write_ok()
    play.expect(leader=A, isr=(A, B, C))
    for broker_id in in_time:
        _trust(play, broker_id, NEXT_AUTHORITY)
    logins.identity.trusted = frozenset((NEXT_AUTHORITY,))
    play.kill(late)
    play.expect(leader=A, isr=(A, C))
    play.world.brokers[late].start()
    play.run_for(5.0)
    play.expect(leader=A, isr=(A, C))
    play.write_ok(2)
    # Its certificate comes: the controller reaches it, and it believes nobody that it is to follow.
    _renew(play, late)
    play.run_for(5.0)
    play.expect(leader=A, isr=(A, C))
    # The authorities come. It goes on without a restart.
    _trust(play, late, NEXT_AUTHORITY)
    play.expect(leader=A, isr=(A, B, C))
    play.hand_over(late, A, C)
    play.write_ok()
    play.read_acknowledged()
    play.finish()


@scenario("S62: a cluster goes from PLAINTEXT to SASL_SSL, broker by broker")
def _(seed: int) -> None:
    play = Play(seed)
    world = play.world
    for broker in world.brokers.values():
        broker.tls.certificate = broker_certificate(broker.node)
    logins = Logins(world.scheduler)
    world.observer.access.principal_of = lambda node, listener: (
        str(ANONYMOUS) if listener == PLAINTEXT else logins.principal_of(node, listener)
    )

    def restart(broker_id: BrokerId, settings: dict[str, str]) -> None:
        broker = world.brokers[broker_id]
        play.until(play.stop(broker_id).done, f"broker {broker_id} stops")
        play.until(lambda: not broker.is_alive, f"broker {broker_id} is gone")
        broker.set(settings)
        broker.start()
        play.expect(isr=(A, B, C))

    play.write_ok()
    for settings in (BESIDE, SWITCHED):
        for broker_id in (B, C, D, A):
            restart(broker_id, settings)
            play.write_ok()
    play.hand_over(A, B, C)
    for broker_id in (B, C, D):
        restart(broker_id, dict(CLOSED))
        play.write_ok()
    # From now on clients log in; until then the leader was one that takes them without.
    world.logins = world.clients.logins = logins
    restart(A, dict(CLOSED))
    play.write_ok()
    play.read_acknowledged()
    play.finish()
