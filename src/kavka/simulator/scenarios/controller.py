"""Scenarios of the controller and ZooKeeper (S25 to S36): who decides, who is told, and who is too late.

Source: reliability.md section 2.
"""

from __future__ import annotations

from kavka.simulator.play import ZOOKEEPER, A, B, C, D, Play
from kavka.simulator.scenarios.registry import scenario


@scenario("S25: a controller that slept through its own end changes nothing")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.pause(D)
    play.until(lambda: play.controller not in (-1, D), "another controller")
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.start(C)
    play.expect(leader=A, isr=(A, B, C))
    play.resume(D)
    play.run_for(5.0)
    play.expect(leader=A, isr=(A, B, C))
    play.write_ok()
    play.finish()


@scenario("S26: a broker is gone and back before the controller looks")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(D, ZOOKEEPER)
    play.kill(B)
    play.start_only(B)
    play.run_for(0.8)
    play.heal(D, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B, C))
    play.kill(A)
    play.until(lambda: play.leader in (B, C), "another leader")
    play.read_acknowledged()
    play.finish()


@scenario("S26: the leader is gone and back before the controller looks")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(D, ZOOKEEPER)
    play.power_cut(A)
    play.start_only(A)
    play.run_for(0.8)
    play.heal(D, ZOOKEEPER)
    play.until(lambda: play.leader >= 0 and sorted(play.stored[1]) == [A, B, C], "all in sync")
    play.read_acknowledged()
    play.finish()


@scenario("S26: a leader that was the controller, too, loses power and is back before its session ends")
def _(seed: int) -> None:
    play = Play(seed, controller=A)
    play.write_ok(10)
    play.power_cut(A)
    play.start_only(A)
    play.until(lambda: play.controller >= 0, "a controller again")
    play.until(lambda: play.leader >= 0 and sorted(play.stored[1]) == [A, B, C], "all in sync")
    play.read_acknowledged()
    play.finish()


@scenario("S27: an old order to delete a replica does not delete the one that came after it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    # The order to C is on its way while C is taken out and put back.
    play.cut(D, C, both=False)
    play.reassign(A, B)
    play.expect(leader=A, isr=(A, B))
    play.reassign(A, B, C)
    play.run_for(1.0)
    play.heal(D, C)
    play.expect(leader=A, isr=(A, B, C))
    play.run_for(5.0)
    play.require(play.log_end(C) == 5, "the replica is there")
    play.finish()


@scenario("S28: a broker whose session ended registers again, and is in sync again")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    for broker_id in (B, A, D, C):
        play.lose_session(broker_id)
        play.run_for(0.3)
        play.until(lambda: play.leader >= 0 and len(play.stored[1]) == 3, "all in sync again")
        play.write_ok()
    play.finish()


@scenario("S28: the session of a broker that cannot be reached ends, and its node comes back with it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.cut(B, ZOOKEEPER)
    play.expect(leader=A, isr=(A, C))
    play.heal(B, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S31: an order that did not get through is given again until it does")
def _(seed: int) -> None:
    play = Play(seed, settings={"controller.socket.timeout.ms": "1000"})
    play.write_ok(3)
    play.cut(D, B, both=False)
    play.kill(A)
    play.until(lambda: play.leader == B, "B is elected")
    play.run_for(2.5)
    play.require(not play.leads(B), "B cannot know yet")
    play.heal(D, B)
    play.until(lambda: play.leads(B), "B leads")
    play.write_ok()
    play.finish()


@scenario("S33: the controller dies when a new leader is stored and nobody was told")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    for other in (B, C):
        play.cut(D, other, both=False)
    play.kill(A)
    play.until(lambda: play.leader == B, "B is stored as the leader")
    play.kill(D)
    play.until(lambda: play.leads(B) or play.leader == C, "the next controller tells")
    play.expect(isr=(B, C))
    play.write_ok()
    play.finish()


@scenario("S34: no preferred election of a leader that is not in sync")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.write_ok(3)
    play.cut(A, B)
    play.start(A)
    play.elect_preferred()
    play.run_for(1.0)
    play.require(play.leader == B, f"{play.stored}")
    play.heal(A, B)
    play.expect(leader=B, isr=(A, B, C))
    play.elect_preferred()
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S36: the controller's node is deleted by hand")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.lose_session(D)
    play.until(lambda: play.controller >= 0, "a controller again")
    play.kill(B)
    play.expect(leader=A, isr=(A, C))
    play.write_ok()
    play.finish()


@scenario("S36: a topic is made anew under the name of one that was deleted while a replica was away")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.delete_topic()
    play.start(C)
    play.until(lambda: not play.has_topic, "the topic is gone")
    play.create_topic()
    play.write_ok(2)
    play.expect(leader=A, isr=(A, B, C))
    play.require(len(play.read()) == 2, "nothing of the former topic")
    play.finish()
