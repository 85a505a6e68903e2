"""Scenarios of floods (S63 to S65): more connections than there may be, from one machine, of every kind.

The clusters are secured (`clients.logins`): clients and brokers have a listener each, with TLS and SASL. Rules R30 and
R31 are checked on the way.

Source: docs/design/known-bugs.md.
"""

from __future__ import annotations

from kavka.client.admin import Admin, ConfigChange, ConfigResource, ResourceType
from kavka.model import BrokerId
from kavka.security.failed_login_delay import FIRST_DELAY_MS
from kavka.simulator.clients.floods import Flood, Flooder
from kavka.simulator.host.broker import PORT
from kavka.simulator.rules.connection_rules import PATIENCE_S
from kavka.simulator.scenarios.play import A, B, C, Play
from kavka.simulator.scenarios.registry import scenario

PLACES = 30
SETTINGS = {"max.connections": str(PLACES)}
FREE_FAILURES = 20
LONGEST_DELAY_S = 10


def _flood(play: Play, broker_id: BrokerId, kind: Flood, *, user: str = "consumer", count: int = 2 * PLACES) -> Flooder:
    world = play.world
    return Flooder(world.clients, world.brokers[broker_id].node, user=user, kind=kind, count=count)


def _connections(play: Play, broker_id: BrokerId, listener: str) -> int:
    places = play.world.brokers[broker_id].places
    return 0 if places is None else sum(each.listener == listener for each in places.all())


def _all_connections(play: Play, broker_id: BrokerId) -> int:
    return _connections(play, broker_id, "CLIENTS") + _connections(play, broker_id, "BROKERS")


def _login_s(play: Play, broker_id: BrokerId, within_s: float) -> float:
    """An administrator logs in at the broker, on a new connection: how many seconds that takes."""
    world = play.world
    began_ms = world.scheduler.now_ms
    loop = world.clients.node("admin")

    async def log_in() -> None:
        connection = await world.clients.logged_in(loop).connect(world.brokers[broker_id].node, PORT)
        connection.close()

    task = loop.create_task(log_in())
    play.until(task.done, f"broker {broker_id} lets an administrator in", within_s=within_s)
    failure = task.exception()
    play.require(failure is None, f"broker {broker_id} does not let an administrator in: {failure!r}")
    return (world.scheduler.now_ms - began_ms) / 1_000


def _brokers_go_on(play: Play) -> None:
    """A follower starts again, and is in sync again: all of its connections are new."""
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.world.brokers[C].start()
    play.expect(leader=A, isr=(A, B, C))


@scenario("S63: a machine takes all places and does not log in")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    play.log_in("producer", once=True)
    play.write_ok()
    for kind in (Flood.SILENT, Flood.HELLO):
        flood = _flood(play, A, kind)
        play.until(lambda: _connections(play, A, "CLIENTS") >= PLACES // 2, "the flood has come")
        play.run_for(1.0)
        # Who is in does not notice it, and who comes gets in.
        play.write_ok()
        waited_s = _login_s(play, A, within_s=30.0)
        # Behind it in the backlog, which is served in order: all places change hands once before.
        play.require(waited_s < 2 * PATIENCE_S, f"an administrator waited for {waited_s:.1f} s")
        _brokers_go_on(play)
        play.write_ok()
        flood.stop()
        play.until(lambda: _connections(play, A, "CLIENTS") < PLACES // 2, "the flood is over")
    play.require(play.world.connections.looks > 0, "nobody ever waited for a place")
    play.finish()


@scenario("S64: a machine guesses passwords on as many connections as it gets")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    play.log_in("producer")
    play.write_ok()
    flood = _flood(play, A, Flood.GUESS, user="member", count=PLACES // 2)
    seconds = 60
    # What is free at first, what becomes free in a minute, and the delays that double up to the longest one; on each
    # connection one more may be under way when its address begins to wait.
    most = 2 * FREE_FAILURES + (LONGEST_DELAY_S * 1_000 // FIRST_DELAY_MS).bit_length() + seconds // LONGEST_DELAY_S
    for _ in range(6):
        play.run_for(seconds / 6)
        play.write_ok()
        waited_s = _login_s(play, A, within_s=10.0)
        play.require(flood.answered <= most + PLACES // 2, f"{flood.answered} guesses, {most} expected in {seconds} s")
        play.require(waited_s < 1.0, f"an administrator waited for {waited_s:.1f} s")
    play.require(flood.answered > FREE_FAILURES, f"{flood.answered} guesses in {seconds} s")
    flood.stop()
    # Its user is not locked out: from another machine it gets in at once.
    play.log_in("member", once=True)
    play.require(play.fetch(0).error is not None, "a user is locked out whose password somebody else guesses")
    _brokers_go_on(play)
    play.finish()


@scenario("S65: clients that are in take all places, and an administrator lowers their number")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    play.log_in("producer", once=True)
    play.write_ok()
    flood = _flood(play, A, Flood.IN)
    play.until(
        lambda: sum(_connections(play, A, each) for each in ("CLIENTS", "BROKERS")) >= PLACES, "all places are taken"
    )
    play.run_for(1.0)
    # Nobody gives way to another client; brokers get in, each for one that was idle.
    play.write_ok()
    _brokers_go_on(play)
    play.write_ok()

    # For all brokers, and over another one: this one has no place for an administrator.
    async def lower(admin: Admin) -> None:
        change = ConfigChange("max.connections", str(PLACES // 2))
        await admin.alter_configs({ConfigResource(ResourceType.BROKER, ""): [change]})

    play.world.administer(lower)
    play.until(lambda: play.world.brokers[A].bounds.max_connections == PLACES // 2, "the bound is lower")
    play.run_for(0.1)
    left = _all_connections(play, A)
    play.require(left <= PLACES // 2, f"{left} connections, {PLACES // 2} may be")
    play.run_for(3.0)
    play.require(play.stored == (A, (A, B, C)), f"brokers are kept out: {play.stored}")
    flood.stop()
    play.until(lambda: _connections(play, A, "CLIENTS") < PLACES // 2, "the flood is over")
    play.write_ok()
    play.finish()
